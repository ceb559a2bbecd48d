"""Git's objects in dicts, under the ids that Git itself gives them.

Decides how blobs, trees and commits are named and how a changed tree is built; who has which of them is for git.py. Objects are
never changed, so whatever is worked out of one (its bytes' id, what is below a folder) is kept for as long as the world lives.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha1
from types import MappingProxyType
from typing import Final

from reconciler.adapters.git import commits
from reconciler.adapters.git.trees import split
from reconciler.ports import CommitWords, EntryKind, TreeEntry

_FOLDER: Final = 0o040000
_FILE: Final = 0o100644

Entries = Mapping[bytes, tuple[int, str]]
"""A folder's entries: name → (mode, object id)."""


def _name(kind: bytes, body: bytes) -> str:
    return sha1(b"%b %d\0%b" % (kind, len(body), body), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class Commit:
    """What a commit says."""

    tree: str
    parents: tuple[str, ...]
    words: CommitWords


@dataclass(slots=True)
class Objects:
    """All objects of one world, whoever made them."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    trees: dict[str, Entries] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)
    _listed: dict[tuple[str, str], Mapping[str, TreeEntry]] = field(default_factory=dict)

    def blob(self, body: bytes) -> str:
        """Keep bytes; returns their id."""
        oid = _name(b"blob", body)
        self.blobs[oid] = body
        return oid

    def commit(self, tree: str, parents: Sequence[str], identity: tuple[str, str], message: str, when: datetime) -> str:
        """Keep a commit; returns its id. Raises ValueError for a time without a zone or a message with a NUL."""
        if when.tzinfo is None:
            raise ValueError("the time of a commit needs a time zone")
        body = commits.written(tree, parents, identity, int(when.timestamp()), message)
        oid = _name(b"commit", body)
        self.commits[oid] = Commit(tree, tuple(parents), commits.words_in(body))
        return oid

    def subtree(self, tree: str, folder: str) -> str | None:
        """Id of the tree at `folder` below `tree`; None where there is no such folder."""
        for name in split(folder):
            mode, oid = self.trees[tree].get(name, (0, ""))
            if mode != _FOLDER:
                return None
            tree = oid
        return tree

    def below(self, tree: str, folder: str) -> Mapping[str, TreeEntry]:
        """Every entry below `tree`, which stands at `folder`, by full path in the order of their bytes."""
        known = self._listed.get((folder, tree))
        if known is None:
            flat: dict[str, TreeEntry] = {}
            for name, (mode, oid) in self.trees[tree].items():
                path = (f"{folder}/" if folder else "") + name.decode("utf-8", "surrogateescape")
                if mode == _FOLDER:
                    flat.update(self.below(oid, path))
                else:
                    flat[path] = TreeEntry(oid, EntryKind.FILE)
            known = self._listed[folder, tree] = MappingProxyType(flat)
        return known

    def changed(self, base: str | None, changes: Mapping[str, str | None]) -> str:
        """The tree `base` (None: an empty one) with each path set to a blob or removed; as `GitRepository.write_tree` has it.

        Raises ValueError for bad or contradicting paths, KeyError for a blob that is not here.
        """
        root = self._touched(changes)
        return self._write(base, root) or self._keep({})

    def _touched(self, changes: Mapping[str, str | None]) -> "_Touched":
        root = _Touched()
        paths = {path: split(path) for path in changes}
        written = {paths[path] for path, blob in changes.items() if blob is not None}
        for path, blob in changes.items():
            *folders, name = paths[path] or (b"",)
            if not name or (blob is not None and any(paths[path][:end] in written for end in range(1, len(paths[path])))):
                raise ValueError(f"{path!r} cannot be set: it is empty, or a folder on its way is set to a file as well")
            if blob is not None and blob not in self.blobs:
                raise KeyError(blob)
            place = root
            for folder in folders:
                place = place.folders.setdefault(folder, _Touched())
            place.blobs[name] = blob
        return root

    def _write(self, tree: str | None, touched: "_Touched") -> str | None:
        """The changed tree's id; None where nothing is left in it, for git keeps no empty folders."""
        before: Entries = self.trees[tree] if tree is not None else {}
        entries = dict(before)
        for name, below in touched.folders.items():
            mode, oid = before.get(name, (0, ""))
            changed = self._write(oid if mode == _FOLDER else None, below)
            if changed is not None:
                entries[name] = (_FOLDER, changed)
            elif mode == _FOLDER:
                del entries[name]
        for name, blob in touched.blobs.items():
            if blob is not None:
                entries[name] = (_FILE, blob)
            elif entries.get(name, (0, ""))[0] != _FOLDER:
                entries.pop(name, None)
        if not entries or entries == before:
            return tree if entries else None
        return self._keep(entries)

    def _keep(self, entries: Entries) -> str:
        ordered = dict(sorted(entries.items(), key=lambda entry: entry[0] + b"/" if entry[1][0] == _FOLDER else entry[0]))
        body = b"".join(b"%o %b\0%b" % (mode, name, bytes.fromhex(oid)) for name, (mode, oid) in ordered.items())
        oid = _name(b"tree", body)
        self.trees[oid] = ordered
        return oid


@dataclass(slots=True)
class _Touched:
    """What changes in one folder: blobs set or removed (None) here, and the touched folders below."""

    blobs: dict[bytes, str | None] = field(default_factory=dict)
    folders: dict[bytes, "_Touched"] = field(default_factory=dict)
