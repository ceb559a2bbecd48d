"""The index that is kept from cycle to cycle says what one made from nothing says, whatever happened to the records."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.hub.index import Index
from reconciler.model.attempt import HOLDS_GPUS, MAY_RUN, RENDERED, Attempt, Outcome, State
from reconciler.model.names import JobKey, manifest_path
from reconciler.model.policy import Limits, Policy
from reconciler.model.record import JobRecord, Phase, PlacementSeen
from tests.builders import NOW, make_attempt, make_record, make_spec
from tests.examples import examples

REGIONS = ("ap", "eu", "us")
TEAMS = ("team-a", "team-b")
POLICIES = (Policy(), Policy(limits=Limits(max_runtime_seconds=600)))
ENDS = (State.SUCCEEDED, State.FAILED, State.STOPPED)
OUTCOMES = (None, Outcome.DISRUPTED, Outcome.CANCELLED, Outcome.START_TIMEOUT)

KEYS = [JobKey(team, job_id) for team in TEAMS for job_id in ("a", "b", "c")]


@st.composite
def records(draw: st.DrawFn, key: JobKey) -> JobRecord:
    """Any record that a job of that name may have: ended attempts, then perhaps one that has not ended."""
    spec = make_spec(
        key.job_id,
        gpus=draw(st.sampled_from([0, 1, 8])),
        nodes=draw(st.sampled_from([1, 2])),
        max_runtime_seconds=draw(st.sampled_from([None, 3600])),
        expected_runtime_seconds=draw(st.sampled_from([None, 1800])),
        suspend=draw(st.booleans()),
    )
    attempts: list[Attempt] = []
    states = [*draw(st.lists(st.sampled_from(ENDS), max_size=3)), *draw(st.lists(st.sampled_from(list(State)), max_size=1))]
    for number, state in enumerate(states, 1):
        region, outcome = draw(st.sampled_from(REGIONS)), draw(st.sampled_from(OUTCOMES)) if state in ENDS else None
        attempts.append(make_attempt(number, state, spec=spec, region=region, outcome=outcome))
    first = draw(st.integers(1, max(1, len(attempts))))
    base = make_record(*attempts, spec=spec, phase=draw(st.sampled_from(list(Phase))), first_attempt=first)
    approved = draw(st.sampled_from([{}, {"pin": "eu"}, {"approved": "us", "run_hash": base.run_hash}, {"veto": ("eu", "all")}]))
    late = timedelta(seconds=draw(st.integers(0, 3)))
    return base.model_copy(
        update={"team": key.team, "placement": PlacementSeen(blob="b", **approved), "submitted_at": base.submitted_at + late}
    )


histories = st.lists(
    st.tuples(st.sampled_from(KEYS).flatmap(lambda key: st.tuples(st.just(key), st.none() | records(key))), st.integers(0, 9)),
    min_size=1,
    max_size=12,
)


def everything(index: Index, paths: set[tuple[str, str]], attempts: set[str]) -> dict[str, Any]:
    """All that an index can be asked."""
    return {
        "regions": sorted(index.regions()),
        "holdings": {region: index.holdings(region) for region in REGIONS},
        "grants": {region: index.grants(region) for region in REGIONS},
        "stopping": {region: index.stopping(region) for region in REGIONS},
        "manifests": {region: dict(index.manifests(region)) for region in REGIONS},
        "may leave": {where for where in paths if index.may_leave(*where)},
        "alive": {(region, name) for region in REGIONS for name in attempts if index.is_alive(region, name)},
        "pending": dict(index.pending),
        "used": {team: gpus for team, gpus in index.used_gpus.items() if gpus},
    }


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(histories)
def test_an_index_that_was_kept_says_what_a_new_one_says(history: list[tuple[tuple[JobKey, JobRecord | None], int]]) -> None:
    kept, known = Index(), dict[JobKey, JobRecord]()
    paths: set[tuple[str, str]] = set()
    attempts: set[str] = set()
    policy = POLICIES[0]
    for (key, record), dice in history:
        known = dict(known)
        if record is None:
            known.pop(key, None)
        else:
            known[key] = record
            paths |= {(attempt.region, manifest_path(key.team, attempt.name)) for attempt in record.attempts}
            attempts |= {attempt.name for attempt in record.attempts}
        policy = POLICIES[1] if dice == 9 else POLICIES[0] if dice == 8 else policy
        kept.update(known, policy)
        fresh = Index()
        fresh.update(known, policy)
        said = everything(fresh, paths, attempts)
        assert everything(kept, paths, attempts) == said
        hold_against_the_states(said, known, paths)


def hold_against_the_states(said: Mapping[str, Any], known: Mapping[JobKey, JobRecord], paths: set[tuple[str, str]]) -> None:
    """What an index says must follow from the states of the attempts, record by record."""
    current = {key: record.current for key, record in known.items()}
    for region in REGIONS:
        here = {key: one for key, one in current.items() if one is not None and one.region == region}
        assert [grant.attempt for grant in said["grants"][region]] == names(here, MAY_RUN)
        assert [holding.attempt for holding in said["holdings"][region]] == names(here, HOLDS_GPUS)
        assert sorted(said["stopping"][region]) == names(here, frozenset({State.STOPPING}))
        rendered = {manifest_path(key.team, one.name): key for key, one in here.items() if one.state in RENDERED}
        assert said["manifests"][region] == rendered
    every = [(key, one) for key, record in known.items() for one in record.attempts]
    ended = {(one.region, manifest_path(key.team, one.name)) for key, one in every if one.ended and one.placed_at is not None}
    assert said["may leave"] == ended & paths


def names(attempts: Mapping[JobKey, Attempt], states: frozenset[State]) -> list[str]:
    return sorted(one.name for one in attempts.values() if one.state in states)


def test_a_manifest_may_leave_only_once_its_attempt_has_ended() -> None:
    index, path = Index(), manifest_path("team-a", make_attempt().name)
    for state in State:
        record = make_record(make_attempt(state=state))
        index.update({record.key: record}, POLICIES[0])
        assert index.may_leave("eu", path) is (state in ENDS), state
        assert not index.may_leave("us", path)
        assert not index.may_leave("eu", "manifests/team-a/somebody-elses.yaml")


def test_holdings_are_the_same_object_until_one_of_them_changes() -> None:
    index = Index()
    one, two = make_record(make_attempt()), make_record(make_attempt(region="us", spec=make_spec("b")), spec=make_spec("b"))
    index.update({one.key: one, two.key: two}, POLICIES[0])
    eu, us = index.holdings("eu"), index.holdings("us")
    changed = make_record(make_attempt(region="us", spec=make_spec("b"), state=State.STOPPING), spec=make_spec("b"))
    index.update({one.key: one, two.key: changed.model_copy(update={"rerun": 1})}, POLICIES[0])
    assert index.holdings("eu") is eu
    assert index.holdings("us") is not us


def test_what_is_held_ends_when_the_expected_run_time_is_over() -> None:
    spec = make_spec(max_runtime_seconds=7200, expected_runtime_seconds=1800)
    index = Index()
    record = make_record(make_attempt(spec=spec, started_at=NOW), spec=spec)
    index.update({record.key: record}, POLICIES[0])
    assert [holding.ends_at for holding in index.holdings("eu")] == [NOW + timedelta(seconds=1800)]
