"""Jobs from a commit to their end, through the real agent in regions that live by passed-in time."""

from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.local.objects import ref_of
from reconciler.hub.results import Ended
from reconciler.model.attempt import Outcome, State
from reconciler.model.grants import report_key
from reconciler.model.record import Phase
from reconciler.ports import Transient
from tests.builders import TEAM, make_nodes
from tests.hub.live import runs
from tests.hub.rig import Rig
from tests.hub.words import FILES, failed, pod, region_file, running, stopped, work


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """Two regions that live, each with two nodes of 8 GPUs."""
    made = Rig(tmp_path)
    made.alive("eu", "us")
    made.run(2)
    return made


@pytest.fixture
def told(tmp_path: Path) -> Rig:
    """Two regions that are told of."""
    made = Rig(tmp_path)
    made.tell("eu")
    made.tell("us")
    return made


def programs(rig: Rig, job_id: str, says: dict[str, str]) -> None:
    for region in rig.live.values():
        region.programs[job_id] = says


def phase(rig: Rig, job_id: str = "llm-a") -> Phase | None:
    record = next((record for key, record in rig.records().items() if key.job_id == job_id), None)
    return None if record is None else record.phase


def starts(rig: Rig, job_id: str = "llm-a") -> list[str]:
    """Attempts of a job whose program was started, over all regions, once for each pod."""
    return [name for region in rig.live.values() for name in region.runtime.started if name.startswith(f"{job_id}-")]


# ---- a life -------------------------------------------------------------------------------------------------------


def test_a_job_runs_to_its_end_and_never_again(rig: Rig) -> None:  # JL-1
    programs(rig, "llm-a", runs(10))
    rig.job()
    took = rig.run_until(lambda: phase(rig) is Phase.SUCCEEDED, within=60)
    assert took >= 10
    rig.run(30)
    rig.run(7200, tick=300)
    rig.restart()
    rig.run(60, tick=5)
    assert (phase(rig), len(starts(rig)), rig.attempt().number) == (Phase.SUCCEEDED, 1, 1)
    assert rig.manifests("eu") == rig.granted("eu") == []
    assert rig.live["eu"].cluster.read().workloads == []


@pytest.mark.slow
def test_all_pods_of_a_job_on_several_nodes_run_and_end_together(rig: Rig) -> None:
    programs(rig, "llm-a", runs(10))
    rig.job(nodes=2)
    rig.run_until(lambda: phase(rig) is Phase.RUNNING)
    assert len(rig.live["eu"].running()) == 2
    rig.run_until(lambda: phase(rig) is Phase.SUCCEEDED)
    assert len(starts(rig)) == 2


@pytest.mark.slow
def test_a_job_that_fails_is_tried_again_as_often_as_it_says(rig: Rig) -> None:
    programs(rig, "llm-a", runs(3, code=4))
    rig.job(retries=2)
    rig.run_until(lambda: phase(rig) is Phase.FAILED, within=200)
    attempts = rig.record().attempts
    assert [one.exit_code for one in attempts] == [4, 4, 4]
    assert len(starts(rig)) == 3
    assert "3 attempts failed, 2 retries were allowed" in (rig.record().why.text if rig.record().why else "")
    assert rig.granted("eu") == rig.granted("us") == []


def test_a_job_moves_without_ever_running_twice(rig: Rig) -> None:
    programs(rig, "llm-a", runs(stop=20))
    rig.job(grace_seconds=60)
    rig.run_until(lambda: phase(rig) is Phase.RUNNING)
    first = rig.attempt()
    there, other = ("eu", "us") if first.region == "eu" else ("us", "eu")
    rig.edit_placement(region=other)
    rig.run_until(lambda: phase(rig) is Phase.STOPPING)
    rig.run(15)
    assert rig.live[there].running() == [first.name], "it has time to save a checkpoint"
    assert (rig.granted(other), rig.live[other].running()) == ([], [])
    rig.run_until(lambda: rig.attempt().number == 2 and phase(rig) is Phase.RUNNING)
    assert rig.live[there].running() == []
    assert rig.live[other].running() == [rig.attempt().name]


