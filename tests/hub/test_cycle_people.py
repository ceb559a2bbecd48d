"""People and placements through the whole hub: proposals, approvals, overrides, pins, vetoes, and what they write wrongly."""

from pathlib import Path
from typing import Any

import pytest

from reconciler.hub.results import Ended
from reconciler.model.attempt import Outcome, State
from reconciler.model.record import Phase
from tests.builders import TEAM, make_nodes
from tests.githttp import run_git
from tests.hub.rig import Rig
from tests.hub.words import failed, job_file, region_file, running, stopped, succeeded

PROPOSAL = f"proposals/{TEAM}/llm-a"
FILE = f"{TEAM}/llm-a.yaml"


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path)
    made.tell("eu")
    made.tell("us")
    return made


def approve_all(rig: Rig) -> None:
    rig.put({"policy.yaml": "approval: {always: true}\n"})


def proposed(rig: Rig, **fields: Any) -> None:
    """A job whose placement in eu waits for a person."""
    approve_all(rig)
    rig.job(**fields)
    rig.settle()
    assert rig.record().phase is Phase.PROPOSED


def look_twice(rig: Rig) -> None:
    """Two looks at the remote, some seconds apart."""
    rig.settle()
    rig.clock.seconds += 6
    rig.settle()


def end(rig: Rig, region: str = "eu") -> None:
    """The region has acted on the newest grants, and nothing runs any more that they do not list."""
    there = [
        record.current for record in rig.records().values() if record.current is not None and record.current.region == region
    ]
    rig.tell(region, *(running(one.name) if one.name in rig.granted(region) else stopped(one.name) for one in there))
    rig.settle()


# ---- proposals ----------------------------------------------------------------------------------------------------


def test_a_placement_that_must_be_approved_is_proposed_on_a_branch_and_starts_nothing(rig: Rig) -> None:
    proposed(rig)
    attempt = rig.attempt()
    assert (attempt.state, attempt.region) == (State.PROPOSED, "eu")
    assert (rig.granted("eu"), rig.manifests("eu")) == ([], [])
    assert rig.text("placements", FILE) is None
    said = rig.placement(branch=PROPOSAL)
    assert (said["region"], said["attempt"]) == ("eu", attempt.name)
    assert set(rig.tree(PROPOSAL)) - set(rig.tree("placements")) == {FILE}
    subject = rig.messages(PROPOSAL)[0].splitlines()[0]
    assert f"{TEAM}/llm-a" in subject
    assert "eu" in subject
    why = rig.record().why
    assert why is not None
    assert why.text == f"the policy asks for approval (always); merge branch {PROPOSAL} into placements"


def test_a_proposal_that_is_merged_as_it_is_is_placed_there(rig: Rig) -> None:
    proposed(rig)
    name = rig.attempt().name
    rig.merge_proposal(delete=False)
    rig.settle()
    assert (rig.attempt().name, rig.attempt().state) == (name, State.GRANTED)
    assert rig.granted("eu") == rig.manifests("eu") == [name]
    assert PROPOSAL not in rig.tips(), "the branch has done its work"
    rig.tell("eu", succeeded(name))
    rig.settle()
    assert rig.record().phase is Phase.SUCCEEDED


def test_a_proposal_that_is_merged_with_another_region_is_placed_there(rig: Rig) -> None:
    proposed(rig)
    rig.merge_proposal(region="us")
    rig.settle()
    attempt = rig.attempt()
    assert (attempt.number, attempt.region, attempt.state) == (2, "us", State.GRANTED)
    assert rig.record().attempts[0].state is State.STOPPED
    assert (rig.granted("eu"), rig.granted("us")) == ([], [attempt.name])
    assert rig.placement()["attempt"] == attempt.name


