"""Whether a failover went as it must: by what really ran, not by what hub or agent believe. Pure.

Decides what is a fault, and the words for it. Invariant: a run that has not ended runs on.
"""

from collections.abc import Iterator, Sequence

from reconciler.commands import demo_train
from reconciler.commands.demo_runs import Run, programs, steps_of


def together(runs: Sequence[Run]) -> list[tuple[Run, Run]]:
    """Pairs of different attempts that ran at the same time, be it for a moment, and be it only a step before the program."""
    pairs = [(one, other) for at, one in enumerate(runs) for other in runs[at + 1 :] if one.attempt != other.attempt]
    return [(one, other) for one, other in pairs if _before(one.began, other.ended) and _before(other.began, one.ended)]


def _before(moment: float, end: float | None) -> bool:
    return end is None or moment < end


def faults(runs: Sequence[Run], cut: str, revoked: float | None) -> Iterator[str]:
    """What is otherwise than it must be.

    `runs`: in the order in which they began. `revoked`: when the lease of the region that was cut off was seen to be
    revoked, in seconds since the epoch; None where that was not seen.
    """
    for one, other in together(runs):
        yield f"two attempts ran at once: {_named(one)} and {_named(other)}"
    ran = programs(runs)
    if [(run.attempt, run.region == cut) for run in ran] != [(1, True), (2, False)]:
        found = ", ".join(f"a{run.attempt} in {run.region}" for run in ran) or "none"
        yield f"the programs that ran are not a1 in {cut} and then a2 elsewhere, but {found}"
        return
    yield from (f"{_named(run)} has not ended" for run in ran if run.ended is None)
    if revoked is not None and not (ran[0].ended is not None and ran[0].ended <= revoked):
        yield "the lease was revoked before the first attempt's program had ended"
    yield from _lost_or_twice(ran)


def _named(run: Run) -> str:
    return f"{run.pod}/{run.container} in {run.region}"


def _lost_or_twice(ran: Sequence[Run]) -> Iterator[str]:
    """Both attempts together have each step once, with the loss that it must have."""
    done = [step for run in ran for step in steps_of(run)]
    numbers = [number for number, _ in done]
    if numbers != list(range(1, demo_train.STEPS + 1)):
        yield f"the steps of both attempts together are not 1 to {demo_train.STEPS}, each once, but {numbers}"
        return
    other = [number for (number, loss), right in zip(done, demo_train.curve(), strict=True) if abs(loss - right) > 0.0001]
    if other:
        yield f"the losses of steps {other} are not those of a run that nothing interrupts"