def test_an_edit_stops_the_old_program_before_it_starts_the_new_one(rig: Rig) -> None:
    programs(rig, "llm-a", runs(stop=5))
    rig.job()
    rig.run_until(lambda: phase(rig) is Phase.RUNNING)
    rig.job(image="reg.example.com/other:2")
    rig.run_until(lambda: rig.attempt().number == 2 and phase(rig) is Phase.RUNNING)
    assert rig.record().attempts[0].outcome is Outcome.SUPERSEDED
    assert starts(rig) == [one.name for one in rig.record().attempts]


@pytest.mark.slow
def test_a_job_that_is_removed_is_stopped_and_its_objects_go(rig: Rig) -> None:
    rig.job("other", gpus=1)
    rig.job()
    rig.run_until(lambda: phase(rig) is Phase.RUNNING)
    rig.remove("llm-a")
    rig.run_until(lambda: phase(rig) is Phase.CANCELLED)
    rig.run(10)
    region = rig.attempt().region
    assert rig.attempt().name not in rig.live[region].running()
    assert [
        job["metadata"]["name"] for job in rig.live["eu"].cluster.read().workloads if "llm-a" in job["metadata"]["name"]
    ] == []


@pytest.mark.slow
def test_an_object_that_somebody_deletes_is_not_started_again_under_its_name(rig: Rig) -> None:
    rig.job()
    rig.run_until(lambda: phase(rig) is Phase.RUNNING)
    first = rig.attempt()
    cluster = rig.live[first.region].cluster
    (item,) = [job for job in cluster.read().workloads if job["metadata"]["name"] == first.name]
    cluster.delete(ref_of(item), 0)
    rig.run_until(lambda: rig.attempt().number == 2 and phase(rig) is Phase.RUNNING, within=200)
    assert rig.record().attempts[0].outcome is Outcome.DISRUPTED
    assert starts(rig).count(first.name) == 1


# ---- time ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_job_ends_at_its_run_time_and_is_not_tried_again(rig: Rig) -> None:
    rig.job(max_runtime_seconds=60, retries=5)
    rig.run_until(lambda: phase(rig) is Phase.RUNNING)
    took = rig.run_until(lambda: phase(rig) is Phase.FAILED, within=120, tick=2)
    assert 55 <= took <= 80
    assert rig.attempt().outcome is Outcome.DEADLINE_EXCEEDED
    assert rig.attempt().number == 1
    assert "it used its run time of 60 s" in (rig.record().why.text if rig.record().why else "")
    rig.run(30)
    assert rig.live["eu"].running() == rig.live["us"].running() == []


def test_the_hub_steps_in_where_a_region_does_not_end_a_run(told: Rig) -> None:
    told.placed(max_runtime_seconds=60)
    told.clock.seconds += 60 + 14
    told.tell_running("eu")
    told.settle()
    assert told.record().phase is Phase.RUNNING
    told.clock.seconds += 6
    told.tell_running("eu")
    told.settle()
    assert (told.record().phase, told.attempt().outcome, told.granted("eu")) == (Phase.STOPPING, Outcome.DEADLINE_EXCEEDED, [])
    told.tell("eu", stopped(told.attempt().name))
    told.settle()
    assert told.record().phase is Phase.FAILED


@pytest.mark.slow
def test_waiting_does_not_count_as_run_time(rig: Rig) -> None:  # JL-9
    rig.job(max_runtime_seconds=100)
    rig.run_until(lambda: phase(rig) is Phase.RUNNING)
    rig.run(40, tick=4)
    rig.job(max_runtime_seconds=100, suspend=True)
    rig.run_until(lambda: phase(rig) is Phase.SUSPENDED)
    rig.run(1000, tick=25)
    rig.job(max_runtime_seconds=100)
    rig.run_until(lambda: phase(rig) is Phase.RUNNING)
    left = rig.grants(rig.attempt().region).attempts[0].run_seconds
    assert left is not None
    assert 40 <= left <= 60
    took = rig.run_until(lambda: phase(rig) is Phase.FAILED, within=200, tick=4)
    assert left - 5 <= took <= left + 20


