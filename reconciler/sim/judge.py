"""What really happened in a world, and what may never happen.

The record is the machines' own: each start and end of a program, each object that was written, each commit of the ledger. Nothing
that hub or agent believe comes into it. A broken rule is noted with its moment and ends the history at once.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from reconciler.model.attempt import Attempt, State
from reconciler.model.grants import Grants, Lease
from reconciler.model.names import JobKey
from reconciler.model.result import ResultPointer
from reconciler.sim.agenda import NEVER, Agenda

MAY_START = frozenset({State.GRANTED, State.RUNNING, State.STOPPING})
"""In the ledger, at the moment of a start. Stopping: the region may not have heard of it yet."""
MARGIN_SECONDS = 30.0
"""Beyond what a lease says of itself: how long it must have stood unchanged before its region may be given up."""
DRIFT = 0.02
"""By so much two clocks may count differently."""
ONE_IN_SECONDS = 60.0
"""At most one region is given up in this time."""
REPORTED_SECONDS = 5.0
"""What ended so shortly before a report was written may not be in it."""
BLIND_SECONDS = 110.0
"""A hub that could not see for longer than this counts its regions' silence anew."""


class Violation(BaseException):
    """Something happened that must never happen. No handler of a program may catch this."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(f"{kind}: {words}")
        self.kind = kind
        self.words = words


@dataclass(slots=True)
class Run:
    """One program on one node. Moments in seconds of the world."""

    key: JobKey
    attempt: str
    index: int
    nodes: int
    region: str
    maker: str
    """Uid of the object that made the pod."""
    started: float
    ends: float | None = None
    """When it ends, or has ended; None: not by itself."""
    code: int = 0
    told: bool = False
    """Whether somebody made it end before it did by itself."""
    told_at: float | None = None


Span = tuple[float, float]
"""From one moment to another."""


def spans_within(spans: Iterable[Span], start: float, end: float) -> list[float]:
    """For how long it was so between two moments, each stretch by itself; spans that overlap are one stretch."""
    stretches: list[list[float]] = []
    for first, last in sorted((max(start, first), min(end, last)) for first, last in spans if first < end and last > start):
        if stretches and first <= stretches[-1][1]:
            stretches[-1][1] = max(stretches[-1][1], last)
        else:
            stretches.append([first, last])
    return [last - first for first, last in stretches]


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A region's lease was revoked."""

    at: float
    sent: float
    region: str
    epoch: int
    by: str
    stood: float
    """Seconds for which the lease had been as it was."""
    lasts: float
    """Seconds for which it had to be so."""
    is_false: bool
    """Nothing kept the region's agent from renewing for most of that time."""


@dataclass(frozen=True, slots=True)
class _Stood:
    """A lease, and since when it has been just so."""

    lease: Lease
    since: float


