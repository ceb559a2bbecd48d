"""A person's word on a placement: what is honoured, what is refused and why, and which placements wait for a person."""

from datetime import timedelta
from typing import Any

import pytest

from reconciler.hub.review import HONOURED, PlacementFile, approval_needed, approved_region, review
from reconciler.model.attempt import Attempt, Needs, Outcome, State
from reconciler.model.names import JobKey
from reconciler.model.placement import CandidateView, DecisionView, Placement
from reconciler.model.policy import Approval, Policy
from reconciler.model.problem import Invalid, Problem
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.record import Condition, JobRecord, Phase, PlacementSeen
from reconciler.planning.decisions import Candidate
from tests.builders import NOW, TEAM, make_attempt, make_record, make_spec

LATER = NOW + timedelta(minutes=1)


def record(state: State | None = State.RUNNING, **placement: Any) -> JobRecord:
    """A job whose attempt is in eu, and whose placement file was last seen as blob `old`."""
    attempts: tuple[Attempt, ...] = () if state is None else (make_attempt(state=state),)
    phase = {State.RUNNING: Phase.RUNNING, State.PROPOSED: Phase.PROPOSED}.get(state or State.STOPPED, Phase.PENDING)
    return make_record(*attempts, phase=phase, placement=PlacementSeen(blob="old", **placement))


def said(region: str = "eu", *, of: JobRecord, blob: str = "new", **fields: Any) -> PlacementFile:
    """A placement file with that content."""
    view = CandidateView(region=region, score=1.0, terms=(), start_at=NOW)
    decision = DecisionView(reason=because(Why.CHOSEN, region=region, score=1), chosen=view, strategy="balanced", inputs="x")
    attempt = of.last.name if of.last is not None else "none"
    values: dict[str, Any] = {"team": TEAM, "job_id": of.job_id, "region": region, "attempt": attempt, "decided_at": NOW}
    return PlacementFile(blob, Placement.model_validate({**values, "decision": decision, **fields}))


def never_on_mars(_: JobRecord, region: str) -> Reason | None:
    return because(Why.NO_SUCH_REGION, region=region, known="eu, us") if region == "mars" else None


def after(before: JobRecord, file: PlacementFile | None) -> JobRecord:
    return review(before, file, never_on_mars, LATER)


def trouble(found: JobRecord) -> Condition | None:
    return next((one for one in found.conditions if one.type == HONOURED), None)


def current(found: JobRecord) -> Attempt:
    assert found.last is not None
    return found.last


# ---- what nobody changed ------------------------------------------------------------------------------------------


def test_the_hubs_own_writing_is_not_read_again() -> None:
    before = record()
    assert after(before, said("us", of=before, blob="old")) is before
    gone = make_record(placement=PlacementSeen(blob=None))
    assert after(gone, None) is gone


@pytest.mark.parametrize("state", [State.RUNNING, State.GRANTED, State.STOPPING, State.FAILED])
def test_a_file_that_was_written_anew_with_the_same_words_changes_nothing_but_what_was_seen(state: State) -> None:
    before = record(state)
    found = after(before, said("eu", of=before))
    assert found == before.model_copy(update={"placement": PlacementSeen(blob="new")})


# ---- another region -----------------------------------------------------------------------------------------------


def test_another_region_moves_what_runs_once_it_has_stopped() -> None:
    before = record()
    found = after(before, said("us", of=before))
    assert (current(found).state, current(found).outcome) == (State.STOPPING, Outcome.MOVED)
    assert (approved_region(found), trouble(found)) == ("us", None)


def test_another_region_for_a_job_that_waits_is_where_it_will_run() -> None:
    before = record(None)
    assert approved_region(after(before, said("us", of=before))) == "us"


def test_a_region_that_can_never_run_it_is_refused_with_the_reason_and_what_runs_runs_on() -> None:
    before = record()
    found = after(before, said("mars", of=before))
    assert current(found).state is State.RUNNING
    assert approved_region(found) is None
    problem = trouble(found)
    assert problem is not None
    assert problem.reason is not None
    assert problem.reason.text == "the placement asks for mars: there is no region mars; known: eu, us"
    assert (problem.status, problem.since) == ("False", LATER)
    assert found.placement.blob == "new", "it is not written over, nor read again"


