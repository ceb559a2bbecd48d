"""What the agent does next: each case is a look, a record, grants and a right, and the actions in order."""

from dataclasses import dataclass, field

import pytest

from reconciler.agent.actions import (
    Action,
    Activate,
    Admit,
    Close,
    Deactivate,
    DeleteObject,
    DeletePod,
    Enqueue,
    LiftGate,
    Nudge,
    PatchDeadline,
    Release,
    Suspend,
    patch_body,
)
from reconciler.agent.decide import Decision, Right, decide
from reconciler.agent.reading import Key
from reconciler.agent.record import FULL, Entry, Record, encode
from reconciler.agent.seen import gather
from reconciler.model.grants import Grants
from reconciler.model.names import ANNOTATION_CLOSED, GATE
from reconciler.ports import SyncState
from tests.agent.objects import (
    ATTEMPT,
    KEY,
    TEAM,
    Raw,
    ended_pod,
    gated_pod,
    make_grant,
    make_grants,
    make_job,
    make_pod,
    make_state,
    running_pod,
)

VALID = Right(epoch=1, valid=True, stop_all=False, kill_seconds=30)
LAPSED = Right(epoch=1, valid=False, stop_all=False, kill_seconds=30)
FENCED = Right(epoch=1, valid=False, stop_all=True, kill_seconds=30)
RELEASED = Entry("uid-1", generation=2, nodes=1)
RUNS = make_job(suspend=False, generation=2)
GRANTED, NOTHING = make_grants(ATTEMPT), make_grants()
ORPHAN = {"batch.kubernetes.io/controller-uid": "uid-1"}


def in_words(action: Action) -> str:
    """An action as a short text."""
    match action:
        case Suspend(_, target, close):
            return f"close {target.uid}" if close else f"suspend {target.uid}"
        case DeletePod(_, target, grace):
            return f"delete {target.name}" + ("" if grace is None else f" in {grace}")
        case Close(_, target):
            return f"close {target.name}"
        case LiftGate(_, target, _):
            return f"lift {target.name}"
        case Release(_, target, seconds):
            return f"release {target.uid} for {seconds}"
        case PatchDeadline(_, target, seconds):
            return f"deadline {seconds}"
        case DeleteObject(_, target):
            return f"forget {target.uid}"
        case Nudge(commit):
            return f"nudge {commit}"
        case Deactivate() | Activate() | Enqueue() | Admit():
            return in_queue_words(action)


def in_queue_words(action: Deactivate | Activate | Enqueue | Admit) -> str:
    """The same, of what is done where Kueue has the queue."""
    match action:
        case Enqueue(_, _, queue, seconds):
            return f"enqueue in {queue} for {seconds}"
        case _:
            return f"{type(action).__name__.lower()} {action.target.name}"


@dataclass(frozen=True)
class Case:
    """What there is, and what is done. `entry` is what the record says after it, where that is what the case is about."""

    want: tuple[str, ...]
    jobs: tuple[Raw, ...] = (make_job(),)
    pods: tuple[Raw, ...] = ()
    before: Entry | None = None
    grants: Grants | None = GRANTED
    right: Right = VALID
    sync: SyncState | None = None
    entry: Entry | None = None
    note: str = ""


BRANCH_HAS_IT = SyncState("c1", {}, frozenset({(TEAM, ATTEMPT)}))
BRANCH_HAS_IT_NOT = SyncState("c1", {}, frozenset())
FORGET = make_grants(forget=(ATTEMPT,), commit="c1")