def test_a_job_that_cannot_start_gives_its_gpus_back_after_the_time_out_and_is_tried_elsewhere(told: Rig) -> None:
    told.job(start_timeout_seconds=120)
    told.settle()
    first = told.attempt()
    held = work(first.name, "Released", pod(first.name, "Pending", waiting="Unschedulable: no", started_at=None))
    told.clock.seconds += 115
    told.tell("eu", held)
    told.tell("us")
    told.settle()
    assert told.record().phase is Phase.STARTING
    told.clock.seconds += 10
    told.tell("eu", held)
    told.tell("us")
    told.settle()
    assert (told.record().phase, told.attempt().outcome) == (Phase.STOPPING, Outcome.START_TIMEOUT)
    assert told.granted("us") == [], "not before it is proved that nothing of it runs"
    told.tell("eu", stopped(first.name))
    told.settle()
    assert (told.attempt().number, told.attempt().region) == (2, "us")
    assert not told.record().attempts[0].counts_as_failure


@pytest.mark.slow
def test_an_image_that_cannot_be_pulled_fails_the_job_and_is_not_tried_elsewhere(tmp_path: Path) -> None:  # JL-5
    rig = Rig(tmp_path)
    rig.alive("eu", "us", images=("reg.example.com:5000/team/train:*",))
    rig.job(image="reg.example.com:5000/team/trian:1.4", retries=3, start_timeout_seconds=120)
    rig.run_until(lambda: phase(rig) is Phase.STARTING)
    took = rig.run_until(lambda: phase(rig) is Phase.FAILED, within=240, tick=3)
    assert took >= 110
    assert len(rig.record().attempts) == 1
    why = rig.record().why
    assert why is not None
    assert why.code == "ImagePull"
    assert "trian" in why.text
    rig.run(10)
    assert rig.granted("eu") == rig.granted("us") == []
    assert rig.live["eu"].report().summary.gpu_free == 16


# ---- what ends when -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_while_pods_still_end_the_gpus_are_held_and_nothing_new_starts(rig: Rig) -> None:  # JL-7
    """One of two pods fails; the other needs half a minute to end. Until then the attempt is failing, not failed."""
    programs(rig, "llm-a", runs(stop=30))
    rig.job(nodes=2, retries=1, grace_seconds=60)
    rig.run_until(lambda: phase(rig) is Phase.RUNNING)
    first = rig.attempt()
    region = rig.live[first.region]
    pods = [one for one in region.cluster.read().pods if one["status"]["phase"] == "Running"]
    region.runtime.kill(pods[0]["metadata"]["uid"], "main", region.cluster._time.now())
    rig.run(20)
    assert rig.attempt() == first
    assert region.running() == [first.name], "one pod is left"
    other = "us" if first.region == "eu" else "eu"
    assert rig.granted(other) == []
    rig.run_until(lambda: rig.attempt().number == 2)
    assert rig.record().attempts[0].state is State.FAILED
    assert rig.record().attempts[0].exit_code == 137


def test_a_suspended_object_is_neither_lost_nor_ended(told: Rig) -> None:  # JL-7
    told.job()
    told.settle()
    before = told.attempt()
    told.tell("eu", work(before.name, "Held"))
    told.settle()
    assert told.attempt() == before


ENDINGS: dict[str, tuple[Any, Phase]] = {
    "failing, and its pods still end": (
        work("x", "Released", pod("x", terminating=True), failed="BackoffLimitExceeded"),
        Phase.RUNNING,
    ),
    "failed, but not stopped": (work("x", "Ended", pod("x", "Failed", exit_code=1), stopped=False), Phase.RUNNING),
    "failed": (failed("x"), Phase.FAILED),
    "succeeded by its pods": (work("x", "Released", pod("x", "Succeeded", exit_code=0), succeeded=True), Phase.SUCCEEDED),
}


@pytest.mark.parametrize(("said", "want"), ENDINGS.values(), ids=ENDINGS)
def test_an_attempt_has_ended_when_nothing_of_it_may_run(told: Rig, said: Any, want: Phase) -> None:
    before = told.placed()
    told.tell("eu", said.model_copy(update={"attempt": before.name}))
    told.settle()
    assert told.record().phase is want
    assert (told.granted("eu") == [before.name]) is (want is Phase.RUNNING)


# ---- capacity -----------------------------------------------------------------------------------------------------


