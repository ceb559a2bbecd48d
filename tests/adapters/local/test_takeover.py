"""What survives a region that is killed, and that nothing is started or signalled twice."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.adapters.local import ProcessRuntime, shim
from reconciler.adapters.local.runtime import Ended
from reconciler.ports import Refused
from tests.adapters.local.real import MachineClock, RealWorld, is_running, leave_nothing, region_in, settings_in
from tests.adapters.local.world import conditions, make_job, phases
from tests.waiting import until


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A region's folder whose program was killed -9 while it ran two Jobs; and the pid of the one that goes on."""
    go = tmp_path / "go"
    first = make_job(
        "ends", suspend=False, container={"command": ["/bin/sh", "-c", f"while [ ! -e {go} ]; do sleep 0.02; done; exit 6"]}
    )
    second = make_job("stays", suspend=False, container={"command": ["/bin/sh", "-c", "echo $$$$; exec sleep 600"]})
    (tmp_path / "jobs.json").write_text(json.dumps([first, second]), encoding="utf-8")
    region = subprocess.Popen([sys.executable, "-m", "tests.adapters.local.real", str(tmp_path)])
    try:
        logs = until(
            lambda: [log for log in (tmp_path / "pods").glob("*/containers/main/log") if log.read_text(encoding="utf-8")]
        )
        until(lambda: len([*(tmp_path / "pods").glob("*/containers/main/claim")]) == 2)
        state = tmp_path / "objects.json"
        until(lambda: state.read_text(encoding="utf-8").count('"phase":"Running"') == 2)
    finally:
        region.kill()
        region.wait()
    try:
        go.touch()
        until(lambda: len([*(tmp_path / "pods").glob("*/containers/main/exit")]) == 1)
        yield tmp_path, int(logs[0].read_text(encoding="utf-8"))
    finally:
        leave_nothing(tmp_path)


def test_a_killed_region_is_taken_over(killed: tuple[Path, int]) -> None:
    folder, pid = killed
    assert is_running(pid)
    world = RealWorld(folder)
    assert world.ends("ends")["exitCode"] == 6
    world.when(lambda: conditions(world.job("ends"))[-1] == "Failed=True (BackoffLimitExceeded)")
    assert phases(world.pods("stays")) == ["Running"]
    assert is_running(pid)
    world.suspend(True, "stays")
    world.when(lambda: not world.pods("stays"))
    assert not is_running(pid)
    world.cluster.close()


def test_a_program_that_runs_though_no_object_tells_of_it_is_ended(killed: tuple[Path, int]) -> None:
    folder, pid = killed
    (folder / "objects.json").unlink()
    world = RealWorld(folder)
    world.when(lambda: not is_running(pid))
    world.cluster.close()


def test_a_program_started_just_before_the_region_was_killed_is_not_started_again(killed: tuple[Path, int]) -> None:
    folder, pid = killed
    state = json.loads((folder / "objects.json").read_text(encoding="utf-8"))
    for item in state["objects"]:
        if item["kind"] == "Pod":
            item["status"] = {"phase": "Pending"}
    (folder / "objects.json").write_text(json.dumps(state), encoding="utf-8")
    world = RealWorld(folder)
    assert world.ends("ends")["exitCode"] == 6
    world.phase("Running", "stays")
    assert world.log("stays").split() == [str(pid)]
    world.cluster.close()


def test_of_two_shims_one_starts_the_program(tmp_path: Path) -> None:
    launch = {"argv": ["/bin/sh", "-c", "echo once"], "env": {}, "cwd": str(tmp_path), "log": str(tmp_path / "log")}
    command = [sys.executable, "-I", "-S", str(shim.__file__), str(tmp_path)]
    shims = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(4)]
    for one in shims:
        assert one.stdin is not None
        one.stdin.write(json.dumps(launch).encode())
        one.stdin.close()
    assert [one.wait() for one in shims] == [0, 0, 0, 0]
    assert (tmp_path / "log").read_text(encoding="utf-8") == "once\n"
    assert json.loads((tmp_path / "exit").read_text(encoding="utf-8"))["code"] == 0


def test_a_shim_that_ends_before_it_begins_fails_the_container(real_world: RealWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    real_world.run("exit 0")
    end = real_world.ends()
    assert (end["exitCode"], end["reason"]) == (128, "StartError")
    assert end["message"].startswith("the program's shim ended with 1")
    assert real_world.log() == ""


def test_a_shim_that_cannot_be_started_is_tried_again(real_world: RealWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/no/such/python")
        real_world.run("exit 0")

        def reason() -> str | None:
            (status,) = real_world.pod()["status"]["containerStatuses"]
            return str(status["state"].get("waiting", {}).get("reason"))

        real_world.when(lambda: reason() == "CreateContainerError")
    real_world.patch(real_world.pod(), {"metadata": {"labels": {"look": "again"}}})
    assert real_world.ends()["exitCode"] == 0


def test_no_signal_reaches_a_process_that_merely_has_the_pid(tmp_path: Path) -> None:
    stranger = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        place = tmp_path / "other" / "uid-1" / "containers" / "main"
        place.mkdir(parents=True)
        found = shim.identity_of(stranger.pid)
        assert found is not None
        claim = {"pid": found.pid, "ticks": found.ticks - 1, "boot": found.boot, "started": 0}
        (place / "claim").write_text(json.dumps(claim), encoding="utf-8")
        runtime = ProcessRuntime(tmp_path / "other", settings_in(tmp_path))
        runtime.terminate("uid-1", "main", 0)
        runtime.kill("uid-1", "main", 0)
        state = runtime.poll("uid-1", "main", 0)
        assert isinstance(state, Ended)
        assert state.code == 137
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_folder_has_one_region_at_a_time(real_world: RealWorld) -> None:
    with pytest.raises(Refused, match="in use by another region"):
        region_in(real_world.folder, MachineClock())
