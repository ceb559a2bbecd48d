"""Which region branches are left out because the remote refuses them, and how the culprit is found."""

from collections.abc import Callable, Sequence

import pytest

from reconciler.hub.closed import RETRY_SECONDS, ClosedBranches
from tests.hub.doors import ManualClock

EU, US, AP = "region/eu", "region/us", "region/ap"
Words = dict[str, str]


def named(*culprits: str) -> Callable[[Sequence[str]], Words]:
    """A hook that names the branches that it does not like."""
    return lambda pushed: {branch: f"no {branch}" for branch in pushed if branch in culprits}


def mute(*culprits: str) -> Callable[[Sequence[str]], Words]:
    """A hook that refuses whatever has one of these in it, and names none: then every branch is told of."""
    return lambda pushed: dict.fromkeys(pushed, "no") if set(culprits) & set(pushed) else {}


def test_a_branch_that_is_named_is_left_out_and_the_others_go_on_at_once() -> None:
    clock = ManualClock()
    closed = ClosedBranches(clock.monotonic)
    assert closed.note({EU: "frozen"}, ["placements", EU, US, "status"], "status") == 0
    assert (closed.state(), closed.words(EU), closed.words(US)) == ({EU}, "frozen", None)
    clock.seconds += RETRY_SECONDS - 1
    assert closed.state() == {EU}
    clock.seconds += 1
    assert (closed.state(), closed.words(EU)) == (frozenset(), None)


def test_the_only_region_of_a_push_is_the_culprit() -> None:
    closed = ClosedBranches(ManualClock().monotonic)
    assert closed.note({EU: "no", "status": "no"}, [EU, "status"], "status") == 0
    assert closed.state() == {EU}


@pytest.mark.parametrize("pushed", [["status"], ["status", "placements"], ["status", "placements", EU, US]])
def test_without_the_ledger_nothing_goes_and_nothing_is_left_out(pushed: list[str]) -> None:
    closed = ClosedBranches(ManualClock().monotonic)
    assert closed.note({"status": "no"}, pushed, "status") > 0
    assert closed.state() == frozenset()


@pytest.mark.parametrize("branch", ["placements", "proposals/team-a/llm-a", EU])
def test_any_other_branch_that_is_named_is_left_out_alone(branch: str) -> None:
    closed = ClosedBranches(ManualClock().monotonic)
    assert closed.note({branch: "protected"}, ["status", "placements", "proposals/team-a/llm-a", EU, US], "status") == 0
    assert (closed.state(), closed.words(branch)) == ({branch}, "protected")


def test_where_all_are_named_and_no_region_is_among_them_the_ledger_is_tried_alone() -> None:
    closed = ClosedBranches(ManualClock().monotonic)
    pushed = ["placements", "proposals/team-a/llm-a", "status"]
    assert closed.note(dict.fromkeys(pushed, "no"), pushed, "status") == 0
    assert closed.state() == {"placements", "proposals/team-a/llm-a"}


Remote = Callable[[Sequence[str]], Words]


def push(closed: ClosedBranches, wanting: set[str], remote: Remote) -> list[str]:
    """One push of whatever is not left out, as the hub makes it; the regions that got through."""
    pushed = sorted(branch for branch in wanting if closed.words(branch) is None)
    refusals = remote([*pushed, "status"])
    if refusals:
        closed.note(refusals, [*pushed, "status"], "status")
        return []
    closed.passed([*pushed, "status"])
    return pushed


REMOTES: dict[str, tuple[Remote, set[str]]] = {
    "one branch is refused by name": (named(EU), {EU}),
    "two branches are refused by name": (named(EU, AP), {EU, AP}),
    "one branch is refused and not named": (mute(EU), {EU}),
    "the last branch is refused and not named": (mute(US), {US}),
    "two branches are refused and not named": (mute(EU, US), {EU, US}),
    "nothing is refused": (mute(), set()),
}


@pytest.mark.parametrize("pause", [0.3, 1.5, 10.0, 25.0], ids=lambda seconds: f"a push every {seconds} s")
@pytest.mark.parametrize(("remote", "refused"), REMOTES.values(), ids=REMOTES)
def test_whoever_is_not_refused_gets_through_however_rarely_the_hub_may_push(
    remote: Remote, refused: set[str], pause: float
) -> None:
    clock = ManualClock()
    closed = ClosedBranches(clock.monotonic)
    wanting = {AP, EU, US}
    for _ in range(12):
        wanting -= set(push(closed, wanting, remote))
        clock.seconds += pause
    assert wanting == refused


def test_a_hundred_regions_are_not_held_up_by_one_that_is_refused_and_not_named() -> None:
    clock = ManualClock()
    closed = ClosedBranches(clock.monotonic)
    wanting = {f"region/r{number:03}" for number in range(100)}
    culprit = "region/r042"
    pushes = 0
    while wanting != {culprit}:
        wanting -= set(push(closed, wanting, mute(culprit)))
        pushes += 1
        clock.seconds += 10
        assert pushes <= 20, f"{len(wanting)} regions still wait"
