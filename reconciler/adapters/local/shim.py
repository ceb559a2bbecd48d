"""Stands beside one container's program: starts it, outlives the region, and writes down how it ended.

Run as a program of its own (`python -I -S shim.py <folder>`, launch as JSON on standard input), with nothing but the
standard library. Decides nothing: who is started and stopped is the runtime's. As the parent of last resort
(PR_SET_CHILD_SUBREAPER) of all that the program starts, it is what a container's process namespace is on Kubernetes.

Invariants: of two shims for one folder only one starts the program (`claim` is linked, never overwritten); `exit` is
written once, whole, after the program and everything that it started have ended.
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
    return Identity(pid, found[2], Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())


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
    me = identity_of(os.getpid())
    started = _now()
    if me is None or not write_once(folder / "claim", {**me._asdict(), "started": started}):
        return 0
    code, reason, message = _run(launch, told)
    _end_the_rest()
    said = {"code": code, "reason": reason, "message": message, "started": started, "finished": _now()}
    return 0 if write_once(folder / "exit", said) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
