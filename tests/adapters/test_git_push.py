"""Pushing to a real Git server, over HTTP and by path: compare and swap, races, refusals."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from reconciler.ports import PushOutcome, RefUpdate, Refused, Transient
from tests.adapters.gitworld import DONE, RACED, WHEN, Branches, child, hide_own_settings, three_branches
from tests.githttp import install_hook, run_git

pytestmark = pytest.mark.slow


@pytest.fixture(params=[True, False], ids=["over HTTP", "by path"])
def world(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Branches]:
    hide_own_settings(monkeypatch)
    with three_branches(tmp_path, over_http=request.param) as made:
        yield made


# ---- compare and swap ---------------------------------------------------------------------------------------------

Case = tuple[str, str | None, str | None, PushOutcome]
ONE_BRANCH: dict[str, Case] = {
    "moved from where it is": ("region/eu", "first", "new", DONE),
    "made where there is none": ("region/us", None, "new", DONE),
    "deleted where it is": ("region/eu", "first", None, DONE),
    "already there": ("region/eu", "first", "first", DONE),
    "already gone": ("region/us", "first", None, DONE),
    "moved from where it is not": ("region/eu", "other", "new", RACED),
    "moved but gone": ("region/us", "first", "new", RACED),
    "made but there": ("region/eu", None, "new", RACED),
    "deleted but moved": ("region/eu", "other", None, RACED),
}


@pytest.mark.parametrize("case", ONE_BRANCH.values(), ids=ONE_BRANCH)
def test_a_branch_moves_only_from_its_old_commit(world: Branches, case: Case) -> None:
    branch, old, new, want = case
    commits = {"first": world.first, "new": world.child("new"), "other": world.child("other"), None: None}
    before = world.tips()
    outcome = world.clone.push([RefUpdate(branch, commits[old], commits[new])])
    assert outcome == want
    moved = {name: oid for name, oid in {**before, branch: commits[new]}.items() if oid is not None}
    assert world.tips() == (moved if want.done else before)


def test_one_stale_branch_of_four_moves_none(world: Branches) -> None:
    new, other = world.child("new"), world.child("other")
    run_git(world.bare, "update-ref", "refs/heads/old", world.first)
    before = world.tips()
    updates = [
        RefUpdate("status", world.first, new),
        RefUpdate("region/eu", other, new),
        RefUpdate("region/us", None, new),
        RefUpdate("old", world.first, None),
    ]
    assert world.clone.push(updates) == RACED
    assert world.tips() == before


def test_many_branches_move_together(world: Branches) -> None:
    updates = [RefUpdate(f"region/r{number}", None, world.child(str(number))) for number in range(20)]
    updates.append(RefUpdate("status", world.first, world.child("status")))
    assert world.clone.push(updates) == DONE
    assert {update.branch: update.new for update in updates}.items() <= world.tips().items()
    assert world.clone.fetch() == world.tips()


def test_of_two_writers_exactly_one_wins_each_round(world: Branches) -> None:
    writers = [world.another("one"), world.another("two")]
    for number in range(5):
        tip = world.tips()["status"]
        for writer in writers:
            writer.fetch()
        news = [child(writer, tip, f"{name} in round {number}") for name, writer in zip("ab", writers, strict=True)]
        updates = [[RefUpdate("status", tip, new), RefUpdate(f"round/{number}", None, new)] for new in news]
        outcomes = at_once([partial(writer.push, move) for writer, move in zip(writers, updates, strict=True)])
        assert sorted(outcome == DONE for outcome in outcomes) == [False, True]
        assert RACED in outcomes
        won = news[outcomes.index(DONE)]
        assert (world.tips()["status"], world.tips()[f"round/{number}"]) == (won, won)


def at_once(calls: Sequence[Callable[[], PushOutcome]]) -> list[PushOutcome]:
    together = threading.Barrier(len(calls))

    def go(call: Callable[[], PushOutcome]) -> PushOutcome:
        together.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(go, calls))


def test_a_branch_that_moves_while_the_push_is_under_way_is_a_race(world: Branches) -> None:
    sly = world.child("sly")
    assert world.clone.push([RefUpdate("elsewhere", None, sly)]) == DONE
    install_hook(world.bare, "pre-receive", f"env -u GIT_QUARANTINE_PATH git update-ref refs/heads/status {sly}")
    outcome = world.clone.push([RefUpdate("region/eu", world.first, sly), RefUpdate("status", world.first, world.child("new"))])
    assert outcome == RACED
    assert world.tips() == {"main": world.first, "status": sly, "region/eu": world.first, "elsewhere": sly}


def test_a_lock_held_on_the_server_is_a_race_though_nothing_moved(world: Branches) -> None:
    lock = world.bare / "refs/heads/status.lock"
    lock.touch()
    update = RefUpdate("status", world.first, world.child("new"))
    assert world.clone.push([update]) == RACED
    lock.unlink()
    assert world.clone.push([update]) == DONE


# ---- refusals -----------------------------------------------------------------------------------------------------


def refused(outcome: PushOutcome) -> Mapping[str, str]:
    assert (outcome.done, outcome.raced) == (False, False)
    return outcome.refusals


def three(world: Branches) -> list[RefUpdate]:
    new = world.child("new")
    return [RefUpdate(branch, world.first, new) for branch in ("main", "status", "region/eu")]


def test_what_a_pre_receive_hook_says_of_a_branch_is_told_of_that_branch(world: Branches) -> None:
    says = """while read old new ref; do
        [ $ref = refs/heads/region/eu ] && { echo "region/eu is frozen until Monday" >&2; exit 1; }
    done; exit 0"""
    install_hook(world.bare, "pre-receive", says)
    before = world.tips()
    assert refused(world.clone.push(three(world))) == {"region/eu": "pre-receive hook declined: region/eu is frozen until Monday"}
    assert world.tips() == before
    assert world.clone.push(three(world)[:2]) == DONE


def test_a_pre_receive_hook_that_names_no_branch_refuses_all_of_them(world: Branches) -> None:
    says = "the main reason: fetch first, stale info\nerror: cannot lock ref, atomic push failure"
    install_hook(world.bare, "pre-receive", f'echo "{says}" >&2; exit 1')
    told = refused(world.clone.push(three(world)))
    want = f"pre-receive hook declined: {says}"
    assert told == dict.fromkeys(("main", "status", "region/eu"), want)


def test_an_update_hook_refuses_one_branch_and_none_moves(world: Branches) -> None:
    install_hook(world.bare, "update", '[ "$1" = refs/heads/status ] || exit 0; printf "no\\033[31m red\\n" >&2; exit 1')
    before = world.tips()
    assert refused(world.clone.push(three(world))) == {
        "status": "hook declined: no red\nerror: hook declined to update refs/heads/status"
    }
    assert world.tips() == before


def test_a_branch_with_a_name_of_another_script_is_told_by_its_name(world: Branches) -> None:
    install_hook(world.bare, "update", "echo no >&2; exit 1")
    assert list(refused(world.clone.push([RefUpdate("region/欧洲", None, world.first)]))) == ["region/欧洲"]


def test_of_a_long_story_the_beginning_and_the_end_are_told(world: Branches) -> None:
    install_hook(world.bare, "pre-receive", "echo begin >&2; seq 1 5000 | sed 's/^/region-eu /' >&2; echo end >&2; exit 1")
    told = refused(world.clone.push(three(world)))["status"]
    assert told.startswith("pre-receive hook declined: begin\n")
    assert told.endswith("\nend")
    assert len(told) <= 2_000


SERVER_RULES: dict[str, tuple[str, Callable[[Branches], RefUpdate], str]] = {
    "no deletions": ("receive.denyDeletes", lambda world: RefUpdate("status", world.first, None), "deletion prohibited"),
    "no rewinding": (
        "receive.denyNonFastForwards",
        lambda world: RefUpdate("status", world.first, world.clone.commit(world.clone.root_of(world.first), [], "x", WHEN)),
        "non-fast-forward",
    ),
}


@pytest.mark.parametrize("case", SERVER_RULES.values(), ids=SERVER_RULES)
def test_a_rule_of_the_server_is_a_refusal_and_no_race(
    world: Branches, case: tuple[str, Callable[[Branches], RefUpdate], str]
) -> None:
    setting, update, words = case
    run_git(world.bare, "config", setting, "true")
    told = refused(world.clone.push([update(world)]))
    assert list(told) == ["status"]
    assert words in told["status"]


def test_a_race_comes_before_a_refusal(world: Branches) -> None:
    install_hook(world.bare, "pre-receive", "env -u GIT_QUARANTINE_PATH git update-ref -d refs/heads/status; exit 1")
    assert world.clone.push([RefUpdate("status", world.first, world.child("new"))]) == RACED


@pytest.mark.parametrize("branch", ["region/eu/west", "region"])
def test_a_branch_beside_its_own_folder_is_refused_and_never_tried_for_ever(world: Branches, branch: str) -> None:
    told = refused(world.clone.push([RefUpdate(branch, None, world.child("new"))]))
    assert "region/eu" in told[branch]


@pytest.mark.parametrize(
    "branch", ["", "a b", "x.lock", "..", "a~1", "-x", "HEAD", "a//b", "/a", "a/", "a\nb", "é" * 150, "a\udcff"]
)
def test_a_branch_that_git_does_not_take_is_refused_before_anything_is_sent(world: Branches, branch: str) -> None:
    with pytest.raises(Refused, match="no branch named"):
        world.clone.push([RefUpdate("status", world.first, world.child("new")), RefUpdate(branch, None, world.first)])
    assert world.tips()["status"] == world.first


def test_a_server_without_atomic_pushes_is_refused_with_what_to_do(world: Branches) -> None:
    run_git(world.bare, "config", "receive.advertiseAtomic", "false")
    with pytest.raises(Refused, match=r"does not support --atomic push.*use a server with atomic pushes"):
        world.clone.push([RefUpdate("status", world.first, world.child("new"))])
    assert world.tips()["status"] == world.first


def test_mistakes_of_the_caller_are_no_outcome(world: Branches) -> None:
    new = world.child("new")
    with pytest.raises(ValueError, match="twice"):
        world.clone.push([RefUpdate("status", world.first, new), RefUpdate("status", None, new)])
    with pytest.raises(ValueError, match="no full object id"):
        world.clone.push([RefUpdate("status", world.first[:7], new)])
    with pytest.raises(ValueError, match="no commit"):
        world.clone.push([RefUpdate("status", world.first, world.clone.root_of(new))])
    with pytest.raises(Transient, match="cannot be had"):
        world.clone.push([RefUpdate("status", world.first, "1" * 40)])
    assert world.clone.push([]) == DONE
