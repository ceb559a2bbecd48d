"""Building trees and commits, with git itself as the oracle."""

from collections.abc import Iterator, Mapping
from datetime import timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.adapters.git import BareClone
from reconciler.ports import EntryKind, RefUpdate, TreeEntry
from tests.adapters.gitworld import WHEN, Objects, all_files, empty_remote, hide_own_settings
from tests.examples import examples
from tests.githttp import run_git, tree_of


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    hide_own_settings(monkeypatch)
    with empty_remote(tmp_path) as made:
        yield made


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


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=changes_to_files())
def test_a_changed_tree_is_the_one_git_makes(world: Objects, case: tuple[dict[str, bytes], dict[str, bytes | None]]) -> None:
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
def test_a_tree_changes_as_asked(world: Objects, case: Change) -> None:
    changes, want = case
    clone = world.clone
    base = clone.commit(clone.write_tree(None, {path: clone.write_blob(body) for path, body in BASE.items()}), [], "x", WHEN)
    tree = clone.write_tree(base, {path: None if body is None else clone.write_blob(body) for path, body in changes.items()})
    changed = clone.commit(tree, [], "y", WHEN)
    assert all_files(clone, changed) == want
    assert (tree == clone.root_of(base)) == (want == BASE)


def test_links_submodules_and_executables_stay_and_can_be_removed(world: Objects) -> None:
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
def test_paths_that_cannot_stand_in_a_tree_are_refused(world: Objects, paths: list[str]) -> None:
    blob = world.clone.write_blob(b"x")
    with pytest.raises(ValueError, match=r"no path|cannot be set"):
        world.clone.write_tree(None, dict.fromkeys(paths, blob))


# ---- commits ------------------------------------------------------------------------------------------------------


def test_same_arguments_make_the_same_commit_everywhere(world: Objects) -> None:
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


def test_the_identity_can_be_chosen(world: Objects) -> None:
    clone = BareClone(world.url, world.folder / "named", identity=("Ops Bot", "ops@example.com"))
    commit = clone.commit(clone.write_tree(None, {}), [], "x", WHEN)
    assert "author Ops Bot <ops@example.com>" in run_git(world.folder / "named", "cat-file", "commit", commit)


@pytest.mark.parametrize("identity", [("", "a@b"), ("a", " "), ("a <b", "a@b"), ("a", "a@b>"), ("a\nb", "a@b")])
def test_an_identity_that_would_break_a_commit_is_refused(tmp_path: Path, identity: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="cannot stand in a commit"):
        BareClone("/nowhere", tmp_path, identity=identity)


def test_a_message_may_name_a_path_that_is_no_text(world: Objects) -> None:
    commit = world.clone.commit(world.clone.write_tree(None, {}), [], "Reject jobs/bad\udcff.yaml\n", WHEN)
    assert world.clone.words_of(commit).subject == r"Reject jobs/bad\udcff.yaml"
    assert world.clone.words_of(commit).when == WHEN.replace(microsecond=0)


def test_a_message_with_a_nul_is_refused(world: Objects) -> None:
    with pytest.raises(ValueError, match="NUL"):
        world.clone.commit(world.clone.write_tree(None, {}), [], "a\0b", WHEN)


def test_what_was_made_here_arrives_sound(world: Objects) -> None:
    run_git(world.bare, "config", "receive.fsckObjects", "true")
    clone = world.clone
    names = [f"{number % 7}/{number % 3}.{number % 5}/{'-' * (number % 4)}{number}" for number in range(200)]
    tree = clone.write_tree(None, {f"manifests/{name}.yaml": clone.write_blob(name.encode()) for name in names})
    commit = clone.commit(tree, [], "all\n", WHEN)
    assert clone.push([RefUpdate("region/eu", None, commit)]).done
    assert run_git(world.bare, "rev-parse", "region/eu") == commit
    run_git(world.bare, "fsck", "--full", "--strict")
