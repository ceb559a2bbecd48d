"""Between the hub's cycle and the forge's loop, which run side by side: what a cycle saw, and what people said on the forge.

Decides nothing. Values are exchanged whole, so that neither ever waits for the other. Invariant: a cycle goes the same way
whether the forge answers or not; all that the forge can add is a no to a proposal, the names of those who said yes, and its
troubles.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from reconciler.hub.image_board import ImageBoard
from reconciler.hub.ledger import Trouble
from reconciler.hub.observing import GitSeen
from reconciler.hub.pull_steps import approved_attempt
from reconciler.hub.world import Outcome, World
from reconciler.model.attempt import Attempt, State
from reconciler.model.names import JobKey
from reconciler.model.record import JobRecord


@dataclass(frozen=True, slots=True)
class View:
    """What a cycle of the leader saw: all of it stood at one time."""

    git: GitSeen
    world: World


@dataclass(frozen=True, slots=True)
class Approval:
    """Who said yes, and in which pull request."""

    names: tuple[str, ...]
    number: int


@dataclass(frozen=True, slots=True)
class Heard:
    """What the forge says."""

    declined: frozenset[str] = frozenset()
    """Proposed attempts whose pull request a person closed unmerged."""
    approved: Mapping[str, Approval] = field(default_factory=dict)
    """By the attempt that was proposed."""
    troubles: tuple[Trouble, ...] = ()


@dataclass(slots=True)
class Board:
    """The two values, and how the hub is told of a new one. One writer each."""

    view: View | None = None
    """None: this hub does not lead."""
    heard: Heard = Heard()
    taken: Heard = Heard()
    """What the cycle under way goes by: `heard` may change while it runs."""
    on_heard: Callable[[], None] = lambda: None
    images: ImageBoard = field(default_factory=ImageBoard)
    """The one of the loop that asks image registries."""

    def take(self) -> None:
        """A cycle begins."""
        self.taken = self.heard
        self.images.take()

    def leave(self) -> None:
        """This hub does not lead."""
        self.view = None
        self.images.forget()

    @property
    def matter(self) -> object:
        """What the cycle goes by, as far as a decision hangs on it."""
        return self.taken, self.images.taken, self.images.told

    @property
    def troubles(self) -> tuple[Trouble, ...]:
        """What is wrong with the forge, and with image registries."""
        return (*self.taken.troubles, *self.images.told)

    def say(self, heard: Heard) -> None:
        """The forge's loop has heard something."""
        if heard != self.heard:
            self.heard = heard
            self.on_heard()

    def declined(self, records: Mapping[JobKey, JobRecord]) -> frozenset[JobKey]:
        """Jobs whose proposal a person closed."""
        if not self.taken.declined:
            return frozenset()
        found = {key: record.current for key, record in records.items()}
        return frozenset(key for key, one in found.items() if one is not None and self._says_no(one))

    def _says_no(self, attempt: Attempt) -> bool:
        return attempt.state is State.PROPOSED and attempt.name in self.taken.declined

    def named(self, outcome: Outcome) -> Outcome:
        """The outcome with the names of who approved attempts, as far as they are news."""
        if not self.taken.approved:
            return outcome
        found = {key: after for key, record in outcome.records.items() if (after := self._with_names(record)) is not record}
        if not found:
            return outcome
        lines = tuple(f"{key} was approved by {', '.join(_named_in(record))}" for key, record in sorted(found.items()))
        return replace(outcome, records={**outcome.records, **found}, events=(*outcome.events, *lines))

    def _with_names(self, record: JobRecord) -> JobRecord:
        for proposed in record.attempts[-2:]:
            approval = self.taken.approved.get(proposed.name)
            target = approved_attempt(record, proposed) if approval is not None else None
            if approval is not None and target is not None and not target.approved_by:
                known = {"approved_by": approval.names, "approved_in": approval.number}
                attempts = tuple(one.model_copy(update=known) if one is target else one for one in record.attempts)
                return record.model_copy(update={"attempts": attempts})
        return record


def _named_in(record: JobRecord) -> tuple[str, ...]:
    return next((attempt.approved_by for attempt in reversed(record.attempts) if attempt.approved_by), ())