CASES = {
    # releasing
    "granted and held: bound, then released": Case(("release uid-1 for None",), entry=RELEASED),
    "with what is left of its run time": Case(
        ("release uid-1 for 600",), grants=make_grants(make_grant(run_seconds=600, nodes=4)), entry=Entry("uid-1", 2, 4)
    ),
    "bound to the generation that the release will make": Case(
        ("release uid-1 for None",), jobs=(make_job(generation=5),), entry=Entry("uid-1", 6, 1)
    ),
    "recorded, and the release never arrived: the same release again": Case(
        ("release uid-1 for None",), before=RELEASED, entry=RELEASED
    ),
    "not granted": Case((), grants=NOTHING),
    "granted under another epoch": Case((), grants=make_grants(ATTEMPT, epoch=2)),
    "granted while the hub has seen no lease": Case((), grants=make_grants(ATTEMPT, epoch=0)),
    "granted in another namespace": Case((), grants=make_grants(make_grant(team="team-b"))),
    "the lease has lapsed": Case((), right=LAPSED),
    "fenced": Case((), right=FENCED),
    "the grants are not known": Case((), grants=None),
    "suspended since the release": Case((), jobs=(make_job(generation=3),), before=RELEASED, entry=RELEASED),
    "made again": Case((), jobs=(make_job(uid="uid-2"),), before=RELEASED, entry=RELEASED),
    "closed": Case((), jobs=(make_job(generation=3, closed=True),), before=RELEASED, entry=RELEASED),
    "closed, and the record is lost": Case((), jobs=(make_job(closed=True),)),
    "not synced yet": Case((), jobs=()),
    "its object is being deleted": Case((), jobs=(make_job(deleting=True),), note="ObjectLeaving"),
    "its pods would be born without the gate": Case((), jobs=(make_job(gates=()),), note="GateMissing"),
    "there are pods already": Case((), pods=(ended_pod(),), note="PodsBeforeStart"),
    "two objects carry its label": Case((), jobs=(make_job(), make_job("copy", uid="uid-2")), note="TwoObjects"),
    "a copy under another name is never the attempt": Case((), jobs=(make_job("copy", uid="uid-2"),)),
    "nothing tells its generation": Case((), jobs=(make_job(generation=None),), note="GenerationMissing"),
    "a kind that nobody knows how to release": Case((), jobs=(make_job(kind="RayJob"),), note="KindUnknown"),
    "it failed before it began": Case((), jobs=(make_job(conditions={"FailureTarget": "BackoffLimitExceeded"}),)),
    "somebody un-suspended it first: suspended, to be released as it should be": Case(
        ("suspend uid-1",), jobs=(make_job(suspend=False, generation=2),), pods=(gated_pod(),)
    ),
    # lifting
    "released: its pods' gates are lifted": Case(
        ("lift a", "lift b"), jobs=(RUNS,), pods=(gated_pod("a"), gated_pod("b"), running_pod("c")), before=RELEASED
    ),
    "a pod of another owner stays gated": Case(
        (), jobs=(RUNS,), pods=(gated_pod("a", owner="uid-2"), gated_pod("b", owner=None)), before=RELEASED
    ),
    "a label is no owner": Case((), jobs=(RUNS,), pods=(gated_pod(owner=None, labels=ORPHAN),), before=RELEASED),
    "a pod that is being deleted stays gated": Case((), jobs=(RUNS,), pods=(gated_pod(deleting=True),), before=RELEASED),
    "no lift without a valid lease": Case((), jobs=(RUNS,), pods=(gated_pod(),), before=RELEASED, right=LAPSED),
    "no lift of what was resumed by somebody": Case(
        (), jobs=(make_job(suspend=False, generation=4),), pods=(gated_pod(),), before=RELEASED, note="ChangedSinceRelease"
    ),
    "no lift for a Job that is failing": Case(
        (), jobs=(make_job(suspend=False, generation=2, conditions={"FailureTarget": "DeadlineExceeded"}),),
        pods=(gated_pod("a"), running_pod("b")), before=RELEASED,
    ),
    # the deadline
    "another run time: the record first, then the deadline": Case(
        ("deadline 900",), jobs=(make_job(suspend=False, generation=2, activeDeadlineSeconds=600),), pods=(running_pod(),),
        before=RELEASED, grants=make_grants(make_grant(run_seconds=900)), entry=Entry("uid-1", 3, 1),
    ),
    "no limit any more": Case(
        ("deadline None",), jobs=(make_job(suspend=False, generation=2, activeDeadlineSeconds=600),), before=RELEASED,
        entry=Entry("uid-1", 3, 1),
    ),
    "the same run time": Case(
        (), jobs=(make_job(suspend=False, generation=2, activeDeadlineSeconds=600),), before=RELEASED,
        grants=make_grants(make_grant(run_seconds=600)),
    ),
    "a deadline that somebody else set is set back, and hides no resume": Case(
        ("deadline 600",), jobs=(make_job(suspend=False, generation=3, activeDeadlineSeconds=9),), pods=(running_pod(),),
        before=RELEASED, grants=make_grants(make_grant(run_seconds=600)), entry=RELEASED,
    ),
    # stopping
    "withdrawn: suspended for good, then its pods, with their own grace": Case(
        ("close uid-1", "delete a", "close b"), jobs=(RUNS,), pods=(running_pod("a"), gated_pod("b"), ended_pod("c")),
        before=RELEASED, grants=NOTHING,
    ),
    "withdrawn and being stopped: nothing more": Case(
        (), jobs=(make_job(generation=3, closed=True),), pods=(running_pod(deleting=True, grace=600),), before=RELEASED, grants=NOTHING
    ),
    "withdrawn before its release arrived: closed, so that it cannot arrive": Case(
        ("close uid-1",), before=RELEASED, grants=NOTHING
    ),
    "withdrawn, and suspended by somebody: closed all the same": Case(
        ("close uid-1",), jobs=(make_job(generation=3),), before=RELEASED, grants=NOTHING
    ),
    "gated pods that are closed or going are left": Case(
        (), jobs=(make_job(generation=3, closed=True),), pods=(gated_pod("a", closed=True), gated_pod("b", deleting=True)),
        before=RELEASED, grants=NOTHING,
    ),
    "gated pods of what was never released are its controller's": Case(
        ("suspend uid-1",), jobs=(RUNS,), pods=(gated_pod(),), grants=NOTHING
    ),
    "a closed pod stays gated": Case((), jobs=(RUNS,), pods=(gated_pod(closed=True),), before=RELEASED),
    "never released: left as it is": Case((), grants=NOTHING),
    "un-suspended without a grant": Case(("suspend uid-1",), jobs=(RUNS,), grants=NOTHING),
    "pods without an object": Case(("delete p1",), jobs=(), pods=(running_pod(),), before=RELEASED, grants=NOTHING),
    "an ended one is left": Case(
        (), jobs=(make_job(suspend=False, generation=2, conditions={"Complete": "x"}),), pods=(ended_pod(),), before=RELEASED,
        grants=NOTHING,
    ),
    "another epoch stops what runs": Case(
        ("close uid-1", "delete p1"), jobs=(RUNS,), pods=(running_pod(),), before=RELEASED, grants=make_grants(ATTEMPT, epoch=2)
    ),
    "the grants are not known: nothing is stopped": Case((), jobs=(RUNS,), pods=(running_pod(),), before=RELEASED, grants=None),
    "a lease that lapsed stops nothing before the fence": Case(
        (), jobs=(RUNS,), pods=(running_pod(),), before=RELEASED, right=LAPSED
    ),
    "a withdrawal needs no lease": Case(
        ("close uid-1", "delete p1"), jobs=(RUNS,), pods=(running_pod(),), before=RELEASED, grants=NOTHING, right=LAPSED
    ),
    "closed and granted, and a pod runs on: stopped": Case(
        ("delete p1",), jobs=(make_job(generation=3, closed=True),), pods=(running_pod(),), before=RELEASED
    ),
    # the fence
    "the fence stops what is granted, with little grace": Case(
        ("close uid-1", "delete a in 30", "delete b in 5"), jobs=(RUNS,),
        pods=(running_pod("a", terminationGracePeriodSeconds=600), running_pod("b", terminationGracePeriodSeconds=5)),
        before=RELEASED, right=FENCED,
    ),
    "the fence shortens a grace that runs": Case(
        ("delete p1 in 30",), jobs=(make_job(generation=3, closed=True),), before=RELEASED, right=FENCED,
        pods=(running_pod(deleting=True, grace=600, terminationGracePeriodSeconds=600),),
    ),
    "a grace that is short enough is left": Case(
        (), jobs=(make_job(generation=3, closed=True),), pods=(running_pod(deleting=True, grace=30),), before=RELEASED, right=FENCED
    ),
    "the fence needs no grants": Case(
        ("close uid-1", "delete p1 in 30"), jobs=(RUNS,), pods=(running_pod(),), before=RELEASED, grants=None, right=FENCED
    ),
    # strays
    "made again and un-suspended by somebody: suspended, its pod stopped, the old one left to end": Case(
        ("suspend uid-2", "delete new"), jobs=(make_job(uid="uid-2", suspend=False),), before=RELEASED,
        pods=(running_pod("old"), running_pod("new", owner="uid-2"), gated_pod("gated", owner="uid-2")),
    ),
    "a copy of the object is suspended, and its pods stopped": Case(
        ("suspend uid-2", "delete p2"), jobs=(RUNS, make_job("copy", uid="uid-2", suspend=False)),
        pods=(running_pod("p1"), running_pod("p2", owner="uid-2")), before=RELEASED,
    ),
    "an orphan of the released object runs on": Case((), jobs=(), pods=(running_pod(owner=None, labels=ORPHAN),), before=RELEASED),
    "a pod that merely carries the label is stopped": Case(
        ("delete p1",), jobs=(RUNS,), pods=(make_pod(attempt=ATTEMPT),), before=RELEASED
    ),
    "a pod at large before any release is stopped": Case(
        ("delete p1",), pods=(running_pod(),), note="PodsBeforeStart"
    ),
    # forgetting
    "left over and forgotten": Case(("forget uid-1",), grants=FORGET, sync=BRANCH_HAS_IT_NOT),
    "forgotten, but the branch has it": Case((), grants=FORGET, sync=BRANCH_HAS_IT),
    "left over, and the hub has not said so": Case((), grants=make_grants(commit="c1"), sync=BRANCH_HAS_IT_NOT),
    "left over, and its pod still ends": Case(
        (), jobs=(make_job(generation=3, closed=True),), pods=(running_pod(deleting=True),), before=RELEASED, grants=FORGET,
        sync=BRANCH_HAS_IT_NOT,
    ),
    "left over, and the engine is behind": Case(
        ("nudge c1",), grants=FORGET, sync=SyncState("c0", {}, frozenset())
    ),
    "replaced and forgotten, whatever the branch has": Case(
        ("forget uid-2",), jobs=(make_job(uid="uid-2"),), before=RELEASED, grants=FORGET, sync=BRANCH_HAS_IT
    ),
    "granted is never forgotten": Case(
        (), jobs=(make_job(uid="uid-2"),), before=RELEASED, sync=BRANCH_HAS_IT_NOT,
        grants=make_grants(ATTEMPT, forget=(ATTEMPT,), commit="c1"),
    ),
    "forgotten under another epoch": Case(
        (), grants=make_grants(forget=(ATTEMPT,), commit="c1", epoch=2), sync=BRANCH_HAS_IT_NOT
    ),
    # the engine
    "a new commit": Case(("release uid-1 for None", "nudge c2"), grants=make_grants(ATTEMPT, commit="c2"), sync=BRANCH_HAS_IT),
    "an engine that does not answer is not nudged": Case(("release uid-1 for None",), grants=make_grants(ATTEMPT, commit="c2")),
}  # fmt: skip