def test_a_proposal_that_is_deleted_holds_the_job_until_it_is_edited(rig: Rig) -> None:
    proposed(rig)
    rig.move(PROPOSAL, None)
    look_twice(rig)
    assert rig.record().phase is Phase.HELD
    assert "closed or deleted unmerged" in (rig.record().why.text if rig.record().why else "")
    for _ in range(3):
        look_twice(rig)
    assert (rig.record().phase, len(rig.record().attempts)) == (Phase.HELD, 1)
    rig.job(image="reg.example.com/other:2")
    rig.settle()
    assert (rig.record().phase, rig.attempt().number, PROPOSAL in rig.tips()) == (Phase.PROPOSED, 2, True)


def test_a_person_may_place_a_job_after_its_proposal_was_deleted(rig: Rig) -> None:
    proposed(rig)
    text = rig.text(PROPOSAL, FILE)
    rig.move(PROPOSAL, None)
    look_twice(rig)
    assert rig.record().phase is Phase.HELD
    rig.put({FILE: text}, "placements")
    rig.edit_placement(region="us")
    rig.settle()
    assert (rig.record().phase, rig.attempt().region) == (Phase.STARTING, "us")


def test_one_look_without_the_branch_holds_nothing(rig: Rig) -> None:
    proposed(rig)
    tip = rig.tip(PROPOSAL)
    rig.move(PROPOSAL, None)
    rig.settle()
    rig.move(PROPOSAL, tip)
    look_twice(rig)
    assert rig.record().phase is Phase.PROPOSED


def test_a_merged_proposal_whose_branch_the_forge_deletes_waits_for_room_and_is_not_held(rig: Rig) -> None:
    proposed(rig, allowed_regions=["eu"])
    rig.tell("eu", nodes=make_nodes(2, used=8))
    rig.merge_proposal(delete=True)
    look_twice(rig)
    look_twice(rig)
    assert (rig.record().phase, rig.attempt().state) == (Phase.PROPOSED, State.PROPOSED)
    assert rig.record().placement.approved == "eu"
    rig.tell("eu")
    rig.settle()
    assert (rig.record().phase, rig.attempt().number) == (Phase.STARTING, 1)


def test_a_proposal_of_a_job_that_is_removed_is_closed(rig: Rig) -> None:
    proposed(rig)
    rig.job("other", gpus=1)
    rig.remove("llm-a")
    rig.settle()
    assert rig.record().phase is Phase.CANCELLED
    assert PROPOSAL not in rig.tips()


def test_a_job_that_is_edited_while_it_is_proposed_is_proposed_anew(rig: Rig) -> None:
    proposed(rig)
    first = rig.attempt().name
    rig.job(image="reg.example.com/other:2")
    rig.settle()
    assert (rig.record().phase, rig.attempt().number) == (Phase.PROPOSED, 2)
    assert rig.placement(branch=PROPOSAL)["attempt"] == rig.attempt().name != first
    rig.merge_proposal()
    rig.settle()
    assert rig.attempt().state is State.GRANTED


def test_a_proposal_that_is_made_anew_never_sets_its_branch_back(rig: Rig) -> None:
    """Many servers refuse that, and the whole push with it."""
    run_git(rig.bare, "config", "receive.denyNonFastForwards", "true")
    proposed(rig)
    rig.job(image="reg.example.com/other:2")
    rig.settle()
    assert (rig.record().phase, rig.attempt().number) == (Phase.PROPOSED, 2)
    assert set(rig.tree(PROPOSAL)) - set(rig.tree("placements")) == {FILE}


def test_an_approved_placement_that_no_manifest_can_be_made_of_is_told_and_not_granted(rig: Rig) -> None:
    rig.put({"regions/eu.yaml": region_file("eu", 1.0, "profile: {shared_claim: slow}\n")})
    proposed(rig, volumes=[{"kind": "shared", "mount_path": "/shared"}], allowed_regions=["eu"])
    rig.put({"regions/eu.yaml": region_file("eu", 1.0)})
    rig.merge_proposal()
    rig.settle()
    assert (rig.granted("eu"), rig.manifests("eu")) == ([], [])
    assert rig.record().phase is Phase.IMPOSSIBLE
    why = rig.record().why
    assert why is not None
    assert "shared" in why.text
    assert [one.state for one in rig.record().attempts] == [State.STOPPED]
    rig.put({"regions/eu.yaml": region_file("eu", 1.0, "profile: {shared_claim: fast}\n")})
    rig.settle()
    assert (rig.record().phase, rig.attempt().number) == (Phase.STARTING, 2), "as a person has approved it"


