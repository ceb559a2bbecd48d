"""The API of the local region: versions, preconditions, patches and deletions."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from reconciler.adapters.local.merging import merged
from reconciler.adapters.local.objects import ref_of
from reconciler.ports import Conflict, ObjectRef
from tests.adapters.local.world import TEAM, World, make_job, make_pod, phases, runs


def test_the_version_rises_with_every_write_and_with_nothing_else() -> None:
    world = World()
    first = world.create(make_job())
    settled = world.job()
    assert int(settled["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    assert world.patch(settled, {"spec": {"suspend": True}}) == settled
    world.advance(100)
    assert world.job() == settled
    changed = world.patch(settled, {"metadata": {"labels": {"a": "b"}}})
    assert int(changed["metadata"]["resourceVersion"]) > int(settled["metadata"]["resourceVersion"])
    assert changed["metadata"]["generation"] == 1
    assert world.patch(changed, {"spec": {"suspend": False}})["metadata"]["generation"] == 2


def test_what_was_read_stays_as_it_was_read() -> None:
    world = World()
    world.create(make_job())
    before, state = world.job(), world.cluster.read()
    copied = repr(before), repr(state)
    world.release()
    assert (repr(before), repr(state)) == copied


def test_a_name_that_is_taken() -> None:
    world = World()
    world.create(make_job())
    with pytest.raises(Conflict, match='Job "train" already exists'):
        world.create(make_job())


@dataclass(frozen=True)
class Stale:
    change: dict[str, Any]
    body: dict[str, Any]
    words: str


STALE = {
    "an old version": Stale({"resource_version": "1"}, {}, "has been modified"),
    "another uid": Stale({"uid": "other"}, {}, "not there any more"),
    "another name": Stale({"name": "gone"}, {}, "not there any more"),
    "an old version in the body": Stale({}, {"metadata": {"resourceVersion": "1"}}, "has been modified"),
    "another uid in the body": Stale({}, {"metadata": {"uid": "other"}}, "has been modified"),
}


@pytest.mark.parametrize("case", STALE.values(), ids=STALE.keys())
def test_a_stale_patch_conflicts_and_changes_nothing(case: Stale) -> None:
    world = World()
    world.create(make_job())
    before = world.job()
    target = replace(ref_of(before), **case.change)
    with pytest.raises(Conflict, match=case.words):
        world.cluster.patch(target, {**case.body, "spec": {"suspend": False}})
    assert world.job() == before


def test_a_patch_names_the_new_version() -> None:
    world = World()
    world.create(make_job())
    old = ref_of(world.job())
    new = world.cluster.patch(old, {"metadata": {"resourceVersion": old.resource_version}, "spec": {"suspend": False}})
    assert new == ref_of(world.job())
    with pytest.raises(Conflict):
        world.cluster.patch(old, {"spec": {"suspend": True}})
    world.cluster.patch(new, {"spec": {"suspend": True}})


def test_a_version_covers_deleted_and_made_again() -> None:
    world = World()
    world.create(make_job())
    old = ref_of(world.job())
    world.delete(world.job())
    world.create(make_job())
    with pytest.raises(Conflict):
        world.cluster.patch(old, {"spec": {"suspend": False}})
    world.cluster.delete(old, None)
    assert world.job()["metadata"]["uid"] != old.uid


def test_gone_already_is_success() -> None:
    World().cluster.delete(ObjectRef("Pod", TEAM, "gone", "u", "1"), 30)


def test_deletion_of_pods() -> None:
    world = World()
    world.create(make_job("bound", annotations=runs(stop=99), grace=40))
    world.release("bound")
    bound = world.pod("bound")
    world.delete(bound)
    deleted = world.pod("bound")["metadata"]
    assert (deleted["deletionTimestamp"], deleted["deletionGracePeriodSeconds"]) == ("2026-05-01T10:00:40Z", 40)
    world.advance(5)
    world.delete(bound, 300)
    assert world.pod("bound")["metadata"]["deletionTimestamp"] == "2026-05-01T10:00:40Z"
    world.delete(bound, 10)
    shortened = world.pod("bound")["metadata"]
    assert (shortened["deletionTimestamp"], shortened["deletionGracePeriodSeconds"]) == ("2026-05-01T10:00:15Z", 10)
    world.delete(bound)
    assert world.pod("bound")["metadata"] == shortened
    world.advance(9)
    assert phases(world.pods("bound")) == ["Running"]
    world.advance(1)
    assert world.pods("bound") == []


def test_a_forced_deletion_removes_the_pod_at_once() -> None:
    world = World()
    world.create(make_pod("p"))
    world.delete(world.get("Pod", "p"), 0)
    assert world.cluster.read().pods == ()


def test_a_pod_that_is_on_no_node_goes_at_once() -> None:
    world = World(nodes=())
    world.create(make_pod("p"))
    world.delete(world.get("Pod", "p"))
    assert world.cluster.read().pods == ()


MERGES: dict[str, tuple[Any, Any, Any]] = {
    "a key is set": ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
    "null removes": ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
    "null of nothing": ({}, {"a": None}, {}),
    "maps are merged": ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
    "nulls inside a new map vanish": ({}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
    "lists are replaced": ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
    "a map takes a scalar's place": ({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    "a scalar takes a map's place": ({"a": {"b": 1}}, {"a": 1}, {"a": 1}),
}


@pytest.mark.parametrize(("target", "patch", "want"), MERGES.values(), ids=MERGES.keys())
def test_merge_patch(target: Any, patch: Any, want: Any) -> None:
    before = repr(target), repr(patch)
    assert merged(target, patch) == want
    assert (repr(target), repr(patch)) == before
