"""The lease runs out, is revoked, is taken anew: what the agent stops, when, and what never runs again."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.adapters.local.nodes import lose_node
from reconciler.agent.memory import AT_ONCE
from reconciler.agent.record import encode
from reconciler.agent.sending import health_of
from reconciler.model.grants import grants_key, lease_key, report_key
from reconciler.model.report import RegionReport
from reconciler.ports import Conflict, Transient
from tests.agent.region import Region, job_of, runs, started
from tests.agent.stores import FailingStore

A1, A2 = "train-a1", "train-a2"


def cut_off(region: Region) -> FailingStore:
    """The store does not answer from now on."""
    assert isinstance(region.store, FailingStore)
    region.store.down = True
    return region.store


def codes(region: Region) -> list[str]:
    """What the agent would say is wrong, if it could send it."""
    content = region.agent.memory.content
    assert content is not None
    return [one.code for one in health_of(region.agent._site(), region.agent.memory, content)]


def since_renewal(region: Region) -> float:
    sent = region.agent.memory.holding.sent_at
    assert sent is not None
    return region.clock.monotonic() - sent


def test_without_the_store_everything_runs_until_the_fence_and_then_stops_with_little_grace() -> None:
    region = started(grace=600, says=runs(stop=500))
    region.render(job_of(A2))
    cut_off(region)
    region.advance(120.5 - since_renewal(region))
    assert "LeaseLate" in codes(region)
    region.advance(239.5 - since_renewal(region))
    assert region.phases(A1) == ["Running"]
    assert "deletionTimestamp" not in region.pods(A1)[0]["metadata"]
    region.advance(1)
    assert "Fenced" in codes(region)
    assert region.pods(A1)[0]["metadata"]["deletionGracePeriodSeconds"] == 30
    assert region.record().fenced
    region.advance(31)
    assert region.phases(A1) == []
    assert region.runtime.started == [A1]


def test_near_the_fence_no_store_is_asked_for_new_grants_either() -> None:
    """One that takes connections and does not answer would keep the fence waiting for all of a read's tries."""
    region = started()
    store = cut_off(region)
    region.advance(225 - since_renewal(region))
    store.down = False
    region.grant(A1, A2)
    region.agent.memory = replace(region.agent.memory, silent=False)
    assert region.agent._has_new_grants()
    region.agent.memory = replace(region.agent.memory, silent=True)
    assert not region.agent._has_new_grants(), "it has just not answered"
    region.agent.memory = replace(region.agent.memory, silent=False)
    region.clock.seconds += 10
    assert not region.agent._has_new_grants(), "the fence is near"


def test_after_a_fence_without_revocation_only_new_attempts_run() -> None:
    region = started()
    store = cut_off(region)
    region.advance(300)
    store.down = False
    region.advance(3)
    said = region.said(A1)
    assert (said.state, said.stopped, said.replaced) == ("Ended", True, False)
    assert (region.lease().epoch, region.report().lease_epoch) == (1, 1)
    assert "Fenced" not in region.health()
    assert not region.record().fenced
    region.render(job_of(A2))
    region.grant(A1, A2)
    region.advance(5)
    assert region.runtime.started == [A1, A2]
    assert region.phases(A1) == []


def test_a_short_outage_stops_nothing() -> None:
    region = started()
    store = cut_off(region)
    region.wire.requests.clear()
    region.advance(200)
    assert region.wire.requests.count("read") < 300
    store.down = False
    region.advance(310)
    assert region.phases(A1) == ["Running"]
    assert region.report().health == ()


@pytest.mark.parametrize(("ends", "want"), [(225, ["Running"]), (232, [])])
def test_an_outage_must_end_a_request_before_the_fence(ends: float, want: list[str]) -> None:
    region = started()
    store = cut_off(region)
    region.wire.requests.clear()
    region.advance(ends - since_renewal(region))
    store.down = False
    region.advance(20)
    assert region.wire.requests.count("read") < 400
    assert (region.phases(A1), region.lease().epoch) == (want, 1)


