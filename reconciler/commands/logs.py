"""`reconciler logs`: what a job's program wrote: the tail that the ledger keeps of a failed attempt, or the whole logs of a
region on this machine.

Decides where a local region's logs are: its `objects.json` knows its pods; `pods/<uid>/containers/<name>/` beside that file or
its folder has each container's `log`. Those of pods that are gone are in `logs/<pod>/<container>.log` there.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from reconciler.commands import screen
from reconciler.commands.ends import BadInput
from reconciler.commands.names import job_in
from reconciler.commands.repository import Look
from reconciler.model.attempt import Attempt, State
from reconciler.model.names import LABEL_ATTEMPT
from reconciler.ports import Refused

OBJECTS: Final = "objects.json"
PODS: Final = "pods"
KEPT: Final = "logs"
_DEEPEST: Final = 4
"""Folders below the given one in which a region may be."""
_ENDED: Final = ("Succeeded", "Failed")
_LOOK_SECONDS: Final = 0.2
_CHUNK_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class ContainerLog:
    """One container's log. `title` names it where there are several."""

    title: str
    file: Path


@dataclass(frozen=True, slots=True)
class Found:
    """The logs of an attempt's pods at one moment. `over`: no pod of it will write any more."""

    logs: tuple[ContainerLog, ...]
    over: bool


def attempt_of(look: Look, typed: str, number: int | None) -> Attempt:
    """The attempt of that number, or the newest. Raises BadInput where there is none."""
    key = job_in(look, typed)
    record = look.ledger.records.get(key)
    attempts = record.attempts if record is not None else ()
    if not attempts:
        raise BadInput(f"{key} has not been started yet", f"`reconciler why {key}` says why")
    if number is None:
        return attempts[-1]
    found = next((attempt for attempt in attempts if attempt.number == number), None)
    if found is None:
        known = ", ".join(str(attempt.number) for attempt in attempts)
        raise BadInput(f"{key} has no attempt {number}", f"there are {known}")
    return found


def kept_tail(attempt: Attempt) -> str:
    """The end of what a failed attempt wrote. Raises BadInput where the ledger keeps none."""
    if not attempt.log_tail and attempt.state is State.FAILED and attempt.exit_code is not None:
        how = attempt.reason.text if attempt.reason is not None else f"exit code {attempt.exit_code}"
        raise BadInput(
            f"the program of {attempt.name} printed nothing before it failed in {attempt.region}",
            f"how it ended is all that is known: {how}",
        )
    if not attempt.log_tail:
        raise BadInput(
            f"the ledger keeps no log of {attempt.name}, which is {screen.attempt_state(attempt)} in {attempt.region}",
            "it keeps the tail of failed ones; for others ask the region, or give --folder for one on this machine",
        )
    return attempt.log_tail


def logs_in(folder: Path, attempt: str) -> Found:
    """What the local regions below a folder have of an attempt. Raises Refused where they cannot be read."""
    pods = [
        (objects, pod)
        for objects in _objects(folder)
        for pod in _pods(objects)
        if (pod["metadata"].get("labels") or {}).get(LABEL_ATTEMPT) == attempt
    ]
    logs = [log for objects, pod in pods for log in _containers(objects, pod)]
    logs += [log for objects in _objects(folder) for log in _kept(objects, attempt)]
    over = all((pod.get("status") or {}).get("phase") in _ENDED for _, pod in pods)
    return Found(tuple(sorted(logs, key=lambda log: log.title)), over)


def _objects(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        raise Refused(f"there is no folder {folder}; give that of a region on this machine, or of the demo")
    level = [folder]
    for _ in range(_DEEPEST):
        regions = [place for place in level if (place / OBJECTS).is_file()]
        yield from (place / OBJECTS for place in regions)
        level = [child for place in level if place not in regions for child in place.iterdir() if child.is_dir()]


def _pods(objects: Path) -> Iterable[Mapping[str, Any]]:
    try:
        kept = json.loads(objects.read_bytes())
        return [item for item in kept["objects"] if item["kind"] == "Pod"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused(f"{objects} cannot be read ({error}); give the folder of a region on this machine") from error


def _containers(objects: Path, pod: Mapping[str, Any]) -> Iterator[ContainerLog]:
    metadata, spec = pod["metadata"], pod["spec"]
    for pods in (objects.parent / PODS, objects.parent.parent / PODS):
        for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
            place = pods / metadata["uid"] / "containers" / container["name"]
            if place.is_dir():
                yield ContainerLog(f"{metadata['name']}/{container['name']}", place / "log")


def _kept(objects: Path, attempt: str) -> Iterator[ContainerLog]:
    """Logs of the attempt's pods that are gone; a pod is named after its attempt."""
    for place in (objects.parent / KEPT, objects.parent.parent / KEPT):
        for log in sorted(place.glob(f"{attempt}-*/*.log")):
            yield ContainerLog(f"{log.parent.name}/{log.stem}", log)


def stream(find: Callable[[], Found], *, follow: bool) -> Iterator[str]:
    """The lines of all logs, with the container's name before each once there are several; with `follow` to the end."""
    readers: dict[ContainerLog, _Reader] = {}
    pause = threading.Event()
    while True:
        found = find()
        last = found.over or not follow
        readers |= {log: _Reader(log) for log in found.logs if log not in readers}
        for log in found.logs:
            for line in readers[log].lines(last=last):
                yield f"{log.title}: {line}" if len(readers) > 1 else line
        if last:
            return
        pause.wait(_LOOK_SECONDS)


class _Reader:
    """Reads on in one log from where it stopped."""

    def __init__(self, log: ContainerLog) -> None:
        self._file = log.file
        self._at = 0
        self._rest = b""

    def lines(self, *, last: bool) -> Iterator[str]:
        """The whole lines that have come since; with `last` also one without an end."""
        try:
            with self._file.open("rb") as file:
                file.seek(self._at)
                while chunk := file.read(_CHUNK_BYTES):
                    *whole, self._rest = (self._rest + chunk).split(b"\n")
                    yield from (line.decode("utf-8", "replace") for line in whole)
                self._at = file.tell()
        except FileNotFoundError:  # not started yet, or taken away by now
            return
        if last and self._rest:
            yield self._rest.decode("utf-8", "replace")
            self._rest = b""
