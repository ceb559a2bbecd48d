"""Trees of the object store: lists what is below a folder, and builds new trees from the touched folders up.

Decides how a path is spelt (UTF-8, bad bytes as surrogate escapes) and what a tree may hold. It knows no commits, no
branches and no remote. Trees are read and written as bytes: pygit2's TreeBuilder takes valid UTF-8 names only, and what
somebody else has pushed must stay readable and removable. Objects never change, so a listing is kept by its tree's id.
Trees that a stranger made are only compared with ours, inside bounds: a few small trees can hold more paths than any memory.
"""

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Final
from weakref import WeakValueDictionary

import pygit2
from pygit2.enums import ObjectType

from reconciler.forge_port import Bounds, Change
from reconciler.ports import EntryKind, Refused, TreeEntry

MOST_ENTRIES: Final = 1_000_000
MOST_LEVELS: Final = 64
MOST_PATH: Final = 1_024
"""Characters of a path in a stranger's tree."""
_LONGEST: Final = 7 + 255 + 21
"""Bytes of an entry: no file system takes a name longer than that."""
_KEPT_ENTRIES: Final = 100_000
_KEPT_LISTINGS: Final = 4

_FOLDER: Final = 0o040000
_FILE: Final = 0o100644
_KINDS: Final = {0o120000: EntryKind.LINK, 0o160000: EntryKind.SUBMODULE}
_ENTRY: Final = re.compile(rb"([0-7]+) ([^\0/]+)\0(.{20})", re.DOTALL)

_TOO_MUCH: Final = "its folders hold more that differs than is looked at; split it"

Entries = dict[bytes, tuple[int, bytes]]
"""A folder's entries: name → (mode, raw object id)."""


def entries_of(store: pygit2.Odb, tree: str, most: int | None = None) -> Entries:
    """The entries of one tree. Raises KeyError or GitError where it cannot be read, Refused where git would not check it out, or
    where it has more than `most` entries; it is not read then."""
    oid = pygit2.Oid(hex=tree)
    if most is not None and store.read_header(oid)[1] > most * _LONGEST:
        raise Refused(_TOO_MUCH)
    body = store.read(oid)[1]
    found = _ENTRY.findall(body) if most is None else [each.groups() for each in islice(_ENTRY.finditer(body), most + 1)]
    if most is not None and len(found) > most:
        raise Refused(_TOO_MUCH)
    entries = {name: (int(mode, 8), oid) for mode, name, oid in found}
    length = sum(len(mode) + len(name) + 22 for mode, name, _ in found)
    if length != len(body) or len(entries) != len(found) or b"." in entries or b".." in entries:
        raise Refused(
            f"tree {tree} has names that git does not check out (doubled, empty, '.', '..', or with '/'); "
            "push a commit without them"
        )
    return entries


def split(path: str) -> tuple[bytes, ...]:
    """The names of a path from the root; () for ''. Raises ValueError for what cannot stand in a tree."""
    names = tuple(path.encode("utf-8", "surrogateescape").split(b"/")) if path else ()
    if any(name in {b"", b".", b".."} or name.lower() == b".git" or b"\0" in name for name in names):
        raise ValueError(f"{path!r} is no path from the root of a tree")
    return names


def subtree(store: pygit2.Odb, tree: str, folder: str) -> str | None:
    """Id of the tree at `folder` below `tree`, None where there is no such folder."""
    for name in split(folder):
        mode, oid = entries_of(store, tree).get(name, (0, b""))
        if mode != _FOLDER:
            return None
        tree = oid.hex()
    return tree


