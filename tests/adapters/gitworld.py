"""Small worlds for the tests of the Git adapter: a served repository, and a clone of it by the adapter."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconciler.adapters.git import BareClone
from reconciler.ports import PushOutcome
from tests.githttp import GitServer, commit_files, run_git, serving

WHEN = datetime(2026, 11, 29, 12, 0, 0, 987654, tzinfo=UTC)
DONE = PushOutcome(done=True, raced=False, refusals={})
RACED = PushOutcome(done=False, raced=True, refusals={})
FILES = {f"jobs/{team}/{number}.yaml": f"{team}{number}".encode() for team in "abc" for number in range(5)}


def hide_own_settings(monkeypatch: pytest.MonkeyPatch, config: str = os.devnull) -> None:
    """Keep the Git configuration of who runs the tests out of them; `config` stands in for the user's own."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", config)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def all_files(clone: BareClone, commit: str) -> dict[str, bytes]:
    """Path → bytes of a commit."""
    return {path: clone.read(entry.oid) for path, entry in clone.files(commit).items()}


def child(clone: BareClone, parent: str, text: str) -> str:
    """A commit after `parent` with one file changed."""
    tree = clone.write_tree(parent, {"manifests/job.yaml": clone.write_blob(text.encode())})
    return clone.commit(tree, [parent], f"{text}\n", WHEN)


@dataclass(frozen=True)
class Branches:
    """A remote with `main`, `status` and `region/eu`, all at `first`, and a clone that has fetched them."""

    server: GitServer
    url: str
    bare: Path
    folder: Path
    clone: BareClone
    first: str

    def another(self, name: str, timeout_seconds: float = 60.0) -> BareClone:
        return BareClone(self.url, self.folder / name, timeout_seconds=timeout_seconds)

    def child(self, text: str) -> str:
        return child(self.clone, self.first, text)

    def tips(self) -> Mapping[str, str]:
        listed = run_git(self.bare, "for-each-ref", "--format=%(refname:strip=2) %(objectname)", "refs/heads")
        return dict(line.rsplit(" ", 1) for line in listed.splitlines())


@contextmanager
def three_branches(folder: Path, *, over_http: bool) -> Iterator[Branches]:
    """The remote with three branches, reached over HTTP or by its path."""
    with serving(folder / "served") as server:
        bare = server.create("jobs")
        first = commit_files(bare, "main", {"jobs/a.yaml": b"a", "manifests/_sentinel.yaml": b"s"})
        for branch in ("status", "region/eu"):
            run_git(bare, "update-ref", f"refs/heads/{branch}", first)
        url = server.url("jobs") if over_http else str(bare)
        clone = BareClone(url, folder / "clone")
        clone.fetch()
        yield Branches(server, url, bare, folder, clone, first)


@dataclass(frozen=True)
class Objects:
    """An empty repository served over HTTP, and a clone of it."""

    bare: Path
    url: str
    folder: Path
    clone: BareClone

    def publish(self, tree: str) -> str:
        """A commit of a tree that lies in the remote, fetched."""
        commit = run_git(self.bare, "commit-tree", "-m", "change", tree)
        run_git(self.bare, "update-ref", "refs/heads/main", commit)
        assert self.clone.fetch()["main"] == commit
        return commit

    def blob(self, body: bytes) -> str:
        return run_git(self.bare, "hash-object", "-w", "--stdin", body=body)


@contextmanager
def empty_remote(folder: Path) -> Iterator[Objects]:
    """The remote without a commit."""
    with serving(folder / "served") as server:
        bare = server.create("jobs")
        yield Objects(bare, server.url("jobs"), folder, BareClone(server.url("jobs"), folder / "clone"))


@dataclass(frozen=True)
class Unmade:
    """A remote with FILES on `main`, and the place of a clone that is not there yet."""

    server: GitServer
    bare: Path
    url: str
    folder: Path
    main: str

    def clone(self) -> BareClone:
        return BareClone(self.url, self.folder)


@contextmanager
def unmade_clone(folder: Path) -> Iterator[Unmade]:
    """The remote with files, not cloned."""
    with serving(folder / "served") as server:
        bare = server.create("jobs")
        main = commit_files(bare, "main", FILES)
        yield Unmade(server, bare, server.url("jobs"), folder / "deep/er/clone", main)