def test_a_proposal_holds_no_gpus(rig: Rig) -> None:
    rig.put({"policy.yaml": "approval: {teams: [team-a]}\n", "regions/us.yaml": None})
    rig.job(gpus=8, nodes=2)
    rig.settle()
    assert rig.record().phase is Phase.PROPOSED
    rig.put({"jobs/team-b/other.yaml": job_file("other", nodes=2)})
    rig.settle()
    assert rig.record("other", "team-b").phase is Phase.STARTING


def test_approving_what_has_no_room_any_more_waits_and_is_placed_later(rig: Rig) -> None:
    rig.put({"policy.yaml": "approval: {teams: [team-a]}\n", "regions/us.yaml": None})
    rig.job(nodes=2)
    rig.settle()
    rig.put({"jobs/team-b/other.yaml": job_file("other", nodes=2)})
    rig.settle()
    rig.merge_proposal(delete=False)
    rig.settle()
    assert rig.record().phase is Phase.PROPOSED
    assert set(rig.record().waits) == {"eu"}
    done = rig.records()
    other = next(record for record in done.values() if record.job_id == "other").attempts[0].name
    rig.tell("eu", succeeded(other))
    rig.settle()
    assert (rig.record().phase, rig.attempt().state) == (Phase.STARTING, State.GRANTED)


# ---- which placements are proposed --------------------------------------------------------------------------------

PRICED = {
    "regions/eu.yaml": region_file("eu").replace("prices: {A100-80GB: 2.0}", "prices: {A100-80GB: 1.0}"),
    "regions/us.yaml": region_file("us", 2.0),
}
UNPRICED = {
    name: text.replace("prices: {A100-80GB: 1.0}\n", "").replace("prices: {A100-80GB: 2.0}\n", "")
    for name, text in PRICED.items()
}
HOUR = {"expected_runtime_seconds": 3600}

RULES: dict[str, tuple[str, dict[str, Any], dict[str, str], str]] = {
    "always": ("always: true", {}, PRICED, "always"),
    "of a team": (f"teams: [{TEAM}]", {}, PRICED, f"team {TEAM}"),
    "in a region": ("regions: [eu]", {}, PRICED, "region eu"),
    "of a priority": ("priority_at_least: 75", {"priority": "high"}, PRICED, "priority at least 75"),
    "above a price": ("price_above: 7.5", HOUR, PRICED, "price above 7.5 USD"),
    "of an unknown price": ("price_above: 100000", HOUR, UNPRICED, "price above 100000 USD"),
    "of unknown length": ("price_above: 100000", {}, PRICED, "price above 100000 USD"),
}


@pytest.mark.parametrize(("approval", "fields", "files", "rule"), RULES.values(), ids=RULES)
def test_a_placement_waits_for_a_person_by_every_rule(
    rig: Rig, approval: str, fields: dict[str, Any], files: dict[str, str], rule: str
) -> None:
    rig.put({**files, "policy.yaml": f"approval: {{{approval}}}\n"})
    rig.job(**fields)
    rig.settle()
    assert rig.record().phase is Phase.PROPOSED
    assert rig.record().why is not None
    assert rig.record().why.numbers["rule"] == rule  # type: ignore[union-attr]


UNRULED: dict[str, tuple[str, dict[str, Any]]] = {
    "of another team": ("teams: [team-b]", {}),
    "in another region": ("regions: [us]", {}),
    "of a lower priority": ("priority_at_least: 75", {"priority": 74}),
    "below the price": ("price_above: 8.0", HOUR),
}


