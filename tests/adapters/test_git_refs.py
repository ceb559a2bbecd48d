"""Refs that are no branches, as forges keep them for the heads of pull requests; and where two histories meet."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.adapters.git import BareClone
from reconciler.forge_port import Bounds, Change
from reconciler.ports import EntryKind, Refused, Transient, TreeEntry
from tests.adapters.gitworld import FILES, WHEN, Branches, child, hide_own_settings, three_branches
from tests.githttp import commit_files, run_git, tree_of


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Branches]:
    hide_own_settings(monkeypatch)
    with three_branches(tmp_path, over_http=True) as made:
        yield made


def pulled(world: Branches, number: int, text: bytes, *, orphan: bool = False) -> str:
    """A head that is on no branch of the remote, as that of a fork."""
    run_git(world.bare, "update-ref", "refs/heads/away", world.first)
    made = commit_files(world.bare, "away", {**FILES, "jobs/a/new.yaml": text}, orphan=orphan)
    run_git(world.bare, "update-ref", f"refs/pull/{number}/head", made)
    run_git(world.bare, "update-ref", "-d", "refs/heads/away")
    return made


def test_a_ref_that_is_no_branch_is_brought_and_read(world: Branches) -> None:
    one, other = pulled(world, 1, b"one"), pulled(world, 2, b"two")
    clone = world.another("reader")
    clone.fetch()
    assert not clone.has(one)
    assert clone.fetch_ref("refs/pull/1/head") == one
    assert clone.fetch_ref("refs/pull/2/head") == other
    assert clone.read(clone.files(one)["jobs/a/new.yaml"].oid) == b"one", "the first stays readable"
    assert clone.read(clone.files(other)["jobs/a/new.yaml"].oid) == b"two"
    assert set(clone.fetch()) == set(world.tips()), "it is no branch here either"


def test_a_ref_that_was_set_back_is_what_it_is_now(world: Branches) -> None:
    pulled(world, 1, b"one")
    clone = world.another("reader")
    clone.fetch_ref("refs/pull/1/head")
    again = pulled(world, 1, b"again", orphan=True)
    assert clone.fetch_ref("refs/pull/1/head") == again


def test_a_ref_that_is_not_there_is_told(world: Branches) -> None:
    with pytest.raises((Refused, Transient), match="refs/pull/9/head"):
        world.clone.fetch_ref("refs/pull/9/head")


def test_where_two_histories_meet(world: Branches) -> None:
    clone = world.clone
    left, right = child(clone, world.first, "left"), child(clone, world.first, "right")
    assert clone.merge_base(left, right) == world.first
    assert clone.merge_base(world.first, right) == world.first
    assert clone.merge_base(left, left) == left
    alone = clone.commit(clone.write_tree(None, {"x": clone.write_blob(b"x")}), [], "alone\n", WHEN)
    assert clone.merge_base(left, alone) is None
    with pytest.raises(Transient):
        clone.merge_base(left, "1" * 40)


# ---- what a stranger's commit changes -----------------------------------------------------------------------------

ALL = Bounds(matters=lambda _: True, enters=lambda _: True, most_changed=100, most_read=100)


def test_what_differs_is_told_path_by_path(world: Branches) -> None:
    blobs = {text: world.clone.write_blob(text.encode()) for text in "abc"}
    old = {"same.yaml": "a", "changed.yaml": "a", "gone/x.yaml": "a", "file": "a", "folder/x.yaml": "a", "deep/er/x.yaml": "a"}
    new = {"same.yaml": "a", "changed.yaml": "b", "file/x.yaml": "b", "folder": "b", "deep/er/x.yaml": "a", "deep/er/y.yaml": "c"}
    before, after = (
        world.clone.commit(world.clone.write_tree(None, {path: blobs[text] for path, text in files.items()}), [], "x", WHEN)
        for files in (old, new)
    )
    found = world.clone.changes(before, after, ALL)
    assert found == {
        path: Change(*(TreeEntry(blobs[files[path]], EntryKind.FILE) if path in files else None for files in (old, new)))
        for path in old.keys() | new.keys()
        if old.get(path) != new.get(path)
    }
    assert world.clone.changes(before, before, ALL) == {}
    some = replace(ALL, matters=lambda path: path.endswith("x.yaml"), enters=lambda path: path != "deep")
    assert set(world.clone.changes(before, after, some)) == {"gone/x.yaml", "file/x.yaml", "folder/x.yaml"}


def test_a_link_and_a_submodule_are_told_from_a_file(world: Branches) -> None:
    blob = run_git(world.bare, "hash-object", "-w", "--stdin", body=b"x")
    made = [
        run_git(world.bare, "commit-tree", "-m", "x", tree_of(world.bare, {"a": (mode, blob)}))
        for mode in ("100644", "100755", "120000", "160000")
    ]
    for number, commit in enumerate(made):
        run_git(world.bare, "update-ref", f"refs/pull/{number}/head", commit)
        world.clone.fetch_ref(f"refs/pull/{number}/head")
    assert world.clone.changes(made[0], made[1], ALL) == {}, "nothing is run, so it does not matter whether it could be"
    kinds = [world.clone.changes(made[0], commit, ALL)["a"].after for commit in made[2:]]
    assert [each and each.kind for each in kinds] == [EntryKind.LINK, EntryKind.SUBMODULE]


def test_what_is_beyond_the_bounds_is_refused_and_none_of_it_is_kept(world: Branches) -> None:
    blob = world.clone.write_blob(b"x")
    many = world.clone.commit(
        world.clone.write_tree(world.first, {f"d{at}/x.yaml": blob for at in range(40)}), [world.first], "x", WHEN
    )
    assert len(world.clone.changes(world.first, many, ALL)) == 40
    for bounds, words in ((replace(ALL, most_changed=39), "more than 39 files"), (replace(ALL, most_read=79), "split it")):
        with pytest.raises(Refused, match=words):
            world.clone.changes(world.first, many, bounds)
    assert not world.clone._listings._all


def test_a_head_that_takes_long_is_given_up_sooner_than_branches(world: Branches, monkeypatch: pytest.MonkeyPatch) -> None:
    pulled(world, 1, b"one")
    hook, settings = world.folder / "hook", world.folder / "settings"
    hook.write_text('#!/bin/sh\nfor at in $(seq 50); do echo "Counting objects: $at" >&2; sleep 0.1; done\nexec "$@"\n')
    hook.chmod(0o755)
    settings.write_text(f'[uploadpack]\n\tpackObjectsHook = "{hook}"\n')
    hide_own_settings(monkeypatch, str(settings))
    clone = BareClone(str(world.bare), world.folder / "hasty", timeout_seconds=0.5)
    with pytest.raises(Transient, match=r"fetching refs/pull/1/head from .* took too long"):
        clone.fetch_ref("refs/pull/1/head")
    assert set(clone.fetch()) == set(world.tips()), "though it said something all the time"
