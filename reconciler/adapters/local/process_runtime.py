"""Containers as real processes of this machine, each in a session of its own beside a shim that outlives the region.

Decides when a process counts as started, alive and ended, and whom signals reach; what the program is, is worked out by
`launching`. Everything that must be known after the region was killed is on disk in the pod's folder: `claim` (who the
shim is), `told` (SIGTERM was sent), `exit` (how it ended). Linux only: it reads /proc.

Limits: programs are not isolated, neither from each other nor from the machine, so run only what you would run yourself;
CPU and memory are counted, not enforced; GPUs are counted, and a program is told its own by CUDA_VISIBLE_DEVICES; logs
grow until their pod is gone.

Invariants: a container's program is started at most once, whatever is killed and when; a signal never reaches a process
that merely has the pid of one of ours; a container has ended only when nothing that it started is left.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.adapters.local import shim
from reconciler.adapters.local.launching import program
from reconciler.adapters.local.runtime import UNKNOWN, Ended, Launch, Running, Waiting
from reconciler.adapters.local.telling import tell
from reconciler.adapters.local.volumes import Sources, Unready
from reconciler.ports import KubeObject

_MARKER = "LOCAL_REGION_CONTAINER"
"""Environment variable by which a program's processes are found should its shim be killed: pod uid and container."""
_POLL_MILLIS = 200
_NAME = "name"
"""File in a pod's folder that says what the pod is called."""
_MOST_LOGS = 1000
"""Pods whose logs are kept."""


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """What programs get beside their spec: the base environment (PATH above all), entry points by pattern of image, and
    the folders of secrets and claims (`volumes.Sources` tells their layout)."""

    environment: Mapping[str, str]
    secrets: Path
    claims: Path
    entry_points: Mapping[str, Sequence[str]] = field(default_factory=dict)
    alive: Path | None = None
    """Where the region says until when programs may run (`shim.say_alive`); without it they outlive the region."""
    logs: Path | None = None
    """Where the logs of pods go that are taken away, as `<pod>/<container>.log`, with when and how each ended beside it
    (`.exit`); without it they go with the pod."""


