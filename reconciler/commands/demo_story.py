"""The story of a region that is cut off, told step by step as each is seen: to people who never saw one.

Decides what must be seen, and the words for it; where it is looked for is demo_sight.py's. Nothing is told that was not seen.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from reconciler.commands.demo_sight import Sight
from reconciler.model.attempt import Outcome, State
from reconciler.model.record import REACHABLE, Phase
from reconciler.model.region import LossTimes
from reconciler.model.region_state import RegionState

TIMES: Final = LossTimes(unknown_seconds=6, grace_seconds=12, self_fence_seconds=15, fence_kill_seconds=3, margin_seconds=10)
"""Of the demo's regions: short enough to look on."""
FIRST_STEP: Final = 6
"""The step at which the line is cut."""
_GOES_ON: Final = 3
"""Steps after which a program is said to go on."""

Words = str | None


@dataclass(frozen=True, slots=True)
class Scene:
    """One step. `seen` gives its words once it is to be seen, `lacks` says what was not, if it never is."""

    who: str
    seen: Callable[[Sight], Words]
    lacks: str
    letter: str = ""
    """Where the moment is marked in the picture, ..."""
    means: str = ""
    """... and as what."""


# ---- before -------------------------------------------------------------------------------------------------------


def _placed(sight: Sight) -> Words:
    first = sight.attempt(1)
    if first is None or first.region != sight.cut:
        return None
    return f"somebody has pushed the job curve-fit; {first.region} is the cheapest region, so attempt a1 is placed there"


def _trains(sight: Sight) -> Words:
    losses, step = sight.losses(1), sight.step(1)
    if step < FIRST_STEP:
        return None
    began, now = f"step 1 loss {losses[1]:.3f}", f"step {step} loss {losses[step]:.3f}"
    return f"trains in {sight.cut}, with a checkpoint each second: {began} … {now}"


BEFORE: Final = (
    Scene("hub", _placed, "that the job is placed in the region that is to be cut off"),
    Scene("a1", _trains, f"step {FIRST_STEP} of attempt a1"),
)


# ---- while it is cut off ------------------------------------------------------------------------------------------


def _mute(sight: Sight) -> Words:
    if sight.trouble is None:
        return None
    return "its own log says that it cannot reach Git; nothing is stopped for that"


def _goes_on(since: int) -> Callable[[Sight], Words]:
    def seen(sight: Sight) -> Words:
        step = sight.step(1)
        return f"goes on in {sight.cut}, though nobody outside can see it: step {step}" if step >= since + _GOES_ON else None

    return seen


def _state(sight: Sight) -> RegionState:
    condition = sight.away.get(sight.cut)
    return RegionState.READY if condition is None else condition.state


def _unknown(sight: Sight) -> Words:
    if _state(sight) is not RegionState.UNKNOWN:
        return None
    return f"{sight.cut} is Unknown: not heard of for {TIMES.unknown_seconds} s. No new jobs go there; nothing else is done"


def _lost(sight: Sight) -> Words:
    if _state(sight) is not RegionState.LOST:
        return None
    words = f"{sight.cut} is Lost: not heard of for {TIMES.grace_seconds} s"
    return f"{words}. Still nothing is started elsewhere, for a1 may run, and it does"


def _foreseen(sight: Sight) -> Words:
    conditions = sight.job.conditions if sight.job is not None else ()
    told = next((condition.message for condition in conditions if condition.type == REACHABLE), "")
    return (
        f"if {sight.cut} is given up, curve-fit goes on elsewhere: {told}"
        if told.startswith("it would go to") and sight.cut not in told
        else None
    )


def _fenced(sight: Sight) -> Words:
    if sight.record is None or not sight.record.fenced:
        return None
    words = f"its agent could not renew its lease for {TIMES.self_fence_seconds} s, so it stops every job by itself"
    return f"{words}, within {TIMES.fence_kill_seconds} s; nobody told it to"


def _stopped(sight: Sight) -> Words:
    run = sight.program(1)
    if run is None or run.ended is None:
        return None
    return f"its program has saved step {sight.step(1)} and ended (exit code {run.code})"