def changes(store: pygit2.Odb, old: str, new: str, bounds: Bounds) -> dict[str, Change]:
    """What differs between two root trees, of which a stranger made `new`. Raises as `entries_of`, and Refused beyond the bounds.

    The memory that it takes follows the bounds and the folders of `old`, never what `new` would hold if it were listed.
    """
    found: dict[str, Change] = {}
    left = bounds.most_read
    todo: list[tuple[str, str | None, str | None]] = [("", old, new)]
    while todo:
        folder, before, after = todo.pop()
        if folder.count("/") >= MOST_LEVELS:
            raise Refused(f"it has folders that are more than {MOST_LEVELS} deep")
        for path, was, now in _differing(store, folder, before, after, left):
            left -= 1
            if left < 0:
                raise Refused(_TOO_MUCH)
            folders, leaves = [_folder(each) for each in (was, now)], [_leaf(each) for each in (was, now)]
            if any(folders) and bounds.enters(path):
                todo.append((path, folders[0], folders[1]))
            if leaves[0] != leaves[1] and bounds.matters(path):
                found[path] = Change(leaves[0], leaves[1])
            if len(found) > bounds.most_changed:
                raise Refused(f"it changes more than {bounds.most_changed} files; split it")
    return found


_Entry = tuple[int, bytes]


def _differing(
    store: pygit2.Odb, folder: str, before: str | None, after: str | None, left: int
) -> Iterator[tuple[str, _Entry | None, _Entry | None]]:
    """By path, the entries of one folder that are not the same in both trees."""
    ours = entries_of(store, before) if before is not None else {}
    theirs = entries_of(store, after, len(ours) + left) if after is not None else {}
    for name in {**ours, **theirs}:
        was, now = ours.get(name), theirs.get(name)
        if was != now:
            path = _path(folder, name)
            if len(path) > MOST_PATH:
                raise Refused(f"it has a path of more than {MOST_PATH} characters")
            yield path, was, now


def _folder(entry: _Entry | None) -> str | None:
    return entry[1].hex() if entry is not None and entry[0] == _FOLDER else None


def _leaf(entry: _Entry | None) -> TreeEntry | None:
    return None if entry is None or entry[0] == _FOLDER else TreeEntry(entry[1].hex(), _KINDS.get(entry[0], EntryKind.FILE))


def _path(folder: str, name: bytes) -> str:
    return (f"{folder}/" if folder else "") + name.decode("utf-8", "surrogateescape")


@dataclass(slots=True)
class _Room:
    """What one listing may still hold, over all its folders: a few small trees may be folders in folders without end."""

    left: int

    def take(self, entries: int) -> None:
        """Raises Refused where there is no more room."""
        self.left -= entries
        if self.left < 0:
            raise Refused(f"there are more than {MOST_ENTRIES} files and folders; push a commit with fewer")


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class _Listing:
    """What is below one folder, by full path. It keeps alive the listings of its subfolders, and only it does."""

    entries: dict[str, TreeEntry]
    view: Mapping[str, TreeEntry]
    inner: tuple["_Listing", ...]


@dataclass(slots=True)
class Listings:
    """The listings asked for last, up to some 100,000 entries; a folder that they share is held, and read, once."""

    _last: OrderedDict[tuple[str, str], _Listing] = field(default_factory=OrderedDict)
    _all: WeakValueDictionary[tuple[str, str], _Listing] = field(default_factory=WeakValueDictionary)

    def below(self, store: pygit2.Odb, tree: str, folder: str) -> Mapping[str, TreeEntry]:
        """Every entry below `tree`, which stands at `folder`. Raises as `entries_of`, and Refused for a tree too big."""
        key = (folder, tree)
        self._last[key] = listing = self._listing(store, key, MOST_LEVELS, _Room(MOST_ENTRIES))
        self._last.move_to_end(key)
        kept = sum(len(old.entries) for old in self._last.values())
        while kept > _KEPT_ENTRIES and len(self._last) > _KEPT_LISTINGS:
            kept -= len(self._last.popitem(last=False)[1].entries)
        return listing.view

    def _listing(self, store: pygit2.Odb, key: tuple[str, str], levels: int, room: _Room) -> _Listing:
        known = self._all.get(key)
        if known is not None:
            room.take(len(known.entries))
            return known
        folder, tree = key
        if levels == 0:
            raise Refused(f"{folder!r} is more than {MOST_LEVELS} folders deep; push a commit without it")
        flat: dict[str, TreeEntry] = {}
        inner: list[_Listing] = []
        # A tree's own order, with folders sorted as if they ended in "/", is the byte order of the full paths.
        found = entries_of(store, tree)
        room.take(len(found))
        for name, (mode, oid) in found.items():
            path = _path(folder, name)
            if mode == _FOLDER:
                inner.append(self._listing(store, (path, oid.hex()), levels - 1, room))
                flat.update(inner[-1].entries)
            else:
                flat[path] = TreeEntry(oid.hex(), _KINDS.get(mode, EntryKind.FILE))
        self._all[key] = listing = _Listing(flat, MappingProxyType(flat), tuple(inner))
        return listing


