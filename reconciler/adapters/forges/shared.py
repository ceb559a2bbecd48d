"""What the clients of all forges have in common: limits, and what an answer that is no success means to us.

Decides which failures pass by themselves. Invariant: no token is ever in a message.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Final, TypeVar

from reconciler.forge_port import Pull, Pulls
from reconciler.ports import Conflict, Refused, Transient

TIMEOUT: Final = (5.0, 20.0)
"""Seconds until a connection must stand, and between two bytes of the answer."""
PAGE: Final = 50
"""Entries that are asked for at once."""
MOST: Final = 100 * PAGE
"""Entries of one listing that are read: anybody may open pull requests, and write comments."""
STATUS_WORDS: Final = 140
"""Characters that a commit status may say (GitHub's limit)."""
UNREADABLE: Final = (AssertionError, AttributeError, KeyError, TypeError, ValueError)
"""What comes of an answer of another shape."""
_MOST_WORDS: Final = 300
_PASSING: Final = frozenset({408, 409, 423, 425, 429})
_TODO: Final = {
    401: "give the hub a valid token",
    403: "give the token's account the right to read and write pull requests, comments and commit statuses",
    404: "check `forge.url` and `forge.repository`, and that the token's account may see the repository",
}


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Account:
    """Where to ask, about what, and as whom."""

    url: str
    repository: str
    token: str = field(repr=False)


def failure(account: Account, asked: str, code: int, said: str) -> Transient | Refused:
    """The error for an answer of that HTTP status. `asked`: what was wanted, in words."""
    words = without_token(account, said)
    told = f"{asked} on {account.url} failed with {code}{f': {words}' if words else ''}"
    rate = code == 403 and re.search(r"rate limit|abuse detection", said, re.IGNORECASE) is not None
    if code >= 500 or code in _PASSING or rate:
        return Transient(told)
    if 300 <= code < 400:
        return Refused(f"{told}; it wants to send us elsewhere: give `forge.url` and `forge.repository` as they are now")
    return Refused(f"{told}{f'; {_TODO[code]}' if code in _TODO else ''}")


def silence(account: Account, asked: str, error: Exception) -> Transient:
    """The error for no answer at all."""
    return Transient(f"{asked} on {account.url} got no answer: {without_token(account, str(error))}")


def unreadable(account: Account, asked: str) -> Transient:
    """The error for an answer that is not what the forge's documentation says: mostly that of a proxy in between."""
    return Transient(f"{asked} on {account.url} got an answer that cannot be read")


def taken(account: Account, asked: str, said: str) -> Conflict:
    """The error for a pull request that is there already."""
    return Conflict(f"{asked} on {account.url}: {without_token(account, said)}")


def listed(found: Iterable[Pull]) -> Pulls:
    """The pull requests of a listing, at most MOST of them."""
    those = tuple(islice(found, MOST + 1))
    return Pulls(those[:MOST], complete=len(those) <= MOST)


def all_of(found: Iterable[T], account: Account, asked: str) -> Iterator[T]:
    """All entries of a listing that is not one of pull requests. Raises Refused where there are more than MOST."""
    for at, each in enumerate(found):
        if at == MOST:
            raise Refused(f"{asked} on {account.url} would go through more than {MOST} entries, which is not done")
        yield each


def body_of(head: str | None, said: str | None) -> str:
    """The text of a pull request as it is kept: where it has no branch here, nobody needs it, and it may be large."""
    return (said or "") if head is not None else ""


def without_token(account: Account, said: str) -> str:
    """A forge's words on one line, not too many, and never with the token."""
    return " ".join(said.replace(account.token, "***").split())[:_MOST_WORDS]


def moment(text: str) -> datetime:
    """A time of a forge, in UTC. Raises ValueError."""
    found = datetime.fromisoformat(text)
    return found.astimezone(UTC) if found.tzinfo is not None else found.replace(tzinfo=UTC)


def cut(words: str) -> str:
    """At most as much as a commit status may say."""
    return words if len(words) <= STATUS_WORDS else f"{words[: STATUS_WORDS - 1]}…"
