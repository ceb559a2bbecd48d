"""What every demo stands on: one folder, a repository in it, and a hub and three regions as processes of their own.

Decides how they are started and ended; what is shown of them is demo.py's and demo_cut.py's. Invariant: only processes that were
started here are ended, and all of them.
"""

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from reconciler.adapters.clock import SystemClock
from reconciler.app import STAGE_IMAGE
from reconciler.app_region import end_programs
from reconciler.commands import screen
from reconciler.commands.ends import AnswerIsNo
from reconciler.commands.repository import Look, look, opened
from reconciler.model.grants import report_key
from reconciler.ports import Refused, Transient

REGIONS = ("ap-south", "eu-west", "us-east")
IMAGES = ("registry.example.com/ml/*", STAGE_IMAGE)
"""What can be pulled in the demo's regions."""
START_SECONDS = 110.0
"""The most that the regions take to start."""
LOOK_SECONDS = 0.4
HUB = "hub"

Running = Mapping[str, "subprocess.Popen[bytes]"]
"""Name → process of everything that runs."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The demo's folder and the repository in it."""

    root: Path
    lines: bool = False
    """Whether each region reaches the repository and the hub's store by a line of its own, which can be cut."""

    @property
    def bare(self) -> Path:
        """The repository that everybody pushes to."""
        return self.root / "jobs.git"

    @property
    def clone(self) -> Path:
        """A person's clone of it."""
        return self.root / "clone"

    @property
    def store(self) -> Path:
        """Where hub and agents meet."""
        return self.root / "hub"

    def region(self, name: str) -> Path:
        """A region's own folder."""
        return self.root / "regions" / name

    def line(self, name: str) -> Path:
        """A region's line: a folder of links, to the repository and to the store."""
        return self.root / "lines" / name

    def log(self, name: str) -> Path:
        """What a process says."""
        return self.root / "logs" / f"{name}.log"


def url(place: Path) -> str:
    """A folder as a URL."""
    return f"file://{quote(str(place))}"


def publish(stage: Stage) -> None:
    """Make the bare repository from the person's clone, which then tracks it. Raises Refused."""
    git(stage.root, "clone", "--quiet", "--bare", str(stage.clone), str(stage.bare))
    git(stage.clone, "remote", "add", "origin", str(stage.bare))
    git(stage.clone, "fetch", "--quiet", "origin")
    git(stage.clone, "branch", "--quiet", "--set-upstream-to=origin/main", "main")


def git(folder: Path, *arguments: str) -> None:
    """Run git there. Raises Refused where it fails."""
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(f"git {arguments[0]} failed: {done.stderr.strip()}; look at {folder}")


# ---- processes ----------------------------------------------------------------------------------------------------


def _commands(stage: Stage) -> dict[str, list[str]]:
    """Name → command of everything that runs."""
    own = [sys.executable, "-m", "reconciler.cli"]
    found = {}
    images = [word for image in IMAGES for word in ("--image", image)]
    for region in REGIONS:
        place = ["--folder", str(stage.region(region)), "--look", "0.3"]
        found[region] = [*own, "agent", region, *_ways(stage, region), *place, *images]
    found[HUB] = [*own, "hub", "--repo", str(stage.bare), "--folder", str(stage.root / "hub-clone")]
    return found


def _ways(stage: Stage, region: str) -> list[str]:
    """How a region's agent gets to the repository and to the store."""
    if not stage.lines:
        return ["--repo", str(stage.bare)]
    line = stage.line(region)
    # As URLs, for a path would be followed to where the links lead before it is used.
    return ["--repo", url(line / stage.bare.name), "--store", url(line / stage.store.name)]


@contextmanager
def running(stage: Stage) -> Iterator[Running]:
    """Everything, with its output in `logs/`; at the end each is told to end, and then made to."""
    (stage.root / "logs").mkdir()
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, command in _commands(stage).items():
            if name == HUB:
                _until_reported(stage, started)
            with stage.log(name).open("wb") as log:
                # A session of its own: an interrupt at the keyboard reaches the demo alone, which then ends the others in order.
                started[name] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
                )
        yield started
    finally:
        _end(started.values())
        for region in REGIONS:
            end_programs(stage.region(region))


def _until_reported(stage: Stage, processes: Running) -> None:
    """Until every region has said what it has, so that the first decisions see all of them."""
    pause, until = threading.Event(), time.monotonic() + START_SECONDS
    while not all((stage.store / report_key(region)).exists() for region in REGIONS):
        ended_early(stage, processes)
        if time.monotonic() > until:
            raise Refused(f"not every region has reported within {START_SECONDS:.0f} s; look at {stage.root / 'logs'}")
        pause.wait(LOOK_SECONDS)


def _end(processes: "Iterable[subprocess.Popen[bytes]]") -> None:
    found = list(processes)
    for process in found:
        process.terminate()
    for process in found:
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def ended_early(stage: Stage, processes: Running) -> None:
    """Raises Refused where something that should run has ended."""
    for name, process in processes.items():
        if process.poll() is not None:
            log = stage.log(name)
            last = "\n".join(log.read_text("utf-8", "replace").splitlines()[-5:])
            raise Refused(f"{name} ended by itself with exit code {process.returncode}: {last}; its log is {log}")


def stay(stage: Stage, processes: Running) -> None:
    """Until an interrupt. What ends meanwhile is told, with how to start it again, and the others stay: people try a hub's death.

    Raises AnswerIsNo where nothing is left that runs.
    """
    told = threading.Event()
    before = {number: signal.signal(number, lambda *_: told.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    left = dict(processes)
    try:
        while left and not told.wait(0.5):
            for name in [name for name, process in left.items() if process.poll() is not None]:
                _say_ended(stage, name, left.pop(name))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if not left:
        screen.say("nothing is left that runs, so the demo ends")
        raise AnswerIsNo


def _say_ended(stage: Stage, name: str, process: "subprocess.Popen[bytes]") -> None:
    how = f"was killed by signal {-process.returncode}" if process.returncode < 0 else f"ended with code {process.returncode}"
    screen.say(f"\n{name} {how}, the others stay up; its log is {stage.log(name)}. To start it again:")
    screen.say(f"  {shlex.join(map(str, process.args))}")  # type: ignore[arg-type]  # started from a list


def looked(stage: Stage) -> Look | None:
    """The repository as it is now; None where it could not be read this time."""
    try:
        with opened(str(stage.bare)) as found:  # one look at a time: other commands on this repository have their turns
            return look(found)
    except Transient:  # the hub pushes while we look: the next look shows it
        return None


def new_folder() -> Path:
    """Where a demo lies when no folder is named: a new one, kept until a person removes it."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-reconciler" / "demo"
    base.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        folder = base / f"{SystemClock().now():%Y%m%d-%H%M%S}-{number}"
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            return folder