def run(case: Case) -> Decision:
    record = Record(epoch=1, attempts={KEY: case.before} if case.before else {})
    attempts = gather(make_state(jobs=case.jobs, pods=case.pods), record, case.grants)
    return decide(attempts, record, case.grants, case.right, case.sync)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_next(case: Case) -> None:
    decision = run(case)
    assert tuple(in_words(action) for action in decision.actions) == case.want
    if case.entry is not None:
        assert decision.record.attempts[KEY] == case.entry
    assert [note.code for note in decision.notes] == ([case.note] if case.note else [])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_is_started_stands_in_the_record_to_be_written_first(case: Case) -> None:
    decision = run(case)
    for action in decision.actions:
        if isinstance(action, Release | LiftGate | PatchDeadline):
            assert decision.record.attempts[action.key].uid == "uid-1"
            assert case.right.valid


@dataclass(frozen=True)
class Memo:
    """A record before and after."""

    want: Record
    record: Record = field(default_factory=Record)
    grants: Grants | None = NOTHING
    jobs: tuple[Raw, ...] = ()
    pods: tuple[Raw, ...] = ()
    sync: SyncState | None = None
    right: Right = VALID


KNOWN = Record(epoch=1, seen=(1, 1), attempts={KEY: RELEASED})
GONE = Record(epoch=1, seen=(1, 1))

