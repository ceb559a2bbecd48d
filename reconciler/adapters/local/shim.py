"""Stands beside one container's program: starts it, outlives the region, and writes down how it ended.

Run as a program of its own (`python -I -S shim.py <folder>`, launch as JSON on standard input), with nothing but the
standard library. Who is started and stopped is the runtime's, with one exception: a program does not outlive its region's
right to run it. The region says in a file until when that lasts; when nothing has put that off, because the region is
gone or frozen, the shim ends the program itself. As the parent of last resort (PR_SET_CHILD_SUBREAPER) of all that the
program starts, it is what a container's process namespace is on Kubernetes.

Invariants: of two shims for one folder only one starts the program (`claim` is linked, never overwritten); `exit` is
written once, whole, after the program and everything that it started have ended; what the shim has ended is never told
as a success.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

_PR_SET_CHILD_SUBREAPER = 36
_START_ERROR = 128
_TERMINATED = 128 + signal.SIGTERM
_UNKNOWN = "ContainerStatusUnknown"
_FIRST_LOOK_SECONDS = 10.0
"""A region that has just begun has this long to say until when it may run programs."""
_LOOK_SECONDS = 5.0
"""Between looks at the least: the moment may be brought forward, by a region that starts anew with shorter times."""
_BOOT: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""It counts while the machine sleeps, as the clock does by which the region counts."""


class Identity(NamedTuple):
    """One process for good: a pid is given again, but not with this start (ticks since that boot)."""

    pid: int
    ticks: int
    boot: str


def stat_of(pid: int) -> tuple[str, int, int] | None:
    """State letter, parent and start (ticks since boot) of a process; None where there is none."""
    try:
        # The name in parentheses may hold anything, also parentheses and spaces.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return fields[0], int(fields[1]), int(fields[19])


def identity_of(pid: int) -> Identity | None:
    """The identity of a live process; None where there is none, or only its exit status is left."""
    found = stat_of(pid)
    if found is None or found[0] in "ZX":
        return None
    return Identity(pid, found[2], _boot())


