"""The Git in memory, beside a real clone of a real repository: the same objects under the same ids, the same answers to pushes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pygit2
import pytest
from hypothesis import HealthCheck, given, settings

from reconciler.adapters.git import BareClone
from reconciler.ports import GitRepository, RefUpdate, Transient
from reconciler.sim.git import MemoryGit, Remote
from tests.adapters.gitworld import WHEN, hide_own_settings
from tests.adapters.test_git_building import BASE, CHANGES, Change, changes_to_files
from tests.examples import examples


@dataclass(frozen=True)
class Both:
    """A remote in memory and a real one, with a clone of each; `another` makes one more of each."""

    memory: MemoryGit
    real: BareClone
    another: Callable[[], tuple[MemoryGit, BareClone]]

    @property
    def all(self) -> Sequence[GitRepository]:
        return self.memory, self.real


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Both:
    hide_own_settings(monkeypatch)
    bare, remote, made = tmp_path / "bare.git", Remote(), iter(range(100))
    pygit2.init_repository(str(bare), bare=True, initial_head="nobody-s")

    def another() -> tuple[MemoryGit, BareClone]:
        return MemoryGit(remote), BareClone(str(bare), tmp_path / f"clone-{next(made)}")

    memory, real = another()
    return Both(memory, real, another)


def build(git: GitRepository, base: str | None, changes: Mapping[str, bytes | None]) -> str:
    return git.write_tree(base, {path: None if body is None else git.write_blob(body) for path, body in changes.items()})


def pushed(git: GitRepository, branch: str, old: str | None, text: str) -> str:
    """A commit on top of `old`, pushed to a branch."""
    tree = build(git, old, {f"{branch}.txt": text.encode()})
    commit = git.commit(tree, [old] if old else [], f"{text}\n\nmore words\n", WHEN)
    assert git.push([RefUpdate(branch, old, commit)]).done
    return commit


# ---- objects ------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=changes_to_files())
def test_trees_and_commits_are_the_ones_that_git_makes(
    both: Both, case: tuple[dict[str, bytes], dict[str, bytes | None]]
) -> None:
    base, changes = case
    found = []
    for git in both.all:
        first = git.commit(build(git, None, base), [], "base\n", WHEN)
        second = git.commit(build(git, first, changes), [first], "changed é\n\nand why\n", WHEN)
        found.append((first, second, git.root_of(second), list(git.files(second).items()), git.words_of(second)))
    assert found[0] == found[1]


@pytest.mark.parametrize("case", CHANGES.values(), ids=CHANGES)
def test_a_tree_changes_as_asked(both: Both, case: Change) -> None:
    changes, want = case
    found = []
    for git in both.all:
        base = git.commit(build(git, None, BASE), [], "x", WHEN)
        changed = git.commit(build(git, base, changes), [base], "y", WHEN)
        assert {path: git.read(entry.oid) for path, entry in git.files(changed).items()} == want
        found.append((changed, git.tree_id(changed, "d"), git.tree_id(changed, "e/f"), list(git.files(changed, "d"))))
    assert found[0] == found[1]


@pytest.mark.parametrize("paths", [[""], ["/a"], ["a/"], ["a//b"], ["../a"], [".git/config"], ["a\0"], ["a", "a/b"]])
def test_paths_that_cannot_stand_in_a_tree_are_refused(both: Both, paths: list[str]) -> None:
    for git in both.all:
        with pytest.raises(ValueError, match=r"no path|cannot be set"):
            git.write_tree(None, dict.fromkeys(paths, git.write_blob(b"x")))


# ---- what a clone knows -------------------------------------------------------------------------------------------


def test_a_clone_knows_only_what_it_fetched_or_made(both: Both) -> None:
    for git, other in zip(both.all, both.another(), strict=True):
        first = pushed(git, "main", None, "one")
        assert not other.has(first)
        with pytest.raises(Transient):
            other.root_of(first)
        assert other.heads() == {"main": first}
        assert not other.has(first)
        assert other.fetch() == {"main": first}
        second = pushed(git, "main", first, "two")
        assert other.has(first)
        assert not other.is_ancestor(first, second)
        assert git.is_ancestor(first, second)
        assert git.is_ancestor(second, second)
        assert not git.is_ancestor(second, first)


def test_what_was_fetched_stays_when_its_branch_goes(both: Both) -> None:
    for git, other in zip(both.all, both.another(), strict=True):
        first = pushed(git, "main", None, "one")
        other.fetch()
        assert git.push([RefUpdate("main", first, None)]).done
        assert other.fetch() == {}
        assert other.has(first)
        assert other.read(other.files(first)["main.txt"].oid) == b"one"


# ---- pushes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class At:
    """Where the branches are: `main` has moved from `old` to `head`; `new` is a commit after `head` that nobody has pushed."""

    old: str
    head: str
    new: str


PUSHES: dict[str, tuple[Callable[[At], list[RefUpdate]], str]] = {
    "a branch that moves on": (lambda at: [RefUpdate("main", at.head, at.new)], "done"),
    "a branch that somebody else has moved": (lambda at: [RefUpdate("main", at.old, at.new)], "raced"),
    "a branch that is there already": (lambda at: [RefUpdate("main", None, at.new)], "raced"),
    "a branch that is not there": (lambda at: [RefUpdate("other", at.old, at.new)], "raced"),
    "a new branch": (lambda at: [RefUpdate("other", None, at.new)], "done"),
    "two, of which one was moved": (lambda at: [RefUpdate("other", None, at.new), RefUpdate("main", at.old, at.new)], "raced"),
    "a branch that goes": (lambda at: [RefUpdate("main", at.head, None)], "done"),
    "a branch that goes, and had moved": (lambda at: [RefUpdate("main", at.old, None)], "raced"),
    "a branch below another's name": (lambda at: [RefUpdate("main/eu", None, at.new)], "refused"),
    "what is so already": (lambda at: [RefUpdate("main", at.old, at.head)], "done"),
    "nothing": (lambda _: [], "done"),
}


@pytest.mark.parametrize("case", PUSHES)
def test_a_push_is_answered_as_git_answers_it(both: Both, case: str) -> None:
    make, want = PUSHES[case]
    tips = []
    for git in both.all:
        old = pushed(git, "main", None, "one")
        head = pushed(git, "main", old, "two")
        new = git.commit(build(git, head, {"new": b"new"}), [head], "new", WHEN)
        outcome = git.push(make(At(old, head, new)))
        assert (outcome.done, outcome.raced, bool(outcome.refusals)) == (want == "done", want == "raced", want == "refused")
        tips.append(git.heads())
    assert tips[0] == tips[1]


def test_a_branch_cannot_be_named_twice_in_a_push(both: Both) -> None:
    for git in both.all:
        first = pushed(git, "main", None, "one")
        with pytest.raises(ValueError, match="twice"):
            git.push([RefUpdate("a", None, first), RefUpdate("a", None, first)])