class ProcessRuntime:
    """The `Runtime` protocol by real processes, with what must be kept below `folder`."""

    def __init__(self, folder: Path, settings: ProcessSettings) -> None:
        """Take over what earlier regions started in `folder`."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self._settings = settings
        self._spawned: dict[tuple[str, str], tuple[int, int]] = {}
        self._ended: dict[tuple[str, str], Ended] = {}
        self._live = {(uid.name, container.name) for uid in folder.iterdir() for container in _containers(uid)}
        self._pods = {uid.name for uid in folder.iterdir()}

    def start(self, launch: Launch, now: int) -> Waiting | None:
        """Start the program, unless it was started before. Programs wait for what is missing of their configuration."""
        key = launch.uid, launch.name
        place = self._place(*key)
        if key in self._spawned or (place / "claim").exists():
            return None
        self._pods.add(launch.uid)
        (self._folder / launch.uid).mkdir(exist_ok=True)
        (self._folder / launch.uid / _NAME).write_text(launch.pod["metadata"]["name"], "utf-8")
        settings = self._settings
        sources = Sources(launch.pod["metadata"]["namespace"], launch.config_maps, settings.secrets, settings.claims)
        volumes = self._folder / launch.uid / "volumes"
        try:
            says = program(launch, place, volumes, sources, settings.environment, settings.entry_points)
            tell(launch.pod, volumes)
            says["env"][_MARKER], says["alive"] = "/".join(key), settings.alive and str(settings.alive)
            self._spawned[key] = _spawn(place, says), now
        except Unready as unready:
            return Waiting("CreateContainerConfigError", str(unready))
        except OSError as error:
            return Waiting("CreateContainerError", str(error))
        self._live.add(key)
        return None

    def poll(self, uid: str, container: str, now: int) -> Running | Ended | None:
        """How the program is, by what its shim wrote and by /proc."""
        key = uid, container
        if key not in self._ended:
            state = self._look(key, now)
            if state is None:
                self._live.discard(key)  # made ready by an earlier region, and not started
            if not isinstance(state, Ended):
                return state
            self._ended[key] = state
            self._live.discard(key)
        return self._ended[key]

    def terminate(self, uid: str, container: str, now: int) -> None:  # noqa: ARG002 – once is once, whenever
        """SIGTERM to the program's process group, once; not before it has one."""
        place = self._place(uid, container)
        shim_pid = self._live_shim(place)
        if shim_pid is None or (place / "told").exists():
            return
        # Sent first: told twice is better for a program than never, should the region be killed between the two.
        os.killpg(shim_pid, signal.SIGTERM)
        (place / "told").touch()

    def kill(self, uid: str, container: str, now: int) -> None:  # noqa: ARG002 – by then it is time
        """SIGKILL to the program and everything below it; its shim stays and writes down the end."""
        shim_pid = self._live_shim(self._place(uid, container))
        if shim_pid is not None:
            for pid in shim.descendants(shim_pid):
                shim.kill(pid)

    def pods(self) -> Collection[str]:
        """The uids of all pods that have a folder."""
        return frozenset(self._pods)

    def forget(self, uid: str, now: int) -> None:
        """Kill what is left of a pod, and remove its folder when nothing is; one that cannot be removed is tried again."""
        keys = [(uid, container.name) for container in _containers(self._folder / uid)]
        running = [key for key in keys if isinstance(self.poll(*key, now), Running)]
        for key in running:
            self.kill(*key, now)
        if running:
            return
        self._keep_logs(keys)
        _remove(self._folder / uid)
        if (self._folder / uid).exists():
            return
        self._pods.discard(uid)
        for key in keys:
            self._ended.pop(key, None)
            self._spawned.pop(key, None)
            self._live.discard(key)

    def _keep_logs(self, keys: Sequence[tuple[str, str]]) -> None:
        """Move the logs of a pod that goes, and its ends, to where people look for them; the oldest make room."""
        kept = self._settings.logs
        for uid, container in keys if kept is not None else ():
            log, called = self._place(uid, container) / "log", self._folder / uid / _NAME
            if kept is not None and called.is_file() and log.is_file():
                name = called.read_text("utf-8")
                (kept / name).mkdir(parents=True, exist_ok=True)
                said = log.with_name("exit")
                if said.is_file():  # a shim that was killed has written none
                    said.replace(kept / name / f"{container}.exit")
                log.replace(kept / name / f"{container}.log")
        if kept is not None and kept.is_dir():
            folders = sorted(kept.iterdir(), key=lambda folder: folder.stat().st_mtime)
            for folder in folders[: max(0, len(folders) - _MOST_LOGS)]:
                _remove(folder)

    def tell(self, pod: KubeObject) -> None:
        """Files that cannot be written stay as they are; the next look tries again."""
        with suppress(OSError):
            tell(pod, self._folder / pod["metadata"]["uid"] / "volumes")

    def due(self, uids: Collection[str], now: int) -> int | None:
        """Soon, while anything of them runs: an end is found by asking."""
        return now + _POLL_MILLIS if any(uid in uids for uid, _ in self._live) else None

    def log_tail(self, uid: str, container: str, limit: int) -> str:
        """The last bytes of the program's output; '' where there is none."""
        try:
            with (self._place(uid, container) / "log").open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - limit))
                return log.read(limit).decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def shim_of(self, uid: str, container: str) -> int | None:
        """The pid of the shim beside a program that runs, for who wants to be woken by its end; its end is the program's."""
        spawned, _ = self._spawned.get((uid, container), (0, 0))
        return spawned if spawned > 0 else self._live_shim(self._place(uid, container))

    def _place(self, uid: str, container: str) -> Path:
        return self._folder / uid / "containers" / container

    def _live_shim(self, place: Path) -> int | None:
        claim = _read(place / "claim")
        if claim is None:
            return None
        claimed = shim.Identity(claim["pid"], claim["ticks"], claim["boot"])
        return claimed.pid if shim.identity_of(claimed.pid) == claimed else None

    def _look(self, key: tuple[str, str], now: int) -> Running | Ended | None:
        place = self._place(*key)
        exit_code = self._reap(key)
        claim = _read(place / "claim")
        if claim is None:
            return self._unclaimed(key, exit_code, now)
        # In this order: a shim writes `exit` before it ends, so one that is gone has written it or never will.
        alive = self._live_shim(place) is not None
        said = _read(place / "exit")
        if said is not None:
            return Ended(said["code"], said["reason"], said["message"], said["started"], said["finished"])
        if alive:
            return Running(claim["started"])
        left = _marked("/".join(key))
        for pid in left:
            shim.kill(pid)
        message = "The program's shim was killed, and with it the knowledge of the program's end"
        return Running(claim["started"]) if left else Ended(137, UNKNOWN, message, claim["started"], now)

    def _unclaimed(self, key: tuple[str, str], exit_code: int | None, now: int) -> Running | Ended | None:
        if key not in self._spawned:
            return None
        started = self._spawned[key][1]
        if exit_code is None:
            return Running(started)
        words = (self._place(*key) / "shim.log").read_text(encoding="utf-8", errors="replace")[-1000:]
        return Ended(128, "StartError", f"the program's shim ended with {exit_code}: {words}", started, now)

    def _reap(self, key: tuple[str, str]) -> int | None:
        """The exit code of a shim that is our own child and has ended, so that no zombie is left of it."""
        pid = self._spawned[key][0] if key in self._spawned else 0
        if pid <= 0:
            return None
        try:
            ended, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:  # somebody in this program waited for any child; what counts is on disk
            ended, status = pid, 0
        if ended == 0:
            return None
        self._spawned[key] = (-pid, self._spawned[key][1])
        return os.waitstatus_to_exitcode(status)


def _spawn(place: Path, says: Mapping[str, Any]) -> int:
    """Start a shim; what it is to run goes through memory, for there are secrets in it."""
    launch = os.memfd_create("launch")
    try:
        with os.fdopen(os.dup(launch), "w", encoding="utf-8") as file:
            json.dump(says, file)
        os.lseek(launch, 0, os.SEEK_SET)
        errors = str(place / "shim.log")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", str(Path(shim.__file__).resolve()), str(place)],
            {"LC_ALL": "C.UTF-8"},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, launch, 0),
                (os.POSIX_SPAWN_OPEN, 1, errors, flags, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD),
        )
    finally:
        os.close(launch)


def _remove(folder: Path) -> None:
    """Remove what programs left there, also in folders that they had closed to themselves."""
    for above, folders, _ in os.walk(folder):
        for name in folders:
            inner = Path(above, name)
            if not inner.is_symlink():
                inner.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        said: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return said


def _containers(pod: Path) -> Iterator[Path]:
    folder = pod / "containers"
    return folder.iterdir() if folder.is_dir() else iter(())


def _marked(key: str) -> list[int]:
    """The live processes that carry the container's mark in their environment."""
    mark = f"\0{_MARKER}={key}\0".encode()
    found = []
    for pid in shim.processes():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if mark in b"\0" + environment:
            found.append(pid)
    return found