def test_what_is_granted_and_not_yet_seen_is_not_given_away_again(tmp_path: Path) -> None:  # PL-3
    rig = Rig(tmp_path, files={**FILES, "regions/eu.yaml": region_file("eu", more="cordoned: true\n")})
    rig.alive("us", nodes=1)
    rig.run(2)
    rig.jobs("one", "two")
    for name in ("one", "two", "three"):
        programs(rig, name, runs(30))
    rig.live["us"].paused = True  # no report shows a pod from now on
    rig.turn()
    assert sorted(str(phase(rig, name)) for name in ("one", "two")) == ["Pending", "Starting"]
    rig.run(15)
    rig.job("three")
    rig.run(10)
    assert [len(rig.granted("us")), phase(rig, "three")] == [1, Phase.PENDING]
    rig.live["us"].paused = False
    most = 0
    for _ in range(100):
        rig.run(2, tick=2)
        most = max(most, len(rig.granted("us")))
        if {phase(rig, name) for name in ("one", "two", "three")} == {Phase.SUCCEEDED}:
            break
    assert most == 1
    assert {phase(rig, name) for name in ("one", "two", "three")} == {Phase.SUCCEEDED}


def test_what_is_being_stopped_still_holds_its_gpus(told: Rig) -> None:
    told.put({"regions/us.yaml": None})
    first = told.placed(nodes=2)
    told.job("next")
    told.remove("llm-a")
    told.settle()
    assert told.record().phase is Phase.STOPPING
    assert told.record("next").phase is Phase.PENDING
    told.tell("eu", running(first.name), nodes=make_nodes(2, used=8))
    told.settle()
    assert told.record("next").phase is Phase.PENDING
    told.tell("eu", stopped(first.name))
    told.settle()
    assert told.record("next").phase is Phase.STARTING


# ---- reports that are half, old or missing ------------------------------------------------------------------------

