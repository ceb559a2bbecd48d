"""Containers as real processes: how they end, who hears signals, in which order they come."""

import json
import os
import signal
import socket
import sys
from dataclasses import dataclass

import pytest

from reconciler.adapters.local import shim
from tests.adapters.local.real import RealWorld, is_running
from tests.adapters.local.world import conditions, make_job, phases

pytestmark = pytest.mark.slow


@pytest.fixture
def world(real_world: RealWorld) -> RealWorld:
    return real_world


@dataclass(frozen=True)
class Ends:
    script: str
    want_code: int
    want_reason: str


ENDS = {
    "it ends well": Ends("exit 0", 0, "Completed"),
    "it ends with a code of its own": Ends("exit 3", 3, "Error"),
    "it is killed": Ends("kill -9 $$", 137, "Error"),
    "it gets the default of SIGTERM": Ends("kill -TERM $$", 143, "Error"),
    "it gets the default of SIGPIPE": Ends("kill -PIPE $$", 141, "Error"),
    "it gets the default of SIGINT": Ends("kill -INT $$", 130, "Error"),
    "a child of it ends badly": Ends("sh -c 'exit 7'", 7, "Error"),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS.keys())
def test_how_a_program_ends(world: RealWorld, case: Ends) -> None:
    world.run(case.script)
    end = world.ends()
    assert (end["exitCode"], end["reason"]) == (case.want_code, case.want_reason)
    last = "Complete=True (CompletionsReached)" if case.want_code == 0 else "Failed=True (BackoffLimitExceeded)"
    world.when(lambda: conditions(world.job())[-1] == last)


def test_a_program_that_is_not_there(world: RealWorld) -> None:
    world.run("", container={"command": ["no-such-program", "x"]})
    end = world.ends()
    assert (end["exitCode"], end["reason"]) == (128, "StartError")
    assert "no-such-program" in end["message"]


def test_the_program_may_save_its_work_within_its_grace(world: RealWorld) -> None:
    world.run('trap "echo saved; exit 5" TERM; echo up; while :; do sleep 0.05; done', grace=30)
    world.logged("up")
    os.link(world.container_folder() / "log", world.folder / "log")
    world.suspend(True)
    world.when(lambda: not world.pods())
    assert (world.folder / "log").read_text(encoding="utf-8").endswith("saved\n")
    assert conditions(world.job()) == ["Suspended=True (JobSuspended)"]


def test_exit_0_within_the_grace_of_a_suspend_is_lost_to_the_job(world: RealWorld) -> None:
    world.run('trap "exit 0" TERM; echo up; while :; do sleep 0.05; done')
    world.logged("up")
    world.suspend(True)
    world.when(lambda: not world.pods())
    assert conditions(world.job()) == ["Suspended=True (JobSuspended)"]
    assert "succeeded" not in world.job()["status"]


def test_a_program_that_will_not_end_is_killed_after_its_grace_and_not_before(world: RealWorld) -> None:
    world.run('trap "echo heard" TERM; echo up; while :; do sleep 0.05; done', grace=2)
    world.logged("up")
    claim = json.loads((world.container_folder() / "claim").read_text(encoding="utf-8"))
    (program, *_) = shim.descendants(claim["pid"])
    world.delete(world.pod())
    deleted = world.clock.monotonic()
    world.logged("heard")
    assert is_running(program)
    world.when(lambda: not world.pods() or phases(world.pods()) == ["Failed"])
    assert world.clock.monotonic() - deleted >= 2
    assert not is_running(program)


def test_sigterm_comes_once(world: RealWorld) -> None:
    world.run('trap "echo heard" TERM; echo up; while :; do sleep 0.05; done', grace=2)
    world.logged("up")
    os.link(world.container_folder() / "log", world.folder / "log")
    world.delete(world.pod())
    world.when(lambda: not world.pods() or phases(world.pods()) == ["Failed"])
    assert (world.folder / "log").read_text(encoding="utf-8").count("heard") == 1


def test_what_the_program_left_behind_ends_with_it(world: RealWorld) -> None:
    world.run("setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' & echo $! >$POD_ROOT/left; sleep 0.2; exit 4")
    end = world.ends()
    assert end["exitCode"] == 4
    left = int((world.container_folder() / "root" / "left").read_text(encoding="utf-8"))
    assert not is_running(left)


def test_sessions_of_their_own_do_not_escape_the_end_of_the_grace(world: RealWorld) -> None:
    stubborn = "trap '' TERM; echo $$ >$POD_ROOT/{0}; while :; do sleep 0.05; done"
    (world.folder / "left.sh").write_text(stubborn.format("left"), encoding="utf-8")
    world.run(f"setsid sh {world.folder}/left.sh & {stubborn.format('own')}", grace=1)
    written = world.container_folder() / "root" / "left"
    left = world.when(lambda: int(written.read_text(encoding="utf-8") or 0) if written.exists() else None)
    assert is_running(left)
    world.suspend(True)
    world.when(lambda: not world.pods())
    assert not is_running(left)