def test_a_region_that_comes_back_reports_first_and_then_takes_the_new_epoch() -> None:
    region = started()
    store = cut_off(region)
    region.advance(310)
    store.down = False
    region.revoke()
    region.render(job_of(A2))
    region.grant(A1, A2, epoch=2)
    seen: list[tuple[int, bool, int, bool]] = []
    for _ in range(40):
        region.agent.step()
        lease, report = region.lease(), region.report()
        stopped = report.incarnation == "incarnation-1" and all(one.stopped for one in report.workloads if one.attempt == A1)
        seen.append((lease.epoch, lease.revoked, report.lease_epoch, stopped))
        region.settle()
        region.pass_time(0.2)
    taken = next(number for number, (_, revoked, _, _) in enumerate(seen) if not revoked)
    assert taken > 0
    assert seen[taken - 1] == (2, True, 1, True)
    assert seen[-1] == (2, False, 2, True)
    assert region.runtime.started == [A1, A2]
    assert region.record().epoch == 2


def test_a_revocation_stops_what_still_runs_before_the_epoch_is_taken() -> None:
    region = started(grace=600, says=runs(stop=500))
    region.revoke()
    region.grant(A1, epoch=2)
    region.advance(25)
    assert region.lease().revoked
    assert region.phases(A1) == ["Running"]
    assert "LeaseRevoked" in region.health()
    region.advance(30)
    assert (region.lease().epoch, region.lease().revoked) == (2, False)
    assert region.phases(A1) == []
    region.advance(30)
    assert region.runtime.started == [A1]


def test_grants_of_a_newer_epoch_make_the_agent_look_at_its_lease_at_once() -> None:
    region = started()
    region.revoke()
    region.render(job_of(A2))
    region.grant(A2, epoch=2)
    region.advance(4)
    assert (region.lease().epoch, region.lease().revoked) == (2, False)
    assert region.runtime.started == [A1, A2]


def test_a_region_that_lost_its_record_and_its_lease_comes_back_all_the_same() -> None:
    region = started()
    region.revoke()
    stored = region.cluster.read_record()
    assert stored is not None
    region.cluster.write_record(b"", expect=stored.etag)
    region.restart()
    region.render(job_of(A2))
    region.grant(epoch=0)
    region.advance(10)
    assert (region.lease().epoch, region.lease().revoked, region.record().epoch) == (2, False, 2)
    assert region.phases(A1) == []
    region.grant(A2)
    region.advance(5)
    assert region.runtime.started == [A1, A2]


def test_grants_of_no_epoch_make_the_agent_look_at_its_lease_once() -> None:
    region = started()
    renewals = region.lease().renewal
    region.grant(A1, epoch=0)
    region.advance(5)
    assert region.lease().renewal == renewals + 1
    assert region.phases(A1) == []


class Slow(FailingStore):
    """Answers nothing, and takes its time to say so."""

    def __init__(self, region: Region) -> None:
        super().__init__()
        self.region = region
        self.asked: list[float] = []

    def _answer(self) -> None:
        self.asked.append(since_renewal(self.region))
        self.region.clock.seconds += 8.0
        raise Transient("read timed out")


def test_the_fence_waits_for_no_store() -> None:
    region = started(grace=600, says=runs(stop=500))
    store = Slow(region)
    region.agent.store = store
    stopped_at = None
    while stopped_at is None and since_renewal(region) < 400:
        asked = len(store.asked)
        pause = region.agent.step()
        region.settle()
        if "deletionTimestamp" in region.pods(A1)[0]["metadata"]:
            stopped_at = store.asked[asked] if len(store.asked) > asked else since_renewal(region)
        region.pass_time(max(pause, 0.05))
    assert stopped_at is not None
    assert 240 <= stopped_at < 241.5
    assert len(store.asked) > 5
    assert not [at for at in store.asked if 230 < at < 240]


def test_a_withdrawal_is_carried_out_although_the_store_is_slow() -> None:
    region = started()
    region.wire.fails = Transient("the API server does not answer")
    region.grant()
    region.agent.step()
    region.wire.fails = None
    region.agent.store = Slow(region)
    for _ in range(6):
        region.agent.step()
        region.settle()
    assert region.phases(A1) == []
    assert since_renewal(region) < 200


def test_a_silent_node_keeps_the_old_epoch() -> None:
    region = started()
    with region.cluster.changes() as (objects, now):
        lose_node(objects, "n1", now)
    region.revoke()
    region.advance(60)
    assert region.lease().revoked
    assert not region.said(A1).stopped


# ---- restarts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("boot", ["", "boot-1"])
def test_a_restart_without_the_store_stops_everything_by_the_record_and_not_later(boot: str) -> None:
    region = started(region=Region(boot=boot))
    region.advance(30)
    renewed = region.record().renewal
    assert renewed is not None
    cut_off(region)
    region.advance(100)
    region.restart()
    region.advance(renewed.monotonic + 239 - region.clock.monotonic())
    assert region.phases(A1) == ["Running"]
    region.advance(2)
    assert region.phases(A1) == []


