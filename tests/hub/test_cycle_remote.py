"""The hub against a remote that refuses, races and fails, and beside another hub: nothing is taken as delivered that was not."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.hub.closed import RETRY_SECONDS
from reconciler.hub.results import TRIES, Ended
from reconciler.model.attempt import Outcome, State
from reconciler.model.grants import grants_key
from reconciler.model.record import Phase
from reconciler.ports import Refused, Transient
from tests.builders import TEAM, make_nodes
from tests.githttp import GitServer, install_hook, serving
from tests.hub.rig import Rig
from tests.hub.words import FILES, job_file, region_file, stopped, succeeded

NAMES_EU = """while read old new ref; do
  [ $ref = refs/heads/region/eu ] && { echo "region/eu is frozen until Monday" >&2; exit 1; }
done; exit 0"""
MUTE_EU = """while read old new ref; do
  [ $ref = refs/heads/region/eu ] && { echo "not today" >&2; exit 1; }
done; exit 0"""
UPDATE_EU = '[ "$1" = refs/heads/region/eu ] && { echo "frozen" >&2; exit 1; }; exit 0'
NOTHING = 'echo "the forge is read-only" >&2; exit 1'


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with serving(tmp_path / "served") as serves:
        yield serves


@pytest.fixture
def rig(tmp_path: Path, server: GitServer) -> Rig:
    """A hub over HTTP, with one job that runs in eu, and branches of all regions."""
    made = Rig(tmp_path / "rig", server)
    made.tell("eu")
    made.tell("us")
    made.placed("runs", gpus=1)
    return made


@pytest.fixture
def local(tmp_path: Path) -> Rig:
    made = Rig(tmp_path)
    made.tell("eu")
    made.tell("us")
    return made


def hook(rig: Rig, script: str | None, name: str = "pre-receive") -> None:
    """A hook of the remote; None takes it away."""
    if script is None:
        (rig.bare / "hooks" / name).unlink()
    else:
        install_hook(rig.bare, name, script)


def only_in(rig: Rig, region: str, *job_ids: str) -> None:
    rig.jobs(*job_ids, gpus=1, allowed_regions=[region])


def after(rig: Rig, seconds: float) -> None:
    """Time passes; the regions report, and the hub looks."""
    rig.clock.seconds += seconds
    for region in ("eu", "us"):
        rig.tell_running(region)
    rig.settle()


# ---- a hook that refuses one region -------------------------------------------------------------------------------

HOOKS = {
    "a pre-receive hook that names the branch": ("pre-receive", NAMES_EU),
    "a pre-receive hook that names none": ("pre-receive", MUTE_EU),
    "an update hook": ("update", UPDATE_EU),
}


@pytest.mark.parametrize(("name", "script"), HOOKS.values(), ids=HOOKS)
def test_a_region_that_the_remote_refuses_gets_nothing_and_the_others_go_on(rig: Rig, name: str, script: str) -> None:  # GM-1
    runs, before = rig.attempt("runs"), rig.tips()
    hook(rig, script, name)
    only_in(rig, "eu", "for-eu")
    only_in(rig, "us", "for-us")
    refused = rig.cycle(Ended.REFUSED)
    assert rig.tips() == {**before, "main": rig.tip("main")}, "nothing moved, not even by half"
    assert any("region/eu" in trouble for trouble in refused.troubles)
    assert rig.granted("eu") == [runs.name]
    assert rig.granted("us") == [], "what was not published is not granted"
    assert any("region/eu" in trouble for trouble in rig.settle()[-1].troubles)
    assert rig.record("for-us").phase is Phase.STARTING
    assert rig.granted("us") == rig.manifests("us") == [rig.attempt("for-us").name]
    waits = rig.record("for-eu")
    assert (waits.phase, waits.attempts, waits.waits["eu"].code) == (Phase.PENDING, (), "BranchRefused")
    assert rig.tip("region/eu") == before["region/eu"]
    assert rig.attempt("runs") == runs
    (refusal,) = rig.refused()
    assert refusal.subject == "region/eu"
    assert "the remote refuses branch region/eu" in rig.page()


@pytest.mark.parametrize("script", [NAMES_EU, MUTE_EU], ids=["a hook that names the branch", "a hook that names none"])
def test_a_region_that_was_refused_recovers_when_the_remote_takes_it_again(rig: Rig, script: str) -> None:
    hook(rig, script)
    only_in(rig, "eu", "for-eu")
    rig.settle()
    after(rig, RETRY_SECONDS / 2)
    assert rig.record("for-eu").phase is Phase.PENDING
    after(rig, RETRY_SECONDS)
    since = rig.refused()[0].since
    after(rig, RETRY_SECONDS + 1)
    assert rig.refused()[0].since == since, "it is told since when"
    hook(rig, None)
    after(rig, RETRY_SECONDS + 1)
    assert rig.record("for-eu").phase is Phase.STARTING
    assert rig.granted("eu") == rig.manifests("eu")
    assert len(rig.granted("eu")) == 2
    assert rig.refused() == []
    assert "refuses" not in rig.page()


def test_a_decision_that_was_refused_is_made_elsewhere_only_where_it_never_stood(rig: Rig) -> None:
    hook(rig, NAMES_EU)
    rig.job("anywhere", gpus=1)
    rig.settle()
    assert [one.region for one in rig.record("anywhere").attempts] == ["us"]
    assert rig.attempt("anywhere").name not in rig.granted("eu")


def test_an_attempt_that_ends_in_a_refused_region_is_recorded_and_its_manifest_waits(rig: Rig) -> None:
    runs = rig.attempt("runs")
    hook(rig, NAMES_EU)
    rig.tell("eu", succeeded(runs.name))
    rig.settle()
    assert (rig.record("runs").phase, rig.granted("eu")) == (Phase.SUCCEEDED, [])
    assert rig.manifests("eu") == [runs.name]
    hook(rig, None)
    rig.clock.seconds += RETRY_SECONDS + 1
    rig.tell("eu")
    rig.tell("us")
    rig.settle()
    assert rig.manifests("eu") == []


@pytest.mark.slow
def test_with_a_push_budget_and_a_hook_that_names_nothing_the_others_still_get_through(rig: Rig) -> None:
    rig.put({"reconciler.yaml": "intervals: {push_seconds: 10, push_burst: 1}\n", "regions/ap.yaml": region_file("ap")})
    rig.settle()
    hook(rig, MUTE_EU)
    only_in(rig, "eu", "for-eu")
    only_in(rig, "us", "for-us")
    for _ in range(12):
        rig.clock.seconds += 10
        for region in ("eu", "us"):
            rig.tell_running(region)
        rig.cycle()
    assert rig.record("for-us").phase is not Phase.PENDING
    assert "region/ap" in rig.tips()
    assert rig.record("for-eu").phase is Phase.PENDING


# ---- a hook that protects another branch --------------------------------------------------------------------------


def protects(branch: str) -> str:
    """An update hook that lets nobody write to these branches."""
    return f'case "$1" in refs/heads/{branch}) echo "protected" >&2; exit 1;; esac; exit 0'


def test_where_placements_are_protected_nothing_new_is_placed_and_everybody_is_told_why(rig: Rig) -> None:
    runs = rig.attempt("runs")
    hook(rig, protects("placements"), "update")
    rig.job("new", gpus=1)
    rig.settle()
    waits = rig.record("new")
    assert (waits.phase, waits.attempts, {why.code for why in waits.waits.values()}) == (Phase.PENDING, (), {"BranchRefused"})
    assert "the remote refuses branch placements: hook declined: protected" in rig.page()
    assert [refusal.subject for refusal in rig.refused()] == ["placements"]
    rig.tell("eu", succeeded(runs.name))
    rig.settle()
    assert (rig.record("runs").phase, rig.granted("eu"), rig.manifests("eu")) == (Phase.SUCCEEDED, [], []), "the rest goes on"
    hook(rig, None, "update")
    after(rig, RETRY_SECONDS + 1)
    assert rig.record("new").phase is Phase.STARTING
    assert "refuses" not in rig.page()


def test_where_proposals_are_protected_what_needs_none_is_placed(rig: Rig) -> None:
    rig.put({"policy.yaml": "approval: {teams: [team-b]}\n"})
    hook(rig, protects("proposals/*"), "update")
    rig.put({"jobs/team-b/asks.yaml": job_file("asks", gpus=1)})
    rig.job("new", gpus=1)
    rig.settle()
    asks = rig.record("asks", "team-b")
    assert (asks.phase, asks.why.code if asks.why else "", asks.attempts) == (Phase.PENDING, "BranchRefused", ())
    assert rig.record("new").phase is Phase.STARTING
    assert "the remote refuses branch proposals/team-b/asks: hook declined: protected" in rig.page()
    hook(rig, None, "update")
    after(rig, RETRY_SECONDS + 1)
    assert rig.record("asks", "team-b").phase is Phase.PROPOSED


def test_a_proposal_that_cannot_be_closed_holds_nothing_up(rig: Rig) -> None:
    rig.put({"policy.yaml": "approval: {teams: [team-b]}\n", "jobs/team-b/asks.yaml": job_file("asks", gpus=1)})
    rig.settle()
    hook(rig, protects("proposals/*"), "update")
    rig.put({"jobs/team-b/asks.yaml": None, f"jobs/{TEAM}/new.yaml": job_file("new", gpus=1)})
    rig.settle()
    assert rig.record("asks", "team-b").phase is Phase.CANCELLED
    assert rig.record("new").phase is Phase.STARTING


def test_a_protected_ledger_is_told_in_every_cycle_and_stops_nothing_that_runs(rig: Rig) -> None:
    grants = rig.grants("eu").attempts
    hook(rig, protects("status"), "update")
    rig.job("new", gpus=1)
    for _ in range(3):
        result = rig.cycle(Ended.REFUSED)
        assert result.troubles[-1].startswith("the remote refuses status: hook declined: protected"), result.troubles
        rig.clock.seconds += 1
    assert (rig.grants("eu").attempts, rig.granted("us")) == (grants, [])
    hook(rig, None, "update")
    rig.settle()
    assert rig.record("new").phase is Phase.STARTING


# ---- a remote that refuses everything, or is not there ------------------------------------------------------------


def test_a_remote_that_refuses_everything_stops_nothing_that_runs(rig: Rig) -> None:
    runs, grants, tips = rig.attempt("runs"), rig.grants("eu"), rig.tips()
    hook(rig, NOTHING)
    rig.job("new", gpus=1)
    rig.remove("runs")
    results = [rig.cycle() for _ in range(4)]
    assert all(result.ended is Ended.REFUSED for result in results)
    assert results[-1].again_in_seconds is not None
    assert results[-1].again_in_seconds > 0
    assert all("the forge is read-only" in " ".join(result.troubles) for result in results)
    assert rig.tips() == {**tips, "main": rig.tip("main")}
    assert (rig.grants("eu").attempts, rig.granted("us")) == (grants.attempts, [])
    hook(rig, None)
    rig.clock.seconds += RETRY_SECONDS + 1
    rig.tell_running("eu")
    rig.tell("us")
    rig.settle()
    assert rig.record("new").phase is Phase.STARTING
    assert (rig.attempt("runs").name, rig.attempt("runs").outcome) == (runs.name, Outcome.CANCELLED)


def test_a_remote_that_is_not_there_ends_the_cycle_and_touches_nothing(rig: Rig, server: GitServer) -> None:
    grants = rig.grants("eu")
    server.stop()
    for _ in range(3):
        with pytest.raises(Transient):
            rig.hub.cycle()
    assert rig.grants("eu") == grants
    server.start()
    rig.job("new", gpus=1)
    rig.settle()
    assert rig.record("new").phase is Phase.STARTING


def test_a_push_whose_answer_was_lost_was_done_and_is_not_done_again(rig: Rig, server: GitServer) -> None:
    rig.job("new", gpus=1)
    server.lose_replies.set()
    rig.cycle(Ended.PUBLISHED)
    server.lose_replies.clear()
    rig.settle()
    assert (rig.record("new").phase, rig.attempt("new").number) == (Phase.STARTING, 1)
    assert rig.attempt("new").name in rig.granted("eu")


def test_a_push_of_which_nobody_knows_is_found_out_by_looking(rig: Rig, server: GitServer) -> None:
    """The answer is lost, and the remote does not answer afterwards either: the next cycle sees what is so."""
    rig.job("new", gpus=1)
    server.lose_replies.set()

    def goes() -> None:
        server.answer_only = None

    rig.git.before_push.append(goes)
    real = rig.git.inner.heads

    def silent() -> object:
        raise Transient("nobody is there")

    rig.git.inner.heads = silent  # type: ignore[method-assign]
    rig.git.heads = real  # type: ignore[method-assign]
    with pytest.raises(Transient):
        rig.hub.cycle()
    assert rig.attempt("new").name not in rig.granted("eu"), "not granted before it is known"
    server.lose_replies.clear()
    del rig.git.inner.heads, rig.git.heads
    rig.settle()
    assert rig.attempt("new").number == 1
    assert rig.attempt("new").name in rig.granted("eu")


# ---- races --------------------------------------------------------------------------------------------------------

RACES: dict[str, Callable[[Rig], object]] = {
    "on status": lambda rig: rig.put({"notes.md": "x"}, "status"),
    "on placements": lambda rig: rig.put({"notes.md": "x"}, "placements"),
    "on the region's branch": lambda rig: rig.put({"notes.md": "x"}, "region/eu"),
    "on a region's branch that it makes first": lambda rig: rig.put({"notes.md": "x"}, "region/new"),
}


@pytest.mark.parametrize("races", RACES.values(), ids=RACES)
def test_a_race_is_planned_again_and_nothing_is_lost(local: Rig, races: Callable[[Rig], object]) -> None:
    local.placed("runs", gpus=1)
    local.put({"regions/new.yaml": region_file("new", 9.0), f"jobs/{TEAM}/new.yaml": job_file("new", gpus=1)})
    local.git.before_push.append(lambda: races(local))
    pushes = len(local.git.pushes)
    local.cycle(Ended.PUBLISHED)
    assert len(local.git.pushes) - pushes == 2
    local.settle()
    assert local.record("new").phase is Phase.STARTING
    assert sum("notes.md" in local.tree(branch) for branch in local.tips()) == 1, "the other's commit stays"


def test_main_may_move_while_the_hub_pushes(local: Rig) -> None:
    local.job("one", gpus=1)
    local.git.before_push.append(lambda: local.job("two", gpus=1))
    local.cycle(Ended.PUBLISHED)
    local.settle()
    assert {record.phase for record in local.records().values()} == {Phase.STARTING}


def test_a_hub_that_loses_every_race_gives_up_until_it_is_woken(local: Rig) -> None:
    local.job("new", gpus=1)
    for number in range(TRIES):
        local.git.before_push.append(lambda number=number: local.put({"notes.md": str(number)}, "placements"))
    result = local.cycle(Ended.RACED)
    assert result.again_in_seconds == 1.0
    assert local.granted("eu") == []
    local.settle()
    assert local.record("new").phase is Phase.STARTING


# ---- quiet --------------------------------------------------------------------------------------------------------


def test_our_own_commits_lead_to_one_look_and_then_to_rest(local: Rig) -> None:  # GM-5
    local.job()
    ends = [local.cycle().ended for _ in range(5)]
    assert ends == [Ended.PUBLISHED, Ended.QUIET, Ended.IDLE, Ended.IDLE, Ended.IDLE]
    assert len(local.git.pushes) == 1


def test_heartbeats_make_no_commits(local: Rig) -> None:
    local.placed()
    pushes, tips = len(local.git.pushes), local.tips()
    for _ in range(12):
        local.clock.seconds += 10
        local.tell_again("eu")
        local.tell_again("us")
        local.hub.cycle()
    assert (len(local.git.pushes), local.tips()) == (pushes, tips)


def test_a_job_that_waits_makes_no_commits_however_often_the_numbers_change(local: Rig) -> None:
    local.job("big", gpus=8, nodes=2, allowed_regions=["eu"])
    local.tell("eu", nodes=make_nodes(2, used=8))
    local.settle()
    tips = local.tips()
    for used in (7, 6, 5, 8, 5):
        local.clock.seconds += 10
        local.tell("eu", nodes=make_nodes(2, used=used))
        local.tell_again("us")
        local.settle()
    assert local.tips() == tips


@pytest.mark.slow
def test_the_commits_of_an_hour_are_bounded_by_the_push_budget_whatever_happens(local: Rig) -> None:  # GM-5
    local.put({"reconciler.yaml": "intervals: {push_seconds: 10, push_burst: 3}\n"})
    local.settle()
    pushes = len(local.git.pushes)
    for minute in range(60):
        local.job(f"job-{minute % 5}", gpus=1, priority=minute)
        for _ in range(6):
            local.clock.seconds += 10 / 3
            local.tell_running("eu", grants_version=local.version("eu"))
            local.cycle()
        local.clock.seconds += 40
    assert 60 <= len(local.git.pushes) - pushes <= 363


def test_what_may_not_be_pushed_yet_is_pushed_when_it_may(local: Rig) -> None:
    local.put({"reconciler.yaml": "intervals: {push_seconds: 10, push_burst: 1}\n"})
    local.job("one", gpus=1)
    local.cycle(Ended.PUBLISHED)
    local.job("two", gpus=1)
    deferred = local.cycle(Ended.DEFERRED)
    assert deferred.again_in_seconds == pytest.approx(10)
    assert local.granted("eu") == [local.attempt("one").name], "what was published before is granted"
    local.clock.seconds += 10
    local.cycle(Ended.PUBLISHED)
    assert local.record("two").phase is Phase.STARTING


# ---- the store ----------------------------------------------------------------------------------------------------


def test_grants_that_cannot_be_written_are_written_in_the_next_cycle_and_the_other_regions_go_on(local: Rig) -> None:
    local.settle()
    local.store.fails_put[grants_key("eu")] = Transient("away")
    only_in(local, "eu", "for-eu")
    only_in(local, "us", "for-us")
    result = local.cycle(Ended.PUBLISHED)
    assert any("eu" in trouble for trouble in result.ungranted)
    assert local.granted("us") == [local.attempt("for-us").name]
    assert local.attempt("for-eu").state is State.GRANTED
    again = local.cycle(Ended.QUIET)
    assert again.ungranted
    assert again.again_in_seconds is not None
    assert again.again_in_seconds <= 5, "it must not wait for somebody to wake it"
    local.store.fails_put.clear()
    local.settle()
    assert local.granted("eu") == [local.attempt("for-eu").name]


def test_grants_that_were_written_though_the_answer_was_lost_are_written_above(local: Rig) -> None:
    local.settle()
    version = local.version("eu")
    local.store.lose_answers[grants_key("eu")] = Transient("lost")
    only_in(local, "eu", "for-eu")
    local.cycle(Ended.PUBLISHED)
    local.store.lose_answers.clear()
    local.settle()
    assert local.granted("eu") == [local.attempt("for-eu").name]
    assert local.version("eu") > version + 1


@pytest.mark.parametrize("error", [Transient("away"), Refused("you may not")])
def test_a_lease_that_cannot_be_had_ends_the_cycle(local: Rig, error: Exception) -> None:
    local.placed()
    granted = local.granted("eu")
    local.store.fails["hub/lease.json"] = error
    local.clock.seconds += 20
    with pytest.raises(type(error)):
        local.hub.cycle()
    local.store.fails.clear()
    local.tell_running("eu")
    local.settle()
    assert local.granted("eu") == granted


def test_a_hub_lease_that_was_removed_does_not_keep_the_hub_from_granting(local: Rig) -> None:
    """Its error tells people to remove a broken lease; the grants are of a higher term then."""
    local.placed()
    for _ in range(3):
        local.restart()
        local.settle()
    assert local.hub_lease().term == 4
    local.store.inner.delete("hub/lease.json")
    local.clock.seconds += 20
    local.job("new", gpus=1)
    local.tell_running("eu")
    local.tell("us")
    local.settle()
    local.settle()
    assert local.attempt("new").name in local.granted("eu")
    assert local.hub_lease().term > 4


# ---- two hubs -----------------------------------------------------------------------------------------------------


def test_a_hub_that_takes_over_writes_all_grants_under_its_own_term_and_decides_nothing_anew(local: Rig) -> None:
    before = local.placed()
    grants, tips = {region: local.grants(region) for region in ("eu", "us")}, local.tips()
    local.restart()
    local.settle()
    assert local.attempt() == before
    assert {branch for branch, tip in local.tips().items() if tips[branch] != tip} == {"status"}
    assert local.hub_file().term == grants["eu"].term + 1
    for region, old in grants.items():
        new = local.grants(region)
        assert (new.term, new.version, new.attempts) == (old.term + 1, old.version + 1, old.attempts)


def test_a_hub_that_slept_through_a_takeover_stands_by_and_its_late_writes_fail(local: Rig) -> None:
    local.placed("runs", gpus=1)
    slept = local.hub
    local.restart()
    local.job("new", gpus=1)
    local.settle()
    grants = local.grants("eu")
    assert slept.cycle().ended is Ended.STANDBY
    assert not slept.leads
    assert local.grants("eu") == grants


def test_of_two_hubs_that_both_think_they_lead_the_later_one_publishes_and_the_other_yields(local: Rig) -> None:
    """A lease only spares work: the ledger bears the term of who writes it, and pushes and grants are compare-and-swaps."""
    local.placed("runs", gpus=1)
    _, second = local.another_hub()
    second._leadership._valid_until, second._leadership._held = 1e9, local.hub_lease().model_copy(update={"term": 2})
    local.job("new", gpus=1)
    local.git.before_push.append(second.cycle)
    with pytest.raises(Transient, match="the ledger is written by hub-2, of term 2; this hub is of term 1"):
        local.hub.cycle()
    second.cycle()
    assert [one.number for one in local.record("new").attempts] == [1]
    assert sum(len(local.granted(region)) for region in ("eu", "us")) == 2


def test_a_hub_that_cannot_publish_its_term_grants_nothing(local: Rig) -> None:
    """What it read may be older than what a paused predecessor is about to publish."""
    local.placed("runs", gpus=1)
    before = local.grants("eu")
    hook(local, protects("status"), "update")
    local.restart()
    local.cycle(Ended.REFUSED)
    assert local.grants("eu") == before
    hook(local, None, "update")
    local.clock.seconds += RETRY_SECONDS + 1
    local.settle()
    assert local.grants("eu").term == before.term + 1


def test_a_stop_that_the_hub_before_asked_for_is_proved_to_the_one_after(local: Rig) -> None:
    first = local.placed()
    local.job("other", gpus=1)
    local.remove("llm-a")
    local.settle()
    version = local.version("eu")
    local.restart()
    local.tell("eu", stopped(first.name), grants_version=version)
    local.settle()
    assert local.attempt().state is State.STOPPING, "the region speaks of grants that the hub before wrote"
    local.tell("eu", stopped(first.name))
    local.settle()
    assert local.attempt().state is State.STOPPED


def test_a_repository_without_any_branch_is_waited_for(tmp_path: Path) -> None:
    rig = Rig(tmp_path, files=None)
    rig.cycle()
    rig.settle()
    rig.put(FILES)
    rig.job()
    rig.tell("eu")
    rig.tell("us")
    rig.settle()
    assert rig.record().phase is Phase.STARTING