def test_a_killed_shim_takes_its_program_with_it(world: RealWorld) -> None:
    world.run("echo up; while :; do sleep 0.05; done")
    world.logged("up")
    claim = json.loads((world.container_folder() / "claim").read_text(encoding="utf-8"))
    (program, *_) = shim.descendants(claim["pid"])
    os.kill(claim["pid"], signal.SIGKILL)
    end = world.ends()
    assert (end["exitCode"], end["reason"]) == (137, "ContainerStatusUnknown")
    assert not is_running(program)


def test_a_folder_that_a_program_closed_to_itself_is_removed_all_the_same(world: RealWorld) -> None:
    world.run("mkdir -p $POD_ROOT/a/b; chmod 500 $POD_ROOT/a; chmod 000 $POD_ROOT/a/b")
    world.ends()
    world.delete(world.job())
    world.when(lambda: not [*(world.folder / "pods").iterdir()])


def test_log_tail(world: RealWorld) -> None:
    world.run("echo out; echo err >&2; printf '%05000d' 7")
    world.ends()
    assert world.log(limit=8) == "00000007"
    assert world.log(limit=100_000).startswith("out\nerr\n0000")
    assert world.cluster.log_tail("team-a", "no-such-pod", 10) == ""


def test_init_containers_run_one_after_the_other_before_the_program(world: RealWorld) -> None:
    steps = [
        {"name": f"step-{at}", "image": "reg.example.com/x", "command": ["/bin/sh", "-c", f"echo {at} >>$POD_ROOT/scratch/order"]}
        | {"volumeMounts": [{"name": "work", "mountPath": "/scratch"}]}
        for at in (1, 2)
    ]
    mounts = [{"name": "work", "mountPath": "/elsewhere"}]
    pod = {"initContainers": steps, "volumes": [{"name": "work", "emptyDir": {}}]}
    world.run("", pod=pod, container={"command": ["cat"], "args": ["/elsewhere/order"], "volumeMounts": mounts})
    assert world.ends()["exitCode"] == 0
    assert world.log() == "1\n2\n"
    states = [one["state"]["terminated"]["exitCode"] for one in world.pod()["status"]["initContainerStatuses"]]
    assert states == [0, 0]


def test_a_failing_init_container_fails_the_pod_and_the_program_never_starts(world: RealWorld) -> None:
    step = {"name": "step", "image": "reg.example.com/x", "command": ["/bin/sh", "-c", "exit 9"]}
    world.run("echo never", pod={"initContainers": [step]})
    pod = world.phase("Failed")
    assert pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 9
    assert pod["status"]["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}


def test_a_sidecar_runs_beside_the_program_and_ends_after_it(world: RealWorld) -> None:
    sidecar = {"name": "side", "image": "reg.example.com/x", "restartPolicy": "Always", "command": ["sleep", "600"]}
    world.run("exit 0", pod={"initContainers": [sidecar]})
    pod = world.phase("Succeeded")
    assert pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 143


def test_gang_of_two_meets_at_its_stable_host_name(world: RealWorld) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = """
import os, socket, time
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["JOB_COMPLETION_INDEX"] == "0":
    server = socket.create_server(address)
    peer, _ = server.accept()
    peer.sendall(b"hello from " + os.environ["HOSTNAME"].encode())
else:
    while True:
        try:
            peer = socket.create_connection(address)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    print(peer.recv(100).decode())
"""
    env = [{"name": "MASTER_ADDR", "value": "train-0.train.team-a"}, {"name": "MASTER_PORT", "value": str(port)}]
    container = {"command": [sys.executable, "-c", program], "env": env}
    world.create(make_job(size=2, gated=True, container=container, pod={"subdomain": "train"}))
    world.suspend(False)
    world.when(lambda: len(world.pods()) == 2)
    for pod in world.pods():
        world.patch(pod, {"spec": {"schedulingGates": None}})
    world.when(lambda: phases(world.pods()) == ["Succeeded", "Succeeded"])
    second = world.pods()[1]["metadata"]["name"]
    assert world.cluster.log_tail("team-a", second, 100) == "hello from train-0\n"
    devices = [pod["metadata"]["annotations"]["local.reconciler/devices"] for pod in world.pods()]
    assert sorted(devices) == ["0", "1"]
    world.when(lambda: conditions(world.job())[-1] == "Complete=True (CompletionsReached)")