def processes() -> list[int]:
    """All pids of this machine."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def descendants(ancestor: int) -> list[int]:
    """All live processes below `ancestor`, without itself."""
    children: dict[int, list[int]] = {}
    for pid in processes():
        found = stat_of(pid)
        if found is not None:
            children.setdefault(found[1], []).append(pid)
    below: list[int] = []
    parents = [ancestor]
    while parents:
        parents = [child for parent in parents for child in children.get(parent, ())]
        below.extend(parents)
    return [pid for pid in below if identity_of(pid) is not None]


def kill(pid: int) -> None:
    """SIGKILL, unless it has ended."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def write_once(path: Path, content: dict[str, Any]) -> bool:
    """Put a whole file there unless there is one; says whether it did. On the disk when it returns."""
    mine = path.with_name(f"{path.name}.{os.getpid()}")
    with mine.open("w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(mine, path)
    except FileExistsError:
        return False
    finally:
        mine.unlink()
    return True


def say_alive(file: Path, stop_at: float, kill_at: float) -> None:
    """The region's word: programs may run until `stop_at`, and are killed at `kill_at`, unless that is put off. Seconds of the
    clock of this boot. Raises OSError."""
    mine = file.with_name(f"{file.name}.new")
    mine.write_text(json.dumps({"boot": _boot(), "stop_at": stop_at, "kill_at": kill_at}), encoding="utf-8")
    mine.replace(file)


def _allowed(file: Path, before: tuple[float, float] = (0.0, 0.0)) -> tuple[float, float]:
    """When to stop, and when to kill; what was read before, where that was not said since this boot."""
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
        return (said["stop_at"], said["kill_at"]) if said["boot"] == _boot() else before
    except (OSError, ValueError, KeyError, TypeError):
        return before


def _held(folder: Path) -> Path:
    """The folder itself, wherever it is moved to: another one of its name may be another region's."""
    return Path(f"/proc/self/fd/{os.open(folder, os.O_RDONLY | os.O_DIRECTORY)}")


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


class _Leash:
    """Ends the program when the region's word has run out. By a timer's signal: the shim waits for its child meanwhile."""

    def __init__(self, folder: Path, file: Path) -> None:
        self._folder = folder
        self._file = _held(file.parent) / file.name
        self._allowed = 0.0, 0.0
        self._told = False
        self.pulled = False
        """Whether the shim has begun to end the program."""
        signal.signal(signal.SIGALRM, self._look)
        signal.setitimer(signal.ITIMER_REAL, _FIRST_LOOK_SECONDS)

    def _look(self, *_: object) -> None:
        self._allowed = stop_at, kill_at = _allowed(self._file, self._allowed)
        now = time.clock_gettime(_BOOT)
        if now >= stop_at:
            self._stop()
        if now >= kill_at:
            for pid in descendants(os.getpid()):
                kill(pid)
        due = (kill_at if now >= stop_at else stop_at) - now
        signal.setitimer(signal.ITIMER_REAL, min(max(due, 0.5), _LOOK_SECONDS))

    def _stop(self) -> None:
        """SIGTERM to its process group, once, whoever it comes from."""
        self.pulled = True
        if not (self._folder / "told").exists() and not self._told:
            self._told = True
            with contextlib.suppress(OSError):  # of a folder that somebody has removed
                (self._folder / "told").touch()
            os.killpg(os.getpgrp(), signal.SIGTERM)


def _now() -> int:
    return time.time_ns() // 1_000_000


def _run(launch: dict[str, Any], told: list[int]) -> tuple[int, str, str]:
    if told:
        return 128 + told[0], "Error", "asked to end before it was started"
    try:
        with Path(launch["log"]).open("ab") as log:
            program = subprocess.Popen(
                launch["argv"], env=launch["env"], cwd=launch["cwd"], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
    except (OSError, ValueError) as error:
        message = f"failed to start {launch['argv'][0]!r} in {launch['cwd']}: {error}"
        _log(launch["log"], message)
        return _START_ERROR, "StartError", message
    if told:
        # It may have come between the two; a program that is just beginning is not hurt by hearing it twice.
        program.terminate()
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == program.pid:
            break
    code = os.waitstatus_to_exitcode(status)
    program.returncode = code
    return (code if code >= 0 else 128 - code), ("Completed" if code == 0 else "Error"), ""


def _log(path: str, words: str) -> None:
    """Say it where people look for the program's own words, if that can be written at all."""
    with contextlib.suppress(OSError), Path(path).open("ab") as log:
        log.write(f"{words}\n".encode(errors="backslashreplace"))


def _end_the_rest() -> None:
    """What the program left behind ends with it, as with a container's first process."""
    while True:
        for pid in descendants(os.getpid()):
            kill(pid)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def main(folder: Path) -> int:
    """Run the program once, in whichever shim is first."""
    told: list[int] = []
    # Caught, not ignored: the program gets the default back when it is started.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda caught, _: told.append(caught))
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become the parent of what the program leaves behind")
    launch = json.load(sys.stdin)
    me, folder = identity_of(os.getpid()), _held(folder)
    started = _now()
    if me is None or not write_once(folder / "claim", {**me._asdict(), "started": started}):
        return 0
    leash = _Leash(folder, Path(launch["alive"])) if launch.get("alive") else None
    code, reason, message = _run(launch, told)
    if leash is not None and leash.pulled:
        # No word of the program's: an exit code of 0 may say that it has saved what it had.
        code, reason, message = code or _TERMINATED, _UNKNOWN, "nothing more was heard of its region's agent, so it was ended"
        _log(launch["log"], message)
    _end_the_rest()
    said = {"code": code, "reason": reason, "message": message, "started": started, "finished": _now()}
    return 0 if write_once(folder / "exit", said) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