@pytest.mark.parametrize(("approval", "fields"), UNRULED.values(), ids=UNRULED)
def test_a_placement_that_no_rule_fits_is_made_at_once(rig: Rig, approval: str, fields: dict[str, Any]) -> None:
    rig.put({**PRICED, "policy.yaml": f"approval: {{{approval}}}\n"})
    rig.job(**fields)
    rig.settle()
    assert rig.record().phase is Phase.STARTING


# ---- overrides ----------------------------------------------------------------------------------------------------


def test_an_override_moves_the_job_after_it_has_stopped(rig: Rig) -> None:
    first = rig.placed(checkpoint_path="s3://c/x/")
    rig.edit_placement(region="us")
    rig.settle()
    assert (rig.attempt().name, rig.attempt().outcome) == (first.name, Outcome.MOVED)
    assert (rig.granted("eu"), rig.granted("us")) == ([], [])
    edited = rig.text("placements", FILE)
    for _ in range(2):
        rig.clock.seconds += 10
        rig.tell_again("eu")
        rig.settle()
    assert rig.text("placements", FILE) == edited, "never written over while it is carried out"
    end(rig)
    second = rig.attempt()
    assert (second.number, second.region, second.state, second.seeded_from) == (2, "us", State.GRANTED, first.checkpoint)
    assert rig.placement()["attempt"] == second.name
    assert rig.condition("PlacementHonoured") is None


def test_an_override_moves_once(rig: Rig) -> None:
    rig.placed(retries=3)
    rig.edit_placement(region="us")
    rig.settle()
    end(rig)
    rig.tell("us", failed(rig.attempt().name))
    rig.settle()
    assert (rig.attempt().number, rig.attempt().region) == (3, "eu"), "the best region again"


IMPOSSIBLE: dict[str, tuple[str, str, str]] = {
    "a region that there is not": ("mars", "", "there is no region mars; known: eu, us"),
    "a region that the job denies": ("us", "denied", "us is among the job's denied_regions"),
}


