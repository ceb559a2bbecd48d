"""The region as a whole: what survives, when it is due, what the agent keeps in it, and images that are not there."""

import json
import threading
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from reconciler.adapters.local import LocalCluster, NodeSpec, SimulatedRuntime
from reconciler.adapters.local.kubelet import RETRY_MILLIS
from reconciler.adapters.local.moments import millis, stamp, timeline, whole_second
from reconciler.ports import Conflict, Refused, Transient
from tests.adapters.local.world import HandClock, World, conditions, make_job, phases, runs


def test_nothing_is_due_until_somebody_writes() -> None:
    world = World()
    assert world.cluster.next_due() is None
    assert not world.cluster.step()
    world.cluster.write_record(b"{}", expect=None)
    assert world.cluster.next_due() == world.clock.monotonic()


def test_the_next_due_moment_is_the_earliest_of_all() -> None:
    world = World()
    world.create(make_job("deadline", activeDeadlineSeconds=50))
    world.create(make_job("ends", annotations=runs(30)))
    world.create(make_job("stops", annotations=runs(stop=99), grace=20))
    for name in ("deadline", "ends", "stops"):
        world.release(name)
    world.suspend(True, "stops")
    world.settle()
    seen = []
    while (due := world.cluster.next_due()) is not None:
        seen.append(due - 5000)
        world.clock.seconds = seen[-1]
        world.settle()
    assert seen == [20, 30, 50]


def test_many_steps_at_odd_moments_come_to_the_same_end_as_few() -> None:
    ends = []
    for stride in (0.37, 10.0):
        world = World()
        world.create(make_job(annotations=runs(12.3456)))
        world.release()
        while conditions(world.job())[-1] != "Complete=True (CompletionsReached)":
            world.clock.seconds += stride
            world.settle()
        ends.append(world.pod()["status"]["containerStatuses"][0]["state"])
    assert ends[0] == ends[1]


def test_a_corrected_wall_clock_bends_no_duration() -> None:
    class Corrected(HandClock):
        """A clock whose hands are moved while it runs."""

        by = timedelta()

        def now(self) -> datetime:
            return super().now() + self.by

    clock = Corrected()
    line = timeline(clock)
    clock.seconds, clock.by = 10.0, timedelta(hours=-3)
    assert line.now() == line.origin_ms + 10_000


def test_times() -> None:
    assert stamp(1_777_629_600_999) == "2026-05-01T10:00:00Z"
    assert millis("2026-05-01T10:00:00Z") == 1_777_629_600_000
    assert [whole_second(moment) for moment in (0, 1, 999, 1000)] == [0, 1000, 1000, 1000]


def test_objects_and_record_survive_and_simulated_containers_do_not(tmp_path: Path) -> None:
    world = World(folder=tmp_path)
    world.create(make_job())
    world.release()
    version = world.cluster.write_record(b"\x00record", expect=None)
    before = world.cluster.read()
    world.cluster.close()
    again = LocalCluster(tmp_path, [NodeSpec("n1", gpus=8, product="NVIDIA-A100-SXM4-80GB")], SimulatedRuntime(), world.clock)
    assert [job["metadata"]["uid"] for job in again.read().workloads] == [job["metadata"]["uid"] for job in before.workloads]
    assert again.read().namespaces == before.namespaces
    record = again.read_record()
    assert record is not None
    assert (record.body, record.etag) == (b"\x00record", version)
    while again.step():
        pass
    (pod,) = again.read().pods
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == "ContainerStatusUnknown"
    assert conditions(again.read().workloads[0])[-1] == "Failed=True (BackoffLimitExceeded)"
    again.close()


def test_every_write_is_on_disk_before_its_writer_is_told(tmp_path: Path) -> None:
    world = World(folder=tmp_path)
    world.create(make_job())
    world.suspend(False)
    kept = json.loads((tmp_path / "objects.json").read_text(encoding="utf-8"))
    (job,) = [item for item in kept["objects"] if item["kind"] == "Job"]
    assert job == world.job()
    world.cluster.close()


def test_a_torn_new_file_is_not_looked_at(tmp_path: Path) -> None:
    world = World(folder=tmp_path)
    world.create(make_job())
    world.cluster.close()
    (tmp_path / "objects.json.new").write_text('{"form": 1, "obj', encoding="utf-8")
    again = World(folder=tmp_path)
    assert again.job()["metadata"]["name"] == "train"
    again.cluster.close()


def test_a_disk_that_does_not_take_it_is_told_and_tried_again(tmp_path: Path) -> None:
    world = World(folder=tmp_path)
    obstacle = tmp_path / "objects.json.new"
    obstacle.mkdir()
    with pytest.raises(Transient, match="could not be kept"):
        world.create(make_job())
    obstacle.rmdir()
    world.settle()
    kept = json.loads((tmp_path / "objects.json").read_text(encoding="utf-8"))
    assert [item["metadata"]["name"] for item in kept["objects"] if item["kind"] == "Job"] == ["train"]
    world.cluster.close()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"form": 1}', '{"form": 9, "origin": "x", "version": 1, "objects": []}'])
def test_a_file_that_is_not_ours_is_refused_and_left(tmp_path: Path, content: str) -> None:
    file = tmp_path / "objects.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(Refused, match=r"objects\.json"):
        World(folder=tmp_path)
    assert file.read_text(encoding="utf-8") == content