def test_a_refused_override_leaves_an_earlier_pin_in_force() -> None:
    before = record(pin="eu")
    found = after(before, said("eu", of=before, pin="mars"))
    assert (found.placement.pin, approved_region(found)) == ("eu", "eu")


def test_an_override_that_is_mended_is_honoured_and_the_trouble_is_over() -> None:
    before = record()
    refused = after(before, said("mars", of=before, blob="first"))
    found = after(refused, said("us", of=before, blob="second"))
    assert (trouble(found), current(found).outcome) == (None, Outcome.MOVED)


def test_an_override_holds_for_the_spec_that_it_was_made_for() -> None:
    before = record(None)
    found = after(before, said("us", of=before))
    edited = found.model_copy(update={"run_hash": "0" * 64})
    assert (approved_region(found), approved_region(edited)) == ("us", None)


# ---- pins and vetoes ----------------------------------------------------------------------------------------------


def test_a_pin_keeps_the_job_where_it_is_for_every_spec() -> None:
    before = record()
    found = after(before, said("eu", of=before, pin="eu"))
    assert current(found).state is State.RUNNING
    assert approved_region(found.model_copy(update={"run_hash": "0" * 64})) == "eu"


def test_a_pin_elsewhere_moves_it() -> None:
    before = record()
    found = after(before, said("eu", of=before, pin="us"))
    assert (current(found).state, current(found).outcome, approved_region(found)) == (State.STOPPING, Outcome.MOVED, "us")


def test_a_veto_moves_what_runs_there_and_leaves_alone_what_does_not() -> None:
    before = record()
    there = after(before, said("eu", of=before, veto=["eu"]))
    assert (current(there).state, current(there).outcome) == (State.STOPPING, Outcome.MOVED)
    assert approved_region(there) is None, "the file still names eu, which is no wish any more"
    elsewhere = after(before, said("eu", of=before, veto=["us"]))
    assert (current(elsewhere).state, elsewhere.placement.veto) == (State.RUNNING, ("us",))


def test_a_veto_of_everything_holds_the_job() -> None:
    before = record()
    found = after(before, said("eu", of=before, veto=["all"]))
    assert (current(found).state, current(found).outcome) == (State.STOPPING, Outcome.WITHDRAWN)


def test_what_is_no_longer_said_no_longer_holds() -> None:
    before = record(pin="eu", veto=("us",))
    found = after(before, said("eu", of=before))
    assert found.placement == PlacementSeen(blob="new")


def test_a_file_that_is_deleted_takes_back_what_was_said_and_stops_nothing() -> None:
    before = record(pin="eu", veto=("us",), declined="h")
    found = after(before, None)
    assert found.placement == PlacementSeen(blob=None, declined="h")
    assert current(found).state is State.RUNNING


# ---- files that cannot be honoured --------------------------------------------------------------------------------


def test_a_broken_file_is_told_with_its_place_and_leaves_all_as_it_is() -> None:
    before = record(pin="eu")
    broken = Invalid((Problem("team-a/llm-a.yaml", 3, 5, "BadType", "region is a list", "write a name"),))
    found = after(before, PlacementFile("new", broken))
    problem = trouble(found)
    assert problem is not None
    assert "team-a/llm-a.yaml:3:5" in problem.message
    assert (found.placement.pin, current(found).state) == ("eu", State.RUNNING)


@pytest.mark.parametrize("fields", [{"job_id": "llm-b"}, {"team": "team-b"}])
def test_the_file_of_another_job_is_not_honoured_and_that_is_told(fields: dict[str, str]) -> None:
    before = record(pin="eu")
    found = after(before, said("us", of=before, **fields))
    assert (current(found).state, found.placement.pin) == (State.RUNNING, "eu")
    problem = trouble(found)
    assert problem is not None
    assert "restore `team` and `job_id`" in problem.message


def test_a_file_that_is_mended_is_no_trouble_any_more() -> None:
    before = after(record(), PlacementFile("broken", Invalid(())))
    assert trouble(before) is not None
    assert trouble(after(before, said("eu", of=before, blob="mended"))) is None


