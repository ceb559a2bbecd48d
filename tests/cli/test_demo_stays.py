"""A demo that stays up: what its screen says of processes that end, and the commands that it shows."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.commands import screen
from reconciler.commands.demo_stage import Stage, stay
from reconciler.commands.ends import AnswerIsNo
from tests.waiting import until

LONG = [sys.executable, "-c", "import time; time.sleep(600)", "with a word"]


@pytest.fixture
def processes() -> Iterator[dict[str, "subprocess.Popen[bytes]"]]:
    started = {name: subprocess.Popen(LONG) for name in ("hub", "us-east")}
    yield started
    for process in started.values():
        process.kill()
        process.wait()


def test_the_death_of_one_is_told_and_the_others_stay(
    processes: dict[str, "subprocess.Popen[bytes]"], folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []

    def person() -> None:
        processes["hub"].kill()
        until(lambda: said.append(capfd.readouterr().out) or "hub" in "".join(said))  # type: ignore[func-returns-value]
        os.kill(os.getpid(), signal.SIGINT)

    watching = threading.Thread(target=person)
    watching.start()
    stay(Stage(folder), processes)
    watching.join()
    told = "".join(said) + capfd.readouterr().out
    assert told.count("hub was killed by signal 9, the others stay up") == 1
    assert f"its log is {folder}/logs/hub.log" in told
    assert f"  {sys.executable} -c 'import time; time.sleep(600)' 'with a word'\n" in told
    assert "us-east" not in told
    assert processes["us-east"].poll() is None


def test_it_ends_badly_where_nothing_is_left(
    processes: dict[str, "subprocess.Popen[bytes]"], folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for process in processes.values():
        process.terminate()
    with pytest.raises(AnswerIsNo):
        stay(Stage(folder), processes)
    assert "nothing is left that runs" in capfd.readouterr().out


CALLED = {
    "by a path from here": (".venv/bin/reconciler", "{here}/.venv/bin/reconciler"),
    "by a whole path": ("/opt/tools/reconciler", "/opt/tools/reconciler"),
    "as a module": ("/opt/lib/reconciler/cli.py", "reconciler"),
}


@pytest.mark.parametrize(("called", "shown"), CALLED.values(), ids=CALLED.keys())
def test_commands_to_copy_do_not_hang_on_the_folder(
    monkeypatch: pytest.MonkeyPatch, folder: Path, called: str, shown: str
) -> None:
    monkeypatch.setattr(sys, "argv", [called])
    monkeypatch.chdir(folder)
    assert screen.program() == shown.format(here=folder)
