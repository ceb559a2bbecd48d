"""What the hub asks of a forge, as a protocol: pull requests, who agreed to them, commit statuses, one comment.

Adapters raise the errors of ports.py only, with the same meaning. A forge is never needed to decide: everything that it can say
is found again by asking again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Protocol

from reconciler.ports import GitRepository, TreeEntry


@dataclass(frozen=True, slots=True)
class Change:
    """What stood at a path, and what stands there now; None: nothing."""

    before: TreeEntry | None
    after: TreeEntry | None


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of a stranger's commit is looked at. What is outside costs nothing, and more than the figures is refused."""

    matters: Callable[[str], bool]
    """Whether a file at that path is looked at."""
    enters: Callable[[str], bool]
    """Whether that folder is."""
    most_changed: int
    """Paths in the answer."""
    most_read: int
    """Entries of folders that differ, whether they are in the answer or not."""


class PullRepository(GitRepository, Protocol):
    """A repository with pull requests: their heads are refs, and no branches."""

    def fetch_ref(self, ref: str) -> str:
        """Bring one ref of the remote, by its full name, and return its commit. It may hold anything: whoever can ask for a
        merge has written it. Raises Transient or Refused."""

    def merge_base(self, one: str, other: str) -> str | None:
        """A best common ancestor of two commits; None where they have none. Raises Transient."""

    def changes(self, old: str, new: str, bounds: Bounds) -> Mapping[str, Change]:
        """By path, what differs between a commit of ours and one of a stranger. Only folders that differ are read, and nothing
        of them is kept. Raises Refused, in words for who made `new`, where it is too much or no git checks it out."""


class PullState(Enum):
    """Where a pull request is."""

    OPEN = "open"
    CLOSED = "closed"
    MERGED = "merged"


@dataclass(frozen=True, slots=True)
class Pull:
    """A pull request (on GitLab: merge request). All text in it may be written by strangers."""

    number: int
    head: str | None
    """Its branch; None where that is not in this repository: a fork, or no branch at all."""
    commit: str
    """What it asks to merge, as the forge knows it; of one that is over, some forges tell what the branch has become."""
    base: str
    title: str
    body: str
    """'' where it has no branch in this repository: what it says there is of no use, and anybody's."""
    state: PullState
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Pulls:
    """Pull requests of a listing. Not `complete`: there are more, which were not asked for, for they are too many."""

    those: Sequence[Pull]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Consent:
    """Who said yes to a pull request, by their account names: reviewers whose approval stands, and who merged it."""

    approved_by: tuple[str, ...]
    merged_by: str | None


class Verdict(Enum):
    """What a commit status says."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"


class Forge(Protocol):
    """One repository on a forge. Every call raises Transient or Refused, and may be repeated."""

    def open_pulls(self) -> Pulls:
        """All that are open, the oldest first."""

    def ended_pulls(self, base: str, since: datetime) -> Pulls:
        """Those into `base` that are closed or merged and were changed at `since` or after, newest first."""

    def open(self, head: str, base: str, title: str, body: str) -> int:
        """Open one between two branches of this repository; its number. Raises Conflict where one is open already."""

    def update(self, number: int, title: str, body: str) -> None:
        """Replace title and body."""

    def close(self, number: int) -> None:
        """Close it unmerged."""

    def consent(self, number: int) -> Consent:
        """Who approved and merged it."""

    def set_status(self, commit: str, context: str, verdict: Verdict, words: str) -> None:
        """Put a commit's status; the newest of a context holds. `words`: at most 140 characters."""

    def upsert_comment(self, number: int, marker: str, body: str) -> None:
        """Make the comment of this account that begins with `marker` say `body`, which begins with it as well; nothing is
        written where it does. Others' comments are never touched, whatever they begin with."""

    def head_ref(self, number: int) -> str:
        """The ref under which the repository has its head, from a fork too."""

    def hang_up(self) -> None:
        """Let the connections go; the next call makes new ones. Raises nothing."""
