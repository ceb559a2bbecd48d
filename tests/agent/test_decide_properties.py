"""What holds of every decision, whatever the objects, the record, the grants and the lease are."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.agent.actions import Close, DeletePod, LiftGate, PatchDeadline, Release, Suspend
from reconciler.agent.decide import Decision, Right, decide
from reconciler.agent.reading import Key, is_active, is_closed, is_deleting, is_suspended, makes_no_pods, uid_of
from reconciler.agent.record import Entry, Record, decode, encode
from reconciler.agent.seen import Seen, gather, stopped
from reconciler.agent.workloads import report_attempt
from reconciler.model.grants import Grants
from reconciler.model.names import GATE
from reconciler.ports import ClusterState, SyncState
from tests.agent.objects import TEAM, Raw, make_grant, make_grants, make_job, make_pod, make_state

NAMES = ("a1", "a2")
UIDS = ("uid-1", "uid-2", "uid-3")
jobs = st.builds(
    make_job,
    name=st.sampled_from(NAMES),
    attempt=st.sampled_from([*NAMES, None]),
    uid=st.sampled_from(UIDS),
    suspend=st.booleans(),
    generation=st.sampled_from([None, 1, 2, 3, 4]),
    closed=st.booleans(),
    deleting=st.booleans(),
    conditions=st.dictionaries(
        st.sampled_from(["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", "Suspended"]),
        st.sampled_from(["Yes", "!No"]),
        max_size=2,
    ),
    gates=st.sampled_from([(GATE,), (), (GATE, "other")]),
    namespace=st.sampled_from([TEAM, TEAM, "team-b"]),
    activeDeadlineSeconds=st.sampled_from([None, 600]),
)
pods = st.builds(
    make_pod,
    name=st.sampled_from(["p1", "p2", "p3"]),
    node=st.sampled_from([None, "n1"]),
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
    attempt=st.sampled_from([*NAMES, None]),
    owner=st.sampled_from([*UIDS, None]),
    gates=st.sampled_from([(GATE,), (), (GATE, "other"), ("other",)]),
    deleting=st.booleans(),
    closed=st.booleans(),
    index=st.sampled_from([None, 0, 1]),
    namespace=st.sampled_from([TEAM, TEAM, "team-b"]),
)
states: st.SearchStrategy[ClusterState] = st.builds(
    make_state,
    jobs=st.lists(jobs, max_size=3, unique_by=(uid_of, lambda job: (job["metadata"]["namespace"], job["metadata"]["name"]))),
    pods=st.lists(pods, max_size=4, unique_by=lambda pod: str(pod["metadata"]["name"])),
)
entries = st.builds(Entry, st.sampled_from([*UIDS, ""]), st.integers(0, 4), st.integers(1, 2), st.frozensets(st.integers(0, 1)))
records = st.builds(
    Record,
    epoch=st.integers(0, 2),
    seen=st.tuples(st.integers(0, 2), st.integers(0, 3)),
    attempts=st.dictionaries(st.builds(Key, st.just(TEAM), st.sampled_from(NAMES)), entries, max_size=2),
)
some_grants: st.SearchStrategy[Grants | None] = st.none() | st.builds(
    lambda names, seconds, **more: make_grants(*(make_grant(name, run_seconds=seconds) for name in names), **more),
    st.sets(st.sampled_from(NAMES)),
    st.sampled_from([None, 600, 900]),
    version=st.integers(1, 4),
    epoch=st.integers(0, 2),
    commit=st.sampled_from([None, "c1", "c2"]),
    forget=st.sets(st.sampled_from(NAMES)).map(tuple),
)
rights = st.builds(
    lambda epoch, how: Right(epoch, valid=how == "valid", stop_all=how == "fenced", kill_seconds=30),
    st.integers(0, 2),
    st.sampled_from(["valid", "lapsed", "fenced"]),
)
syncs: st.SearchStrategy[SyncState | None] = st.none() | st.builds(
    SyncState, st.sampled_from([None, "c1", "c2"]), st.just({}), st.frozensets(st.tuples(st.just(TEAM), st.sampled_from(NAMES)))
)
worlds = st.tuples(states, records, some_grants, rights, syncs)
World = tuple[ClusterState, Record, Grants | None, Right, SyncState | None]


def decided(world: World) -> tuple[tuple[Seen, ...], Decision]:
    state, record, grants, right, sync = world
    attempts = gather(state, record, grants)
    return attempts, decide(attempts, record, grants, right, sync)


def granted(seen: Seen, world: World) -> bool:
    _, _, grants, right, _ = world
    return seen.grant is not None and grants is not None and grants.epoch == right.epoch and not right.stop_all


def at(seen: Seen, uid: str) -> Raw:
    return next(dict(item) for item in (*seen.objects, *seen.pods) if uid_of(item) == uid)


@given(worlds)
def test_nothing_starts_but_by_grant_lease_epoch_and_a_record_written_first(world: World) -> None:
    attempts, decision = decided(world)
    by_key = {seen.key: seen for seen in attempts}
    for action in decision.actions:
        if not isinstance(action, Release | LiftGate | PatchDeadline):
            continue
        seen, entry = by_key[action.key], decision.record.attempts[action.key]
        assert granted(seen, world)
        assert world[3].valid
        if isinstance(action, LiftGate):
            pod = at(seen, action.target.uid)
            assert [owner["uid"] for owner in pod["metadata"]["ownerReferences"]] == [entry.uid]
            assert seen.entry == entry or seen.entry is not None
            assert not is_closed(pod)
        else:
            assert action.target.uid == entry.uid


@given(worlds)
def test_only_what_was_never_un_suspended_is_released(world: World) -> None:
    attempts, decision = decided(world)
    by_key = {seen.key: seen for seen in attempts}
    releases = [action for action in decision.actions if isinstance(action, Release)]
    assert len({action.key for action in releases}) == len(releases)
    for action in releases:
        seen = by_key[action.key]
        item = at(seen, action.target.uid)
        assert is_suspended(item)
        assert not is_closed(item)
        assert len(seen.objects) == 1
        assert not seen.pods
        # A second request for one attempt is possible only while the first cannot have had an effect.
        assert seen.entry is None or item["metadata"]["generation"] == seen.entry.generation - 1
        assert decision.record.attempts[action.key].generation == item["metadata"]["generation"] + 1


@given(worlds)
def test_whatever_may_run_without_a_grant_is_stopped(world: World) -> None:
    attempts, decision = decided(world)
    if world[2] is None and not world[3].stop_all:
        assert not any(isinstance(action, Suspend | DeletePod | Close) for action in decision.actions)
        return
    suspended = {action.target.uid for action in decision.actions if isinstance(action, Suspend)}
    deleted = {action.target.uid for action in decision.actions if isinstance(action, DeletePod)}
    for seen in attempts:
        if granted(seen, world):
            continue
        for item in seen.objects:
            assert is_suspended(item) or makes_no_pods(item) or uid_of(item) in suspended
        for pod in seen.pods:
            assert not is_active(pod) or is_deleting(pod) or uid_of(pod) in deleted


@given(worlds)
def test_what_is_granted_released_and_untouched_is_left_to_run(world: World) -> None:
    attempts, decision = decided(world)
    stops = {action.target.uid for action in decision.actions if isinstance(action, Suspend | DeletePod | Close)}
    for seen in attempts:
        item = seen.bound
        if not granted(seen, world) or item is None or is_suspended(item) or is_closed(item):
            continue
        assert uid_of(item) not in stops
        own = {uid_of(pod) for pod in seen.pods if pod["metadata"].get("ownerReferences", [{}])[0].get("uid") == uid_of(item)}
        assert not own & stops


@given(worlds)
def test_stopped_is_never_said_of_what_has_a_pod_at_large_or_a_release_under_way(world: World) -> None:
    attempts, _ = decided(world)
    for seen in attempts:
        report = report_attempt(seen, is_left_over=False)
        assert report.stopped == stopped(seen)
        if not report.stopped:
            continue
        assert not any(is_active(pod) for pod in seen.pods)
        for item in seen.objects:
            assert is_suspended(item) or makes_no_pods(item)
        if seen.entry is not None and seen.bound is not None:
            assert is_closed(seen.bound) or makes_no_pods(seen.bound)


@given(worlds)
def test_the_record_never_goes_back_and_forgets_nothing_that_is_there(world: World) -> None:
    state, record, grants, _, _ = world
    attempts, decision = decided(world)
    after = decision.record
    assert after.epoch >= record.epoch
    assert after.seen >= record.seen
    assert decode(encode(after)) == after
    for seen in attempts:
        if seen.entry is None:
            continue
        kept = after.attempts.get(seen.key)
        if seen.objects or seen.pods or seen.grant is not None or grants is None:
            assert kept is not None
        if kept is not None:
            assert kept.uid == seen.entry.uid
            assert kept.done >= seen.entry.done
    assert state is world[0]


@given(worlds)
def test_the_same_look_gives_the_same_decision_in_any_order(world: World) -> None:
    state, record, grants, right, sync = world
    turned = make_state(jobs=tuple(reversed(state.workloads)), pods=tuple(reversed(state.pods)))  # type: ignore[arg-type]

    def sorted_(found: Decision) -> Any:
        return sorted(map(repr, found.actions)), found.record, sorted(map(repr, found.notes))

    again = decide(gather(turned, record, grants), record, grants, right, sync)
    assert sorted_(again) == sorted_(decided(world)[1])
