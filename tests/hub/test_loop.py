"""The hub's loop with real threads: one cycle at a time, no wake-up lost, no error that ends it, and a clean end."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from reconciler.hub import loop as loop_module
from reconciler.hub.loop import BACK_OFF_SECONDS, HubLoop, Wakeups
from reconciler.hub.results import Ended
from reconciler.hub.standstill import read_standstill
from reconciler.model.grants import HUB_TROUBLE_KEY
from reconciler.ports import Refused, Transient
from tests.builders import TEAM
from tests.githttp import install_hook, run_git
from tests.hub.rig import Rig
from tests.hub.words import FILES, job_file
from tests.waiting import until

FOREVER = 3600.0


class Gate:
    """Cycles stop at their first look at the remote until they are let go on; counts them, and how many are there at once."""

    def __init__(self, rig: Rig) -> None:
        self.entered = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)
        self.open = threading.Event()
        self.cycles = 0
        self.inside = 0
        self.most = 0
        rig.git.before_look = self.pass_through

    def pass_through(self) -> None:
        self.cycles += 1
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.entered.release()
        while not self.open.is_set() and not self.go_on.acquire(timeout=0.05):
            pass
        self.inside -= 1

    def wait(self) -> None:
        """Until a cycle has begun."""
        assert self.entered.acquire(timeout=20), "no cycle began"


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """A hub that has nothing to do."""
    made = Rig(tmp_path)
    made.tell("eu")
    made.tell("us")
    made.settle()
    made.cycle(Ended.IDLE)
    return made


def loop_of(rig: Rig, maintain: Callable[[], None] = lambda: None) -> HubLoop:
    return HubLoop(rig.hub, rig.clock, maintain)


@contextmanager
def at_work(loop: HubLoop, gate: Gate | None = None, poll_seconds: float = FOREVER) -> Iterator[threading.Thread]:
    """The loop in a thread of its own, until the end of the block."""
    thread = threading.Thread(target=loop.run, args=(poll_seconds,), daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        if gate is not None:
            gate.open.set()
        loop.stop()
        thread.join(20)
    assert not thread.is_alive()


def rests(loop: HubLoop) -> bool:
    """Whether the loop waits for somebody to wake it."""
    return bool(loop.wakeups._changed._waiters)  # type: ignore[attr-defined]


# ---- one at a time ------------------------------------------------------------------------------------------------


def test_what_happens_during_a_cycle_leads_to_exactly_one_more(rig: Rig) -> None:  # LO-1
    loop, gate = loop_of(rig), Gate(rig)
    with at_work(loop, gate):
        gate.wait()
        for _ in range(5):
            loop.wakeups.wake()
        gate.go_on.release()
        gate.wait()
        gate.go_on.release()
        until(lambda: rests(loop))
        assert (gate.cycles, loop.health.cycles, gate.most) == (2, 2, 1)
        assert loop.health.absorbed == 4, "five wake-ups were one cycle"


def test_a_wake_up_at_rest_leads_to_one_cycle(rig: Rig) -> None:
    loop, gate = loop_of(rig), Gate(rig)
    gate.open.set()
    with at_work(loop, gate):
        for number in (1, 2, 3):
            until(lambda: rests(loop))
            assert gate.cycles == number
            loop.wakeups.wake()
            until(lambda number=number: gate.cycles == number + 1)


def test_wake_ups_from_many_threads_never_make_two_cycles_at_once(rig: Rig) -> None:
    loop, gate = loop_of(rig), Gate(rig)
    gate.open.set()
    with at_work(loop, gate, poll_seconds=0.02):
        wakers = [threading.Thread(target=lambda: [loop.wakeups.wake() for _ in range(200)]) for _ in range(4)]
        for waker in wakers:
            waker.start()
        for waker in wakers:
            waker.join()
        until(lambda: gate.cycles > 3)
    assert gate.most == 1


def test_the_poll_wakes_the_hub_where_nobody_else_does(rig: Rig) -> None:
    loop, gate = loop_of(rig), Gate(rig)
    gate.open.set()
    with at_work(loop, gate, poll_seconds=0.05):
        until(lambda: gate.cycles >= 4)


def test_a_cycle_that_is_worth_repeating_is_repeated_without_being_woken(rig: Rig) -> None:
    rig.job()
    loop = loop_of(rig)
    with at_work(loop):
        until(lambda: loop.health.cycles >= 2)
        until(lambda: rests(loop))
        assert loop.health.published == 1
        assert rig.granted("eu") == [rig.attempt().name]


def test_a_mark_is_set_once_however_often_it_is_set() -> None:
    wakeups = Wakeups()
    wakeups.wait(0)
    assert wakeups.absorbed == 0
    wakeups.wake()
    wakeups.wake()
    wakeups.wake()
    assert wakeups.absorbed == 2
    wakeups.wait(FOREVER)
    wakeups.wake()
    assert wakeups.absorbed == 2


# ---- errors -------------------------------------------------------------------------------------------------------

ERRORS: dict[str, Exception] = {
    "a remote that does not answer": Transient("the remote does not answer"),
    "a remote that lets nobody in": Refused("give valid credentials"),
    "a bug": ZeroDivisionError("a bug"),
}


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_an_error_ends_the_cycle_and_not_the_loop(rig: Rig, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(loop_module, "BACK_OFF_SECONDS", (0.01,))
    rig.git.fails = error
    loop = loop_of(rig)
    with at_work(loop):
        until(lambda: loop.health.failures_in_a_row >= 3)
        assert str(error) in loop.health.trouble
        assert loop.health.last_success_at is None
        rig.git.fails = None
        until(lambda: loop.health.last_success_at is not None)
        assert (loop.health.failures_in_a_row, loop.health.trouble) == (0, "")


def test_after_errors_in_a_row_the_hub_waits_longer_and_longer(rig: Rig) -> None:
    rig.git.fails = Transient("away")
    loop = loop_of(rig)
    assert [loop.turn() for _ in range(7)] == [*BACK_OFF_SECONDS, BACK_OFF_SECONDS[-1], BACK_OFF_SECONDS[-1]]
    rig.git.fails = None
    loop.turn()
    rig.git.fails = Transient("away")
    assert loop.turn() == BACK_OFF_SECONDS[0]


def test_a_poll_does_not_cut_the_waiting_after_an_error_short(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "BACK_OFF_SECONDS", (FOREVER,))
    rig.git.fails = Transient("away")
    loop, gate = loop_of(rig), Gate(rig)
    gate.open.set()
    with at_work(loop, gate, poll_seconds=0.02):
        until(lambda: loop.wakeups.absorbed >= 3)  # so often the poll has asked since
        assert gate.cycles == 1


def test_a_broken_ledger_is_told_and_the_loop_goes_on(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "BACK_OFF_SECONDS", (0.01,))
    good = rig.put({"hub.json": "{"}, "status")
    loop = loop_of(rig)
    with at_work(loop):
        until(lambda: loop.health.failures_in_a_row >= 2)
        assert "hub.json on the status branch cannot be read" in loop.health.trouble
        rig.move("status", run_git(rig.bare, "rev-parse", f"{good}^"))
        until(lambda: loop.health.failures_in_a_row == 0)


# ---- what it says of itself ---------------------------------------------------------------------------------------


def test_what_is_wrong_is_told_as_long_as_it_is_wrong(rig: Rig) -> None:
    rig.write_report("eu", b"{}")
    rig.job("x", gpus=1)
    loop = loop_of(rig)
    while loop.health.last_end is not Ended.IDLE:
        loop.turn()
    assert loop.health.trouble.startswith("eu: its report is broken"), "an idle cycle has looked at nothing"
    rig.tell("eu", nodes=())
    while loop.health.last_end is not Ended.QUIET:
        loop.turn()
    assert loop.health.trouble == ""


def test_a_push_that_was_refused_is_no_success(rig: Rig) -> None:
    install_hook(rig.bare, "pre-receive", "exit 1")
    rig.job()
    loop = loop_of(rig)
    loop.turn()
    assert (loop.health.last_end, loop.health.last_success_at) == (Ended.REFUSED, None)
    assert loop.health.trouble


def test_a_hub_that_stands_by_is_well(rig: Rig) -> None:
    _, second = rig.another_hub()
    loop = HubLoop(second, rig.clock, lambda: None)
    again = loop.turn()
    assert (loop.health.last_end, loop.health.last_success_at) == (Ended.STANDBY, rig.clock.monotonic())
    assert again is not None
    assert again <= 15 / 2, "it must see the lease run out in good time"


# ---- upkeep -------------------------------------------------------------------------------------------------------


def test_maintenance_is_done_between_cycles_and_once(rig: Rig) -> None:
    done: list[int] = []
    loop = loop_of(rig, lambda: done.append(rig.git.pushes.__len__()))
    loop.turn()
    assert done == []
    loop._maintenance_due.set()
    loop.turn()
    loop.turn()
    assert len(done) == 1


def test_maintenance_that_fails_is_told_and_ends_nothing(rig: Rig) -> None:
    def fails() -> None:
        raise Transient("no disk")

    loop = loop_of(rig, fails)
    loop._maintenance_due.set()
    loop.turn()
    assert loop.health.failures_in_a_row == 0
    assert not loop._maintenance_due.is_set()


def test_the_real_maintenance_leaves_a_hub_that_goes_on(rig: Rig) -> None:
    loop = loop_of(rig, rig.git.maintain)
    loop._maintenance_due.set()
    loop.turn()
    rig.job()
    loop.turn()
    assert rig.granted("eu") == [rig.attempt().name]


# ---- the end ------------------------------------------------------------------------------------------------------


def test_the_cycle_under_way_ends_before_the_loop_does_and_the_lead_is_given_up(rig: Rig) -> None:
    rig.job()
    loop, gate = loop_of(rig), Gate(rig)
    thread = threading.Thread(target=loop.run, args=(FOREVER,), daemon=True)
    thread.start()
    gate.wait()
    loop.stop()
    gate.go_on.release()
    thread.join(20)
    assert not thread.is_alive()
    assert (gate.cycles, loop.health.published) == (1, 1)
    assert rig.granted("eu") == [rig.attempt().name]
    assert rig.hub_lease().duration_seconds < 0.01
    assert not rig.hub.leads


def test_a_loop_that_waits_after_an_error_ends_at_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "BACK_OFF_SECONDS", (FOREVER,))
    rig.git.fails = Transient("away")
    loop = loop_of(rig)
    with at_work(loop):
        until(lambda: loop.health.failures_in_a_row == 1)


def test_a_lead_that_cannot_be_given_up_does_not_keep_the_loop_from_ending(rig: Rig) -> None:
    loop = loop_of(rig)
    rig.store.fails_put["hub/lease.json"] = Transient("away")
    with at_work(loop):
        until(lambda: rests(loop))


# ---- as a program -------------------------------------------------------------------------------------------------


class Program:
    """`reconciler hub` in a process of its own; its log is read line by line."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        folder.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "reconciler.cli", "hub", "--folder", str(folder / "clone"), *arguments]
        plain = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", **environment}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **plain})
        self.lines: list[dict[str, object]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(json.loads(line) if line.startswith("{") else {"event": line})

    def said(self, event: str) -> dict[str, object]:
        """The first line with that event, once it is there."""
        return until(lambda: next((line for line in self.lines if line["event"] == event), None), 60)

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Until it has ended, and all that it said is here."""
        code = self.process.wait(60)
        self._reader.join(10)
        return code


def asked(port: object, method: str, path: str, headers: dict[str, str]) -> tuple[int, dict[str, object]]:
    connection = http.client.HTTPConnection("127.0.0.1", int(str(port)), timeout=20)
    try:
        connection.request(method, path, b"{}", headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


@contextmanager
def program(rig: Rig, *arguments: str, **environment: str) -> Iterator[Program]:
    places = ["--repo", rig.url, "--store", f"file://{rig.folder / 'store'}", "--poll", "0.2"]
    made = Program(rig.folder / "program", *places, *arguments, **environment)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
            made.wait()
        assert made.process.stderr is not None
        made.process.stderr.close()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_program_cleanly_and_the_next_hub_need_not_wait(tmp_path: Path, number: int) -> None:
    rig = Rig(tmp_path, files={**FILES, f"jobs/{TEAM}/x.yaml": job_file("x")})
    rig.tell("eu")
    rig.tell("us")
    with program(rig) as hub:
        hub.said("started")
        until(lambda: rig.granted("eu"), 60)
        assert hub.end(number) == 0
        assert hub.lines[-1]["event"] == "ended"
    assert rig.hub_lease().duration_seconds < 0.01
    second = rig.another_hub()[1]
    assert second.cycle().ended is Ended.STANDBY
    rig.clock.seconds += 1
    assert second.cycle().ended in (Ended.QUIET, Ended.PUBLISHED)
    assert rig.attempt("x").number == 1


@pytest.mark.slow
def test_the_program_is_woken_by_a_webhook_and_tells_how_it_is(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.tell("eu")
    rig.tell("us")
    with program(rig, "--listen", "127.0.0.1:0", "--poll", "3600", RECONCILER_WEBHOOK_SECRETS="old, new") as hub:
        port = hub.said("listening")["port"]
        hub.said("started")
        until(lambda: "region/us" in rig.tips(), 60)
        rig.job()

        def post(token: str) -> int:
            return asked(port, "POST", "/webhooks/gitlab", {"X-Gitlab-Token": token})[0]

        assert post("wrong") == 401
        assert post("old") == post("new") == 202
        until(lambda: rig.granted("eu"), 60)

        def healthy() -> dict[str, object] | None:
            status, said = asked(port, "GET", "/healthz", {})
            return said if status == 200 and said["published"] >= 2 else None  # type: ignore[operator]

        assert until(healthy)["failures_in_a_row"] == 0
        assert hub.end(signal.SIGTERM) == 0


@pytest.mark.slow
def test_an_address_that_is_taken_is_told_and_ends_the_program(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with program(rig, "--listen", address) as hub:
            assert hub.wait() != 0
            assert any(address in str(line["event"]) for line in hub.lines), hub.lines


def test_why_it_stands_still_is_said_in_the_store_and_taken_back(rig: Rig) -> None:
    """Where the ledger cannot be believed, it cannot tell it either."""
    rig.settle()
    loop = loop_of(rig)
    good = rig.put({"hub.json": "{"}, "status")
    loop.turn()
    assert read_standstill(rig.store.inner) is None, "it may be over in a moment"
    for _ in range(2):
        rig.clock.seconds += 1
        loop.turn()
    said = read_standstill(rig.store.inner)
    assert said is not None
    assert "hub.json on the status branch cannot be read" in said.what
    assert said.since == rig.clock.now() - timedelta(seconds=1)
    rig.move("status", run_git(rig.bare, "rev-parse", f"{good}^"))
    loop.turn()
    assert read_standstill(rig.store.inner) is None


def test_a_ledger_that_the_remote_refuses_is_said_in_the_store(rig: Rig) -> None:
    rig.settle()
    install_hook(rig.bare, "update", 'case "$1" in refs/heads/status) echo "protected" >&2; exit 1;; esac; exit 0')
    rig.job("x", gpus=1)
    loop = loop_of(rig)
    loop.turn()
    said = read_standstill(rig.store.inner)
    assert said is not None
    assert "the remote refuses status" in said.what
    (rig.bare / "hooks" / "update").unlink()
    loop.turn()
    assert read_standstill(rig.store.inner) is None


def test_a_store_that_does_not_take_it_ends_nothing(rig: Rig) -> None:
    rig.settle()
    rig.store.fails[HUB_TROUBLE_KEY] = Transient("away")
    rig.put({"hub.json": "{"}, "status")
    loop = loop_of(rig)
    for _ in range(3):
        loop.turn()
    assert loop.health.failures_in_a_row == 3
