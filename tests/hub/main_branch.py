"""A commit of main in memory: paths and contents as `GitRepository.files`, `read` and `size` would give them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.adapters.documents import reader
from reconciler.hub.sources import ParseCache, Sources, read_sources
from reconciler.model.problem import Problem
from reconciler.ports import EntryKind, Transient, TreeEntry

JOB = """\
job_id: llm-a
gpu: {count: 8, model: A100-80GB}
image: reg.example.com:5000/team/train:1.4
"""


def job(job_id: str = "llm-a", *more: str) -> str:
    return JOB.replace("llm-a", job_id) + "".join(f"{line}\n" for line in more)


def blob_id(body: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(body) + body, usedforsecurity=False).hexdigest()


@dataclass
class Main:
    """The files of one commit, and of those before it; `asked` lists the blobs that were read."""

    entries: dict[str, TreeEntry] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    cache: ParseCache = field(default_factory=ParseCache)
    in_force: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Mapping[str, str | bytes]) -> "Main":
        main = cls()
        for path, body in files.items():
            main.put(path, body)
        return main

    def put(self, path: str, body: str | bytes, kind: EntryKind = EntryKind.FILE) -> str:
        content = body.encode() if isinstance(body, str) else body
        oid = blob_id(content)
        self.blobs[oid] = content
        self.entries[path] = TreeEntry(oid, kind)
        return oid

    def remove(self, path: str) -> None:
        del self.entries[path]

    def move(self, path: str, target: str) -> None:
        self.entries[target] = self.entries.pop(path)

    def read(self, oid: str) -> bytes:
        self.asked.append(oid)
        if oid not in self.blobs:
            raise Transient(f"{oid} is not here")
        return self.blobs[oid]

    def size(self, oid: str) -> int:
        if oid not in self.blobs:
            raise Transient(f"{oid} is not here")
        return len(self.blobs[oid])

    def sources(self) -> Sources:
        """What it says, going on from what was in force at the last call."""
        self.asked.clear()
        found = read_sources(self.entries, self.read, self.size, self.in_force, self.cache, reader)
        self.in_force = found.in_force
        return found


def told(sources: Sources) -> list[str]:
    """Each problem as `path:line:col: Code`."""
    return [f"{problem.path}:{problem.line}:{problem.column}: {problem.code}" for problem in sources.problems]


def only(sources: Sources) -> Problem:
    assert len(sources.problems) == 1, told(sources)
    return sources.problems[0]