HALVES = {
    "zero bytes": lambda _: b"",
    "an empty object": lambda _: b"{}",
    "a report cut at 60 per cent": lambda body: body[: len(body) * 6 // 10],
    "another schema": lambda body: body.replace(b'"schema_version":1', b'"schema_version":9'),
    "the report of another region": lambda body: body.replace(b'"region":"eu"', b'"region":"us"'),
}


@pytest.mark.parametrize("half", HALVES.values(), ids=HALVES)
def test_half_a_report_never_reads_as_nothing_runs_here(told: Rig, half: Any) -> None:  # OS-7
    before = told.placed(retries=3)
    found = told.store.inner.get(report_key("eu"))
    assert found is not None
    told.write_report("eu", half(found.body))
    for _ in range(8):
        told.clock.seconds += 10
        told.tell("us")
        told.settle()
    assert told.attempt() == before
    assert (told.granted("eu"), told.granted("us")) == ([before.name], [])
    told.job("next")
    result = told.settle()[-1]
    assert told.attempt("next").region == "us", "a region that is not heard of gets nothing new"
    assert any(trouble.startswith("eu: ") for trouble in result.troubles)
    told.tell_running("eu")
    told.settle()
    assert told.attempt() == before


@pytest.mark.slow
def test_a_region_that_falls_silent_gets_nothing_new_and_loses_nothing(rig: Rig) -> None:
    rig.job()
    rig.run_until(lambda: phase(rig) is Phase.RUNNING)
    before = rig.attempt()
    silent, other = ("eu", "us") if before.region == "eu" else ("us", "eu")
    rig.live[silent].paused = True
    rig.run(60, tick=5)
    rig.job("next")
    rig.run(5)
    assert rig.attempt("next").region == other
    rig.run(120, tick=10)
    assert (rig.attempt(), rig.granted(silent)) == (before, [before.name])
    rig.live[silent].paused = False
    rig.run(5)
    rig.job("last")
    rig.run(5)
    assert rig.attempt() == before


@pytest.mark.slow
def test_a_hub_that_was_away_for_hours_finds_everything_where_it_was(rig: Rig) -> None:  # LR-3
    rig.job()
    rig.run_until(lambda: phase(rig) is Phase.RUNNING)
    before, pushes = rig.attempt(), len(rig.git.pushes)
    rig.run(7200, tick=20, hub=False)
    rig.run(10)
    assert (rig.attempt(), len(rig.git.pushes)) == (before, pushes)
    rig.restart()
    rig.run(10)
    assert rig.attempt() == before
    assert rig.live[before.region].running() == [before.name]


@pytest.mark.slow
def test_a_store_that_fails_now_and_then_changes_nothing(rig: Rig) -> None:
    rig.job()
    rig.run_until(lambda: phase(rig) is Phase.RUNNING)
    before = rig.attempt()
    key = report_key(before.region)
    for _ in range(4):
        rig.store.fails[key] = Transient("the store does not answer")
        rig.run(6, tick=2)
        del rig.store.fails[key]
        rig.run(6, tick=2)
    assert rig.attempt() == before


@pytest.mark.slow
def test_an_agent_that_starts_anew_goes_on_and_nothing_is_started_twice(rig: Rig) -> None:
    rig.job()
    rig.run_until(lambda: phase(rig) is Phase.RUNNING)
    before = rig.attempt()
    for _ in range(3):
        rig.live[before.region].restart()
        rig.run(5)
    assert rig.attempt() == before
    assert starts(rig) == [before.name]


@pytest.mark.parametrize(
    "named",
    {
        "by its path": f"manifests/{TEAM}/{{}}.yaml",
        "by its file's name alone": "{}.yaml",
        "as an object": f"Job/{TEAM}/{{}}",
    }.values(),
)
def test_a_manifest_that_the_engine_refuses_ends_its_attempt_and_blocks_nobody(told: Rig, named: str) -> None:
    told.job(allowed_regions=["eu"])
    told.job("other", gpus=1, allowed_regions=["eu"])
    told.settle()
    bad, good = told.attempt(), told.attempt("other")
    others = {f"Job/another-team/{good.name}": "denied", f"Job/{TEAM}/{good.name}0": "denied", good.name: "denied"}
    error = {named.format(bad.name): "Job in version v1 cannot be handled: unknown field x", **others}
    told.tell("eu", running(good.name), sync_errors=error)
    told.settle()
    assert (told.record().phase, told.attempt().final) == (Phase.STOPPING, False)
    assert "unknown field x" in (told.attempt().reason.text if told.attempt().reason else "")
    assert told.granted("eu") == [good.name]
    told.tell("eu", running(good.name))
    told.settle()
    record = told.record()
    assert (record.phase, told.manifests("eu"), len(record.attempts)) == (Phase.IMPOSSIBLE, [good.name], 1)
    assert "unknown field x" in (record.why.text if record.why else "")
    told.job(allowed_regions=["eu"], rerun=1)  # somebody has mended the region
    told.settle()
    assert (told.record().phase, len(told.record().attempts)) == (Phase.STARTING, 2)


def test_what_one_regions_engine_refuses_goes_to_another(told: Rig) -> None:
    told.job()
    told.settle()
    first = told.attempt()
    other = "us" if first.region == "eu" else "eu"
    error = {f"Job/{TEAM}/{first.name}": 'jobs.batch is forbidden: User "applier" cannot patch resource "jobs"'}
    told.tell(first.region, sync_errors=error)
    told.settle()
    told.tell(first.region)
    told.settle()
    assert (told.attempt().region, told.manifests(first.region), told.record().phase) == (other, [], Phase.STARTING)


def test_a_region_without_the_teams_namespace_gets_none_of_its_jobs(told: Rig) -> None:
    told.tell("eu", namespaces=("somebody-else",))
    told.job()
    told.settle()
    assert told.attempt().region == "us"


def test_nothing_is_placed_where_nobody_has_reported(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.job()
    rig.settle()
    assert (rig.record().phase, rig.record().attempts) == (Phase.PENDING, ())
    assert {name: reason.code for name, reason in rig.record().waits.items()} == {"eu": "NoReport", "us": "NoReport"}
    rig.tell("us", nodes=make_nodes(1))
    rig.settle()
    assert rig.attempt().region == "us"


def test_a_deadline_that_nobody_wakes_the_hub_for_is_met_by_looking_now_and_then(told: Rig) -> None:
    """A cycle that had nothing to do says when it is worth coming again, and is not idle then."""
    told.placed(max_runtime_seconds=60)
    result = told.settle()[-1]
    assert result.again_in_seconds is not None
    assert result.again_in_seconds <= 5
    told.clock.seconds += 76
    assert told.cycle().ended is Ended.PUBLISHED
    assert told.record().phase is Phase.STOPPING
