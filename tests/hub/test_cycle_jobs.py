"""Jobs through the whole hub: what people commit to main, and what that starts, stops, moves and leaves alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.hub.results import Ended
from reconciler.model.attempt import Outcome, State
from reconciler.model.names import JobKey
from reconciler.model.record import Phase
from tests.builders import TEAM
from tests.hub.rig import Rig
from tests.hub.words import FILES, failed, job_file, region_file, running, stopped, succeeded

OTHER_IMAGE = "reg.example.com:5000/team/train:1.5"


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path)
    made.tell("eu")
    made.tell("us")
    return made


def end(rig: Rig, region: str = "eu") -> None:
    """The region has acted on the newest grants: what they do not list any more has stopped."""
    there = [
        record.current for record in rig.records().values() if record.current is not None and record.current.region == region
    ]
    rig.tell(region, *(running(one.name) if one.name in rig.granted(region) else stopped(one.name) for one in there))
    rig.settle()


# ---- from a file to a manifest ------------------------------------------------------------------------------------


def test_a_job_is_recorded_placed_rendered_and_granted_in_one_push(rig: Rig) -> None:
    rig.job()
    result = rig.cycle(Ended.PUBLISHED)
    attempt = rig.attempt()
    assert result.events == (f"{TEAM}/llm-a starting in eu",)
    assert (attempt.state, attempt.number, attempt.region) == (State.GRANTED, 1, "eu")
    assert rig.manifests("eu") == rig.granted("eu") == [attempt.name]
    assert (rig.manifests("us"), rig.granted("us")) == ([], [])
    assert rig.placement()["attempt"] == attempt.name
    assert [len(push) for push in rig.git.pushes] == [4]
    assert rig.grants("eu").commit == rig.tip("region/eu")
    assert f"| {TEAM}/llm-a | Starting | eu | a1 |" in rig.page()


def test_an_attempt_is_named_after_its_job_its_hash_and_its_number(rig: Rig) -> None:
    rig.job("x" * 100)
    rig.settle()
    attempt = rig.attempt("x" * 100)
    assert len(attempt.name) <= 52
    assert attempt.name.endswith(f"-{attempt.run_hash[:6]}-a1")


def test_a_job_that_nobody_can_run_is_told_so_and_holds_up_no_other(rig: Rig) -> None:
    rig.put({f"jobs/{TEAM}/x.yaml": job_file("x", gpus=64), f"jobs/{TEAM}/y.yaml": job_file("y")})
    rig.settle()
    assert (rig.record("x").phase, rig.record("y").phase) == (Phase.IMPOSSIBLE, Phase.STARTING)


def test_a_refused_file_is_told_with_its_place_and_holds_up_no_other(rig: Rig) -> None:
    rig.put({f"jobs/{TEAM}/x.yaml": "job_id: x\ngpu: {count: many}\nimage: a\n", f"jobs/{TEAM}/y.yaml": job_file("y")})
    rig.settle()
    (problem,) = rig.rejected()
    assert (problem["path"], problem["line"]) == (f"jobs/{TEAM}/x.yaml", 2)
    assert f"jobs/{TEAM}/x.yaml:2:" in rig.page()
    assert rig.record("y").phase is Phase.STARTING


def test_since_when_a_file_is_refused_stays(rig: Rig) -> None:
    rig.put({f"jobs/{TEAM}/x.yaml": "job_id: x\ngpu: {count: many}\nimage: a\n"})
    rig.settle()
    since = rig.rejected()[0]["since"]
    rig.clock.seconds += 3600
    rig.job("y")
    rig.settle()
    assert rig.rejected()[0]["since"] == since
    rig.put({f"jobs/{TEAM}/x.yaml": job_file("x")})
    rig.settle()
    assert rig.rejected() == []


def test_a_job_that_no_region_can_render_is_told_so_and_is_not_said_to_have_started(rig: Rig) -> None:
    shared = {"volumes": [{"kind": "shared", "mount_path": "/shared"}]}
    rig.put({f"jobs/{TEAM}/x.yaml": job_file("x", **shared), f"jobs/{TEAM}/y.yaml": job_file("y")})
    result = rig.cycle(Ended.PUBLISHED)
    assert rig.record("x").current is None
    assert rig.record("x").why is not None
    assert not any("x starting" in event for event in result.events), result.events
    assert not any("x starting" in message for branch in ("status", "placements") for message in rig.messages(branch))
    assert rig.record("y").phase is Phase.STARTING
    rig.settle()


# ---- edits --------------------------------------------------------------------------------------------------------

RESTARTS_NOTHING: dict[str, Any] = {
    "priority": 90,
    "max_runtime_seconds": 999,
    "retries": 3,
    "allowed_regions": ["us"],
    "grace_seconds": 60,
    "description": "other words",
}


def test_an_edit_that_does_not_change_what_runs_restarts_nothing(rig: Rig) -> None:  # JL-3 a
    before = rig.placed()
    for field, value in RESTARTS_NOTHING.items():
        rig.job(**{field: value})
        rig.settle()
        assert rig.attempt() == before, field
        assert rig.record().spec.model_dump(include={field}, mode="json") == {field: value}
    assert rig.manifests("eu") == rig.granted("eu") == [before.name]


def test_a_comment_is_no_edit_at_all(rig: Rig) -> None:  # JL-3 d
    before = rig.placed()
    rig.put({f"jobs/{TEAM}/llm-a.yaml": "# a comment\n" + job_file()})
    rig.settle()
    assert rig.attempt() == before


def test_a_new_run_time_is_told_to_the_region_without_a_restart(rig: Rig) -> None:  # JL-3 c
    before = rig.placed(max_runtime_seconds=3600)
    assert rig.grants("eu").attempts[0].run_seconds == 3600
    rig.job(max_runtime_seconds=7200)
    rig.settle()
    assert (rig.attempt(), rig.grants("eu").attempts[0].run_seconds) == (before, 7200)


def test_an_edit_of_what_runs_is_a_new_attempt_after_the_old_one_has_stopped(rig: Rig) -> None:  # JL-3 b
    first = rig.placed(checkpoint_path="s3://c/llm-a/")
    rig.job(image=OTHER_IMAGE, checkpoint_path="s3://c/llm-a/")
    rig.settle()
    stopping = rig.attempt()
    assert (stopping.name, stopping.state, stopping.outcome) == (first.name, State.STOPPING, Outcome.SUPERSEDED)
    assert "image" in (stopping.reason.text if stopping.reason else "")
    assert rig.granted("eu") == []
    assert rig.manifests("eu") == [first.name], "its manifest stays until it has stopped"
    end(rig)
    second = rig.attempt()
    assert (second.number, second.state, second.seeded_from) == (2, State.GRANTED, first.checkpoint)
    assert second.run_hash != first.run_hash
    assert rig.manifests("eu") == rig.granted("eu") == [second.name]


def test_an_edit_and_its_contrary_before_it_was_looked_at_change_nothing(rig: Rig) -> None:
    before = rig.placed()
    rig.job(image=OTHER_IMAGE)
    rig.job()
    rig.settle()
    assert rig.attempt() == before


def test_a_job_that_has_succeeded_does_not_run_again_for_an_edit(rig: Rig) -> None:
    done = rig.placed()
    rig.tell("eu", succeeded(done.name))
    rig.settle()
    rig.job(image=OTHER_IMAGE)
    rig.settle()
    assert (rig.record().phase, rig.attempt().number) == (Phase.SUCCEEDED, 1)
    assert rig.condition("RunsWhatItSays") == ("EditedAfterSuccess", "")


def test_a_job_that_has_failed_runs_again_when_it_is_mended(rig: Rig) -> None:
    first = rig.placed()
    rig.tell("eu", failed(first.name))
    rig.settle()
    assert rig.record().phase is Phase.FAILED
    rig.job(image=OTHER_IMAGE)
    rig.settle()
    assert (rig.record().phase, rig.attempt().number) == (Phase.STARTING, 2)


# ---- broken, doubled, moved files ---------------------------------------------------------------------------------


def test_a_broken_edit_stops_nothing_and_the_last_valid_spec_stays_in_force(rig: Rig) -> None:
    before = rig.placed()
    rig.put({f"jobs/{TEAM}/llm-a.yaml": "job_id: llm-a\ngpu: {count: many}\n"})
    rig.settle()
    assert (rig.attempt(), rig.record().spec.gpu.count) == (before, 8)
    assert rig.condition("SpecAccepted") == ("SpecBroken", "")
    assert len(rig.rejected()) >= 1
    since = next(one.since for one in rig.record().conditions)
    rig.clock.seconds += 100
    rig.tell_again("eu")
    rig.settle()
    assert next(one.since for one in rig.record().conditions) == since
    rig.job()
    rig.settle()
    assert (rig.attempt(), rig.condition("SpecAccepted"), rig.rejected()) == (before, None, [])


def test_a_renamed_file_is_the_same_job(rig: Rig) -> None:  # GM-7
    before = rig.placed()
    rig.put({f"jobs/{TEAM}/llm-a.yaml": None, f"jobs/{TEAM}/deeper/other-name.yaml": job_file()})
    rig.settle()
    assert rig.attempt() == before
    source = rig.record().source
    assert source is not None
    assert source.path == f"jobs/{TEAM}/deeper/other-name.yaml"
    rig.put({f"jobs/{TEAM}/deeper/other-name.yaml": None, f"jobs/{TEAM}/again.yaml": job_file(image=OTHER_IMAGE)})
    rig.settle()
    assert rig.attempt().outcome is Outcome.SUPERSEDED


def test_two_files_with_one_id_are_told_on_both_and_what_runs_stays(rig: Rig) -> None:
    before = rig.placed()
    rig.put({f"jobs/{TEAM}/copy.yaml": job_file(image=OTHER_IMAGE)})
    rig.settle()
    assert rig.attempt() == before
    assert rig.condition("SpecAccepted") == ("DuplicateJob", "")
    assert {problem["path"] for problem in rig.rejected()} == {f"jobs/{TEAM}/copy.yaml", f"jobs/{TEAM}/llm-a.yaml"}
    rig.put({f"jobs/{TEAM}/copy.yaml": None})
    rig.settle()
    assert (rig.attempt(), rig.rejected(), rig.condition("SpecAccepted")) == (before, [], None)


def test_two_files_with_one_id_that_nobody_knew_start_nothing(rig: Rig) -> None:
    rig.put({f"jobs/{TEAM}/a.yaml": job_file(), f"jobs/{TEAM}/b.yaml": job_file()})
    rig.settle()
    assert rig.records() == {}
    assert len(rig.rejected()) == 2


def test_the_same_id_in_two_teams_are_two_jobs(rig: Rig) -> None:
    rig.put({"jobs/team-a/x.yaml": job_file("x"), "jobs/team-b/x.yaml": job_file("x")})
    rig.settle()
    found = rig.records()
    assert found.keys() == {JobKey("team-a", "x"), JobKey("team-b", "x")}
    assert len({record.attempts[0].name for record in found.values()}) == 2


# ---- declarations -------------------------------------------------------------------------------------------------

SOUND = {
    **FILES,
    "policy.yaml": "approval: {regions: [us]}\n",
    "links.yaml": "links: []\n",
    "teams/team-a.yaml": "name: team-a\n",
}
BROKEN_DECLARATIONS = {
    "regions/eu.yaml": "name: eu\nnode_pools: 7\n",
    "regions/us.yaml": region_file("eu"),
    "policy.yaml": "approval: {always: maybe}\n",
    "reconciler.yaml": "intervals: {push_seconds: soon}\n",
    "links.yaml": "links: 4\n",
    "teams/team-a.yaml": "name: team-a\nregions: eu\n",
}


def test_broken_declarations_leave_the_last_valid_ones_in_force_even_after_a_restart(rig: Rig) -> None:
    rig.put(SOUND)
    before = rig.placed()
    rig.put({**BROKEN_DECLARATIONS, f"jobs/{TEAM}/next.yaml": job_file("next", allowed_regions=["eu"])})
    rig.settle()
    assert [problem["path"] for problem in rig.rejected()] == sorted(BROKEN_DECLARATIONS)
    since = {problem["path"]: problem["since"] for problem in rig.rejected()}
    assert {path: rig.text("status", f"inforce/{path}") for path in SOUND} == SOUND
    assert (rig.attempt(), rig.record("next").phase) == (before, Phase.STARTING)
    rig.clock.seconds += 60
    rig.restart()
    rig.job("last", gpus=1, allowed_regions=["us"])
    rig.settle()
    assert rig.record("last").phase is Phase.PROPOSED, "by the policy that is in force"
    assert {problem["path"]: problem["since"] for problem in rig.rejected()} == since
    assert {path: rig.text("status", f"inforce/{path}") for path in SOUND} == SOUND
    assert rig.attempt() == before
    rig.put(SOUND)
    rig.settle()
    assert rig.rejected() == []


def test_without_any_valid_policy_nothing_new_is_placed(rig: Rig) -> None:
    rig.put({"policy.yaml": "approval: {always: maybe}\n", f"jobs/{TEAM}/llm-a.yaml": job_file()})
    rig.settle()
    assert rig.record().phase is Phase.PENDING
    assert rig.record().attempts == ()
    rig.put({"policy.yaml": "approval: {always: false}\n"})
    rig.settle()
    assert rig.record().phase is Phase.STARTING


def test_a_region_that_is_removed_from_main_keeps_what_runs_there(rig: Rig) -> None:
    before = rig.placed()
    rig.put({"regions/eu.yaml": None})
    rig.settle()
    assert rig.attempt() == before
    assert rig.granted("eu") == rig.manifests("eu") == [before.name]
    rig.job("next")
    rig.settle()
    assert rig.attempt("next").region == "us"
    rig.tell("eu", succeeded(before.name))
    rig.settle()
    assert (rig.record().phase, rig.granted("eu"), rig.manifests("eu")) == (Phase.SUCCEEDED, [], [])


def test_a_cordoned_region_gets_nothing_new_and_keeps_what_runs(rig: Rig) -> None:
    before = rig.placed()
    rig.put({"regions/eu.yaml": region_file("eu", 1.0, "cordoned: true\n")})
    rig.job("next")
    rig.settle()
    assert (rig.attempt(), rig.attempt("next").region) == (before, "us")


BAD_REGION_NAMES = ["EU", "a b", "x.lock", "-x", "HEAD", "欧洲", "a" * 64, "eu_west"]


def test_regions_whose_name_is_no_branch_are_refused_and_the_others_go_on(rig: Rig) -> None:  # GM-9
    rig.put({f"regions/{name}.yaml": region_file(name).replace(f"name: {name}", f"name: '{name}'") for name in BAD_REGION_NAMES})
    rig.job()
    rig.settle()
    assert {problem["path"] for problem in rig.rejected()} == {f"regions/{name}.yaml" for name in BAD_REGION_NAMES}
    assert {branch for branch in rig.tips() if branch.startswith("region/")} == {"region/eu", "region/us"}
    assert rig.record().phase is Phase.STARTING


# ---- removing, pausing, running again -----------------------------------------------------------------------------


def test_a_file_that_is_removed_cancels_with_time_to_save_a_checkpoint(rig: Rig) -> None:
    first = rig.placed()
    rig.job("other")
    rig.remove("llm-a")
    rig.settle()
    stopping = rig.attempt()
    assert (rig.record().phase, stopping.state, stopping.outcome) == (Phase.STOPPING, State.STOPPING, Outcome.CANCELLED)
    assert first.name not in rig.granted("eu")
    assert first.name in rig.manifests("eu")
    end(rig)
    assert (rig.record().phase, rig.attempt().state) == (Phase.CANCELLED, State.STOPPED)
    assert first.name not in rig.manifests("eu")


def test_a_job_that_is_removed_before_it_was_placed_is_cancelled_at_once(rig: Rig) -> None:
    rig.job("big", gpus=64)
    rig.job("other")
    rig.settle()
    rig.remove("big")
    rig.settle()
    assert (rig.record("big").phase, rig.record("big").attempts) == (Phase.CANCELLED, ())


def test_a_job_that_is_added_again_is_another_attempt_after_the_old_one_has_stopped(rig: Rig) -> None:  # LR-7
    first = rig.placed()
    rig.job("other")
    rig.remove("llm-a")
    rig.settle()
    rig.job()
    rig.settle()
    assert rig.attempt().name == first.name
    assert rig.record().phase is Phase.STOPPING
    end(rig)
    second = rig.attempt()
    assert (second.number, second.state) == (2, State.GRANTED)
    assert second.name != first.name


def test_a_job_that_succeeded_is_not_run_again_by_being_removed_and_added(rig: Rig) -> None:
    done = rig.placed()
    rig.job("other")
    rig.tell("eu", succeeded(done.name))
    rig.settle()
    rig.remove("llm-a")
    rig.settle()
    assert rig.record().phase is Phase.SUCCEEDED
    rig.job()
    rig.settle()
    assert (rig.record().phase, rig.attempt().number) == (Phase.SUCCEEDED, 1)


def test_suspend_pauses_and_going_on_is_a_new_attempt(rig: Rig) -> None:
    first = rig.placed(checkpoint_path="s3://c/x/")
    rig.job(suspend=True, checkpoint_path="s3://c/x/")
    rig.settle()
    assert (rig.attempt().state, rig.attempt().outcome) == (State.STOPPING, Outcome.SUSPENDED)
    end(rig)
    assert (rig.record().phase, rig.manifests("eu"), rig.granted("eu")) == (Phase.SUSPENDED, [], [])
    rig.job(checkpoint_path="s3://c/x/")
    rig.settle()
    assert (rig.attempt().number, rig.attempt().seeded_from) == (2, first.checkpoint)


def test_a_job_that_is_born_suspended_waits(rig: Rig) -> None:
    rig.job(suspend=True)
    rig.settle()
    assert (rig.record().phase, rig.record().attempts) == (Phase.SUSPENDED, ())


def test_rerun_runs_a_job_that_has_ended_once_more_and_only_once(rig: Rig) -> None:
    done = rig.placed()
    rig.tell("eu", succeeded(done.name))
    rig.settle()
    rig.job(rerun=1)
    rig.settle()
    second = rig.attempt()
    assert (rig.record().phase, second.number, rig.record().first_attempt) == (Phase.STARTING, 2, 2)
    rig.tell("eu", succeeded(second.name))
    rig.settle()
    rig.job(rerun=1, priority=3)
    rig.settle()
    assert (rig.record().phase, rig.attempt().number) == (Phase.SUCCEEDED, 2)


def test_rerun_of_a_job_that_runs_changes_nothing(rig: Rig) -> None:
    before = rig.placed()
    rig.job(rerun=1)
    rig.settle()
    assert rig.attempt() == before


# ---- cleaned up ---------------------------------------------------------------------------------------------------


def test_the_manifest_leaves_the_branch_in_the_push_that_records_the_end(rig: Rig) -> None:  # JL-1
    done = rig.placed()
    rig.tell("eu", succeeded(done.name))
    rig.cycle(Ended.PUBLISHED)
    assert (rig.record().phase, rig.manifests("eu"), rig.granted("eu")) == (Phase.SUCCEEDED, [], [])
    assert "manifests/_sentinel.yaml" in rig.tree("region/eu")
    rig.tell("eu", succeeded(done.name, left_over=True))
    rig.settle()
    assert rig.grants("eu").forget == (done.name,)
    rig.tell("eu")
    rig.settle()
    assert rig.grants("eu").forget == ()
    for _ in range(3):
        rig.clock.seconds += 3600
        rig.tell("eu")
        rig.settle()
    assert rig.attempt().number == 1


Retry = Callable[[Rig], None]
ONCE_GRANTED: dict[str, Retry] = {
    "the hub starts anew": lambda rig: rig.restart(),
    "the branch is deleted": lambda rig: rig.move("region/eu", None),
    "the report is repeated": lambda rig: rig.tell_running("eu"),
}


@pytest.mark.parametrize("happens", ONCE_GRANTED.values(), ids=ONCE_GRANTED)
def test_what_runs_runs_on_whatever_happens(rig: Rig, happens: Retry) -> None:
    before = rig.placed()
    happens(rig)
    rig.settle()
    assert rig.attempt() == before
    assert rig.granted("eu") == rig.manifests("eu") == [before.name]


def test_a_broken_file_that_was_there_before_keeps_no_job_of_its_team_from_being_cancelled(rig: Rig) -> None:
    rig.placed(gpus=1)
    rig.put({f"jobs/{TEAM}/wip.yaml": "job_id: [\n"})
    rig.settle()
    rig.remove("llm-a")
    rig.settle()
    assert rig.record().phase is Phase.STOPPING


def test_a_job_that_was_renamed_into_a_broken_file_is_left_alone_and_the_file_is_named(rig: Rig) -> None:
    before = rig.placed(gpus=1)
    rig.put({f"jobs/{TEAM}/llm-a.yaml": None, f"jobs/{TEAM}/moved.yaml": "job_id: [\n"})
    for _ in range(3):
        rig.settle()
        rig.clock.seconds += 5
        rig.tell_again("eu")
    rig.restart()
    rig.settle()
    assert rig.attempt() == before
    assert rig.condition("SpecAccepted") == ("PerhapsRenamed", "")
    assert f"jobs/{TEAM}/moved.yaml" in next(one.reason.text for one in rig.record().conditions if one.reason)
    rig.put({f"jobs/{TEAM}/moved.yaml": None})
    rig.settle()
    assert rig.record().phase is Phase.STOPPING