@pytest.mark.parametrize(("region", "denied", "words"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_an_override_that_cannot_be_honoured_is_told_and_never_written_over(
    rig: Rig, region: str, denied: str, words: str
) -> None:
    before = rig.placed(**({"denied_regions": ["us"]} if denied else {}))
    rig.edit_placement(region=region)
    edited = rig.text("placements", FILE)
    rig.settle()
    assert rig.attempt() == before
    assert rig.granted("eu") == [before.name]
    condition = next(one for one in rig.record().conditions if one.type == "PlacementHonoured")
    assert condition.reason is not None
    assert (condition.status, condition.reason.text) == ("False", f"the placement asks for {region}: {words}")
    rig.clock.seconds += 600
    rig.tell_running("eu")
    rig.settle()
    assert rig.text("placements", FILE) == edited
    assert rig.attempt() == before
    rig.edit_placement(region="eu")
    rig.settle()
    assert (rig.condition("PlacementHonoured"), rig.attempt()) == (None, before)


def test_an_override_while_the_region_is_full_waits_for_that_region(rig: Rig) -> None:
    rig.placed()
    rig.tell("us", nodes=make_nodes(2, used=8))
    rig.edit_placement(region="us")
    rig.settle()
    end(rig)
    assert (rig.record().phase, rig.record().current) == (Phase.PENDING, None)
    assert set(rig.record().waits) == {"eu", "us"}
    rig.tell("us")
    rig.settle()
    assert rig.attempt().region == "us"


def test_an_edit_that_comes_between_look_and_push_is_not_lost(rig: Rig) -> None:
    rig.placed()
    rig.job("other", gpus=1)
    rig.git.before_push.append(lambda: rig.edit_placement(region="us"))
    rig.settle()
    assert rig.record("other").phase is Phase.STARTING
    assert rig.attempt().outcome is Outcome.MOVED


# ---- pins and vetoes ----------------------------------------------------------------------------------------------


def test_a_pin_keeps_all_attempts_in_its_region(rig: Rig) -> None:
    first = rig.placed(retries=5)
    rig.edit_placement(pin="eu")
    rig.settle()
    assert rig.attempt() == first
    rig.tell("eu", failed(first.name), nodes=make_nodes(2, used=8))
    rig.settle()
    assert (rig.record().phase, rig.record().current) == (Phase.PENDING, None)
    assert rig.record().waits["us"].code == "PinnedElsewhere"
    rig.tell("eu")
    rig.settle()
    assert (rig.attempt().number, rig.attempt().region) == (2, "eu")
    assert rig.placement()["pin"] == "eu", "the next decision keeps what a person said"
    rig.job(image="reg.example.com/other:2", retries=5)
    rig.settle()
    end(rig)
    assert (rig.attempt().number, rig.attempt().region) == (3, "eu")


def test_a_pin_elsewhere_moves_it_there(rig: Rig) -> None:
    rig.placed()
    rig.edit_placement(pin="us")
    rig.settle()
    end(rig)
    assert (rig.attempt().region, rig.placement()["pin"]) == ("us", "us")


def test_a_veto_of_its_region_moves_it_elsewhere_and_holds_for_all_attempts(rig: Rig) -> None:
    rig.placed(retries=3)
    rig.edit_placement(veto=["eu"])
    rig.settle()
    assert rig.attempt().outcome is Outcome.MOVED
    end(rig)
    second = rig.attempt()
    assert (second.region, rig.placement()["veto"]) == ("us", ["eu"])
    rig.tell("us", failed(second.name))
    rig.settle()
    assert (rig.attempt().number, rig.attempt().region) == (3, "us")
    assert rig.record().placement.veto == ("eu",)


def test_a_veto_of_all_holds_it_until_it_is_taken_back(rig: Rig) -> None:
    rig.placed()
    rig.edit_placement(veto=["all"])
    rig.settle()
    end(rig)
    assert rig.record().phase is Phase.HELD
    rig.clock.seconds += 3600
    for region in ("eu", "us"):
        rig.tell(region)
    rig.settle()
    assert (rig.record().phase, rig.attempt().number) == (Phase.HELD, 1)
    rig.edit_placement(veto=[])
    rig.settle()
    assert (rig.record().phase, rig.attempt().number) == (Phase.STARTING, 2)


def test_a_placement_that_is_deleted_takes_back_what_was_said_and_stops_nothing(rig: Rig) -> None:
    first = rig.placed(retries=3)
    rig.edit_placement(pin="eu", veto=["us"])
    rig.settle()
    rig.put({FILE: None}, "placements")
    rig.settle()
    assert rig.attempt() == first
    assert (rig.record().placement.pin, rig.record().placement.veto) == (None, ())
    assert rig.text("placements", FILE) is None
    rig.tell("eu", failed(first.name), nodes=make_nodes(2, used=8))
    rig.settle()
    assert rig.attempt().region == "us"
    assert rig.text("placements", FILE) is not None


def test_the_branch_of_placements_that_is_deleted_stops_nothing_and_is_begun_anew(rig: Rig) -> None:
    first = rig.placed()
    rig.move("placements", None)
    rig.settle()
    assert rig.attempt() == first
    rig.job("other", gpus=1)
    rig.settle()
    assert f"{TEAM}/other.yaml" in rig.tree("placements")


# ---- files that cannot be read ------------------------------------------------------------------------------------

BROKEN: dict[str, tuple[str, str]] = {
    "no yaml": ("region: [\n", f"{FILE}:"),
    "a field that nobody knows": (f"team: {TEAM}\njob_id: llm-a\nregion: us\ncolour: red\n", f"{FILE}:4"),
    "an empty file": ("", FILE),
}


@pytest.mark.parametrize(("text", "where"), BROKEN.values(), ids=BROKEN)
def test_a_broken_placement_is_told_with_its_place_and_changes_nothing(rig: Rig, text: str, where: str) -> None:
    before = rig.placed()
    rig.put({FILE: text}, "placements")
    rig.settle()
    assert rig.attempt() == before
    condition = rig.condition("PlacementHonoured")
    assert condition is not None
    assert where in condition[1], condition
    rig.clock.seconds += 600
    rig.tell_running("eu")
    rig.settle()
    assert rig.text("placements", FILE) == text, "nobody writes over it"


def test_the_placement_of_another_job_at_its_place_is_told_and_changes_nothing(rig: Rig) -> None:
    before = rig.placed()
    rig.job("other", gpus=1)
    rig.settle()
    rig.put({FILE: rig.text("placements", f"{TEAM}/other.yaml")}, "placements")
    rig.settle()
    assert rig.attempt() == before
    condition = rig.condition("PlacementHonoured")
    assert condition is not None
    assert f"it is the placement of {TEAM}/other" in condition[1]


def test_a_placement_that_names_a_job_that_nobody_committed_is_left_alone(rig: Rig) -> None:
    rig.placed()
    rig.put({f"{TEAM}/ghost.yaml": rig.text("placements", FILE), "notes.md": "x"}, "placements")
    rig.settle()
    assert [str(key) for key in rig.records()] == [f"{TEAM}/llm-a"]
    assert {f"{TEAM}/ghost.yaml", "notes.md"} <= rig.tree("placements").keys()


def test_a_standing_hub_leaves_it_to_the_leader(rig: Rig) -> None:
    rig.placed()
    git, second = rig.another_hub()
    rig.edit_placement(region="us")
    assert second.cycle().ended is Ended.STANDBY
    assert git.pushes == []
    rig.settle()
    assert rig.attempt().outcome is Outcome.MOVED


# ---- an approval is used once -------------------------------------------------------------------------------------


def approved_and_failed(rig: Rig) -> None:
    """A job whose first attempt was approved for eu, and failed there; it may try again."""
    proposed(rig, gpus=1, retries=3)
    rig.merge_proposal()
    rig.settle()
    rig.tell("eu", failed(rig.attempt().name))
    rig.settle()


def test_another_attempt_where_it_was_approved_asks_nobody(rig: Rig) -> None:
    approved_and_failed(rig)
    assert (rig.record().phase, rig.attempt().number, rig.attempt().region) == (Phase.STARTING, 2, "eu")
    assert (rig.record().placement.approved, rig.record().placement.agreed) == (None, "eu")


def test_an_approval_that_was_used_is_no_pin(rig: Rig) -> None:
    """The region that it was for is closed: the job is proposed for the other one."""
    proposed(rig, gpus=1, retries=3)
    rig.merge_proposal()
    rig.settle()
    rig.put({"regions/eu.yaml": region_file("eu", 1.0, "cordoned: true\n")})
    rig.settle()
    rig.tell("eu", failed(rig.attempt().name))
    rig.settle()
    assert (rig.record().phase, rig.attempt().number, rig.attempt().region) == (Phase.PROPOSED, 2, "us")
    assert PROPOSAL in rig.tips()


def test_an_edit_of_what_runs_asks_again(rig: Rig) -> None:
    approved_and_failed(rig)
    rig.job(gpus=1, retries=3, image="reg.example.com/other:2")
    rig.settle()
    rig.tell("eu", stopped(rig.attempt().name))
    rig.settle()
    assert (rig.record().phase, rig.record().placement.agreed) == (Phase.PROPOSED, "eu")
    rig.merge_proposal()
    rig.settle()
    assert (rig.record().phase, rig.record().placement.approved) == (Phase.STARTING, None)


def test_a_veto_that_is_added_later_leaves_the_approval_as_it_was(rig: Rig) -> None:
    approved_and_failed(rig)
    rig.edit_placement(veto=["us"])
    rig.settle()
    rig.tell("eu", failed(rig.attempt().name))
    rig.settle()
    assert (rig.record().phase, rig.attempt().number, rig.attempt().region) == (Phase.STARTING, 3, "eu")
