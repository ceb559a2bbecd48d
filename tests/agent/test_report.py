"""The report: what is worth one at once, how it is sent, and what stands beside one look."""

from datetime import UTC, datetime
from typing import Any

import pytest

from reconciler.agent.health import MOST, noted, recent, shown
from reconciler.agent.nodes import NodeRules
from reconciler.agent.record import Record
from reconciler.agent.report import Content, Look, Outbox, Sender, Telling, build, compose, essence, sent, unreachable
from reconciler.agent.seen import gather
from reconciler.model.grants import report_key
from reconciler.model.report import Health, RegionReport
from reconciler.ports import ClusterState, SyncState, Transient
from tests.agent.objects import ATTEMPT, make_grants, make_job, make_node, make_pod, make_state, running_pod
from tests.agent.stores import FailingStore

NOW = datetime(2026, 5, 1, 10, 0, tzinfo=UTC)
ME = Sender("eu", "i1")
KEY = report_key("eu")
STATE = make_state(nodes=[make_node()], jobs=[make_job()], pods=[make_pod("foreign")])


def content(state: ClusterState = STATE, sync: SyncState | None = None, version: int = 3) -> Content:
    grants = make_grants(ATTEMPT, version=version)
    return compose(Look(state, sync), gather(state, Record(), grants), grants, 2, Telling(NodeRules(), {}))


def stored(store: FailingStore) -> RegionReport:
    return RegionReport.model_validate_json(store.objects[KEY].body)


def test_a_report_says_all_of_it() -> None:
    sync = SyncState("c1", {"manifests/x.yaml": "bad " + "x" * 5000}, frozenset())
    report = build(content(sync=sync), (Health(code="A", message="b"),), ME, 7, NOW)
    assert (report.region, report.incarnation, report.sequence, report.sent_at) == ("eu", "i1", 7, NOW)
    assert (report.grants_version, report.lease_epoch, report.synced_commit) == (3, 2, "c1")
    assert (report.foreign_pods, report.namespaces, report.workload_kinds) == (1, ("team-a",), ("job",))
    assert len(report.sync_errors["manifests/x.yaml"]) == 1000
    assert report.summary.queued_jobs == 1
    assert [one.code for one in report.health] == ["A"]
    assert RegionReport.model_validate_json(report.model_dump_json()) == report


def test_what_is_left_over_is_marked() -> None:
    grants = make_grants(commit="c1")
    look = Look(STATE, SyncState("c1", {}, frozenset()))
    (workload,) = compose(look, gather(STATE, Record(), grants), grants, 1, Telling(NodeRules(), {})).workloads
    assert workload.left_over


CHANGES: dict[str, tuple[Any, bool]] = {
    "nothing": (content(), False),
    "a foreign pod more that takes CPU": (
        content(
            make_state(
                nodes=[make_node()],
                jobs=[make_job()],
                pods=[make_pod("foreign"), make_pod("more", containers=[{"name": "c", "resources": {"requests": {"cpu": "3"}}}])],
            )
        ),
        False,
    ),
    "a foreign pod that takes a GPU": (
        content(make_state(nodes=[make_node()], jobs=[make_job()], pods=[make_pod("foreign", gpus=1)])),
        True,
    ),
    "a node that is cordoned": (
        content(make_state(nodes=[make_node(unschedulable=True)], jobs=[make_job()], pods=[make_pod("foreign")])),
        True,
    ),
    "a pod of ours": (
        content(make_state(nodes=[make_node()], jobs=[make_job()], pods=[make_pod("foreign"), running_pod()])),
        True,
    ),
    "other grants": (content(version=4), True),
    "an engine that says something": (content(sync=SyncState("c1", {}, frozenset())), True),
}


@pytest.mark.parametrize(("after", "want"), CHANGES.values(), ids=CHANGES.keys())
def test_what_is_worth_a_report_at_once(after: Content, want: bool) -> None:
    assert (essence(content(), ()) != essence(after, ())) is want


def test_a_new_kind_of_trouble_is_worth_one_and_its_count_is_not() -> None:
    once, twice = Health(code="A", message="x"), Health(code="A", message="x (2 times)")
    assert essence(content(), (once,)) == essence(content(), (twice,))
    assert essence(content(), (once,)) != essence(content(), ())


def test_a_cluster_that_does_not_answer_takes_nothing_new() -> None:
    nodes = unreachable(content(make_state(nodes=[make_node("n1"), make_node("n2", unschedulable=True)]))).accounts.nodes
    assert [node.unavailable for node in nodes] == ["ClusterUnreachable", "Cordoned"]


def test_the_sequence_goes_on_above_what_is_there() -> None:
    store = FailingStore()
    first = sent(store, content(), (), ME, Outbox(), NOW)
    assert (first.sequence, stored(store).sequence) == (1, 1)
    second = sent(store, content(), (), ME, first, NOW)
    assert stored(store).sequence == 2
    sent(store, content(), (), Sender("eu", "i2"), Outbox(), NOW)
    assert (stored(store).sequence, stored(store).incarnation) == (3, "i2")
    sent(store, content(), (), ME, second, NOW)
    assert (stored(store).sequence, stored(store).incarnation) == (4, "i1")


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"sequence": "9"}', b"\xff"])
def test_what_is_no_report_is_replaced(body: bytes) -> None:
    store = FailingStore()
    store.put(KEY, body, expect=None)
    sent(store, content(), (), ME, Outbox(sequence=5), NOW)
    assert stored(store).sequence == 6


def test_a_lost_answer_leaves_no_two_reports_with_one_number() -> None:
    store = FailingStore()
    box = sent(store, content(), (), ME, Outbox(), NOW)
    store.lose_answers = True
    with pytest.raises(Transient):
        sent(store, content(), (), ME, box, NOW)
    store.lose_answers = False
    assert stored(store).sequence == 2
    after = sent(store, content(), (), ME, Outbox(box.etag, known=False, sequence=box.sequence), NOW)
    assert (after.sequence, stored(store).sequence) == (3, 3)


def test_troubles_are_counted_shown_and_forgotten() -> None:
    troubles = noted({}, "A", "the store", Transient("no answer"), 10.0)
    assert [one.message for one in shown(troubles)] == ["the store: no answer"]
    troubles = noted(troubles, "A", "the store", Transient("no answer yet"), 20.0)
    troubles = noted(troubles, "B", "it", Transient(), 15.0)
    assert [(one.code, one.message) for one in shown(troubles)] == [
        ("A", "the store: no answer yet (2 times)"),
        ("B", "it: Transient"),
    ]
    assert [code for code, _ in recent(troubles, 316.0, 300.0)] == ["A"]


def test_no_more_troubles_are_kept_than_a_report_can_carry() -> None:
    troubles = noted({}, "old", "x", Transient("x"), 0.0)
    for number in range(MOST + 5):
        troubles = noted(troubles, "A", f"thing {number}", Transient("y" * 9000), float(number))
    assert len(troubles) == MOST
    assert ("old", "x") not in troubles
    assert all(len(one.message) < 600 for one in shown(troubles))