def test_a_restart_that_can_renew_stops_nothing_and_starts_nothing_twice() -> None:
    region = started()
    for _ in range(3):
        region.restart()
        region.advance(30)
    assert region.phases(A1) == ["Running"]
    assert region.runtime.started == [A1]
    assert (region.lease().epoch, region.lease().incarnation) == (1, "incarnation-4")


def test_a_restart_within_a_fence_goes_on_with_it() -> None:
    region = started(grace=600, says=runs(stop=500))
    cut_off(region)
    region.advance(250)
    region.restart()
    region.clock.wall_ahead = -240.0  # whatever the wall clock says
    region.advance(31)
    assert region.phases(A1) == []


def test_a_wall_clock_that_cannot_be_right_is_not_believed_after_a_restart() -> None:
    region = started()
    cut_off(region)
    region.clock.wall_ahead = -660.0
    region.restart()
    region.advance(1)
    assert "deletionTimestamp" in region.pods(A1)[0]["metadata"] if region.pods(A1) else True
    region.advance(31)
    assert region.phases(A1) == []


def test_a_new_agent_without_record_and_store_stops_everything_at_once_and_says_nothing_of_it() -> None:
    region = started()
    with region.cluster.changes() as (objects, now):
        record = objects.get("ConfigMap", "gpu-reconciler", "agent-record")
        assert record is not None
        objects.delete(record, now)
    store = cut_off(region)
    before = store.objects[report_key("eu")].body
    region.restart()
    region.advance(5)
    assert region.phases(A1) == []
    assert region.cluster.read_record() is None
    store.down = False
    assert store.objects[report_key("eu")].body == before
    region.advance(5)
    # It may have run, and did: so it never runs again.
    assert region.said(A1).stopped
    assert region.runtime.started == [A1]


def test_a_lost_record_lets_go_on_what_runs_and_releases_nothing_that_was_granted() -> None:
    region = started()
    region.render(job_of(A2, gated=False))
    region.grant(A1, A2)
    region.advance(3)
    with region.cluster.changes() as (objects, now):
        record = objects.get("ConfigMap", "gpu-reconciler", "agent-record")
        assert record is not None
        objects.delete(record, now)
    region.restart()
    region.advance(3)
    assert "RecordLost" in region.health()
    assert (region.phases(A1), region.said(A1).replaced, region.said(A2).replaced) == (["Running"], False, True)
    region.advance(320)
    assert "RecordLost" not in region.health()
    region.render(job_of("train-a3"))
    region.grant(A1, "train-a3")
    region.advance(3)
    assert region.runtime.started == [A1, "train-a3"]


@pytest.mark.parametrize("body", [b"", b"{}", b"\xff", b'{"form": 2}'])
def test_a_broken_record_is_as_good_as_a_lost_one(body: bytes) -> None:
    region = started()
    stored = region.cluster.read_record()
    assert stored is not None
    region.cluster.write_record(body, expect=stored.etag)
    region.restart()
    region.advance(2)
    assert "RecordLost" in region.health()
    assert region.phases(A1) == ["Running"]
    region.grant()
    region.advance(3)
    assert region.said(A1).stopped
    assert region.runtime.started == [A1]


def test_a_lost_record_waits_for_grants_that_can_be_read() -> None:
    region = started()
    stored = region.cluster.read_record()
    assert stored is not None
    region.cluster.write_record(b"", expect=stored.etag)
    good = region.store.get(grants_key("eu"))
    assert good is not None
    region.store.put(grants_key("eu"), b"{", expect=good.etag)
    region.render(job_of(A2))
    region.restart()
    region.advance(5)
    found = region.cluster.read_record()
    assert found is not None
    assert found.body == b""
    region.version = 1
    region.grant(A1, A2)
    region.advance(5)
    assert region.phases(A1) == ["Running"]
    assert region.runtime.started == [A1]
    assert region.said(A2).replaced


def test_a_lease_that_somebody_deleted_is_made_again_and_nothing_stops() -> None:
    region = started()
    region.store.delete(lease_key("eu"))
    region.advance(30)
    assert region.lease().epoch == 1
    assert region.phases(A1) == ["Running"]


