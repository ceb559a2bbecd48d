"""What the agent is told at its start, and what it knows in this run; the latter is lost when it ends.

What must survive is record.py's. Decides nothing. Invariant: a memory is a value; whoever fails half-way keeps the old one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from reconciler.agent.answers import Answers
from reconciler.agent.changing import changed
from reconciler.agent.decide import Decision
from reconciler.agent.granting import Known
from reconciler.agent.health import Troubles, noted
from reconciler.agent.lease import Holding
from reconciler.agent.lister import Lister
from reconciler.agent.probing.prober import Prober
from reconciler.agent.reading import Key
from reconciler.agent.record import Record, Renewal
from reconciler.agent.report import Content, Outbox, Pages
from reconciler.agent.seen import Seen
from reconciler.agent.settings import Settings
from reconciler.model.grants import Grants
from reconciler.model.progress import Progress
from reconciler.model.report import Health
from reconciler.ports import Clock, Cluster, ObjectStore, SyncEngine, SyncState

AT_ONCE = float("-inf")


@dataclass(frozen=True, slots=True)
class Asked:
    """Since when something is so, or when it was asked about last; and the answer."""

    at: float
    words: str | None = None


@dataclass(frozen=True, slots=True)
class Paced:
    """When a worker's output was read last, and what its progress was."""

    at: float
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class Anchor:
    """One moment on both clocks: of the wall, and the monotonic one (seconds)."""

    wall: datetime
    monotonic: float

    def at(self, monotonic: float) -> datetime:
        """The wall's time when the monotonic clock shows that, whoever has set the wall's clock since."""
        return self.wall + timedelta(seconds=monotonic - self.monotonic)


@dataclass(frozen=True, slots=True)
class Kept:
    """Answers of the pass's pure functions, so that a look that shows nothing new costs little more than the look."""

    gathered: Answers[tuple[Seen, ...]] = field(default_factory=Answers)
    decided: Answers[Decision] = field(default_factory=Answers)
    composed: Answers[Content] = field(default_factory=Answers)
    encoded: Answers[bytes] = field(default_factory=Answers)
    decoded: Answers[Record] = field(default_factory=Answers)
    pages: Pages = field(default_factory=Pages)
    essences: Answers[tuple[object, ...]] = field(default_factory=Answers)


@dataclass(frozen=True, slots=True)
class Site:
    """A region as its agent stands in it. `incarnation` differs for each start of the agent."""

    region: str
    cluster: Cluster
    engine: SyncEngine
    store: ObjectStore
    clock: Clock
    settings: Settings
    incarnation: str
    began: Anchor
    """When the agent was made."""
    kept: Kept
    prober: Prober | None = None
    """Who measures the links, in a thread of its own; None where nobody does."""
    lister: Lister | None = None
    """Who lists the copies in the region's store, the same."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Everything that one pass leaves to the next. Times are seconds of the monotonic clock."""

    # lease
    holding: Holding = Holding()  # noqa: RUF009 - a frozen value
    renew_at: float = AT_ONCE
    looked_for: tuple[int, int] = (0, 0)
    """Term and version of the grants for whose epoch the lease was looked at last."""
    renewal: Renewal | None = None
    """The last one of this run, for the record."""
    cleared: int | None = None
    """The offered epoch that may be taken: all is stopped, and a report said so."""
    fenced: bool = False
    """Whether nothing of ours may run, as of the last pass."""
    # record
    recalled: bool = False
    joined: bool = False
    """Whether the record names this agent."""
    told: Renewal | None = None
    """The renewal that the record told of last, and ..."""
    inherited: float | None = None
    """... when that was sent; None where it cannot be told."""
    seen: tuple[int, int] = (0, 0)
    """The highest (term, version) of grants that the record has told of."""
    # what was seen
    silent: bool = False
    """Whether the store has failed to answer in this step: nothing more is asked of it then."""
    known: Known = Known()  # noqa: RUF009 - a frozen value
    sync: SyncState | None = None
    reachable: bool = False
    """Whether the cluster answered the last time."""
    acted: Grants | None = None
    """The grants of which everything was asked for before the look that `content` was made from."""
    content: Content | None = None
    settled_for: int | None = None
    """The offered epoch for which that look showed that nothing of ours runs."""
    notes: tuple[Health, ...] = ()
    tails: Mapping[Key, tuple[str, str]] = field(default_factory=dict)
    """The last output of failed programs, with the uid of the pod that it was read from."""
    unanswered: Mapping[Key, float] = field(default_factory=dict)
    """Failed programs whose output did not come, and when it was asked for last."""
    podless: Mapping[Key, Asked] = field(default_factory=dict)
    """Released workloads that have no pods, and what is complained of."""
    paced: Mapping[Key, Paced] = field(default_factory=dict)
    """Staging tasks that run, and how far they have come."""
    nudged: tuple[str, float] = ("", AT_ONCE)
    busy: bool = False
    """Whether another look soon will show something new."""
    # report
    outbox: Outbox = Outbox()  # noqa: RUF009 - a frozen value
    sent_at: float = AT_ONCE
    sent_essence: tuple[object, ...] | None = None
    send_again_at: float = AT_ONCE
    # what went wrong
    troubles: Troubles = field(default_factory=dict)


def troubled(memory: Memory, code: str, about: str, error: Exception, now: float) -> Memory:
    """The memory with one more failure in it."""
    return changed(memory, troubles=noted(memory.troubles, code, about, error, now))