def test_a_folder_in_use_and_a_folder_that_cannot_be(tmp_path: Path) -> None:
    world = World(folder=tmp_path / "r")
    with pytest.raises(Refused, match="in use by another region"):
        World(folder=tmp_path / "r")
    world.cluster.close()
    World(folder=tmp_path / "r").cluster.close()
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match="cannot be used"):
        World(folder=tmp_path / "file")


def test_a_priority_class_that_a_job_uses_must_stay(tmp_path: Path) -> None:
    world = World(folder=tmp_path, priorities={"high": 9})
    world.create(make_job(pod={"priorityClassName": "high"}))
    world.cluster.close()
    with pytest.raises(Refused, match="Job team-a/train has priority class high"):
        World(folder=tmp_path)
    World(folder=tmp_path, priorities={"high": 9}).cluster.close()


def test_the_record_is_replaced_by_compare_and_swap() -> None:
    cluster = World().cluster
    assert cluster.read_record() is None
    with pytest.raises(Conflict):
        cluster.write_record(b"x", expect="7")
    first = cluster.write_record(b"1", expect=None)
    with pytest.raises(Conflict):
        cluster.write_record(b"x", expect=None)
    second = cluster.write_record(b"2", expect=first)
    with pytest.raises(Conflict):
        cluster.write_record(b"x", expect=first)
    record = cluster.read_record()
    assert record is not None
    assert (record.body, record.etag) == (b"2", second)


def test_threads_have_one_winner() -> None:
    cluster = World().cluster
    version = cluster.write_record(b"0", expect=None)
    won: list[int] = []

    def swap(number: int) -> None:
        try:
            cluster.write_record(b"%d" % number, expect=version)
        except Conflict:
            return
        won.append(number)

    threads = [threading.Thread(target=swap, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    record = cluster.read_record()
    assert record is not None
    assert [b"%d" % number for number in won] == [record.body]


def test_an_image_that_is_not_known_is_never_pulled() -> None:
    world = World(images=("reg.example.com/*", "busybox"))
    world.create(make_job(container={"image": "reg.example.co/trian:1"}, activeDeadlineSeconds=3600))
    world.release()
    (status,) = world.pod()["status"]["containerStatuses"]
    assert status["state"]["waiting"]["reason"] == "ErrImagePull"
    assert 'failed to resolve reference "reg.example.co/trian:1"' in status["state"]["waiting"]["message"]
    world.advance(RETRY_MILLIS / 1000)
    (status,) = world.pod()["status"]["containerStatuses"]
    assert status["state"]["waiting"]["reason"] == "ImagePullBackOff"
    assert status["state"]["waiting"]["message"].startswith('Back-off pulling image "reg.example.co/trian:1": ErrImagePull: ')
    assert phases(world.pods()) == ["Pending"]
    assert world.job()["status"]["active"] == 1
    world.advance(3590)
    assert conditions(world.job())[-1] == "Failed=True (DeadlineExceeded)"
    assert world.pods() == []


def test_known_images_by_pattern() -> None:
    world = World(images=("reg.example.com/*",))
    world.create(make_job())
    world.release()
    assert phases(world.pods()) == ["Running"]


def test_gpus_are_given_by_index_and_given_back() -> None:
    world = World()
    for name, gpus in (("a", 3), ("b", 2)):
        world.create(make_job(name, gpus=gpus, annotations=runs(stop=0)))
        world.release(name)
    key = "local.reconciler/devices"
    assert [world.pod(name)["metadata"]["annotations"][key] for name in ("a", "b")] == ["0,1,2", "3,4"]
    world.suspend(True, "a")
    world.settle()
    world.create(make_job("c", gpus=5))
    world.release("c")
    assert world.pod("c")["metadata"]["annotations"][key] == "0,1,2,5,6"


def test_nobody_but_the_kubelet_says_which_gpus_are_a_pods() -> None:
    world = World()
    world.create(make_job(annotations={"local.reconciler/devices": "6,7"}))
    world.release()
    assert world.pod()["metadata"]["annotations"]["local.reconciler/devices"] == "0"


def test_a_simulation_without_numbers_waits() -> None:
    world = World()
    world.create(make_job(annotations={"local.reconciler/run-seconds": "long"}))
    world.release()
    (status,) = world.pod()["status"]["containerStatuses"]
    assert status["state"]["waiting"]["message"].endswith("could not convert string to float: 'long'")


def test_what_a_running_and_an_ended_pod_say() -> None:
    world = World()
    world.create(make_job(annotations=runs(5, code=2)))
    world.release()
    running = world.pod()["status"]
    assert running["startTime"] == "2026-05-01T10:00:00Z"
    assert running["containerStatuses"][0]["state"] == {"running": {"startedAt": "2026-05-01T10:00:00Z"}}
    assert [item for item in conditions(world.pod()) if "True" not in item] == []
    world.advance(5)
    ended = world.pod()["status"]["containerStatuses"][0]
    assert ended["state"]["terminated"] == {
        "exitCode": 2,
        "reason": "Error",
        "startedAt": "2026-05-01T10:00:00Z",
        "finishedAt": "2026-05-01T10:00:05Z",
    }
    assert (ended["ready"], ended["restartCount"]) == (False, 0)
    assert "Ready=False (PodFailed)" in conditions(world.pod())


def test_regions_of_different_names_never_share_a_uid() -> None:
    uids = {World(name=name).create(make_job())["metadata"]["uid"] for name in ("eu", "us")}
    assert len(uids) == 2
    assert World(name="eu").create(make_job())["metadata"]["uid"] in uids, "the same history gives the same uids"