RECORDS = {
    "grants that were acted upon": Memo(Record(1, seen=(2, 9)), Record(1, seen=(1, 50)), make_grants(version=9, term=2)),
    "never back": Memo(Record(1, seen=(3, 1)), Record(1, seen=(3, 1)), make_grants(version=9, term=2)),
    "no grants": Memo(Record(1, seen=(3, 1)), Record(1, seen=(3, 1)), None),
    "a new epoch": Memo(Record(2, seen=(1, 1)), Record(1), right=Right(2, valid=True, stop_all=False, kill_seconds=30)),
    "an exit 0 that was seen": Memo(
        Record(1, seen=(1, 1), attempts={KEY: Entry("uid-1", 2, 3, frozenset({0, 2}))}),
        Record(1, attempts={KEY: Entry("uid-1", 2, 3, frozenset({2}))}),
        pods=(ended_pod("a", index=0), ended_pod("b", index=1, code=1), ended_pod("c", index=1, owner="uid-2")),
        jobs=(make_job(suspend=False, generation=2),),
    ),
    "kept while it is granted": Memo(KNOWN, KNOWN, GRANTED, sync=BRANCH_HAS_IT_NOT),
    "kept while there is an object": Memo(KNOWN, KNOWN, jobs=(make_job(generation=3, closed=True),), sync=BRANCH_HAS_IT_NOT),
    "kept while there is a pod": Memo(KNOWN, KNOWN, pods=(ended_pod(code=1),), sync=BRANCH_HAS_IT_NOT),
    "kept while the branch has it": Memo(KNOWN, KNOWN, sync=BRANCH_HAS_IT),
    "kept while the engine is behind": Memo(KNOWN, KNOWN, make_grants(commit="c2"), sync=BRANCH_HAS_IT_NOT),
    "kept while the engine does not answer": Memo(KNOWN, KNOWN),
    "kept while the grants are not known": Memo(KNOWN, KNOWN, None, sync=BRANCH_HAS_IT_NOT),
    "dropped when nothing of it is left anywhere": Memo(GONE, KNOWN, sync=BRANCH_HAS_IT_NOT),
}


