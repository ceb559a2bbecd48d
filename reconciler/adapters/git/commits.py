"""Commits as bytes: where their tree is, what they say of themselves, and how ours are written.

Anybody who may push can push a commit that libgit2 does not parse (no address, a date beyond all numbers), and libgit2
makes none on top of it either. Such a commit still has files, and must not stop what runs: its tree is read, what it
says badly is replaced, and ours go on from it.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from reconciler.ports import CommitWords, Refused

_TREE: Final = re.compile(rb"tree ([0-9a-f]{40})\n")
_PARENT: Final = re.compile(rb"(?m)^parent ([0-9a-f]{40})$")
_AUTHOR: Final = re.compile(rb"(?m)^author ([^<>\n]*?) ?<([^<>\n]*)> (\d+) [+-]\d{4}$")
_LAST_SECOND: Final = 253_402_300_799
"""31 December 9999, the last day that a datetime knows."""


def tree_in(commit: str, body: bytes) -> str:
    """Object id of a commit's root tree. Raises Refused where it names none."""
    found = _TREE.match(body)
    if found is None:
        raise Refused(f"commit {commit} names no tree; push a sound commit after it")
    return found[1].decode()


def parents_in(body: bytes) -> list[str]:
    """Object ids of a commit's parents."""
    return [found.decode() for found in _PARENT.findall(body.partition(b"\n\n")[0])]


def check_identity(identity: tuple[str, str]) -> None:
    """Raises ValueError for a name or an address that would break a commit's header."""
    for text in identity:
        if not text.strip() or any(mark in text for mark in "<>\n\0"):
            raise ValueError(f"{text!r} cannot stand in a commit; give a name and an address without '<', '>' and line ends")


def written(tree: str, parents: Sequence[str], identity: tuple[str, str], seconds: int, message: str) -> bytes:
    """A commit's bytes, with one identity for author and committer, `seconds` since the epoch in UTC."""
    if "\0" in message:
        raise ValueError("the message of a commit cannot hold a NUL")
    name, email = identity
    who = f"{name} <{email}> {seconds} +0000"
    lines = (f"tree {tree}", *(f"parent {parent}" for parent in parents), f"author {who}", f"committer {who}", "", message)
    # A message may name a path whose bytes are no UTF-8.
    return "\n".join(lines).encode("utf-8", "backslashreplace")


def words_in(body: bytes) -> CommitWords:
    """A commit's author, time and first line.

    An author that cannot be read is `unknown <>` at the epoch; bytes that are no UTF-8 come as replacement characters.
    """
    header, _, message = body.partition(b"\n\n")
    found = _AUTHOR.search(header)
    name, email, seconds = found.groups() if found else (b"unknown", b"", b"0")
    when = datetime.fromtimestamp(min(int(seconds[:20]), _LAST_SECOND), UTC)
    author = f"{name.decode('utf-8', 'replace')} <{email.decode('utf-8', 'replace')}>"
    return CommitWords(author, when, message.decode("utf-8", "replace").split("\n", 1)[0])
