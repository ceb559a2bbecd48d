"""Which jobs repository a command means, our bare clone of it, and what one fetch of it shows.

Decides the order in which the repository is looked for, where clones are kept, and that commands side by side use one clone
in turns. Invariant: nothing outside the clone's folder is written; the user's working tree is never touched.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.app import open_repository, open_store, settings_at
from reconciler.commands import user_git
from reconciler.hub.ledger import Corrupt, Ledger, LedgerCache, read_ledger
from reconciler.hub.link_table import MeasuredLine, read_measured
from reconciler.hub.standstill import read_standstill
from reconciler.model.grants import HubTrouble
from reconciler.model.policy import Branches
from reconciler.model.problem import Invalid
from reconciler.ports import GitRepository, Refused, Transient

if TYPE_CHECKING:
    from reconciler.adapters.git import BareClone

MAIN = "main"
"""The branch that people write."""


@dataclass(frozen=True, slots=True)
class Look:
    """The repository as one fetch left it. Objects can be read from `git` later too."""

    git: GitRepository
    heads: Mapping[str, str]
    branches: Branches
    ledger: Ledger

    @property
    def main(self) -> str | None:
        """The commit that main stands at; None where there is no such branch."""
        return self.heads.get(self.branches.main)

    @property
    def status(self) -> str | None:
        """The commit that the ledger stands at; None where no hub has written one."""
        return self.heads.get(self.branches.status)


def chosen(repo: str | None, folder: Path | None = None) -> str:
    """The URL of the repository: the one given, else the origin of the working tree that one stands in, else that tree itself.

    Raises Refused where there is none.
    """
    if repo:
        return str(Path(repo).resolve()) if "://" not in repo and Path(repo).exists() else repo
    top = user_git.top_of(folder or Path.cwd())
    if top is None:
        raise Refused("no jobs repository is named; give --repo URL, set RECONCILER_REPO, or stand in a clone of one")
    return user_git.origin_of(top) or str(top)


def cache_folder(url: str) -> Path:
    """Where our clone of a repository is kept."""
    base = os.environ.get("XDG_CACHE_HOME")
    place = Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"
    return place / "gpu-reconciler" / hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()[:16]


@contextmanager
def turn(url: str) -> Iterator[None]:
    """For fetches and pushes: one command at a time has a clone to itself, the others wait. Raises Refused."""
    folder = cache_folder(url)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        mark = os.open(folder.with_suffix(".turn"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise Refused(f"{folder.parent} cannot be written: {error.strerror}; set XDG_CACHE_HOME to a folder that can") from error
    try:
        fcntl.flock(mark, fcntl.LOCK_EX)
        yield
    finally:
        os.close(mark)


@contextmanager
def opened(url: str, identity: tuple[str, str] | None = None) -> "Iterator[BareClone]":
    """Our clone of a repository, for the time of one turn. What was fetched can be read afterwards too. Raises Refused."""
    with turn(url):
        yield open_repository(url, cache_folder(url), identity)


def look(git: GitRepository, cache: LedgerCache | None = None) -> Look:
    """Fetch, and read the ledger. Raises Transient and Refused."""
    heads = git.fetch()
    branches = _branches(git, heads)
    commit = heads.get(branches.status)
    entries = git.files(commit) if commit is not None else {}
    try:
        ledger = read_ledger(entries, git.read, cache or LedgerCache())
    except Corrupt as error:
        raise Refused(str(error)) from error
    return Look(git, heads, branches, ledger)


def _branches(git: GitRepository, heads: Mapping[str, str]) -> Branches:
    """The branches' names by main's reconciler.yaml; the usual ones where that is missing or broken, as a new hub takes them."""
    try:
        return settings_at(git, heads, MAIN).branches.model_copy(update={"main": MAIN})
    except Invalid:
        return Branches()


@dataclass(frozen=True, slots=True)
class InStore:
    """What the hub says in the object store, beside the ledger."""

    standstill: HubTrouble | None = None
    """Why it stands still."""
    links: tuple[MeasuredLine, ...] = ()
    """What the links were measured to do."""


def in_store(seen: Look) -> InStore:
    """What it says there; nothing also where whoever asks cannot read the store."""
    try:
        address = settings_at(seen.git, seen.heads, MAIN).store
        if address is None:
            return InStore()
        store = open_store(address, make=False)
        return InStore(read_standstill(store), read_measured(store).links)
    except (Invalid, Refused, Transient):  # the ledger is what was asked for, and it was read
        return InStore()