def _revoked(sight: Sight) -> Words:
    if sight.lease is None or not sight.lease.revoked:
        return None
    parts = f"{TIMES.self_fence_seconds} + {TIMES.fence_kill_seconds}, and {TIMES.margin_seconds} for safety"
    words = f"the lease of {sight.cut} did not change for {TIMES.revoked_after_seconds} s ({parts})"
    return f"{words}: revoked, the next is epoch {sight.lease.epoch}. Now nothing can run there"


def _given_up(sight: Sight) -> Words:
    first = sight.attempt(1)
    return "so attempt a1 has ended: RegionLost" if first is not None and first.outcome is Outcome.REGION_LOST else None


def _placed_again(sight: Sight) -> Words:
    second = sight.attempt(2)
    if second is None or second.region == sight.cut or second.state not in (State.GRANTED, State.RUNNING):
        return None
    return f"only now a second attempt may run: a2 in {second.region}"


def _starts_again(sight: Sight) -> Words:
    run = sight.program(2)
    first = next((line for line in run.lines if line.startswith("going on from")), None) if run is not None else None
    return f"starts in {run.region}, {first}" if run is not None and first is not None else None


def _goes_on_elsewhere(sight: Sight) -> Words:
    losses, before = sight.losses(2), sight.losses(1)
    if len(losses) < _GOES_ON:
        return None
    last, first = max(before), min(losses)
    return (
        f"the loss goes on where it was: step {last} loss {before[last]:.3f} in a1, step {first} loss {losses[first]:.3f} in a2"
    )


def while_cut(step: int) -> tuple[Scene, ...]:
    """What must be seen after the line was cut at that step of the first attempt."""
    return (
        Scene("region", _mute, "that the region itself cannot reach Git"),
        Scene("a1", _goes_on(step), "that the first attempt goes on while its region is cut off"),
        Scene("hub", _unknown, "that the region is called Unknown", "U", "Unknown"),
        Scene("hub", _lost, "that the region is called Lost", "L", "Lost"),
        Scene("hub", _foreseen, "where the job would go"),
        Scene("region", _fenced, "that the region's agent stops everything by itself", "F", "the region stops all by itself"),
        Scene("a1", _stopped, "that the first attempt's program has ended"),
        Scene("hub", _revoked, "that the region's lease is revoked", "R", "lease revoked"),
        Scene("hub", _given_up, "that the first attempt ends as RegionLost"),
        Scene("hub", _placed_again, "that a second attempt may run in another region"),
        Scene("a2", _starts_again, "that the second attempt starts from a checkpoint"),
        Scene("a2", _goes_on_elsewhere, "that the second attempt goes on training"),
    )


# ---- when it is back ----------------------------------------------------------------------------------------------


def _takes_lease(sight: Sight) -> Words:
    lease, record = sight.lease, sight.record
    if lease is None or lease.revoked or record is None or record.fenced or not record.epoch == lease.epoch > 1:
        return None
    return f"its agent reports that no job runs there, and takes the lease of epoch {lease.epoch}"


def _ready(sight: Sight) -> Words:
    return f"{sight.cut} is heard of again, and Ready" if _state(sight) is RegionState.READY else None


def _nothing_old(sight: Sight) -> Words:
    here = [run for run in sight.runs if run.region == sight.cut]
    if _takes_lease(sight) is None or sight.manifests(1) or any(run.ended is None for run in here):
        return None
    return f"runs nothing of the old: no program is left, and Git has no manifest of a1 for {sight.cut} any more"


def _succeeded(sight: Sight) -> Words:
    job, run = sight.job, sight.program(2)
    if job is None or job.phase is not Phase.SUCCEEDED or run is None or run.ended is None:
        return None
    return f"the job has Succeeded in {run.region}: step {sight.step(2)}"


AFTER: Final = (
    Scene("region", _takes_lease, "that the region's agent takes a new lease"),
    Scene("hub", _ready, "that the region is Ready again"),
    Scene("region", _nothing_old, "that nothing of the old runs in the region that is back"),
    Scene("hub", _succeeded, "that the job succeeds", "S", "succeeded"),
)
