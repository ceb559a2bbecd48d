"""A program does not outlive its region's right to run it, whatever became of the region."""

import json
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.adapters.local import LocalCluster, ProcessRuntime, Settings, say_alive, shim
from tests.adapters.local.real import NODES, MachineClock, RealWorld, is_running, leave_nothing, settings_in
from tests.adapters.local.world import TEAM
from tests.waiting import until


class Leashed(RealWorld):
    """A region whose programs end with its word."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, MachineClock()
        runtime = ProcessRuntime(folder / "pods", replace(settings_in(folder), alive=folder / "alive.json"))
        self.cluster = LocalCluster(folder, NODES, runtime, self.clock, Settings(namespaces=(TEAM,)))

    def say(self, stop_in: float, kill_in: float) -> None:
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        say_alive(self.folder / "alive.json", now + stop_in, now + kill_in)

    def program(self, name: str) -> int:
        claim = json.loads((self.container_folder(name) / "claim").read_text(encoding="utf-8"))
        return shim.descendants(claim["pid"])[0]


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[tuple[Leashed, Leashed]]:
    made = tuple(Leashed(tmp_path / name) for name in ("silent", "alive"))
    yield made[0], made[1]
    for world in made:
        world.cluster.close()
        leave_nothing(world.folder)


@pytest.mark.slow
def test_programs_end_when_nothing_more_is_heard_of_their_region_and_not_before(worlds: tuple[Leashed, Leashed]) -> None:
    silent, alive = worlds
    silent.say(2, 14)
    alive.say(600, 700)
    for world in worlds:
        world.run('trap "echo saved; exit 0" TERM; echo up; while :; do sleep 0.05; done', name="heeds")
        world.run(
            "setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' & trap '' TERM; while :; do sleep 0.05; done", name="deaf"
        )
    for name in ("heeds", "deaf"):
        until(lambda name=name: len(list(silent.container_folder(name).glob("claim"))) == 1)  # type: ignore[misc]
    deaf = silent.program("deaf")
    # As the region itself would not: its cluster makes no step any more.
    said = until(lambda: [*silent.container_folder("heeds").glob("exit")], 30)
    end = json.loads(said[0].read_text(encoding="utf-8"))
    assert (end["code"], end["reason"]) == (143, "ContainerStatusUnknown")
    assert "nothing more was heard" in end["message"]
    until(lambda: not is_running(deaf), 30)
    killed = until(lambda: [*silent.container_folder("deaf").glob("exit")])
    assert json.loads(killed[0].read_text(encoding="utf-8"))["code"] == 137
    assert is_running(alive.program("heeds"))
    assert is_running(alive.program("deaf"))
    assert "saved" in silent.log("heeds")
    assert silent.log("heeds").endswith("so it was ended\n")


@pytest.mark.slow
def test_who_was_told_to_end_by_the_region_is_not_told_again(worlds: tuple[Leashed, Leashed]) -> None:
    silent, _ = worlds
    silent.say(2, 300)
    silent.run('trap "echo heard" TERM; echo up; while :; do sleep 0.05; done', name="asked", grace=600)
    silent.logged("up", "asked")
    silent.delete(silent.pod("asked"))
    silent.logged("heard", "asked")
    silent.run("trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done", name="clock")
    silent.when(lambda: [*silent.container_folder("clock").glob("exit")], 40)
    assert silent.log("asked").count("heard") == 1


@pytest.mark.parametrize("said", [None, "", "{", "[]", '{"boot": "of-yesterday", "stop_at": 1e12, "kill_at": 1e12}'])
def test_what_was_not_said_since_this_boot_is_no_word(tmp_path: Path, said: str | None) -> None:
    file = tmp_path / "alive.json"
    if said is not None:
        file.write_text(said, encoding="utf-8")
    assert shim._allowed(file) == (0.0, 0.0)
    say_alive(file, 5.0, 7.5)
    assert shim._allowed(file) == (5.0, 7.5)
    file.unlink()
    assert shim._allowed(file, (5.0, 7.5)) == (5.0, 7.5)


@pytest.mark.slow
def test_another_region_in_a_folder_of_that_name_does_not_speak_for_it(worlds: tuple[Leashed, Leashed], tmp_path: Path) -> None:
    """The folder was moved away while programs of it run, and an agent began anew in an empty one."""
    silent, alive = worlds
    for world in worlds:
        world.say(4, 12)
        world.run('trap "exit 0" TERM; echo up; while :; do sleep 0.05; done', name="heeds")
        world.logged("up", "heeds")
    program, other = silent.program("heeds"), alive.program("heeds")
    place = silent.container_folder("heeds").relative_to(silent.folder)
    moved = silent.folder.rename(tmp_path / "moved")
    silent.folder.mkdir()
    silent.say(600, 700)
    alive.folder.rename(tmp_path / "renamed")
    alive.folder = tmp_path / "renamed"
    alive.say(600, 700)
    until(lambda: not is_running(program), 30)
    said = until(lambda: [*(moved / place).glob("exit")])
    assert json.loads(said[0].read_text(encoding="utf-8"))["code"] == 143
    assert is_running(other)
    shutil.rmtree(silent.folder)
    moved.rename(silent.folder)


@pytest.mark.slow
def test_programs_of_a_folder_that_was_removed_end_as_well(worlds: tuple[Leashed, Leashed]) -> None:
    silent, _ = worlds
    silent.say(2, 14)
    silent.run("trap '' TERM; echo up; while :; do sleep 0.05; done", name="deaf")
    silent.logged("up", "deaf")
    program = silent.program("deaf")
    shutil.rmtree(silent.folder)
    until(lambda: not is_running(program), 30)
    silent.folder.mkdir()


def test_programs_get_the_signals_of_any_other_program(worlds: tuple[Leashed, Leashed]) -> None:
    _, alive = worlds
    alive.say(600, 700)
    alive.run("echo up; kill -ALRM $$; sleep 60", name="alarm")
    assert alive.ends("alarm")["exitCode"] == 128 + signal.SIGALRM
