"""Refs that are no branches, as forges keep them for the heads of pull requests; and where two histories meet."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.ports import Refused, Transient
from tests.adapters.gitworld import FILES, WHEN, Branches, child, hide_own_settings, three_branches
from tests.githttp import commit_files, run_git


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
