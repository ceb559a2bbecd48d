"""Writing grants: what they say, which version means what, and who loses against whom."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from reconciler.adapters.file_store import FileStore
from reconciler.hub.granting import Due, Granting, due
from reconciler.hub.index import Index
from reconciler.hub.regions import RegionSeen, seen_of
from reconciler.model.attempt import Outcome, State
from reconciler.model.grants import Grant, Grants, Lease, grants_key, lease_key
from reconciler.model.names import JobKey, manifest_path
from reconciler.model.policy import Limits, Policy
from reconciler.model.record import JobRecord
from reconciler.ports import Conflict, Refused, Transient
from tests.builders import TEAM, make_attempt, make_nodes, make_record, make_report, make_spec
from tests.hub.doors import FaultyStore
from tests.hub.words import work

KEY = grants_key("eu")


@dataclass
class World:
    """A store with the grants of the region eu, and a ledger in memory."""

    store: FaultyStore
    records: dict[JobKey, JobRecord] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    manifests: frozenset[str] = frozenset()

    def say(self, job_id: str, state: State, **fields: object) -> str:
        """A job's record with one attempt in that state, in eu; the attempt's name."""
        spec = make_spec(job_id, max_runtime_seconds=3600)
        attempt = make_attempt(state=state, spec=spec, **{"epoch": 1, **fields})  # type: ignore[arg-type]
        record = make_record(attempt, spec=spec)
        self.records[record.key] = record
        return attempt.name

    def due(self, seen: RegionSeen | None = None) -> Due:
        index = Index()
        index.update(self.records, self.policy)
        return due(index, ["eu"], {} if seen is None else {"eu": seen}, {"eu": self.manifests})["eu"]

    def write(self, granting: Granting, term: int = 1, commit: str | None = "c1", seen: RegionSeen | None = None) -> Grants:
        return granting.write("eu", self.due(seen), commit, term, seen)

    def granting(self) -> Granting:
        return Granting(self.store)  # type: ignore[arg-type]

    def stored(self) -> Grants:
        found = self.store.inner.get(KEY)
        assert found is not None
        return Grants.model_validate_json(found.body)

    def lease(self, epoch: int, *, revoked: bool = False) -> None:
        body = Lease(region="eu", epoch=epoch, incarnation="one", renewal=0, revoked=revoked).model_dump_json().encode()
        self.store.inner.put(lease_key("eu"), body, expect=self.store.inner.etag(lease_key("eu")))


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(FaultyStore(FileStore(tmp_path)))
    made.lease(1)
    return made


def seen(version: int = 0, epoch: int = 1, *works: object) -> RegionSeen:
    return seen_of(make_report("eu", workloads=works, grants_version=version, lease_epoch=epoch))  # type: ignore[arg-type]


# ---- what they say ------------------------------------------------------------------------------------------------

STATES = {
    State.PROPOSED: False,
    State.PLACED: False,
    State.STAGING: False,
    State.GRANTED: True,
    State.RUNNING: True,
    State.STOPPING: False,
    State.SUCCEEDED: False,
    State.FAILED: False,
    State.STOPPED: False,
}


@pytest.mark.parametrize(("state", "listed"), STATES.items())
def test_exactly_those_are_listed_that_the_ledger_lets_run(world: World, state: State, listed: bool) -> None:
    name = world.say("llm-a", state)
    grants = world.write(world.granting())
    assert [grant.attempt for grant in grants.attempts] == ([name] if listed else [])
    assert world.stored() == grants


def test_a_grant_says_how_much_run_time_is_left(world: World) -> None:
    world.policy = Policy(limits=Limits(max_runtime_seconds=1800))
    name = world.say("llm-a", State.GRANTED)
    want = Grant(attempt=name, team=TEAM, job_id="llm-a", nodes=1, epoch=1, run_seconds=1800)
    assert world.write(world.granting()).attempts == (want,)


def test_they_are_listed_by_name_whatever_the_order_of_the_records(world: World) -> None:
    names = [world.say(job_id, State.RUNNING) for job_id in ("c", "a", "b")]
    assert [grant.attempt for grant in world.write(world.granting()).attempts] == sorted(names)


def test_a_region_that_is_declared_nowhere_is_told_as_long_as_an_attempt_stands_there() -> None:
    index = Index()
    record = make_record(make_attempt(state=State.RUNNING, region="lost"))
    index.update({record.key: record}, Policy())
    assert due(index, ["eu"], {}, {}).keys() == {"eu", "lost"}
    index.update({record.key: make_record(make_attempt(state=State.FAILED, region="lost"))}, Policy())
    assert due(index, ["eu"], {}, {}).keys() == {"eu"}


LEFT_OVER = {
    "left over and ended": (State.FAILED, {"left_over": True}, True),
    "left over and unknown to the ledger": (None, {"left_over": True}, True),
    "left over but alive": (State.RUNNING, {"left_over": True}, False),
    "left over but being stopped": (State.STOPPING, {"left_over": True}, False),
    "on the branch still": (State.FAILED, {"left_over": False}, False),
    "gone already": (State.FAILED, {"left_over": True, "state": "Absent"}, False),
}


@pytest.mark.parametrize(("state", "said", "forgotten"), LEFT_OVER.values(), ids=LEFT_OVER)
def test_objects_are_forgotten_only_when_the_ledger_has_done_with_them(
    world: World, state: State | None, said: dict[str, object], forgotten: bool
) -> None:
    name = "other-000000-a1" if state is None else world.say("llm-a", state)
    shown = work(name, **{"state": "Ended", **said})  # type: ignore[arg-type]
    assert world.due(seen(0, 1, shown)).forget == ((name,) if forgotten else ())


# ---- versions -----------------------------------------------------------------------------------------------------


def test_nothing_is_written_while_nothing_changes(world: World) -> None:
    world.say("llm-a", State.RUNNING)
    granting = world.granting()
    first = world.write(granting, seen=seen())
    world.store.asked.clear()
    assert world.write(granting, seen=seen(first.version)) == first
    assert world.store.asked == []


def test_every_write_has_a_higher_version_than_the_one_before_and_than_the_region_has_seen(world: World) -> None:
    granting = world.granting()
    assert world.write(granting).version == 1
    world.say("llm-a", State.GRANTED)
    assert world.write(granting).version == 2
    assert world.write(granting, commit="c2").version == 3
    world.say("llm-b", State.GRANTED)
    assert world.write(granting, commit="c2", seen=seen(40)).version == 41


def test_a_hub_that_starts_writes_everything_anew(world: World) -> None:
    world.say("llm-a", State.RUNNING)
    first = world.write(world.granting())
    again = world.write(world.granting())
    assert (first.version, again.version) == (1, 2)
    assert again.attempts == first.attempts


def test_a_new_term_writes_everything_anew(world: World) -> None:
    world.say("llm-a", State.RUNNING)
    granting = world.granting()
    world.write(granting, term=1)
    assert (world.write(granting, term=2).version, world.stored().term) == (2, 2)
    assert world.write(granting, term=2).version == 2


def test_a_hub_of_an_earlier_term_loses(world: World) -> None:
    late = world.granting()
    world.write(late, term=1)
    world.say("llm-a", State.RUNNING)
    grants = world.write(world.granting(), term=2)
    with pytest.raises(Conflict):
        world.write(late, term=1)
    with pytest.raises(Conflict, match="term 2, ours is 1"):
        world.write(late, term=1)
    assert world.stored() == grants
    assert late.highest_term == 2


def test_a_late_write_of_a_hub_that_slept_fails(world: World) -> None:
    slept = world.granting()
    world.write(slept, term=1)
    world.say("llm-a", State.RUNNING)
    real = world.store.inner.put

    def overtaken(key: str, body: bytes, *, expect: str | None) -> str:
        world.store.inner.put = real  # type: ignore[method-assign]
        world.write(world.granting(), term=2)
        return real(key, body, expect=expect)

    world.store.inner.put = overtaken  # type: ignore[method-assign]
    with pytest.raises(Conflict):
        world.write(slept, term=1)
    assert world.stored().term == 2


def test_after_a_conflict_in_its_own_term_a_hub_reads_and_writes_above(world: World) -> None:
    one, two = world.granting(), world.granting()
    world.write(one)
    world.write(two)
    world.say("llm-a", State.RUNNING)
    with pytest.raises(Conflict):
        world.write(one)
    assert world.write(one).version == 3


def test_a_write_whose_answer_was_lost_is_written_again(world: World) -> None:
    granting = world.granting()
    world.write(granting)
    name = world.say("llm-a", State.STOPPING)
    world.store.lose_answers[KEY] = Transient("lost")
    with pytest.raises(Transient):
        world.write(granting)
    assert granting.withdrawn_at == {}, "nobody knows whether it was written"
    world.store.lose_answers.clear()
    with pytest.raises(Conflict):
        world.write(granting)
    assert world.write(granting).version == 3
    assert granting.withdrawn_at == {name: 3}


# ---- taking a right away ------------------------------------------------------------------------------------------


def test_the_version_of_a_withdrawal_is_noted_only_once_it_is_written(world: World) -> None:
    name = world.say("llm-a", State.RUNNING)
    granting = world.granting()
    world.write(granting)
    world.say("llm-a", State.STOPPING)
    world.store.fails_put[KEY] = Transient("away")
    with pytest.raises(Transient):
        world.write(granting)
    assert granting.withdrawn_at == {}
    world.store.fails_put.clear()
    grants = world.write(granting)
    assert (grants.version, grants.attempts, granting.withdrawn_at) == (2, (), {name: 2})


def test_a_right_is_withdrawn_by_a_new_version_even_where_it_is_absent_already(world: World) -> None:
    granting = world.granting()
    world.write(granting)
    name = world.say("llm-a", State.STOPPING)
    assert world.write(granting).version == 2  # a write of a predecessor's may be under way
    assert granting.withdrawn_at == {name: 2}
    assert world.write(granting).version == 2, "and only once"


def test_a_new_leader_waits_for_a_version_of_its_own(world: World) -> None:
    name = world.say("llm-a", State.STOPPING)
    before = world.granting()
    world.write(before)
    world.write(before)
    after = world.granting()
    version = world.write(after, term=2).version
    assert after.withdrawn_at == {name: version}
    assert version > max(before.withdrawn_at.values())


def test_what_has_ended_is_forgotten(world: World) -> None:
    name = world.say("llm-a", State.STOPPING)
    granting = world.granting()
    world.write(granting)
    world.write(granting)
    granting.forget_ended(frozenset({name}))
    assert name in granting.withdrawn_at
    granting.forget_ended(frozenset())
    assert granting.withdrawn_at == {}


def test_a_lost_lead_forgets_what_was_known(world: World) -> None:
    world.say("llm-a", State.STOPPING)
    granting = world.granting()
    world.write(granting)
    world.write(granting)
    granting.reset()
    assert granting.withdrawn_at == {}
    assert world.write(granting).version == 3


def test_where_the_grants_were_lost_no_version_is_trusted_that_the_region_may_have_passed(world: World) -> None:
    """The region acts on version 57 still, which lists the attempt; 1 must not be taken for a withdrawal that it has seen."""
    name = world.say("llm-a", State.STOPPING)
    granting = world.granting()
    assert world.write(granting, seen=None).version == 1
    assert granting.withdrawn_at == {}
    assert world.write(granting, seen=seen(57)).version == 58
    assert granting.withdrawn_at == {name: 58}


def test_grants_that_are_removed_under_the_hub_come_back_above_what_was_written(world: World) -> None:
    granting = world.granting()
    world.write(granting)
    world.say("llm-a", State.RUNNING)
    assert world.write(granting).version == 2
    world.store.inner.delete(KEY)
    world.say("llm-a", State.STOPPING)
    with pytest.raises(Conflict):
        world.write(granting, seen=seen(1))
    assert world.write(granting, seen=seen(1)).version == 3, "2 may have been read by the region and not been told of"
    assert granting.withdrawn_at == {}
    assert world.write(granting, seen=seen(1)).version == 4
    assert list(granting.withdrawn_at.values()) == [4]


# ---- epochs -------------------------------------------------------------------------------------------------------


def test_the_epoch_is_that_of_the_lease(world: World) -> None:
    world.lease(4)
    granting = world.granting()
    assert world.write(granting, seen=seen(epoch=3)).epoch == 4
    world.lease(5)
    assert world.write(granting, seen=seen(1, epoch=4)).epoch == 4, "nobody has said that it changed"
    assert world.write(granting, seen=seen(1, epoch=5)).epoch == 5


def test_without_a_lease_nothing_may_run(world: World) -> None:
    world.store.inner.delete(lease_key("eu"))
    assert world.write(world.granting()).epoch == 0


def test_a_lease_that_is_gone_takes_no_right_away(world: World) -> None:
    world.lease(4)
    world.write(world.granting())
    world.store.inner.delete(lease_key("eu"))
    assert world.write(world.granting(), seen=seen(epoch=4)).epoch == 4


def test_under_a_revoked_lease_nothing_may_run(world: World) -> None:
    world.lease(5, revoked=True)
    assert world.write(world.granting()).epoch == 0


# ---- what cannot be read ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [KEY, lease_key("eu")])
@pytest.mark.parametrize("body", [b"", b"{", b'{"schema_version": 9}', b"\xff\xfe"])
def test_what_cannot_be_read_is_refused_with_its_key_and_never_written_over(world: World, key: str, body: bytes) -> None:
    world.store.inner.put(key, body, expect=world.store.inner.etag(key))
    with pytest.raises(Refused, match=key):
        world.write(world.granting())
    found = world.store.inner.get(key)
    assert found is not None
    assert found.body == body


def test_a_job_without_a_record_keeps_what_was_granted_for_as_long_as_its_manifest_stands(world: World) -> None:
    running, other = world.say("llm-a", State.RUNNING), world.say("llm-b", State.RUNNING)
    world.write(world.granting())
    del world.records[JobKey(TEAM, "llm-a")]
    world.manifests = frozenset(manifest_path(TEAM, name) for name in (running, other)) | {"manifests/_sentinel.yaml"}
    world.say("llm-b", State.STOPPING, outcome=Outcome.CANCELLED)
    for granting in (world.granting(), world.granting()):  # a hub that goes on, and one that has just started
        assert [grant.attempt for grant in world.write(granting).attempts] == [running]
        assert [grant.attempt for grant in world.write(granting).attempts] == [running]
    world.manifests -= {manifest_path(TEAM, running)}
    assert [grant.attempt for grant in world.write(world.granting()).attempts] == []
    assert other != running


def test_two_regions_do_not_mix(world: World) -> None:
    world.say("llm-a", State.RUNNING)
    granting = world.granting()
    world.write(granting)
    granting.write("us", Due((), frozenset(), ()), "c9", 1, None)
    assert world.stored().commit == "c1"
    assert world.write(granting).version == 1


def test_grants_that_somebody_deleted_are_written_anew_once_the_region_misses_them(world: World) -> None:
    running = world.say("llm-a", State.RUNNING)
    granting = world.granting()
    before = world.write(granting)
    world.store.inner.delete(KEY)
    assert world.write(granting) == before, "nobody has noticed"
    missed = replace(seen_of(make_report("eu", make_nodes(1), sequence=2)), health={"GrantsMissing": "gone"})
    after = world.write(granting, seen=missed)
    assert [grant.attempt for grant in after.attempts] == [running]
    assert after.version > before.version
    assert world.store.inner.get(KEY) is not None
