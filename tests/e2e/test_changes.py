"""Patches and deletions on a real API server: done on exactly the object and version that they name, or not at all."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from reconciler.model.names import GATE
from reconciler.ports import Conflict, ObjectRef, Refused
from tests.e2e.control_plane import ControlPlane
from tests.e2e.world import Team, agents_cluster, job_of, pod_of, ref_of
from tests.waiting import until


def test_a_job_is_released_by_two_patches_and_runs_to_its_end(plane: ControlPlane, team: Team) -> None:
    cluster = agents_cluster(plane)
    created = team.held(job_of("train", pods=2, says={"sim/run": "1s"}))
    held = next(job for job in cluster.read().workloads if job["metadata"]["uid"] == created["metadata"]["uid"])
    assert (held["kind"], held["spec"]["suspend"], team.pods()) == ("Job", True, [])
    released = cluster.patch(ref_of(held), {"spec": {"suspend": False, "activeDeadlineSeconds": 600}})
    assert team.job("train")["spec"]["activeDeadlineSeconds"] == 600
    assert released.resource_version != held["metadata"]["resourceVersion"]
    for pod in team.pods_when(2, "Pending"):
        assert ([gate["name"] for gate in pod["spec"]["schedulingGates"]], pod["spec"].get("nodeName")) == ([GATE], None)
        cluster.patch(ref_of(pod), {"spec": {"schedulingGates": None}})
    ended = team.pods_when(2, "Succeeded")
    assert all(pod["spec"]["nodeName"].startswith("eu-gpu-") for pod in ended)


@dataclass(frozen=True)
class Stale:
    change: dict[str, Any]
    body: dict[str, Any]


STALE = {
    "an old version": Stale({"resource_version": "1"}, {}),
    "another uid": Stale({"uid": "00000000-0000-0000-0000-000000000000"}, {}),
    "another name": Stale({"name": "gone"}, {}),
    "another namespace": Stale({"namespace": "default"}, {}),
    "an old version in the body": Stale({}, {"metadata": {"resourceVersion": "1"}}),
    "another uid in the body": Stale({}, {"metadata": {"uid": "other"}}),
}


@pytest.mark.parametrize("case", STALE.values(), ids=STALE.keys())
def test_a_stale_patch_conflicts_and_changes_nothing(plane: ControlPlane, team: Team, case: Stale) -> None:
    before = team.held(job_of("train"))
    with pytest.raises(Conflict):
        agents_cluster(plane).patch(replace(ref_of(before), **case.change), {**case.body, "spec": {"suspend": False}})
    assert team.job("train") == before


def test_a_patch_names_the_new_version(plane: ControlPlane, team: Team) -> None:
    cluster = agents_cluster(plane)
    team.create(pod_of("p"))
    old = ref_of(team.pods_when(1, "Running")[0])
    new = cluster.patch(old, {"metadata": {"annotations": {"a": "b"}}})
    assert new == ref_of(team.pods()[0])
    with pytest.raises(Conflict, match="has been modified"):
        cluster.patch(old, {"metadata": {"annotations": {"a": "c"}}})
    cluster.patch(new, {"metadata": {"annotations": {"a": "d"}}})
    assert team.pods()[0]["metadata"]["annotations"]["a"] == "d"


def test_what_was_deleted_and_made_again_is_another_object(plane: ControlPlane, team: Team) -> None:
    cluster = agents_cluster(plane)
    old = ref_of(team.create(job_of("train")))
    cluster.delete(old, None)
    again = team.held(job_of("train"))
    assert again["metadata"]["uid"] != old.uid
    with pytest.raises(Conflict):
        cluster.patch(old, {"spec": {"suspend": False}})
    with pytest.raises(Conflict):  # even if its version were known
        cluster.patch(
            replace(old, resource_version=team.job("train")["metadata"]["resourceVersion"]), {"spec": {"suspend": False}}
        )
    cluster.delete(old, None)
    assert (team.job("train")["metadata"]["uid"], team.job("train")["spec"]["suspend"]) == (again["metadata"]["uid"], True)


def test_gone_already_is_success(plane: ControlPlane) -> None:
    agents_cluster(plane).delete(ObjectRef("Pod", "default", "gone", "u", "1"), 30)


def test_a_deleted_job_takes_its_pods_with_it(plane: ControlPlane, team: Team) -> None:
    cluster = agents_cluster(plane)
    cluster.patch(ref_of(team.held(job_of("train"))), {"spec": {"suspend": False}})
    team.pods_when(1, "Pending")
    cluster.delete(ref_of(team.job("train")), None)
    until(lambda: team.pods() == [])


def test_a_shorter_grace_counts_and_a_longer_one_does_not(plane: ControlPlane, team: Team) -> None:
    cluster = agents_cluster(plane)
    made = pod_of("p")
    made["metadata"]["annotations"] = {"sim/stop": "20s"}
    made["spec"]["terminationGracePeriodSeconds"] = 600
    team.create(made)
    target = ref_of(team.pods_when(1, "Running")[0])
    for grace, counts in ((None, 600), (30, 30), (300, 30)):
        cluster.delete(target, grace)
        assert team.pods()[0]["metadata"]["deletionGracePeriodSeconds"] == counts


def test_a_change_that_the_api_forbids_is_refused_with_its_words(plane: ControlPlane, team: Team) -> None:
    held = ref_of(team.held(job_of("train")))
    with pytest.raises(Refused, match=r"422.*field is immutable.*compare its version"):
        agents_cluster(plane).patch(held, {"spec": {"completionMode": "Indexed"}})


def test_a_kind_that_is_not_ours_to_change(plane: ControlPlane) -> None:
    with pytest.raises(Refused, match="Secret is no kind that the agent changes"):
        agents_cluster(plane).delete(ObjectRef("Secret", "default", "s", "u", "1"), None)