@dataclass(slots=True)
class Judge:
    """The record and the rules. `published` gives an attempt as the ledger has it; `reruns` how often a person asked again."""

    agenda: Agenda
    published: Callable[[JobKey, str], Attempt | None]
    reruns: Callable[[JobKey], int]
    runs: dict[str, list[Run]] = field(default_factory=dict)
    """By attempt."""
    by_job: dict[JobKey, list[Run]] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    """Attempts whose objects or nodes something befell: what their programs did may be lost to those who look."""
    hindered: dict[str, list[Span]] = field(default_factory=dict)
    """Region → when its agent could not renew."""
    blind: dict[str, list[Span]] = field(default_factory=dict)
    """Hub → when it could not see the store."""
    reported: dict[str, float] = field(default_factory=dict)
    """Region → when its last report was written."""
    given_up: list[GivenUp] = field(default_factory=list)
    results: dict[JobKey, ResultPointer] = field(default_factory=dict)
    strict: bool = True
    """Whether a region that is given up without need is a violation; else it is only counted."""
    _leases: dict[str, _Stood] = field(default_factory=dict)
    _epochs: dict[str, int] = field(default_factory=dict)
    _granted: dict[tuple[str, str], int] = field(default_factory=dict)

    # ---- programs

    def running(self, attempts: Iterable[str] | None = None) -> list[Run]:
        """What runs at this moment."""
        now = self.agenda.seconds
        chosen = self.runs.values() if attempts is None else [self.runs.get(name, []) for name in attempts]
        return [run for runs in chosen for run in runs if run.ends is None or run.ends > now]

    def starts(self, run: Run) -> None:
        """Judge a start, and write it down. Raises Violation."""
        now = self.agenda.seconds
        siblings = self.by_job.setdefault(run.key, [])
        for other in siblings:
            if other.attempt != run.attempt and (other.ends is None or other.ends > now):
                words = f"pods of {run.attempt} in {run.region} and of {other.attempt} in {other.region} run at once"
                raise Violation("TwoAtOnce", words)
        for other in self.runs.get(run.attempt, ()):
            if other.index == run.index or other.maker != run.maker or other.region != run.region:
                words = f"{run.attempt} was started in {other.region} at second {other.started:.0f}, and again in {run.region}"
                raise Violation("ReleasedTwice", words)
        self._judge_start(run)
        siblings.append(run)
        self.runs.setdefault(run.attempt, []).append(run)

    def _judge_start(self, run: Run) -> None:
        said = self.published(run.key, run.attempt)
        if said is None or said.state not in MAY_START or said.region != run.region:
            says = f"{said.state} in {said.region}" if said is not None else "nothing"
            raise Violation("StartedUngranted", f"{run.attempt} starts in {run.region}, and the ledger says {says} of it")
        epoch = self._granted.get((run.region, run.attempt), 0)
        if epoch < self._epochs.get(run.region, 0):
            words = f"{run.attempt} starts in {run.region} by a grant of epoch {epoch}, which was revoked"
            raise Violation("StartedUngranted", words)
        successes = self.succeeded(run.key) - {run.attempt}
        if len(successes) > self.reruns(run.key):
            words = f"{run.attempt} starts, though {', '.join(sorted(successes))} ended well and nobody asked for more"
            raise Violation("RanAfterSuccess", words)

    def succeeded(self, key: JobKey) -> set[str]:
        """Attempts of a job whose programs all ended well, and that nothing befell."""
        now = self.agenda.seconds
        wells: dict[str, int] = {}
        for run in self.by_job.get(key, ()):
            if run.code == 0 and not run.told and run.ends is not None and run.ends <= now:
                wells[run.attempt] = wells.get(run.attempt, 0) + 1
        return {name for name, many in wells.items() if many == self.runs[name][0].nodes} - self.touched

    def failures(self, key: JobKey, form: str) -> int:
        """How many attempts failed by themselves. `form`: the part of an attempt's name that tells what it runs."""
        now = self.agenda.seconds
        failed = (
            run for run in self.by_job.get(key, ()) if run.code and not run.told and run.ends is not None and run.ends <= now
        )
        return len({run.attempt for run in failed if form in run.attempt})

    def befell(self, region: str) -> None:
        """Something befell a region that may take away its pods, or the proof of what they did."""
        self.touched |= {run.attempt for runs in self.runs.values() for run in runs if run.region == region}

    def hinder(self, region: str, start: float, end: float) -> None:
        """Between these moments the region's agent could not renew its lease."""
        self.hindered.setdefault(region, []).append((start, end))

    def sees_again(self, hub: str, now: float) -> None:
        """Its way to the store is open again, even where another cut of it was to last longer."""
        if hub in self.blind:
            self.blind[hub] = [(start, min(end, now)) for start, end in self.blind[hub]]

    # ---- objects

    def wrote_grants(self, region: str, body: bytes) -> None:
        """First the ledger's commit, then the grant. Raises Violation."""
        grants = Grants.model_validate_json(body)
        for grant in grants.attempts:
            known = self._granted.get((region, grant.attempt), 0)
            self._granted[region, grant.attempt] = max(grants.epoch, known)
            said = self.published(JobKey(grant.team, grant.job_id), grant.attempt)
            if said is None or said.state in (State.PROPOSED, State.PLACED, State.STAGING):
                words = f"{grant.attempt} is granted in {region}, and the ledger says {said.state if said else 'nothing'} of it"
                raise Violation("GrantBeforeLedger", words)

    def wrote_lease(self, region: str, who: str, body: bytes, sent: float) -> GivenUp | None:
        """A lease was renewed, taken, revoked or shown to be revoked; what is to be said if it was revoked. Raises Violation."""
        now, lease = self.agenda.seconds, Lease.model_validate_json(body)
        before, self._leases[region] = self._leases.get(region), _Stood(lease, now)
        if not lease.revoked or (before is not None and before.lease.revoked and before.lease.epoch == lease.epoch):
            return None
        if who.startswith("agent"):
            raise Violation("LeaseWrong", f"the agent of {region} revokes its own lease")
        lasts = lease.self_fence_seconds + lease.fence_kill_seconds + MARGIN_SECONDS
        hindered = spans_within(self.hindered.get(region, ()), now - lasts, now)
        stood = now - (before.since if before is not None else 0.0)
        found = GivenUp(now, sent, region, lease.epoch, who, stood, lasts, is_false=sum(hindered) < lasts / 2)
        self._epochs[region] = lease.epoch
        running = [run for runs in self.runs.values() for run in runs if run.region == region and _runs(run, now)]
        if running:
            words = f"{region} is given up by {who}, and {running[0].attempt} still runs there"
            raise Violation("GivenUpAndRuns", words)
        self._judge_giving_up(found)
        self.given_up.append(found)
        self._unheard(region)
        return found

    def _unheard(self, region: str) -> None:
        """What ended well in a region that is given up, and of which no report came: that nobody could know."""
        heard = self.reported.get(region, 0.0) - REPORTED_SECONDS
        for name, runs in self.runs.items():
            if runs[0].region == region and max(NEVER if run.ends is None else run.ends for run in runs) > heard:
                self.touched.add(name)

    def _judge_giving_up(self, found: GivenUp) -> None:
        if found.stood < found.lasts * (1 - DRIFT):
            words = f"{found.region} is given up by {found.by} {found.stood:.0f} s after its lease was renewed"
            raise Violation("FalseFailover", words)
        if found.is_false and self.strict:
            words = f"{found.region} is given up by {found.by}, and nothing kept its agent from renewing the lease"
            raise Violation("FalseFailover", words)
        for last in self.given_up:
            if last.by == found.by and abs(found.sent - last.sent) < ONE_IN_SECONDS * (1 - DRIFT):
                words = f"{found.by} gives up {found.region} and {last.region} within {abs(found.sent - last.sent):.0f} s"
                raise Violation("TwoGivenUpAtOnce", words)
        blind = spans_within(self.blind.get(found.by, ()), found.sent - found.lasts + BLIND_SECONDS, found.sent)
        if max(blind, default=0.0) > BLIND_SECONDS:
            words = f"{found.by} gives up {found.region}, and could not see the store itself for {max(blind):.0f} s meanwhile"
            raise Violation("GivenUpWhileBlind", words)

    def wrote_result(self, who: str, body: bytes) -> None:
        """A job's result pointer was moved. Raises Violation where it names an attempt that is not its newest success."""
        pointer = ResultPointer.model_validate_json(body)
        key = JobKey(pointer.team, pointer.job_id)
        said = self.published(key, pointer.attempt)
        if said is None or said.state is not State.SUCCEEDED or said.region != pointer.region:
            says = said.state if said is not None else "nothing"
            words = f"{who} says that the result of {key} is of {pointer.attempt}, and the ledger says {says} of that"
            raise Violation("ResultByTheWrongOne", words)
        before = self.results.get(key)
        if before is not None and before.number >= pointer.number:
            words = f"{who} moves the result of {key} from {before.attempt} back to {pointer.attempt}"
            raise Violation("ResultByTheWrongOne", words)
        self.results[key] = pointer

    # ---- the ledger

    def said_to_have_ended(self, key: JobKey, attempt: Attempt) -> None:
        """The ledger says that nothing of an attempt runs. Raises Violation."""
        running = self.running([attempt.name])
        if running:
            outcome = f" ({attempt.outcome})" if attempt.outcome is not None else ""
            words = (
                f"the ledger says that {attempt.name} of {key} is {attempt.state}{outcome}, and it runs in {running[0].region}"
            )
            raise Violation("EndedAndRuns", words)


def _runs(run: Run, now: float) -> bool:
    return run.ends is None or run.ends > now
