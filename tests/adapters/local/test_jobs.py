"""Jobs and their pods where a table does not do: controllers that rest, deletions, names."""

from reconciler.adapters.local.job_controller import orphan
from tests.adapters.local.world import TEAM, World, conditions, make_job, phases, runs, status_without

SUSPENDED = "Suspended=True (JobSuspended)"
RESUMED = "Suspended=False (JobResumed)"
MET, COMPLETE = "SuccessCriteriaMet=True (CompletionsReached)", "Complete=True (CompletionsReached)"
OVER_LIMIT, FAILED = "FailureTarget=True (BackoffLimitExceeded)", "Failed=True (BackoffLimitExceeded)"


def test_unsuspended_before_the_controller_looked_has_no_condition() -> None:
    world = World()
    with world.cluster.changes() as (objects, now):
        objects.create(make_job(), now)
    world.suspend(False)
    world.settle()
    assert conditions(world.job()) == []
    assert phases(world.pods()) == ["Running"]


def test_one_of_two_pods_fails_while_the_other_needs_three_seconds_to_stop() -> None:
    world = World()
    world.create(make_job(size=2, annotations=runs(stop=3)))
    world.release()
    with world.cluster.changes() as (objects, _now):
        first = objects.every("Pod")[0]
        objects.replace(first, status={**first["status"], "phase": "Failed"})
    world.advance(1)
    assert conditions(world.job()) == [RESUMED, OVER_LIMIT]
    assert status_without(world.job(), "startTime") == {"ready": 0, "terminating": 1, "failed": 2}
    world.advance(2)
    assert conditions(world.job()) == [RESUMED, OVER_LIMIT, FAILED]
    assert status_without(world.job(), "startTime") == {"ready": 0, "terminating": 0, "failed": 2}


def test_terminal_before_the_controller_handled_the_suspend_counts() -> None:
    world = World()
    world.create(make_job(annotations=runs(5)))
    world.release()
    world.cluster.pause_controllers(paused=True)
    world.advance(5)
    world.suspend(True)
    world.cluster.pause_controllers(paused=False)
    world.settle()
    assert conditions(world.job()) == [RESUMED, MET, COMPLETE]


def test_controllers_stopped_suspend_does_nothing_and_an_ended_pod_stays_listed() -> None:
    world = World()
    world.create(make_job(annotations=runs(stop=1)))
    world.release()
    world.cluster.pause_controllers(paused=True)
    world.suspend(True)
    world.advance(8)
    assert phases(world.pods()) == ["Running"]
    assert conditions(world.job()) == [RESUMED]
    world.delete(world.pod(), 30)
    world.advance(1)
    assert phases(world.pods()) == ["Failed"]
    world.delete(world.job())
    world.advance(60)
    assert phases(world.pods()) == ["Failed"]
    world.cluster.pause_controllers(paused=False)
    world.settle()
    assert world.pods() == []


def test_a_deleted_job_goes_at_once_and_its_pod_after_its_own_grace() -> None:
    world = World()
    world.create(make_job(grace=600, annotations=runs(stop=40)))
    world.release()
    world.delete(world.job())
    world.advance(38)
    assert world.cluster.read().workloads == []
    pod = world.pod()
    assert pod["status"]["phase"] == "Running"
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 600
    assert "finalizers" not in pod["metadata"]
    world.advance(2)
    assert world.pods() == []


def test_an_orphaned_pod_runs_on_and_only_its_labels_tell_of_its_job() -> None:
    world = World()
    world.create(make_job(annotations=runs(5)))
    world.release()
    with world.cluster.changes() as (objects, now):
        orphan(objects, world.job(), now)
    world.advance(4)
    metadata = world.pod()["metadata"]
    assert "ownerReferences" not in metadata
    assert "finalizers" not in metadata
    assert metadata["labels"]["gpu-reconciler.dev/attempt"] == "train"
    assert phases(world.pods()) == ["Running"]
    world.advance(1)
    assert phases(world.pods()) == ["Succeeded"]


def test_the_pod_of_an_indexed_job() -> None:
    world = World()
    world.create(make_job(size=2, gated=True, annotations={"note": "kept"}))
    world.suspend(False)
    world.settle()
    pods = world.pods()
    assert [pod["metadata"]["name"][:-5] for pod in pods] == ["train-0-", "train-1-"]
    assert len({pod["metadata"]["name"][-5:] for pod in pods}) == 2
    second = pods[1]
    assert second["spec"]["hostname"] == "train-1"
    assert second["metadata"]["annotations"] == {"note": "kept", "batch.kubernetes.io/job-completion-index": "1"}
    assert second["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "1"
    assert second["metadata"]["labels"]["gpu-reconciler.dev/attempt"] == "train"
    assert second["spec"]["schedulingGates"] == [{"name": "gpu-reconciler.dev/grant"}]
    (variable,) = second["spec"]["containers"][0]["env"]
    assert variable["name"] == "JOB_COMPLETION_INDEX"
    assert conditions(second) == ["PodScheduled=False (SchedulingGated)"]
    assert second["metadata"]["ownerReferences"][0]["uid"] == world.job()["metadata"]["uid"]


def test_gates_are_lifted_one_by_one() -> None:
    world = World()
    world.create(make_job(size=2, gated=True))
    world.suspend(False)
    world.settle()
    world.patch(world.pods()[1], {"spec": {"schedulingGates": None}})
    world.settle()
    assert phases(world.pods()) == ["Pending", "Running"]


def test_names_of_pods_are_unique_over_many_resumes() -> None:
    world = World()
    world.create(make_job())
    names = []
    for _ in range(20):
        world.suspend(False)
        world.settle()
        names.append(world.pod()["metadata"]["name"])
        world.suspend(True)
        world.settle()
    assert len(set(names)) == 20
    assert all(len(name) == len("train-") + 5 for name in names)


def test_a_job_of_another_team_is_left_alone_by_read() -> None:
    world = World()
    foreign = make_job("foreign")
    foreign["metadata"]["labels"] = {}
    world.create(foreign)
    world.create(make_job("ours"))
    assert [job["metadata"]["name"] for job in world.cluster.read().workloads] == ["ours"]
    assert TEAM in world.cluster.read().namespaces
