"""Hub and agents as the processes that they are in production, with their logs in files."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.waiting import until

CHECKOUT = Path(__file__).resolve().parents[2]


class Program:
    """One `reconciler …` process, which may be killed and started again. Its output goes on in one log file."""

    def __init__(self, name: str, arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.log = folder / f"{name}.log"
        self.log.touch()
        self._command = [sys.executable, "-m", "reconciler.cli", *arguments]
        paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        self._environment = {"PATH": paths, "HOME": str(folder), "LANG": "C.UTF-8", "PYTHONPATH": str(CHECKOUT), **environment}
        self._running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin, if it does not run."""
        if self._running is None:
            with self.log.open("ab") as log:
                self._running = subprocess.Popen(
                    self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment
                )

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it by a signal; what does not end within 20 s is killed."""
        running, self._running = self._running, None
        if running is None:
            return
        running.send_signal(signal.SIGCONT)
        running.send_signal(number)
        try:
            running.wait(20)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()

    def freeze(self, *, on: bool) -> None:
        """Stop its time, or let it go on."""
        assert self._running is not None
        self._running.send_signal(signal.SIGSTOP if on else signal.SIGCONT)

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._running is not None
        return self._running.pid

    def check(self) -> None:
        """AssertionError if it ended by itself."""
        if self._running is not None and self._running.poll() is not None:
            raise AssertionError(f"{self.name} ended with {self._running.returncode}:\n{self.tail()}")

    def tail(self, lines: int = 30) -> str:
        """Its last words."""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-lines:])

    def said(self) -> list[dict[str, Any]]:
        """Its log lines that are JSON."""
        return [json.loads(line) for line in self.log.read_text("utf-8", "replace").splitlines() if line.startswith("{")]

    def until_said(self, words: str, within_seconds: float = 60.0) -> None:
        """Wait for words in its log."""

        def found() -> bool:
            self.check()
            return words in self.log.read_text("utf-8", "replace")

        until(found, within_seconds, 0.1)


def peak_rss_mib(pid: int) -> float:
    """The most memory that a process has held, in MiB (VmHWM)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"no VmHWM of {pid}")


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