def test_a_lease_that_is_garbage_is_never_written_over_and_ends_in_a_fence() -> None:
    region = started()
    region.store.put(lease_key("eu"), b"garbage", expect=region.store.etag(lease_key("eu")))
    region.advance(100)
    assert region.phases(A1) == ["Running"]
    assert "LeaseNotRenewed" in region.health()
    region.advance(200)
    assert region.phases(A1) == []
    found = region.store.get(lease_key("eu"))
    assert found is not None
    assert found.body == b"garbage"


# ---- at the very moment -------------------------------------------------------------------------------------------


def test_a_lease_that_ends_between_the_decision_and_the_request_releases_nothing() -> None:
    region = Region()
    region.turn()
    region.render(job_of(A1))
    region.grant(A1)
    write = region.wire.write_record

    def slow(body: bytes, *, expect: str | None) -> str:
        region.clock.seconds += 300
        cut_off(region)
        return write(body, expect=expect)

    region.wire.write_record = slow  # type: ignore[method-assign]
    region.agent.step()
    region.settle()
    assert region.job(A1)["spec"]["suspend"] is True
    assert region.runtime.started == []
    # Recorded and not released; the next agent that may release it does so, once.
    region.wire.write_record = write  # type: ignore[method-assign]
    assert isinstance(region.store, FailingStore)
    region.store.down = False
    region.advance(5)
    assert region.runtime.started in ([], [A1])


def test_a_lease_that_ends_while_the_record_is_written_releases_nothing() -> None:
    region = Region()
    region.turn()
    region.grant(A1)
    region.turn()
    cut_off(region)
    region.advance(239.4 - since_renewal(region))
    region.render(job_of(A1))
    write = region.wire.write_record

    def slow(body: bytes, *, expect: str | None) -> str:
        region.clock.seconds += 0.7
        return write(body, expect=expect)

    region.wire.write_record = slow  # type: ignore[method-assign]
    region.agent.memory = replace(region.agent.memory, renew_at=AT_ONCE)  # tried in this step, and due again only after the end
    region.agent.step()
    region.settle()
    assert region.record().attempts
    assert region.job(A1)["metadata"]["generation"] == 1


def test_a_suspend_that_came_too_late_is_made_again_before_any_pod_is_deleted() -> None:
    region = started()
    region.grant()
    patch, calls = region.wire.patch, region.wire.requests

    def late(target: Any, body: Any) -> Any:
        region.wire.patch = patch  # type: ignore[method-assign]
        region.patch(region.job(A1), {"metadata": {"labels": {"touched": "by-somebody"}}})
        return patch(target, body)

    region.wire.patch = late  # type: ignore[method-assign]
    calls.clear()
    region.agent.step()
    assert "delete Pod None" not in calls
    region.advance(2)
    assert calls.index("patch Job", calls.index("patch Job") + 1) < calls.index("delete Pod None")
    assert region.said(A1).stopped


def other_agent(region: Region, turns: int = 6) -> None:
    """Another replica takes over and acts, while the first hangs in a request."""
    first, wire = region.agent, region.wire
    region.restart()
    for _ in range(turns):
        region.agent.step()
        region.settle()
        region.pass_time(1.0)
    region.agent, region.wire = first, wire


HANGING = ["write_record", "patch Job", "patch Pod"]


@pytest.mark.parametrize("hanging", HANGING)
def test_a_request_that_hangs_while_another_replica_says_stopped_comes_to_nothing(hanging: str) -> None:
    region = Region()
    region.turn()
    region.render(job_of(A1))
    region.grant(A1)
    wire, hung = region.wire, []
    patch, write = wire.patch, wire.write_record

    def hang() -> None:
        hung.append(hanging)
        region.grant()
        other_agent(region)
        assert region.report().grants_version == 2
        assert region.said(A1).stopped

    def late_patch(target: Any, body: Any) -> Any:
        if hanging == f"patch {target.kind}" and not hung:
            hang()
        return patch(target, body)

    def late_write(body: bytes, *, expect: str | None) -> str:
        if hanging == "write_record" and not hung and A1.encode() in body:
            hang()
        return write(body, expect=expect)

    wire.patch, wire.write_record = late_patch, late_write  # type: ignore[method-assign]
    for _ in range(20):
        region.agent.step()
        region.settle()
        region.pass_time(0.3)
    assert hung == [hanging]
    assert region.runtime.started == []
    assert region.said(A1).stopped


