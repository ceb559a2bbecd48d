"""Who goes first."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.fleet import Team
from reconciler.planning.ordering import Order
from reconciler.planning.snapshot import JobView
from tests.builders import TEAMS, make_job
from tests.examples import examples


def order(jobs: list[JobView], used: dict[str, int] | None = None, weights: dict[str, float] | None = None) -> list[str]:
    """Names of the jobs in order, when every one of them is placed."""
    teams = {name: Team(name=name, weight=weight) for name, weight in (weights or {}).items()}
    queue = Order(jobs, used or {}, teams)
    names = []
    for job in queue:
        names.append(job.key.job_id)
        queue.placed(job)
    return names


def job(name: str, team: str = "a", age: float = 60, **fields: Any) -> JobView:
    return make_job(name, team=f"team-{team}", minutes_ago=age, **fields)


ORDERS: dict[str, tuple[list[JobView], dict[str, int], dict[str, float], list[str]]] = {
    "priority before all": (
        [job("x", age=999), job("y", priority="high"), job("z", priority=1000), job("w", priority="idle", age=9999)],
        {},
        {},
        ["z", "y", "x", "w"],
    ),
    "a class and its number are one": ([job("b", priority=75), job("a", priority="high")], {}, {}, ["a", "b"]),
    "then the lower share": ([job("x", "a", age=99), job("y", "b")], {"team-a": 1}, {}, ["y", "x"]),
    "a share is over the weight": ([job("x", "a"), job("y", "b")], {"team-a": 8, "team-b": 5}, {"team-a": 2.0}, ["x", "y"]),
    "a share grows with each placement": (
        [job("a1", "a", 9), job("a2", "a", 8), job("a3", "a", 7), job("b1", "b", 1), job("b2", "b", 0)],
        {},
        {},
        ["a1", "b1", "a2", "b2", "a3"],
    ),
    "twice the weight, twice the turns": (
        [job(f"a{at}", "a", 9) for at in range(4)] + [job(f"b{at}", "b", 5) for at in range(4)],
        {},
        {"team-a": 2.0},
        ["a0", "b0", "a1", "a2", "b1", "a3", "b2", "b3"],
    ),
    "then age, whatever the team is called": ([job("x", "a", 1), job("y", "b", 2)], {}, {}, ["y", "x"]),
    "jobs without GPUs by age over all teams": (
        [job("a1", "a", 1, gpus=0), job("a2", "a", 3, gpus=0), job("b1", "b", 2, gpus=0), job("b2", "b", 4, gpus=0)],
        {},
        {},
        ["b2", "a2", "b1", "a1"],
    ),
    "then the name": ([job("y"), job("x"), job("z")], {}, {}, ["x", "y", "z"]),
    "then the team's name": ([job("x", "b"), job("y", "a")], {}, {}, ["y", "x"]),
    "a share counts at the next priority too": (
        [job("a1", "a", priority="high"), job("a2", "a", 99), job("b1", "b", 1)],
        {},
        {},
        ["a1", "b1", "a2"],
    ),
    "nobody": ([], {"team-a": 1}, {}, []),
}


@pytest.mark.parametrize("case", ORDERS.values(), ids=ORDERS.keys())
def test_order(case: tuple[list[JobView], dict[str, int], dict[str, float], list[str]]) -> None:
    jobs, used, weights, names = case
    assert order(jobs, used, weights) == names
    assert order(jobs[::-1], used, weights) == names


def test_a_job_that_is_not_placed_costs_its_team_nothing() -> None:
    queue = Order([job("a1", "a", 9), job("a2", "a", 8), job("b1", "b", 1)], {}, {})
    assert [one.key.job_id for one in queue] == ["a1", "a2", "b1"]


@st.composite
def pending(draw: st.DrawFn) -> list[JobView]:
    base = job("x", gpus=1)
    jobs = []
    for index in range(draw(st.integers(0, 8))):
        key = base.key._replace(team=draw(st.sampled_from(TEAMS)), job_id=f"j{index}")
        spec = base.spec.model_copy(update={"priority": draw(st.sampled_from((0, 50, 90)))})
        jobs.append(JobView(key, spec, base.submitted_at + timedelta(minutes=draw(st.integers(0, 3)))))
    return jobs


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(pending(), st.sets(st.integers(0, 7)), st.dictionaries(st.sampled_from(TEAMS), st.integers(0, 3)))
def test_against_looking_at_everybody_each_time(jobs: list[JobView], refused: set[int], used: dict[str, int]) -> None:
    queue, waiting, held = Order(jobs, used, {}), list(jobs), dict(used)
    for chosen in queue:
        best = min(waiting, key=lambda one: (-one.spec.priority_value, held.get(one.key.team, 0), one.submitted_at, one.key))
        assert chosen is best
        waiting.remove(best)
        if int(best.key.job_id[1:]) not in refused:
            queue.placed(best)
            held[best.key.team] = held.get(best.key.team, 0) + 1
    assert not waiting
