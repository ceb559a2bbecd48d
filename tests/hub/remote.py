"""The jobs repository of a hub under test, as it lies on the server's disk: what people do to it, and what stands there."""

from collections.abc import Mapping
from pathlib import Path

import pygit2

from tests.githttp import GitServer, run_git


class Remote:
    """A bare repository, reached by its path or, with a `server`, over HTTP. Read here without the code under test."""

    def __init__(self, folder: Path, server: GitServer | None = None) -> None:
        if server is None:
            self.bare = folder / "jobs.git"
            self.bare.mkdir(parents=True)
            run_git(self.bare, "init", "--quiet", "--bare", "--initial-branch=main", "--template=")
            self.url = str(self.bare)
        else:
            self.bare, self.url = server.create("jobs"), server.url("jobs")
        run_git(self.bare, "config", "core.fsync", "none")
        self._opened: pygit2.Repository | None = None
        self.people: set[str] = set()
        """Commits that people made or moved a branch to."""

    def put(self, changes: Mapping[str, str | None], branch: str = "main") -> str:
        """A person's commit on a branch: each path gets that text, or is removed (None). Returns the commit."""
        tip = self.tip(branch)
        lines = [f"commit refs/heads/{branch}\ncommitter Someone <someone@example.com> 1790000000 +0000\ndata 6\nchange\n"]
        lines += [f"from {tip}\n"] if tip else []
        body = "".join(lines).encode()
        for path, text in changes.items():
            content = (text or "").encode()
            body += f"D {path}\n".encode() if text is None else f"M 100644 inline {path}\ndata {len(content)}\n".encode()
            body += b"" if text is None else content + b"\n"
        run_git(self.bare, "fast-import", "--force", "--quiet", body=body)
        made = self.tip(branch)
        assert made is not None
        self.people.add(made)
        return made

    def move(self, branch: str, commit: str | None) -> None:
        """A person forces a branch to a commit, or deletes it (None)."""
        run_git(
            self.bare, "update-ref", *(["-d"] if commit is None else []), f"refs/heads/{branch}", *([commit] if commit else [])
        )
        if commit is not None:
            self.people.add(commit)

    @property
    def repository(self) -> pygit2.Repository:
        """The bare repository, as it is on disk now."""
        if self._opened is None:
            self._opened = pygit2.Repository(str(self.bare))
        return self._opened

    def tips(self) -> dict[str, str]:
        """Branch → commit."""
        repository = self.repository
        return {
            name.removeprefix("refs/heads/"): str(repository.references[name].target)
            for name in repository.references
            if name.startswith("refs/heads/")
        }

    def tip(self, branch: str) -> str | None:
        """A branch's commit; None where there is no such branch."""
        return self.tips().get(branch)

    def tree(self, branch: str) -> dict[str, str]:
        """Path → blob of everything on a branch; nothing where it does not exist."""
        tip = self.tip(branch)
        return {} if tip is None else tree_at(self.repository, tip)

    def text(self, branch: str, path: str) -> str | None:
        """What stands in a file of a branch; None where there is none."""
        oid = self.tree(branch).get(path)
        return None if oid is None else self.repository[oid].data.decode()

    def messages(self, branch: str) -> list[str]:
        """Messages of a branch's commits, the newest first."""
        tip = self.tip(branch)
        repository = self.repository
        return [] if tip is None else [commit.message for commit in repository.walk(pygit2.Oid(hex=tip))]


def tree_at(repository: pygit2.Repository, commit: str) -> dict[str, str]:
    """Path → blob of a commit."""
    found: dict[str, str] = {}

    def walk(tree: pygit2.Tree, above: str) -> None:
        for entry in tree:
            if isinstance(entry, pygit2.Tree):
                walk(entry, f"{above}{entry.name}/")
            else:
                found[f"{above}{entry.name}"] = str(entry.id)

    walk(repository[commit].peel(pygit2.Tree), "")
    return found