@dataclass(frozen=True, slots=True)
class _Touched:
    """What changes in one folder: blobs set or removed (None) here, and the touched folders below."""

    blobs: dict[bytes, bytes | None] = field(default_factory=dict)
    folders: dict[bytes, "_Touched"] = field(default_factory=dict)


def write_tree(store: pygit2.Odb, base: str | None, changes: Mapping[str, str | None]) -> str:
    """`base` (a tree, or None for an empty one) with each path set to a blob or removed; returns the new tree's id.

    A blob replaces a folder of its name and the other way round; removing touches blobs, links and submodules, never a
    whole folder. Raises ValueError for bad or contradicting paths, KeyError for a blob that is not in the store.
    """
    return _write(store, base, _touched(store, changes)) or str(store.write(ObjectType.TREE, b""))


def _touched(store: pygit2.Odb, changes: Mapping[str, str | None]) -> _Touched:
    root = _Touched()
    paths = {path: split(path) for path in changes}
    written = {paths[path] for path, blob in changes.items() if blob is not None}
    for path, blob in changes.items():
        *folders, name = paths[path] or (b"",)
        if not name or (blob is not None and _any_parent(paths[path], written)):
            raise ValueError(f"{path!r} cannot be set: it is empty, or a folder on its way is set to a file as well")
        if blob is not None and not store.exists(pygit2.Oid(hex=blob)):
            raise KeyError(blob)
        place = root
        for folder in folders:
            place = place.folders.setdefault(folder, _Touched())
        place.blobs[name] = None if blob is None else bytes.fromhex(blob)
    return root


def _any_parent(names: tuple[bytes, ...], written: set[tuple[bytes, ...]]) -> bool:
    return any(names[:end] in written for end in range(1, len(names)))


def _write(store: pygit2.Odb, tree: str | None, touched: _Touched) -> str | None:
    """The changed tree's id; None where nothing is left in it, for git keeps no empty folders."""
    before = entries_of(store, tree) if tree is not None else {}
    entries = dict(before)
    for name, below in touched.folders.items():
        mode, oid = before.get(name, (0, b""))
        changed = _write(store, oid.hex() if mode == _FOLDER else None, below)
        if changed is not None:
            entries[name] = (_FOLDER, bytes.fromhex(changed))
        elif mode == _FOLDER:
            del entries[name]
    for name, blob in touched.blobs.items():
        if blob is not None:
            entries[name] = (_FILE, blob)
        elif entries.get(name, (0, b""))[0] != _FOLDER:
            entries.pop(name, None)
    if not entries or entries == before:
        return tree if entries else None
    return str(store.write(ObjectType.TREE, _body(entries.items())))


def _body(entries: Iterable[tuple[bytes, tuple[int, bytes]]]) -> bytes:
    ordered = sorted(entries, key=lambda entry: entry[0] + b"/" if entry[1][0] == _FOLDER else entry[0])
    return b"".join(b"%o %b\0%b" % (mode, name, oid) for name, (mode, oid) in ordered)