# ---- proposals ----------------------------------------------------------------------------------------------------


def test_a_proposal_that_is_merged_as_it_is_is_approved() -> None:
    before = record(State.PROPOSED)
    found = after(before, said("eu", of=before))
    assert (approved_region(found), current(found).state) == ("eu", State.PROPOSED)


def test_a_proposal_that_is_merged_with_another_region_is_overtaken_by_that() -> None:
    before = record(State.PROPOSED)
    found = after(before, said("us", of=before))
    assert (approved_region(found), current(found).state) == ("us", State.STOPPED)


def test_a_proposal_that_is_merged_late_is_no_approval_of_the_one_after_it() -> None:
    before = record(State.PROPOSED)
    found = after(before, said("eu", of=before, attempt="llm-a-999999-a7"))
    assert (approved_region(found), current(found).state) == (None, State.PROPOSED)


def test_a_proposal_that_is_merged_with_a_veto_of_its_own_region_is_not_approved() -> None:
    before = record(State.PROPOSED)
    found = after(before, said("eu", of=before, veto=["eu"]))
    assert (approved_region(found), current(found).state) == (None, State.STOPPED)


# ---- approval -----------------------------------------------------------------------------------------------------


def candidate(region: str = "eu", price: float | None = 10.0) -> Candidate:
    return Candidate(region, None, (), None, Needs(), (), 1.0, NOW, None, 0, price, ())


RULES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str | None]] = {
    "no rule": ({}, {}, {}, None),
    "always": ({"always": True}, {}, {}, "always"),
    "its team": ({"teams": (TEAM,)}, {}, {}, f"team {TEAM}"),
    "another team": ({"teams": ("team-b",)}, {}, {}, None),
    "the region": ({"regions": ("us", "eu")}, {}, {}, "region eu"),
    "another region": ({"regions": ("us",)}, {}, {}, None),
    "its priority": ({"priority_at_least": 90}, {"priority": "critical"}, {}, "priority at least 90"),
    "a lower priority": ({"priority_at_least": 90}, {"priority": 89}, {}, None),
    "a dearer price": ({"price_above": 9.99}, {}, {}, "price above 9.99 USD"),
    "just that price": ({"price_above": 10.0}, {}, {}, None),
    "a price of nothing": ({"price_above": 0.0}, {}, {"price": 0.0}, None),
    "a price that nobody knows": ({"price_above": 1_000_000.0}, {}, {"price": None}, "price above 1000000 USD"),
    "a price that nobody asks for": ({}, {}, {"price": None}, None),
}


@pytest.mark.parametrize(("rules", "spec", "chosen", "rule"), RULES.values(), ids=RULES)
def test_any_rule_that_fits_makes_a_placement_wait_for_a_person(
    rules: dict[str, Any], spec: dict[str, Any], chosen: dict[str, Any], rule: str | None
) -> None:
    job = make_record(spec=make_spec(**spec))
    policy = Policy(approval=Approval(**rules))
    assert approval_needed(JobKey(TEAM, "llm-a"), job, candidate(**chosen), policy) == rule


APPROVED: dict[str, tuple[dict[str, Any], str | None]] = {
    "nobody has spoken": ({}, "always"),
    "a person approved this region": ({"approved": "eu", "run_hash": "same"}, None),
    "a person approved another region": ({"approved": "us", "run_hash": "same"}, "always"),
    "a person approved another spec": ({"approved": "eu", "run_hash": "0" * 64}, "always"),
    "a person pinned it here": ({"pin": "eu"}, None),
    "a person pinned it elsewhere": ({"pin": "us"}, "always"),
}


@pytest.mark.parametrize(("placement", "rule"), APPROVED.values(), ids=APPROVED)
def test_what_a_person_has_said_already_needs_no_approval(placement: dict[str, Any], rule: str | None) -> None:
    job = make_record()
    said_before = {**placement, **({"run_hash": job.run_hash} if placement.get("run_hash") == "same" else {})}
    job = job.model_copy(update={"placement": PlacementSeen(blob="b", **said_before)})
    assert approval_needed(job.key, job, candidate(), Policy(approval=Approval(always=True))) == rule