def test_two_replicas_at_once_release_once_and_disturb_nothing() -> None:
    region = Region()
    one = region.agent
    region.restart()
    two = region.agent
    region.render(job_of(A1, size=3))
    for number in range(60):
        agent = (one, two)[number % 2]
        agent.step()
        region.settle()
        if number == 10:
            region.grant(A1)
        region.pass_time(0.7)
    assert region.runtime.started == [A1] * 3
    assert region.phases(A1) == ["Running"] * 3
    assert region.job(A1)["metadata"]["generation"] == 2
    region.grant()
    for number in range(10):
        (one, two)[number % 2].step()
        region.settle()
        region.pass_time(0.7)
    assert region.said(A1).stopped


def test_a_replica_that_is_cut_off_from_the_store_does_not_act_on_what_was_taken_back_meanwhile() -> None:
    region = Region()
    first = region.agent
    region.render(job_of(A1, gated=False))
    region.turn()
    region.grant(A1)
    region.turn()  # seen by the first, which cannot release it yet
    assert isinstance(region.store, FailingStore)
    away = FailingStore()
    away.down = True
    first.store = away
    region.delete(region.job(A1))
    region.grant()
    other_agent(region)
    assert region.report().grants_version == 2
    region.render(job_of(A1))
    for _ in range(20):
        first.step()
        region.settle()
        region.pass_time(1.0)
    assert region.job(A1)["metadata"]["generation"] == 1
    assert region.runtime.started == []


def test_a_replica_that_slept_through_a_change_of_epoch_stops_nothing_of_the_new_one() -> None:
    region = started()
    first = region.agent
    region.restart()
    region.revoke()
    region.render(job_of(A2))
    region.grant(A2, epoch=2)
    region.advance(300)
    assert (region.record().epoch, region.phases(A2)) == (2, ["Running"])
    for _ in range(10):
        first.step()
        region.settle()
        assert region.phases(A2) == ["Running"]
        region.pass_time(0.5)
    assert first.memory.holding.epoch == 2
    assert region.lease().incarnation == "incarnation-2"
    assert region.runtime.started == [A1, A2]


def test_a_replica_that_comes_back_after_the_fences_time_stops_nothing_that_another_has_kept() -> None:
    region = started()
    first = region.agent
    region.restart()
    region.advance(300)
    assert region.phases(A1) == ["Running"]
    renewal = region.record().renewal
    assert renewal is not None
    for _ in range(3):
        first.step()
        region.settle()
        assert region.phases(A1) == ["Running"]
        region.pass_time(0.5)
    after = region.record()
    assert (after.fenced, after.renewal is not None and after.renewal.sent_at >= renewal.sent_at) == (False, True)
    assert region.runtime.started == [A1]


def test_an_agent_that_kept_a_newer_epoch_alive_before_it_could_read_the_record_stops_the_old_one_first() -> None:
    region = started()
    newer = region.lease().model_copy(update={"epoch": 2, "incarnation": "other"})
    region.store.put(lease_key("eu"), newer.model_dump_json().encode(), expect=region.store.etag(lease_key("eu")))
    region.restart()
    region.wire.fails = Transient("the API server does not answer")
    region.advance(5)
    assert region.agent.memory.holding.epoch == 2
    region.wire.fails = None
    region.grant(A1, epoch=2)
    region.advance(40)
    assert region.phases(A1) == []
    assert (region.lease().epoch, region.record().epoch, region.said(A1).stopped) == (2, 2, True)


def test_a_report_of_the_first_replica_cannot_hide_what_the_second_said() -> None:
    region = started()
    first = region.agent
    region.restart()
    region.advance(12)
    sequence = region.report().sequence
    first.step()
    assert region.report().sequence > sequence
    assert RegionReport.model_validate_json(region.store.objects[report_key("eu")].body).incarnation == "incarnation-1"  # type: ignore[attr-defined]


def test_the_record_of_the_agent_that_was_first_stays() -> None:
    region = started()
    stored = region.cluster.read_record()
    assert stored is not None
    with pytest.raises(Conflict):
        region.cluster.write_record(encode(region.record()), expect="1")


def test_errors_are_counted() -> None:
    region = started()
    region.wire.fails = Transient("no route to host")
    region.advance(12)
    (trouble,) = [one for one in region.report().health if one.code == "ClusterUnreachable"]
    assert "no route to host" in trouble.message
    assert "times" in trouble.message
