"""The local sync engine against a real Git server; each test is a fact seen on Flux 1.9 with `ssa: IfNotPresent`."""

from pathlib import Path

import pytest

from reconciler.adapters.local import LocalCluster, LocalSync, NodeSpec, Settings, SimulatedRuntime
from reconciler.ports import Transient
from tests.adapters.local.synced import BRANCH, SyncedWorld, rv, written
from tests.adapters.local.world import TEAM, conditions, make_job, phases, runs
from tests.githttp import run_git


@pytest.fixture
def world(synced_world: SyncedWorld) -> SyncedWorld:
    return synced_world


def test_created_suspended_and_reported(world: SyncedWorld) -> None:
    commit = world.push(make_job())
    world.pull(commit)
    assert conditions(world.job()) == ["Suspended=True (JobSuspended)"]
    assert world.pods() == []
    state = world.sync.state()
    assert (state.commit, state.errors) == (commit, {})
    assert state.objects == {(TEAM, "train")}


def test_t1_released_running_and_finished_jobs_are_never_touched(world: SyncedWorld) -> None:
    world.pull(world.push(make_job(annotations=runs(60))))
    world.release()
    before, pod = rv(world), world.pod()["metadata"]["uid"]
    world.pull(world.push(make_job(annotations=runs(60)), make_job("other")))
    world.wait(30)
    assert (rv(world), world.pod()["metadata"]["uid"]) == (before, pod)
    world.wait(31)
    finished = rv(world)
    assert conditions(world.job())[-1] == "Complete=True (CompletionsReached)"
    world.pull(world.push(make_job(annotations=runs(60))))
    world.wait(30)
    assert rv(world) == finished
    assert len(world.pods()) == 1


def test_t2_what_the_agent_changed_stays_and_an_edited_file_is_ignored(world: SyncedWorld) -> None:
    world.pull(world.push(make_job()))
    world.suspend(False, activeDeadlineSeconds=99)
    world.patch(world.job(), {"metadata": {"labels": {"added": "by-agent"}}})
    world.settle()
    before = rv(world)
    edited = make_job(container={"image": "reg.example.com/train:2"}, activeDeadlineSeconds=5)
    commit = world.push(edited)
    world.pull(commit)
    assert rv(world) == before
    assert world.sync.state().commit == commit


def test_t3_removed_files_are_pruned_running_finished_and_suspended_alike(world: SyncedWorld) -> None:
    quick, slow = make_job("quick", annotations=runs(1)), make_job("slow", grace=600, annotations=runs(stop=40))
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "slow", "namespace": TEAM},
        "spec": {"clusterIP": "None"},
    }
    world.pull(world.push(quick, slow, make_job("held"), raw={"manifests/svc.yml": written(service)}))
    world.release("quick")
    world.release("slow")
    world.wait(2)
    assert world.names() == ["held", "quick", "slow"]
    world.pull(world.push())
    assert world.names() == []
    (left,) = world.cluster.read().pods
    assert left["metadata"]["name"].startswith("slow-")
    assert left["metadata"]["deletionGracePeriodSeconds"] == 600
    world.wait(40)
    assert world.cluster.read().pods == ()
    with pytest.raises(AssertionError, match="no Service"):
        world.get("Service", "slow")


def test_a_foreign_object_of_a_removed_file_is_not_pruned(world: SyncedWorld) -> None:
    world.create(make_job("theirs"))
    world.pull(world.push(make_job("theirs")))
    world.pull(world.push())
    assert world.names() == ["theirs"]


def test_t5_the_last_job_is_pruned_beside_the_sentinel(world: SyncedWorld) -> None:
    world.pull(world.push(make_job()))
    world.pull(world.push())
    assert world.names() == []
    assert world.sync.state().objects == frozenset()


def test_t8_a_new_engine_takes_over_and_prunes_what_the_old_one_made(world: SyncedWorld) -> None:
    world.pull(world.push(make_job()))
    world.release()
    before = rv(world)
    world.sync = LocalSync(world.cluster, world.clone, BRANCH, world.clock)
    assert world.sync.state().objects == {(TEAM, "train")}
    world.wait(1)
    assert rv(world) == before
    world.pull(world.push())
    assert world.names() == []


def test_the_inventory_survives_a_restart_of_the_region(world: SyncedWorld, tmp_path: Path) -> None:
    kept = tmp_path / "region"
    first = LocalCluster(kept, [NodeSpec("n1", gpus=1)], SimulatedRuntime(), world.clock, Settings(namespaces=(TEAM,)))
    commit = world.push(make_job())
    LocalSync(first, world.clone, BRANCH, world.clock).step()
    first.close()
    world.push()
    second = LocalCluster(kept, [NodeSpec("n1", gpus=1)], SimulatedRuntime(), world.clock)
    sync = LocalSync(second, world.clone, BRANCH, world.clock)
    assert sync.state().commit == commit
    sync.step()
    assert second.read().workloads == []
    second.close()


def test_t9_a_finished_job_deleted_by_hand_comes_back_suspended_with_a_new_uid(world: SyncedWorld) -> None:
    world.pull(world.push(make_job(annotations=runs(1))))
    world.release()
    world.wait(2)
    old = world.job()
    world.delete(old)
    world.settle()
    assert world.names() == []
    world.wait(10)
    new = world.job()
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert conditions(new) == ["Suspended=True (JobSuspended)"]
    assert world.pods() == []


def test_t9b_a_running_job_deleted_by_hand_and_released_again_runs_twice(world: SyncedWorld) -> None:
    world.pull(world.push(make_job(grace=600, annotations=runs(stop=40))))
    world.release()
    world.delete(world.job())
    world.wait(10)
    assert conditions(world.job()) == ["Suspended=True (JobSuspended)"]
    world.suspend(False)
    world.settle()
    assert phases(world.pods()) == ["Running", "Running"]


def test_t10_a_branch_forced_back_brings_a_job_back_suspended_and_forward_again_removes_it(world: SyncedWorld) -> None:
    old = world.push(make_job(annotations=runs(1)))
    world.pull(old)
    world.release()
    world.wait(2)
    forward = world.push()
    world.pull(forward)
    assert world.names() == []
    run_git(world.bare, "update-ref", f"refs/heads/{BRANCH}", old)
    world.pull(old)
    assert conditions(world.job()) == ["Suspended=True (JobSuspended)"]
    assert world.pods() == []
    run_git(world.bare, "update-ref", f"refs/heads/{BRANCH}", forward)
    world.pull(forward)
    assert world.names() == []


def test_the_remote_is_asked_at_the_interval_and_upon_a_nudge_only(world: SyncedWorld) -> None:
    commit = world.push(make_job())
    assert world.sync.step()
    assert not world.sync.step()
    assert world.sync.next_due() == world.clock.monotonic() + 10
    world.sync.nudge(commit)
    assert not world.sync.step(), "the commit is applied already"
    world.sync.nudge("0" * 40)
    assert world.sync.next_due() == world.clock.monotonic()
    assert world.sync.step()


def test_a_remote_that_does_not_answer_is_told_and_asked_again_soon(world: SyncedWorld) -> None:
    good = world.push(make_job())
    world.pull(good)
    world.server.stop()
    world.sync.nudge("0" * 40)
    with pytest.raises(Transient):
        world.sync.step()
    assert not world.sync.step()
    assert world.sync.state().commit == good
    world.server.start()
    world.wait(5)
    assert world.sync.state().errors == {}
