"""Reading and making objects in the clone, with git itself as the oracle."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.adapters.git import BareClone, trees
from reconciler.ports import EntryKind, RefUpdate, Refused, Transient, TreeEntry
from tests.githttp import commit_files, run_git, serving, tree_of

WHEN = datetime(2026, 11, 29, 12, 0, 0, 987654, tzinfo=UTC)


@dataclass(frozen=True)
class World:
    """A bare repository served over HTTP, and a clone of it."""

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


@pytest.fixture(autouse=True)
def _plain_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with serving(tmp_path / "served") as server:
        bare = server.create("jobs")
        yield World(bare, server.url("jobs"), tmp_path, BareClone(server.url("jobs"), tmp_path / "clone"))


# ---- reading ------------------------------------------------------------------------------------------------------

ODD_NAMES = ("a b", "a\nb", "-x", '"quoted"', "é", "欧洲", "bad\udcffbytes", "back\\slash", "a.b", "a-b", "a0", "x" * 255)


def test_odd_names_links_and_submodules_are_listed_for_what_they_are(world: World) -> None:
    blob, script = world.blob(b"job"), world.blob(b"#!/bin/sh")
    entries = {f"jobs/{name}": ("100644", blob) for name in ODD_NAMES}
    entries |= {f"jobs/a/{name}": ("100644", blob) for name in ODD_NAMES}
    entries |= {
        "jobs/link.yaml": ("120000", world.blob(b"../../secrets.yaml")),
        "jobs/sub": ("160000", "1" * 40),
        "run.sh": ("100755", script),
    }
    commit = world.publish(tree_of(world.bare, entries))
    files = world.clone.files(commit)
    assert {path: entry.oid for path, entry in files.items()} == {path: oid for path, (_, oid) in entries.items()}
    assert list(files) == sorted(entries, key=lambda path: path.encode("utf-8", "surrogateescape"))
    others = {path: entry.kind for path, entry in files.items() if entry.kind is not EntryKind.FILE}
    assert others == {"jobs/link.yaml": EntryKind.LINK, "jobs/sub": EntryKind.SUBMODULE}
    assert world.clone.read(files["jobs/a/bad\udcffbytes"].oid) == b"job"
    assert list(world.clone.files(commit, "jobs/a")) == [path for path in files if path.startswith("jobs/a/")]


def test_a_folder_is_told_from_a_file_and_from_nothing(world: World) -> None:
    commit = world.publish(tree_of(world.bare, {"jobs/a/x.yaml": ("100644", world.blob(b"x"))}))
    tree = run_git(world.bare, "rev-parse", f"{commit}:jobs/a")
    assert world.clone.tree_id(commit, "jobs/a") == tree
    assert world.clone.tree_id(commit) == world.clone.root_of(commit) == run_git(world.bare, "rev-parse", f"{commit}^{{tree}}")
    for absent in ("jobs/a/x.yaml", "jobs/b", "jobs/a/x.yaml/y"):
        assert world.clone.tree_id(commit, absent) is None
        assert world.clone.files(commit, absent) == {}
    for senseless in ("/jobs", "jobs/", "jobs//a", "..", "jobs/../jobs", ".git/x"):
        with pytest.raises(ValueError, match="is no path"):
            world.clone.files(commit, senseless)


MALFORMED = {
    "a name with a slash": b"100644 a/b\0" + b"\1" * 20,
    "a name that leads out": b"40000 ..\0" + b"\1" * 20,
    "a name twice": (b"100644 a\0" + b"\1" * 20) * 2,
    "an empty name": b"100644 \0" + b"\1" * 20,
    "a cut entry": b"100644 a\0" + b"\1" * 19,
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_trees_that_git_would_not_check_out_are_refused(world: World, body: bytes) -> None:
    assert world.clone.fetch() == {}
    here = world.folder / "clone"
    tree = run_git(here, "hash-object", "-w", "--literally", "-t", "tree", "--stdin", body=body)
    bad = run_git(here, "commit-tree", "-m", "crafted", tree)
    with pytest.raises(Refused, match="does not check out"):
        world.clone.files(bad)
    with pytest.raises(Refused, match="does not check out"):
        world.clone.write_tree(bad, {"new": world.clone.write_blob(b"x")})


def test_a_tree_made_to_fill_the_memory_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "MOST_ENTRIES", 20_000)
    clone, blob = world.clone, world.clone.write_blob(b"x")
    tree = clone.write_tree(None, {f"f{number}": blob for number in range(30)})
    layer = {f"d{number}": tree for number in range(30)}
    for _ in range(6):
        body = b"".join(b"40000 %b\0%b" % (name.encode(), bytes.fromhex(oid)) for name, oid in sorted(layer.items()))
        tree = run_git(world.folder / "clone", "hash-object", "-w", "-t", "tree", "--stdin", body=body)
        layer = dict.fromkeys(layer, tree)
    with pytest.raises(Refused, match="more than 20000 files"):
        clone.files(clone.commit(tree, [], "bomb", WHEN))


def test_folders_without_end_are_refused(world: World) -> None:
    deep = world.clone.write_tree(None, {"/".join("d" * (trees.MOST_LEVELS + 1)): world.clone.write_blob(b"x")})
    with pytest.raises(Refused, match="folders deep"):
        world.clone.files(world.clone.commit(deep, [], "deep", WHEN))


def test_the_size_of_a_big_blob_is_told_without_reading_it(world: World) -> None:
    body = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(160_000))
    loose = world.clone.write_blob(body)
    assert world.clone.size(loose) == len(body)
    packed = world.publish(tree_of(world.bare, {"big": ("100644", world.blob(body + b"!"))}))
    assert world.clone.size(world.clone.files(packed)["big"].oid) == len(body) + 1
    assert world.clone.read(loose) == body
    path = world.folder / "clone/objects" / loose[:2] / loose[2:]
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"\xff" * 1000)
    assert world.clone.size(loose) == len(body)
    with pytest.raises(Transient, match="cannot be had"):
        world.clone.read(loose)


def test_what_is_not_here_is_said_to_be_so(world: World) -> None:
    missing, clone = "1" * 40, world.clone
    tree = clone.write_tree(None, {})
    for ask in (clone.root_of, clone.files, clone.tree_id, clone.size, clone.read):
        with pytest.raises(Transient, match=rf"{missing}.*fetch again"):
            ask(missing)
    with pytest.raises(Transient, match="fetch again"):
        clone.write_tree(missing, {})
    with pytest.raises(Transient, match="fetch again"):
        clone.write_tree(None, {"a": missing})
    with pytest.raises(Transient, match="fetch again"):
        clone.commit(tree, [missing], "x", WHEN)
    with pytest.raises(Transient, match="fetch again"):
        clone.commit(missing, [], "x", WHEN)
    for ask in (clone.root_of, clone.size, clone.read):
        with pytest.raises(ValueError, match="no full object id"):
            ask("1" * 39)
    with pytest.raises(ValueError, match="no commit"):
        clone.root_of(tree)


def test_an_unchanged_folder_is_not_read_again(world: World) -> None:
    clone = world.clone
    changes = {f"jobs/{team}/{number:04}.yaml": clone.write_blob(team.encode()) for team in "ab" for number in range(200)}
    first = clone.commit(clone.write_tree(None, changes), [], "first", WHEN)
    before = clone.files(first)
    second = clone.commit(clone.write_tree(first, {"jobs/b/0007.yaml": clone.write_blob(b"new")}), [first], "second", WHEN)
    # Too big for libgit2's own cache: with its file gone, the folder's tree can be had from our listing only.
    unchanged = clone.tree_id(first, "jobs/a")
    assert unchanged is not None
    assert unchanged == clone.tree_id(second, "jobs/a")
    (world.folder / "clone/objects" / unchanged[:2] / unchanged[2:]).unlink()
    after = clone.files(second)
    assert list(after) == list(before)
    assert {path for path in before if before[path] != after[path]} == {"jobs/b/0007.yaml"}
    assert clone.files(second) is after
    with pytest.raises(Transient):
        BareClone(world.url, world.folder / "clone").files(second)


def test_listings_of_long_ago_are_let_go(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "_KEPT_ENTRIES", 1_000)
    clone, blob = world.clone, world.clone.write_blob(b"x")
    commits = []
    for number in range(40):
        names = {f"{team}/{number}-{file}.yaml": blob for team in "abcdefgh" for file in range(10)}
        commits.append(clone.commit(clone.write_tree(None, names), [], "x", WHEN))
        clone.files(commits[-1])
    kept = clone._listings
    assert sum(len(listing.entries) for listing in kept._last.values()) <= 1_000
    assert len(kept._all) == 9 * len(kept._last)
    assert clone.files(commits[-1]) is clone.files(commits[-1])
    assert len(clone.files(commits[0])) == 80


def test_a_listing_cannot_be_changed(world: World) -> None:
    commit = world.clone.commit(world.clone.write_tree(None, {"a": world.clone.write_blob(b"a")}), [], "x", WHEN)
    with pytest.raises(TypeError):
        world.clone.files(commit)["b"] = TreeEntry("1" * 40, EntryKind.FILE)  # type: ignore[index]


# ---- building -----------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "ab", "a.b", "a-b", "a0", "é", "bad\udcff", "-", "\n"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
BODIES = st.sampled_from([b"", b"one", b"two\n"])


def put(files: Mapping[str, bytes], path: str, body: bytes) -> dict[str, bytes]:
    """Files with one more, as a work tree would have it: no file on its way, no folder in its place."""
    kept = {old: was for old, was in files.items() if not path.startswith(f"{old}/") and not old.startswith(f"{path}/")}
    return {**kept, path: body}


def folders_of(path: str) -> set[str]:
    parts = path.split("/")
    return {"/".join(parts[:end]) for end in range(1, len(parts))}


@st.composite
def changes_to_files(draw: st.DrawFn) -> tuple[dict[str, bytes], dict[str, bytes | None]]:
    base: dict[str, bytes] = {}
    for path, body in draw(st.lists(st.tuples(PATHS, BODIES), max_size=12)):
        base = put(base, path, body)
    fresh: dict[str, bytes] = {}
    for path, body in draw(st.lists(st.tuples(PATHS, BODIES), max_size=6)):
        fresh = put(fresh, path, body)
    removed = draw(st.lists(st.one_of(PATHS, st.sampled_from(sorted(base) or ["a"])), max_size=6))
    mixed = [*((path, None) for path in removed if path not in fresh), *fresh.items()]
    return base, dict(draw(st.permutations(mixed)))


def applied(base: Mapping[str, bytes], changes: Mapping[str, bytes | None]) -> dict[str, bytes]:
    result = {path: body for path, body in base.items() if changes.get(path, b"") is not None}
    for path, body in changes.items():
        if body is not None:
            result = put(result, path, body)
    return result


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=changes_to_files())
def test_a_changed_tree_is_the_one_git_makes(world: World, case: tuple[dict[str, bytes], dict[str, bytes | None]]) -> None:
    base, changes = case
    clone = world.clone
    blobs = {body: clone.write_blob(body) for body in (b"", b"one", b"two\n")}
    root = clone.write_tree(None, {path: blobs[body] for path, body in base.items()})
    commit = clone.commit(root, [], "base", WHEN)
    tree = clone.write_tree(commit, {path: None if body is None else blobs[body] for path, body in changes.items()})
    want = {path: ("100644", blobs[body]) for path, body in applied(base, changes).items()}
    assert tree == tree_of(world.bare, want)
    files = clone.files(clone.commit(tree, [commit], "changed", WHEN))
    assert list(files.items()) == [
        (path, TreeEntry(want[path][1], EntryKind.FILE))
        for path in sorted(want, key=lambda path: path.encode("utf-8", "surrogateescape"))
    ]
    assert not set(files) & {folder for path in files for folder in folders_of(path)}


BASE = {"a": b"1", "d/x": b"1", "d/y": b"1", "e/f/g": b"1"}
Change = tuple[dict[str, bytes | None], dict[str, bytes]]
CHANGES: dict[str, Change] = {
    "nothing": ({}, BASE),
    "a file gets its old content": ({"a": b"1"}, BASE),
    "a file gives way to a folder": ({"a/b/c": b"2"}, {"a/b/c": b"2", "d/x": b"1", "d/y": b"1", "e/f/g": b"1"}),
    "the same, with the file removed by name": ({"a": None, "a/b": b"2"}, {"a/b": b"2", "d/x": b"1", "d/y": b"1", "e/f/g": b"1"}),
    "a folder gives way to a file": ({"d": b"2"}, {"a": b"1", "d": b"2", "e/f/g": b"1"}),
    "the same, with its files removed by name": ({"d/x": None, "d/y": None, "d": b"2"}, {"a": b"1", "d": b"2", "e/f/g": b"1"}),
    "folders that become empty vanish": ({"e/f/g": None}, {"a": b"1", "d/x": b"1", "d/y": b"1"}),
    "the last file goes": (dict.fromkeys(BASE), {}),
    "a folder's name removes no folder": ({"d": None, "e/f": None}, BASE),
    "what is not there can be removed": ({"z": None, "z/z": None, "a/z": None, "d/z/z": None}, BASE),
}


@pytest.mark.parametrize("case", CHANGES.values(), ids=CHANGES)
def test_a_tree_changes_as_asked(world: World, case: Change) -> None:
    changes, want = case
    clone = world.clone
    base = clone.commit(clone.write_tree(None, {path: clone.write_blob(body) for path, body in BASE.items()}), [], "x", WHEN)
    tree = clone.write_tree(base, {path: None if body is None else clone.write_blob(body) for path, body in changes.items()})
    files = clone.files(clone.commit(tree, [], "y", WHEN))
    assert {path: clone.read(entry.oid) for path, entry in files.items()} == want
    assert (tree == clone.root_of(base)) == (want == BASE)


def test_links_submodules_and_executables_stay_and_can_be_removed(world: World) -> None:
    blob = world.blob(b"x")
    entries = {
        "d/run": ("100755", blob),
        "d/link": ("120000", blob),
        "d/sub": ("160000", "1" * 40),
        "d/bad\udcff": ("100644", blob),
    }
    base = world.publish(tree_of(world.bare, entries))
    clone = world.clone
    want = tree_of(world.bare, {**entries, "d/new": ("100644", blob)})
    assert clone.write_tree(base, {"d/new": blob}) == want
    assert clone.write_tree(base, {**dict.fromkeys(entries), "d/new": blob}) == tree_of(world.bare, {"d/new": ("100644", blob)})


@pytest.mark.parametrize(
    "paths", [[""], ["/a"], ["a/"], ["a//b"], ["../a"], ["a/./b"], [".git/config"], ["a/.GIT"], ["a\0"], ["a", "a/b"]]
)
def test_paths_that_cannot_stand_in_a_tree_are_refused(world: World, paths: list[str]) -> None:
    blob = world.clone.write_blob(b"x")
    with pytest.raises(ValueError, match=r"no path|cannot be set"):
        world.clone.write_tree(None, dict.fromkeys(paths, blob))


# ---- commits ------------------------------------------------------------------------------------------------------


def test_same_arguments_make_the_same_commit_everywhere(world: World) -> None:
    other = BareClone(world.url, world.folder / "other")
    made = []
    for clone in (world.clone, other):
        tree = clone.write_tree(None, {"a/b": clone.write_blob(b"x"), "c": clone.write_blob(b"y")})
        parent = clone.commit(tree, [], "first\n", WHEN)
        made.append((tree, parent, clone.commit(tree, [parent], "Place é\n\nReconciler-Cycle: 7\n", WHEN)))
    assert made[0] == made[1]
    in_berlin = WHEN.astimezone(timezone(timedelta(hours=1)))
    assert world.clone.commit(made[0][0], [], "first\n", in_berlin) == made[0][1]
    assert world.clone.commit(made[0][0], [], "first\n", WHEN + timedelta(seconds=1)) != made[0][1]
    assert run_git(world.folder / "clone", "cat-file", "commit", made[0][2]) == (
        f"tree {made[0][0]}\nparent {made[0][1]}\n"
        "author gpu-reconciler <reconciler@localhost> 1795953600 +0000\n"
        "committer gpu-reconciler <reconciler@localhost> 1795953600 +0000\n\n"
        "Place é\n\nReconciler-Cycle: 7"
    )
    with pytest.raises(ValueError, match="time zone"):
        world.clone.commit(made[0][0], [], "x", WHEN.replace(tzinfo=None))


def test_the_identity_can_be_chosen(world: World) -> None:
    clone = BareClone(world.url, world.folder / "named", identity=("Ops Bot", "ops@example.com"))
    commit = clone.commit(clone.write_tree(None, {}), [], "x", WHEN)
    assert "author Ops Bot <ops@example.com>" in run_git(world.folder / "named", "cat-file", "commit", commit)


def test_what_was_made_here_arrives_sound(world: World) -> None:
    run_git(world.bare, "config", "receive.fsckObjects", "true")
    clone = world.clone
    names = [f"{number % 7}/{number % 3}.{number % 5}/{'-' * (number % 4)}{number}" for number in range(200)]
    tree = clone.write_tree(None, {f"manifests/{name}.yaml": clone.write_blob(name.encode()) for name in names})
    commit = clone.commit(tree, [], "all\n", WHEN)
    assert clone.push([RefUpdate("region/eu", None, commit)]).done
    assert run_git(world.bare, "rev-parse", "region/eu") == commit
    run_git(world.bare, "fsck", "--full", "--strict")


def test_files_of_a_fetched_commit_read_back(world: World) -> None:
    files = {"jobs/a.yaml": b"a\n", "jobs/t/b.yaml": b"", "é.yaml": b"\xff\0"}
    commit = commit_files(world.bare, "main", files)
    world.clone.fetch()
    assert {path: world.clone.read(entry.oid) for path, entry in world.clone.files(commit).items()} == files