@pytest.mark.parametrize("memo", RECORDS.values(), ids=RECORDS.keys())
def test_the_record(memo: Memo) -> None:
    attempts = gather(make_state(jobs=memo.jobs, pods=memo.pods), memo.record, memo.grants)
    assert decide(attempts, memo.record, memo.grants, memo.right, memo.sync).record == memo.want


def test_stops_come_before_starts_and_lifts_before_releases() -> None:
    jobs = [
        make_job("old", uid="uid-old", attempt="old", suspend=False, generation=2),
        make_job("new", uid="uid-new", attempt="new"),
    ]
    jobs.append(make_job("on", uid="uid-on", attempt="on", suspend=False, generation=2))
    pods = [running_pod("p-old", attempt="old", owner="uid-old"), gated_pod("p-on", attempt="on", owner="uid-on")]
    record = Record(epoch=1, attempts={Key(TEAM, "old"): Entry("uid-old", 2, 1), Key(TEAM, "on"): Entry("uid-on", 2, 1)})
    grants = make_grants("new", "on")
    decision = decide(gather(make_state(jobs=jobs, pods=pods), record, grants), record, grants, VALID, None)
    assert [in_words(action) for action in decision.actions] == [
        "close uid-old",
        "delete p-old",
        "lift p-on",
        "release uid-new for None",
    ]


def test_a_full_record_releases_no_more() -> None:
    almost = FULL - 30 - len(encode(Record(epoch=1, attempts={KEY: Entry("", 2, 1)})))
    record = Record(epoch=1, attempts={KEY: Entry("u" * almost, 2, 1)})
    jobs = [make_job(name, uid=f"uid-{name}", attempt=name) for name in ("x", "y")]
    grants = make_grants("x", "y")
    decision = decide(gather(make_state(jobs=jobs), record, grants), record, grants, VALID, None)
    assert [in_words(action) for action in decision.actions] == ["release uid-x for None"]
    assert [note.code for note in decision.notes] == ["RecordFull"]
    assert FULL - 30 < len(encode(decision.record)) <= FULL


def test_requests_say_what_they_must() -> None:
    ref = LiftGate(KEY, run(CASES["granted and held: bound, then released"]).actions[0].target, ()).target  # type: ignore[union-attr]
    assert ref.resource_version == "5"
    assert patch_body(Release(KEY, ref, 600)) == {"spec": {"suspend": False, "activeDeadlineSeconds": 600}}
    assert patch_body(Release(KEY, ref, None)) == {"spec": {"suspend": False, "activeDeadlineSeconds": None}}
    assert patch_body(Release(KEY, ref, 0)) == {"spec": {"suspend": False, "activeDeadlineSeconds": 1}}
    assert patch_body(PatchDeadline(KEY, ref, 9)) == {"spec": {"activeDeadlineSeconds": 9}}
    assert patch_body(LiftGate(KEY, ref, ())) == {"spec": {"schedulingGates": None}}
    assert patch_body(LiftGate(KEY, ref, ("kueue.x-k8s.io/topology",))) == {
        "spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]}
    }
    assert patch_body(Suspend(KEY, ref, close=False)) == {"spec": {"suspend": True}}
    assert patch_body(Suspend(KEY, ref, close=True)) == {
        "metadata": {"annotations": {ANNOTATION_CLOSED: "true"}},
        "spec": {"suspend": True},
    }


def test_other_gates_stay() -> None:
    pod = gated_pod()
    pod["spec"]["schedulingGates"].append({"name": "other"})
    record = Record(epoch=1, attempts={KEY: RELEASED})
    decision = decide(gather(make_state(jobs=[RUNS], pods=[pod]), record, GRANTED), record, GRANTED, VALID, None)
    (lift,) = decision.actions
    assert isinstance(lift, LiftGate)
    assert lift.others == ("other",)
    assert GATE not in lift.others
