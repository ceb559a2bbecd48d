"""A main that cannot be believed, and a ledger that cannot be read: nothing that runs is stopped, and people are told."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.hub.ledger import Corrupt
from reconciler.hub.results import Ended
from reconciler.model.attempt import Outcome, State
from reconciler.model.grants import LEDGER_MARK_KEY
from reconciler.model.record import Phase
from tests.builders import TEAM
from tests.hub.rig import Rig
from tests.hub.words import FILES, SETTINGS, job_file, region_file, stopped

JOBS = tuple(f"job-{number}" for number in range(6))


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """Six jobs of one GPU each, which run in eu."""
    made = Rig(tmp_path)
    made.tell("eu")
    made.tell("us")
    made.jobs(*JOBS, gpus=1)
    made.settle()
    made.tell_running("eu")
    made.settle()
    return made


def attempts(rig: Rig) -> dict[str, str]:
    """Attempt → state of everything in the ledger."""
    return {one.name: one.state.value for record in rig.records().values() for one in record.attempts}


def runs_on(rig: Rig, before: dict[str, str]) -> None:
    """Everything runs as it did, and the region is told so."""
    assert attempts(rig) == before
    assert rig.granted("eu") == sorted(before)
    assert rig.manifests("eu") == sorted(before)


def empty(rig: Rig) -> None:
    rig.put(dict.fromkeys(rig.tree("main")))


# ---- mass disappearance -------------------------------------------------------------------------------------------

DISASTERS: dict[str, tuple[Callable[[Rig], object], str]] = {
    "five files go in one commit": (lambda rig: rig.remove(*JOBS[:5]), "gone"),
    "the folder of jobs goes": (lambda rig: rig.put({"jobs": None}), "unreadable"),
    "every file goes": (empty, "unreadable"),
    "every file of ours goes": (lambda rig: [empty(rig), rig.put({"README.md": "x"})], "unreadable"),
    "the branch is deleted": (lambda rig: rig.move("main", None), "unreadable"),
}


@pytest.mark.parametrize(("happens", "kind"), DISASTERS.values(), ids=DISASTERS)
def test_a_disaster_on_main_stops_nothing_and_is_told_until_it_is_over(
    rig: Rig, happens: Callable[[Rig], object], kind: str
) -> None:
    before, good = attempts(rig), rig.tip("main")
    happens(rig)
    rig.settle()
    runs_on(rig, before)
    suspicion = rig.hub_file().suspicion
    assert suspicion is not None
    assert (suspicion.kind, suspicion.main) == (kind, rig.tip("main") or "")
    assert ("live jobs went" if suspicion.main else "the main branch is gone") in rig.page()
    assert (f"reconciler confirm {suspicion.main}" if suspicion.main else "Restore the branch") in rig.page()
    assert rig.condition("SpecAccepted", JOBS[0]) == ("SourceSuspicious", "")
    rig.clock.seconds += 3600
    rig.tell_running("eu")
    rig.settle()
    runs_on(rig, before)
    assert rig.hub_file().suspicion == suspicion, "it is told since when"
    rig.restart()
    rig.settle()
    runs_on(rig, before)
    rig.move("main", good)
    rig.settle()
    runs_on(rig, before)
    assert (rig.hub_file().suspicion, rig.condition("SpecAccepted", JOBS[0])) == (None, None)


@pytest.mark.parametrize("happens", [empty, lambda rig: rig.move("main", None)], ids=["every file goes", "the branch is deleted"])
def test_a_main_that_says_nothing_takes_no_declaration_out_of_force(rig: Rig, happens: Callable[[Rig], object]) -> None:
    good = rig.tip("main")
    assert good is not None
    happens(rig)
    rig.settle()
    assert {path.removeprefix("inforce/") for path in rig.tree("status") if path.startswith("inforce/")} == set(FILES)
    rig.move("main", good)
    rig.put({"regions/eu.yaml": "name: eu\nnode_pools: broken\n"})
    rig.settle()
    assert rig.text("status", "inforce/regions/eu.yaml") == FILES["regions/eu.yaml"]


@pytest.mark.parametrize("happens", [empty, lambda rig: rig.move("main", None)], ids=["every file goes", "the branch is deleted"])
def test_branches_with_names_of_their_own_are_found_though_main_says_nothing(
    tmp_path: Path, happens: Callable[[Rig], object]
) -> None:
    named = "branches: {status: ledger, placements: decisions}\n" + SETTINGS
    rig = Rig(tmp_path, files={**FILES, "reconciler.yaml": named})
    rig.tell("eu")
    rig.tell("us")
    rig.job()
    rig.settle()
    granted = rig.granted("eu")
    assert granted
    assert {"ledger", "decisions"} <= set(rig.tips()), "and no status, no placements"
    assert not {"status", "placements"} & set(rig.tips())
    happens(rig)
    for _ in range(3):
        rig.settle()
    assert rig.granted("eu") == granted
    assert not {"status", "placements"} & set(rig.tips())


def test_names_that_come_with_the_first_main_are_used_from_the_start(tmp_path: Path) -> None:
    rig = Rig(tmp_path, files=None)
    rig.cycle()
    rig.put({**FILES, "reconciler.yaml": "branches: {status: ledger}\n" + SETTINGS})
    rig.tell("eu")
    rig.tell("us")
    rig.job()
    rig.settle()
    assert "ledger" in rig.tips()
    assert "status" not in rig.tips()


def test_three_files_in_one_commit_are_no_accident(rig: Rig) -> None:
    rig.remove(*JOBS[:3])
    rig.settle()
    assert rig.hub_file().suspicion is None
    assert [rig.record(name).phase for name in JOBS] == [Phase.STOPPING] * 3 + [Phase.RUNNING] * 3


def test_a_confirmed_disappearance_goes_on(rig: Rig) -> None:
    before = attempts(rig)
    bad = rig.remove(*JOBS[:5])
    rig.settle()
    rig.put({"confirmations/x.yaml": f'main: "{"0" * 40}"\n'})
    rig.settle()
    runs_on(rig, before)
    rig.put({f"confirmations/{bad[:12]}.yaml": f'main: "{bad}"\n'})
    rig.settle()
    assert rig.hub_file().suspicion is None
    assert [rig.attempt(name).outcome for name in JOBS[:5]] == [Outcome.CANCELLED] * 5
    assert rig.granted("eu") == [rig.attempt(JOBS[5]).name]


def test_while_main_is_doubted_new_jobs_are_taken_and_those_that_are_there_may_be_edited(rig: Rig) -> None:
    rig.remove(*JOBS[:5])
    rig.settle()
    rig.job("new", gpus=1)
    rig.job(JOBS[5], gpus=1, priority=90)
    rig.settle()
    assert rig.record("new").phase is Phase.STARTING
    assert rig.record(JOBS[5]).spec.priority_value == 90
    assert rig.hub_file().suspicion is not None


def test_a_race_does_not_hide_an_accident(rig: Rig) -> None:
    before = attempts(rig)
    rig.remove(*JOBS[:5])
    rig.git.before_push.append(lambda: rig.put({"notes.md": "somebody else"}, "placements"))
    rig.settle()
    runs_on(rig, before)
    assert rig.hub_file().suspicion is not None


# ---- rewound and rewritten ----------------------------------------------------------------------------------------


def test_a_main_that_was_set_back_stops_nothing_until_that_is_confirmed(rig: Rig) -> None:
    old = rig.tip("main")
    rig.job("late", gpus=1)
    rig.settle()
    rig.tell_running("eu")
    rig.settle()
    before = attempts(rig)
    rig.move("main", old)
    rig.settle()
    runs_on(rig, before)
    suspicion = rig.hub_file().suspicion
    assert suspicion is not None
    assert (suspicion.kind, suspicion.main, suspicion.gone) == ("rewound", old, 1)
    on_top = rig.job("other", gpus=1)  # somebody who does not know works on
    rig.settle()
    assert rig.record("late").phase is Phase.RUNNING
    assert rig.hub_file().suspicion == suspicion
    assert rig.record("other").phase is Phase.STARTING
    rig.put({"confirmations/x.yaml": f'main: "{old}"\n'})
    rig.settle()
    assert (rig.hub_file().suspicion, rig.record("late").phase) == (None, Phase.STOPPING)
    assert on_top != rig.tip("main")


def test_a_main_that_was_set_back_is_believed_again_when_it_goes_on_from_where_it_was(rig: Rig) -> None:
    old = rig.tip("main")
    good = rig.job("late", gpus=1)
    rig.settle()
    rig.move("main", old)
    rig.settle()
    assert rig.hub_file().suspicion is not None
    rig.move("main", good)
    rig.remove("late")
    rig.settle()
    assert (rig.hub_file().suspicion, rig.record("late").phase) == (None, Phase.STOPPING)


def test_a_main_that_was_set_back_brings_no_old_policy_and_no_old_spec(rig: Rig) -> None:
    old = rig.tip("main")
    assert old is not None
    rig.put({"policy.yaml": "approval: {always: true}\n", f"jobs/{TEAM}/{JOBS[0]}.yaml": job_file(JOBS[0], gpus=1, priority=90)})
    rig.job("late", gpus=1)
    rig.settle()
    rig.move("main", old)
    rig.settle()
    assert rig.record(JOBS[0]).spec.priority_value == 90
    assert "inforce/policy.yaml" in rig.tree("status")
    rig.job("after", gpus=1)
    rig.settle()
    assert rig.record("after").phase is Phase.PROPOSED, "by the policy that was in force before"


def test_a_rebased_main_with_the_same_files_restarts_nothing_and_decides_nothing_anew(rig: Rig) -> None:  # GM-3
    before, files = attempts(rig), {path: rig.text("main", path) for path in rig.tree("main")}
    status, placements = rig.tip("status"), rig.tip("placements")
    rig.move("main", None)
    rig.put(files)
    results = rig.settle()
    assert [result.ended for result in results] == [Ended.QUIET]
    runs_on(rig, before)
    assert (rig.tip("status"), rig.tip("placements")) == (status, placements)
    rig.job("new", gpus=1)
    rig.settle()
    assert (rig.record("new").phase, rig.hub_file().suspicion) == (Phase.STARTING, None)


# ---- a ledger that cannot be read ---------------------------------------------------------------------------------

SPOILT: dict[str, tuple[str, bool]] = {
    "half a record": ('{"schema_version": 1, "team": "team-a", "job_id": ', False),
    "half a record, and the hub starts anew": ('{"schema_version": 1, "team": "team-a", "job_id": ', True),
    "a merge conflict": ("<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> x\n", False),
    "another schema": ('{"schema_version": 2}', False),
}


@pytest.mark.parametrize(("text", "restart"), SPOILT.values(), ids=SPOILT)
def test_a_record_that_cannot_be_read_leaves_its_job_alone_and_is_told(rig: Rig, text: str, restart: bool) -> None:
    before = attempts(rig)
    good = rig.text("status", f"jobs/{TEAM}/{JOBS[0]}.json")
    rig.put({f"jobs/{TEAM}/{JOBS[0]}.json": text}, "status")
    if restart:
        rig.restart()
    result = rig.settle()[-1]
    assert any(f"jobs/{TEAM}/{JOBS[0]}.json" in trouble for trouble in result.troubles)
    assert rig.unusable() == (f"jobs/{TEAM}/{JOBS[0]}.json",)
    assert f"jobs/{TEAM}/{JOBS[0]}.json on the status branch cannot be used" in rig.page()
    rig.remove(JOBS[1])
    rig.settle()
    rig.tell("eu", *(stopped(name) for name in before if name not in rig.granted("eu")))
    rig.settle()
    stays = next(name for name in before if name.startswith(JOBS[0]))
    assert stays in rig.granted("eu"), "what runs keeps its right to run"
    assert stays in rig.manifests("eu")
    assert rig.text("status", f"jobs/{TEAM}/{JOBS[0]}.json") == text, "nobody writes over it"
    assert rig.record(JOBS[1]).phase is Phase.CANCELLED, "and the others go on"
    rig.put({f"jobs/{TEAM}/{JOBS[0]}.json": good}, "status")
    rig.settle()
    assert (attempts(rig)[stays], rig.unusable()) == (State.RUNNING, ())
    assert "cannot be used" not in rig.page()
    assert stays in rig.granted("eu")


def test_a_record_that_was_copied_over_anothers_is_told_and_both_jobs_run_on(rig: Rig) -> None:
    before = attempts(rig)
    rig.put({f"jobs/{TEAM}/{JOBS[0]}.json": rig.text("status", f"jobs/{TEAM}/{JOBS[1]}.json")}, "status")
    result = rig.settle()[-1]
    assert any(f"{JOBS[0]}.json" in trouble and f"the record of {TEAM}/{JOBS[1]}" in trouble for trouble in result.troubles)
    assert rig.granted("eu") == sorted(before)


@pytest.mark.parametrize("file", ["hub.json", "rejected.json"])
def test_without_what_the_hub_must_not_forget_nothing_is_decided_and_nothing_stops(rig: Rig, file: str) -> None:
    granted, tips = rig.granted("eu"), rig.tips()
    rig.put({file: "{"}, "status")
    rig.job("new", gpus=1)
    with pytest.raises(Corrupt, match=file):
        rig.cycle()
    assert rig.granted("eu") == granted
    assert {branch: tip for branch, tip in rig.tips().items() if branch not in ("main", "status")} == {
        branch: tip for branch, tip in tips.items() if branch not in ("main", "status")
    }
    rig.move("status", tips["status"])
    rig.settle()
    assert rig.record("new").phase is Phase.STARTING


def test_a_ledger_that_is_gone_is_not_begun_anew_over_what_runs_though_nothing_was_noted(rig: Rig) -> None:
    """The store is new, and the hub as well: manifests stand, so there was a ledger."""
    granted, status = rig.granted("eu"), rig.tip("status")
    rig.move("status", None)
    rig.store.inner.delete(LEDGER_MARK_KEY)
    rig.git, rig.hub = rig.another_hub()
    rig.cycle(Ended.STANDBY)
    rig.clock.seconds += 16
    with pytest.raises(Corrupt, match="the branch status is gone"):
        rig.cycle()
    assert rig.granted("eu") == granted
    assert "status" not in rig.tips()
    rig.move("status", status)
    rig.tell_running("eu")
    rig.settle()
    assert rig.granted("eu") == granted
    assert [rig.record(name).phase for name in JOBS] == [Phase.RUNNING] * 6


# ---- what stands on our branches and is not ours ------------------------------------------------------------------


def test_somebody_elses_branches_below_region_are_left_alone_and_stop_no_region(rig: Rig) -> None:
    names = ("region/EU", "region/x/y", "region/a_b", "region/x.y")
    theirs = {name: rig.put({"manifests/a/b.yaml": "x: 1\n"}, name) for name in names}
    rig.job("new", gpus=1)
    results = rig.settle()
    assert rig.attempt("new").name in rig.granted("eu")
    assert {name: rig.tip(name) for name in names} == theirs
    assert all(not result.ungranted for result in results)


def test_files_that_people_put_on_a_region_branch_are_left_alone(rig: Rig) -> None:
    rig.put({"manifests/other/thing.yaml": "x: 1\n", "notes.md": "hands off\n"}, "region/eu")
    rig.job("new", gpus=1)
    rig.settle()
    assert {"manifests/other/thing.yaml", "notes.md"} <= rig.tree("region/eu").keys()


def test_a_sentinel_that_was_removed_comes_back(rig: Rig) -> None:
    rig.put({"manifests/_sentinel.yaml": None}, "region/eu")
    rig.settle()
    assert "manifests/_sentinel.yaml" in rig.tree("region/eu")


def test_every_declared_region_has_a_branch_that_is_never_empty(rig: Rig) -> None:
    rig.put({"regions/new.yaml": region_file("new")})
    rig.settle()
    tree = rig.tree("region/new")
    assert set(tree) == {"manifests/_sentinel.yaml", "README.md", "hydrator.metadata"}
