"""The agent at work on a local cluster: from a grant to a running program, and from a withdrawal to a stopped one."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.file_store import FileStore
from reconciler.agent import working
from reconciler.agent.reading import Key
from reconciler.agent.record import encode
from reconciler.model.grants import grants_key, lease_key, report_key
from reconciler.model.names import ANNOTATION_CLOSED
from reconciler.ports import ObjectStore, Refused, Transient
from tests.agent.objects import TEAM, make_grant
from tests.agent.region import Region, job_of, runs, started
from tests.agent.stores import FailingStore
from tests.waiting import until

A1, A2 = "train-a1", "train-a2"


@pytest.fixture(params=["file store", "store in memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    return FileStore(tmp_path) if request.param == "file store" else FailingStore()


def test_a_grant_leads_to_a_running_program(store: ObjectStore) -> None:
    region = Region(store)
    region.turn()
    first = region.report()
    assert (first.sequence, first.lease_epoch, first.grants_version, first.workloads) == (1, 1, 0, ())
    region.render(job_of(A1))
    region.advance(2)
    held = region.said(A1)
    assert (held.state, held.stopped, region.runtime.started) == ("Held", True, [])
    region.grant(make_grant(A1, run_seconds=600))
    region.advance(3)
    report, said = region.report(), region.said(A1)
    assert (report.grants_version, said.state, said.stopped) == (1, "Released", False)
    assert [(pod.phase, pod.gated) for pod in said.pods] == [("Running", False)]
    assert region.job(A1)["spec"]["activeDeadlineSeconds"] == 600
    assert region.record().attempts.keys() == {Key(TEAM, A1)}
    assert report.health == ()
    assert region.runtime.started == [A1]


def test_a_program_that_ends_well_has_succeeded_and_stopped() -> None:
    region = started(says=runs(60))
    region.advance(70)
    said = region.said(A1)
    assert (said.state, said.stopped, said.succeeded, said.failed) == ("Ended", True, True, None)
    assert said.pods[0].exit_code == 0


def test_all_pods_of_a_gang_are_let_run(store: ObjectStore) -> None:
    region = started(region=Region(store), size=4, says=runs(60))
    assert [pod.phase for pod in region.said(A1).pods] == ["Running"] * 4
    assert sorted(pod.index for pod in region.said(A1).pods if pod.index is not None) == [0, 1, 2, 3]
    region.advance(70)
    assert region.said(A1).succeeded
    assert len(region.runtime.started) == 4


def test_a_withdrawal_stops_it_with_its_own_grace(store: ObjectStore) -> None:
    region = started(region=Region(store), grace=600, says=runs(stop=40))
    region.grant()
    region.advance(20)
    said, report = region.said(A1), region.report()
    assert (report.grants_version, said.state, said.stopped) == (2, "Released", False)
    assert region.pods(A1)[0]["metadata"]["deletionGracePeriodSeconds"] == 600
    region.advance(30)
    said = region.said(A1)
    assert (said.state, said.stopped, said.succeeded) == ("Ended", True, False)
    assert region.job(A1)["metadata"]["annotations"][ANNOTATION_CLOSED] == "true"


def test_stopped_and_the_version_that_it_follows_from_come_in_one_report() -> None:
    region = started()
    region.grant()
    seen: list[tuple[int, bool]] = []
    for _ in range(100):
        region.agent.step()
        seen.append((region.report().grants_version, region.said(A1).stopped))
        region.settle()
        region.pass_time(0.1)
    assert set(seen) <= {(1, False), (2, False), (2, True)}
    assert seen[-1] == (2, True)


def test_withdrawn_before_the_program_has_begun() -> None:
    region = Region()
    region.turn()
    region.render(job_of(A1))
    region.grant(A1)
    region.agent.step()  # released; the controller has not looked yet
    region.grant()
    region.advance(2)
    assert region.said(A1).stopped
    assert region.runtime.started == []


def test_a_controller_with_a_backlog_makes_a_pod_that_never_runs() -> None:
    region = started()
    region.cluster.pause_controllers(paused=True)
    region.grant()
    region.advance(2)
    # The controller does not act on the suspend; the agent's own deletion ended the pod.
    said = region.said(A1)
    assert said.stopped
    assert [pod.phase for pod in said.pods] == ["Failed"]
    region.cluster.pause_controllers(paused=False)
    region.advance(2)
    assert region.said(A1).stopped
    assert region.runtime.started == [A1]


def test_a_longer_run_time_reaches_the_running_job() -> None:
    region = started(grant=make_grant(A1, run_seconds=60))
    region.grant(make_grant(A1, run_seconds=600))
    region.advance(90)
    assert region.job(A1)["spec"]["activeDeadlineSeconds"] == 600
    assert region.said(A1).state == "Released"
    region.grant(make_grant(A1, run_seconds=95))
    region.advance(10)
    said = region.said(A1)
    assert (said.state, said.stopped, said.failed) == ("Ended", True, "DeadlineExceeded")
    assert region.runtime.started == [A1]


def test_an_edit_by_hand_of_the_deadline_is_set_back_and_nothing_else() -> None:
    region = started(grant=make_grant(A1, run_seconds=600))
    region.patch(region.job(A1), {"spec": {"activeDeadlineSeconds": 5000}})
    region.advance(3)
    assert region.job(A1)["spec"]["activeDeadlineSeconds"] == 600
    assert (region.said(A1).replaced, region.phases(A1)) == (False, ["Running"])


# ---- released once ------------------------------------------------------------------------------------------------


def test_a_running_job_that_is_deleted_and_made_again_does_not_run_twice() -> None:
    region = started(grace=60, says=runs(stop=20))
    region.delete(region.job(A1))
    region.branch.sync()
    region.advance(5)
    said = region.said(A1)
    assert (said.replaced, said.state, said.stopped) == (True, "Released", False)
    region.advance(30)
    said = region.said(A1)
    assert (said.replaced, said.state, said.stopped) == (True, "Held", True)
    region.restart()
    region.advance(30)
    assert region.runtime.started == [A1]
    assert region.job(A1)["spec"]["suspend"] is True
    region.grant(forget=(A1,))
    region.branch.manifests.clear()
    region.advance(3)
    assert region.find("Job", A1) is None


def test_a_finished_job_that_is_deleted_and_made_again_does_not_run_again() -> None:
    region = started(says=runs(5))
    region.advance(10)
    assert region.said(A1).succeeded
    region.delete(region.job(A1))
    region.branch.sync()
    region.restart()
    region.advance(10)
    said = region.said(A1)
    assert (said.replaced, said.succeeded, region.runtime.started) == (True, True, [A1])


def test_made_again_and_un_suspended_by_a_person_it_does_not_run() -> None:
    region = started(grace=60, says=runs(stop=20))
    region.delete(region.job(A1))
    region.branch.sync()
    region.settle()
    region.patch(region.job(A1), {"spec": {"suspend": False}})
    region.advance(40)
    assert region.runtime.started == [A1]
    assert region.job(A1)["spec"]["suspend"] is True


def test_what_a_person_suspends_waits_for_the_hub() -> None:
    region = started()
    region.patch(region.job(A1), {"spec": {"suspend": True}})
    region.advance(3)
    said = region.said(A1)
    assert (said.replaced, said.state) == (True, "Held")
    region.grant()
    region.advance(3)
    assert region.said(A1).stopped
    assert region.runtime.started == [A1]


def test_what_a_person_suspends_and_resumes_between_two_looks_is_not_run_again() -> None:
    region = started()
    region.patch(region.job(A1), {"spec": {"suspend": True}})
    region.patch(region.job(A1), {"spec": {"suspend": False}})
    assert [bool(pod["spec"].get("schedulingGates")) for pod in region.pods(A1)] == [True]
    region.advance(5)
    assert region.said(A1).replaced
    assert "ChangedSinceRelease" in region.health()
    assert region.runtime.started == [A1]


def test_an_orphan_is_stopped_when_its_grant_is_withdrawn() -> None:
    region = started()
    pod = region.pods(A1)[0]
    with region.cluster.changes() as (objects, now):
        metadata = {key: value for key, value in pod["metadata"].items() if key not in ("ownerReferences", "finalizers")}
        objects.replace(pod, metadata=metadata)
        objects.delete(region_job := objects.get("Job", TEAM, A1) or pod, now)
        assert region_job["kind"] == "Job"
    region.advance(3)
    said = region.said(A1)
    assert (said.state, said.stopped, region.phases(A1)) == ("Absent", False, ["Running"])
    region.grant()
    region.advance(3)
    assert region.pods(A1) == []
    assert all(one.stopped for one in region.report().workloads)


def test_a_person_who_un_suspends_before_the_grant_starts_nothing() -> None:
    region = Region()
    region.turn()
    region.render(job_of(A1))
    region.patch(region.job(A1), {"spec": {"suspend": False}})
    region.grant()
    region.advance(3)
    assert region.job(A1)["spec"]["suspend"] is True
    assert region.runtime.started == []
    region.grant(A1)
    region.advance(3)
    assert region.runtime.started == [A1]
    assert region.phases(A1) == ["Running"]


# ---- what must not stop or start anything ---------------------------------------------------------------------------

BAD_GRANTS: dict[str, Callable[[bytes], bytes]] = {
    "half of it": lambda body: body[: len(body) * 6 // 10],
    "nothing": lambda _: b"",
    "an empty map": lambda _: b"{}",
    "a schema of the future": lambda body: body.replace(b'"schema_version":1', b'"schema_version":9'),
    "garbage": lambda _: b"\x00\xff" * 40,
}


@pytest.mark.parametrize("spoil", BAD_GRANTS.values(), ids=BAD_GRANTS.keys())
def test_grants_that_cannot_be_read_stop_nothing(spoil: Callable[[bytes], bytes]) -> None:
    region = started()
    found = region.store.get(grants_key("eu"))
    assert found is not None
    region.store.put(grants_key("eu"), spoil(found.body), expect=found.etag)
    region.advance(60)
    assert region.phases(A1) == ["Running"]
    assert region.report().grants_version == 1
    assert "GrantsBroken" in region.health()
    region.restart()
    region.advance(60)
    assert region.phases(A1) == ["Running"]
    region.version = 5
    region.grant()
    region.advance(3)
    assert region.said(A1).stopped
    assert region.health() == []


def test_grants_that_go_back_are_ignored_also_after_a_restart() -> None:
    region = started()
    old = region.store.get(grants_key("eu"))
    assert old is not None
    region.grant()
    region.advance(3)
    assert region.said(A1).stopped
    region.render(job_of(A2))
    region.store.put(grants_key("eu"), old.body.replace(b"a1", b"a2"), expect=region.store.etag(grants_key("eu")))
    region.advance(3)
    region.restart()
    region.advance(3)
    assert region.runtime.started == [A1]
    assert "GrantsWentBack" in region.health()


def test_a_cluster_that_does_not_answer_stops_nothing_and_ends_nothing() -> None:
    region = started()
    region.wire.fails = Transient("the API server does not answer")
    region.advance(30)
    report = region.report()
    assert "ClusterUnreachable" in region.health()
    assert {node.unavailable for node in report.nodes} == {"ClusterUnreachable"}
    assert region.lease().renewal >= 2
    region.wire.fails = None
    region.advance(12)
    assert region.phases(A1) == ["Running"]
    assert {node.unavailable for node in region.report().nodes} == {None}


def test_before_the_first_look_nothing_is_reported() -> None:
    region = Region()
    region.wire.fails = Transient("the API server does not answer")
    region.advance(30)
    assert region.store.get(report_key("eu")) is None
    assert region.lease().epoch == 1


def test_an_engine_that_fails_costs_only_what_needs_it() -> None:
    region = started()

    def fails() -> Any:
        raise Refused("no right to read Kustomizations")

    region.branch.state = fails  # type: ignore[method-assign]
    region.render(job_of(A2))
    region.grant(A1, A2)
    region.advance(3)
    assert region.runtime.started == [A1, A2]
    assert "SyncEngineUnreachable" in region.health()


def test_a_request_that_is_refused_costs_its_own_attempt_only() -> None:
    region = Region()
    region.turn()
    region.render(job_of(A1), job_of(A2))
    patch = region.wire.patch

    def refuses(target: Any, body: Any) -> Any:
        if target.name == A1:
            raise Refused("admission webhook denied the request")
        return patch(target, body)

    region.wire.patch = refuses  # type: ignore[method-assign]
    region.grant(A1, A2)
    region.advance(3)
    assert region.runtime.started == [A2]
    assert "RequestFailed" in region.health()
    region.wire.patch = patch  # type: ignore[method-assign]
    region.advance(3)
    assert sorted(region.runtime.started) == [A1, A2]


def test_a_bug_costs_its_part_of_a_step_and_is_shown() -> None:
    region = started()
    read = region.wire.read

    def breaks() -> Any:
        raise KeyError("metadata")

    region.wire.read = breaks  # type: ignore[method-assign]
    region.advance(25)
    assert "Bug" in region.health()
    assert region.lease().renewal >= 2
    region.wire.read = read  # type: ignore[method-assign]
    region.grant()
    region.advance(3)
    assert region.said(A1).stopped


def test_nothing_is_released_that_has_no_gate() -> None:
    region = started(gated=False)
    assert region.runtime.started == []
    assert "GateMissing" in region.health()


def test_the_record_is_written_before_the_release() -> None:
    region = Region()
    region.turn()
    region.render(job_of(A1))
    region.grant(A1)
    region.wire.requests.clear()
    region.agent.step()
    assert region.wire.requests == ["read", "read_record", "write_record", "patch Job", "read"]


def test_without_the_record_nothing_is_released() -> None:
    region = Region()
    region.turn()
    region.render(job_of(A1))
    region.grant(A1)

    def refuses(body: bytes, *, expect: str | None) -> str:
        raise Refused("no right to write ConfigMaps")

    write, region.wire.write_record = region.wire.write_record, refuses  # type: ignore[method-assign]
    region.advance(5)
    assert region.job(A1)["metadata"]["generation"] == 1
    assert (region.report().grants_version, region.health()) == (0, ["RecordNotWritten"])
    region.wire.write_record = write  # type: ignore[method-assign]
    region.advance(3)
    assert region.runtime.started == [A1]


# ---- nudges, reports, the loop --------------------------------------------------------------------------------------


def test_a_new_commit_is_told_to_the_engine_until_it_has_it() -> None:
    region = Region()
    region.turn()
    region.grant(commit="c1")
    region.advance(25)
    assert region.branch.nudges == ["c1"] * 3
    region.branch.commit = "c1"
    region.branch.sync()
    region.advance(25)
    assert region.branch.nudges == ["c1"] * 3
    assert region.report().synced_commit == "c1"


def test_reports_come_at_their_interval_and_at_once_when_something_changes() -> None:
    region = Region()
    region.turn()
    assert region.report().sequence == 1
    region.advance(9)
    assert region.report().sequence == 1
    region.advance(2)
    assert region.report().sequence == 2
    region.render(job_of(A1))
    region.advance(1)
    assert region.report().sequence == 3
    assert region.said(A1).state == "Held"


def test_another_incarnations_report_is_gone_above() -> None:
    region = started()
    before = region.report()
    region.restart()
    region.advance(1)
    assert (region.report().sequence, region.report().incarnation) == (before.sequence + 1, "incarnation-2")


def test_a_report_that_is_none_is_replaced() -> None:
    region = started()
    key = report_key("eu")
    region.store.put(key, b"{}", expect=region.store.etag(key))
    region.advance(11)
    assert region.report().sequence > 1


def test_what_a_failed_program_wrote_last_is_reported() -> None:
    region = started(says=runs(5, code=3))
    region.runtime.output = "CUDA error" + "!" * 5000
    region.advance(10)
    said = region.said(A1)
    assert (said.state, said.failed, said.pods[0].exit_code) == ("Ended", "BackoffLimitExceeded", 3)
    assert said.log_tail == "!" * 4096
    assert region.wire.requests.count("log_tail") == 1


def test_what_has_gone_everywhere_is_forgotten() -> None:
    region = started(says=runs(5))
    region.advance(10)
    region.grant(commit="c2")
    region.branch.manifests.clear()
    region.branch.commit = "c2"
    region.branch.sync()
    region.advance(12)
    assert region.record().attempts == {}
    assert region.report().workloads == ()


def test_a_large_fleet_of_releases_does_not_hold_up_a_renewal() -> None:
    region = Region()
    region.turn()
    region.render(*(job_of(f"train-a{number}") for number in range(8)))
    patch = region.wire.patch

    def slow(target: Any, body: Any) -> Any:
        region.clock.seconds += 9.0
        return patch(target, body)

    region.wire.patch = slow  # type: ignore[method-assign]
    region.grant(*(f"train-a{number}" for number in range(8)))
    for _ in range(40):
        before = region.lease().renewal
        at = region.clock.seconds
        region.agent.step()
        region.settle()
        assert region.clock.seconds - at < 40 or region.lease().renewal > before
    assert len(region.runtime.started) == 8


def test_the_loop_runs_until_it_is_told_to_stop() -> None:
    region = Region(rest_seconds=0.001, poll_seconds=0.01, look_seconds=0.05)
    stop, wake = threading.Event(), threading.Event()
    thread = threading.Thread(target=region.agent.run, args=(stop, wake))
    thread.start()
    try:
        until(lambda: region.store.get(lease_key("eu")) and region.store.get(report_key("eu")))
        region.render(job_of(A1))
        region.grant(A1)

        def turned() -> bool:
            region.clock.seconds += 0.05
            region.settle()
            return region.runtime.started == [A1]

        until(turned)
    finally:
        stop.set()
        wake.set()
        thread.join(timeout=10)
    assert not thread.is_alive()


# ---- failures half-way --------------------------------------------------------------------------------------------


def test_a_look_that_fails_after_the_stop_says_nothing_that_was_not_seen() -> None:
    region = started()
    region.grant()
    read, looks = region.wire.read, 0

    def fails_second() -> Any:
        nonlocal looks
        looks += 1
        if looks % 2 == 0:
            raise Transient("the API server does not answer")
        return read()

    region.wire.read = fails_second  # type: ignore[method-assign]
    region.agent.step()
    assert region.phases(A1) == ["Running"]  # asked to stop; the cluster has not looked yet
    assert (region.report().grants_version, region.said(A1).stopped) == (1, False)
    region.settle()
    region.wire.read = read  # type: ignore[method-assign]
    region.advance(2)
    assert (region.report().grants_version, region.said(A1).stopped) == (2, True)


def test_an_engine_that_cannot_be_nudged_costs_nothing_else() -> None:
    region = Region()
    region.turn()

    def refuses(commit: str) -> None:
        raise Refused(f"no right to annotate, {commit}")

    region.branch.nudge = refuses  # type: ignore[method-assign]
    region.render(job_of(A1))
    region.grant(A1, commit="c1")
    region.advance(3)
    assert region.runtime.started == [A1]
    assert "SyncEngineNotNudged" in region.health()


@pytest.mark.parametrize(
    ("error", "asked"), [(Transient("the kubelet does not answer"), 2), (Refused("no right to read logs"), 1)]
)
def test_output_that_cannot_be_read_is_asked_for_again_only_if_that_can_help(error: Exception, asked: int) -> None:
    region = started(says=runs(5, code=3))
    region.runtime.output = "CUDA error"
    read, calls = region.wire.log_tail, []

    def fails_once(namespace: str, pod: str, limit: int) -> str:
        calls.append(pod)
        if len(calls) == 1:
            raise error
        return read(namespace, pod, limit)

    region.wire.log_tail = fails_once  # type: ignore[method-assign]
    region.advance(50)
    said = region.said(A1)
    assert (said.state, said.log_tail, len(calls)) == ("Ended", "CUDA error" if asked == 2 else "", asked)
    assert "OutputUnreadable" in region.health()


def test_a_region_that_the_hub_knew_before_its_agent_has_lost_nothing() -> None:
    region = Region()
    region.grant(epoch=0)
    region.advance(15)
    region.grant(A1)
    region.render(job_of(A1))
    region.advance(15)
    assert (region.runtime.started, [code for code in region.health() if "Record" in code]) == ([A1], [])


def test_kubelets_that_hang_hold_up_neither_renewals_nor_reports() -> None:
    names = [f"train-{number}-a1" for number in range(15)]
    region = Region(report_seconds=10.0)
    region.render(*(job_of(name, says=runs(2, code=3)) for name in names))
    region.turn()
    region.grant(*names)
    gaps, last = [], region.clock.seconds

    def hangs(namespace: str, pod: str, limit: int) -> str:
        region.clock.seconds += 10.0
        raise Transient(f"no answer from the kubelet of {namespace}/{pod}")

    region.wire.log_tail = hangs  # type: ignore[method-assign]
    lease = region.lease().renewal
    while region.clock.seconds < 400.0:
        region.turn()
        region.pass_time(1.0)
        if region.lease().renewal != lease:
            lease, now = region.lease().renewal, region.clock.seconds
            gaps.append(now - last)
            last = now
    assert max(gaps) < 45.0
    assert {region.said(name).state for name in names} == {"Ended"}


def test_a_record_that_is_too_large_stops_starts_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    region = started()
    monkeypatch.setattr(working, "LARGEST", len(encode(region.record())) + 10)
    region.render(job_of(A2))
    region.grant(A1, A2)
    region.advance(3)
    assert (region.runtime.started, region.phases(A1)) == ([A1], ["Running"])
    assert "RecordNotWritten" in region.health()
    region.grant()
    region.advance(3)
    assert region.phases(A1) == []
