"""`reconciler demo`: the whole path on one machine, to look at. A hub and three regions as processes of their own.

Decides what is started, what is shown meanwhile, and when it is over; how each job should end stands in demo_ends.py. Ends by
itself, with exit code 0 only if every job came to its expected end. Everything lies in one folder; only processes that were
started here are ended.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from reconciler.adapters.clock import SystemClock
from reconciler.app import STAGE_IMAGE
from reconciler.app_region import end_programs
from reconciler.commands import screen
from reconciler.commands.demo_ends import EXPECTED, REFUSED, differs, reached
from reconciler.commands.ends import AnswerIsNo
from reconciler.commands.init import make_repository
from reconciler.commands.repository import Look, look, opened
from reconciler.commands.status import HEADERS, problem_line, row_of
from reconciler.model.grants import report_key
from reconciler.model.names import JobKey
from reconciler.model.record import JobRecord
from reconciler.ports import Refused, Transient

REGIONS = ("ap-south", "eu-west", "us-east")
IMAGES = ("registry.example.com/ml/*", STAGE_IMAGE)
"""What can be pulled in the demo's regions."""
LIMIT_SECONDS = 110.0
LOOK_SECONDS = 0.4
HUB = "hub"


@dataclass(frozen=True, slots=True)
class Stage:
    """The demo's folder and the repository in it."""

    root: Path

    @property
    def bare(self) -> Path:
        """The repository that everybody pushes to."""
        return self.root / "jobs.git"

    @property
    def clone(self) -> Path:
        """A person's clone of it."""
        return self.root / "clone"


def demo(root: Path, *, keep: bool) -> None:
    """Run the demo in a new folder. Raises AnswerIsNo where a job did not end as it should."""
    stage = Stage(root)
    make_repository(stage.clone, root)
    _git(root, "clone", "--quiet", "--bare", str(stage.clone), str(stage.bare))
    _git(stage.clone, "remote", "add", "origin", str(stage.bare))
    _git(stage.clone, "fetch", "--quiet", "origin")
    _git(stage.clone, "branch", "--quiet", "--set-upstream-to=origin/main", "main")
    screen.say(
        f"pushed {len(EXPECTED) + len(REFUSED)} jobs to {stage.bare}; starting a hub and the regions {', '.join(REGIONS)}\n"
    )
    with _running(stage) as processes:
        records = _watched(stage, processes)
        wrong = _verdict(records)
        _say_where(stage, wrong, keep=keep)
        if keep:
            _stay(processes)
    if wrong:
        raise AnswerIsNo


def _git(folder: Path, *arguments: str) -> None:
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
        place = ["--folder", str(stage.root / "regions" / region), "--look", "0.3"]
        found[region] = [*own, "agent", region, "--repo", str(stage.bare), *place, *images]
    found[HUB] = [*own, "hub", "--repo", str(stage.bare), "--folder", str(stage.root / "hub-clone")]
    return found


def _until_reported(stage: Stage, processes: Mapping[str, "subprocess.Popen[bytes]"]) -> None:
    """Until every region has said what it has, so that the first decisions see all of them."""
    pause, until = threading.Event(), time.monotonic() + LIMIT_SECONDS
    while not all((stage.root / "hub" / report_key(region)).exists() for region in REGIONS):
        _ended_early(stage, processes)
        if time.monotonic() > until:
            raise Refused(f"not every region has reported within {LIMIT_SECONDS:.0f} s; look at {stage.root / 'logs'}")
        pause.wait(LOOK_SECONDS)


@contextmanager
def _running(stage: Stage) -> Iterator[Mapping[str, "subprocess.Popen[bytes]"]]:
    """Everything, with its output in `logs/`; at the end each is told to end, and then made to."""
    (stage.root / "logs").mkdir()
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, command in _commands(stage).items():
            if name == HUB:
                _until_reported(stage, started)
            with (stage.root / "logs" / f"{name}.log").open("wb") as log:
                # A session of its own: an interrupt at the keyboard reaches the demo alone, which then ends the others in order.
                started[name] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
                )
        yield started
    finally:
        _end(started.values())
        for region in REGIONS:
            end_programs(stage.root / "regions" / region)


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


def _ended_early(stage: Stage, processes: Mapping[str, "subprocess.Popen[bytes]"]) -> None:
    for name, process in processes.items():
        if process.poll() is not None:
            log = stage.root / "logs" / f"{name}.log"
            last = "\n".join(log.read_text("utf-8", "replace").splitlines()[-5:])
            raise Refused(f"{name} ended by itself with exit code {process.returncode}: {last}; its log is {log}")


# ---- watching -----------------------------------------------------------------------------------------------------

Records = Mapping[JobKey, JobRecord]


def _watched(stage: Stage, processes: Mapping[str, "subprocess.Popen[bytes]"]) -> Records:
    """Show the table until every job has come to its end, or time is up."""
    pause, until = threading.Event(), time.monotonic() + LIMIT_SECONDS
    records: Records = {}
    with _table() as draw:
        while True:
            found = _looked(stage)
            if found is not None:
                records = found.ledger.records
                draw(records, [f"refused: {problem_line(problem)}" for problem in found.ledger.rejected.problems])
            if _all_reached(found) or time.monotonic() > until:
                return records
            _ended_early(stage, processes)
            pause.wait(LOOK_SECONDS)


def _looked(stage: Stage) -> Look | None:
    try:
        with opened(str(stage.bare)) as git:  # one look at a time: other commands on this repository have their turns
            return look(git)
    except Transient:  # the hub pushes while we look: the next look shows it
        return None


def _all_reached(found: Look | None) -> bool:
    if found is None:
        return False
    records = {str(key): record for key, record in found.ledger.records.items()}
    refused = {problem.path for problem in found.ledger.rejected.problems}
    return refused >= REFUSED.keys() and all(
        name in records and reached(records[name], expected) for name, expected in EXPECTED.items()
    )


@contextmanager
def _table() -> Iterator[Callable[[Records, Sequence[str]], None]]:
    """Where the jobs are drawn: a table that is redrawn on a terminal; else a line for each change."""
    if sys.stdout.isatty():
        with screen.redrawn() as draw:
            yield lambda records, notes: draw(HEADERS, _rows(records), notes)
        return
    said: dict[JobKey, tuple[str, ...]] = {}

    def tell(records: Records, _: Sequence[str]) -> None:
        for key in sorted(records):
            row = row_of(records[key], SystemClock().now())
            told = (*row[:4], row[6])
            if said.get(key) != told:
                said[key] = told
                screen.say("  ".join(cell for cell in told if cell and cell != screen.NOTHING))

    yield tell


def _rows(records: Records) -> list[tuple[str, ...]]:
    now = SystemClock().now()
    return [row_of(records[key], now) for key in sorted(records)]


# ---- the end ------------------------------------------------------------------------------------------------------


def _verdict(records: Records) -> list[str]:
    """Print how each job ended, beside what it shows; returns what is wrong."""
    named = {str(key): record for key, record in records.items()}
    rows, wrong = [], []
    for name, expected in EXPECTED.items():
        record = named.get(name)
        fault = differs(record, expected)
        wrong += [f"{name} {fault}"] if fault else []
        last = record.last if record is not None else None
        where = last.region if last is not None else screen.NOTHING
        rows.append(("no" if fault else "yes", name, str(record.phase) if record else screen.NOTHING, where, expected.shows))
    rows += [("yes", path, "refused", screen.NOTHING, shows) for path, shows in REFUSED.items()]
    screen.say("")
    screen.show_table(("as expected", "job", "end", "region", "what it shows"), rows)
    return wrong


def _say_where(stage: Stage, wrong: Sequence[str], *, keep: bool) -> None:
    for line in wrong:
        screen.say(f"NOT AS EXPECTED: {line}")
    screen.say(f"\nThe repository is {stage.bare}; everything that happened is a commit in it. Look at it:")
    for command in (
        "log --graph --oneline --all",
        "show status:README.md",
        "show placements:language/corpus-pretrain.yaml",
        "show status:jobs/language/line-fit.json",
        "log -p region/us-east",
    ):
        screen.say(f"  git -C {stage.bare} {command}")
    screen.say(f"  {screen.program()} why line-fit --repo {stage.bare}")
    screen.say(f"It all lies in {stage.root}; delete that when you have seen enough.")
    if keep:
        screen.say(f"\nHub and regions stay up. Push a job from {stage.clone}, for example:")
        screen.say(f"  cd {stage.clone} && cp jobs/vision/thumbnails.yaml jobs/vision/mine.yaml")
        screen.say("  sed -i 's/^job_id: .*/job_id: mine/' jobs/vision/mine.yaml")
        screen.say("  git add -A && git commit -m 'Add a job of mine' && git push")
        screen.say(f"  {screen.program()} status --watch --repo {stage.bare}")
        screen.say("Ctrl-C ends it.")


def _stay(processes: Mapping[str, "subprocess.Popen[bytes]"]) -> None:
    """Until an interrupt, or until something that runs ends by itself."""
    told = threading.Event()
    before = {number: signal.signal(number, lambda *_: told.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        while not told.wait(0.5) and all(process.poll() is None for process in processes.values()):
            pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for name, process in processes.items():
        if process.poll() is not None:
            screen.say(
                f"{name} ended by itself with exit code {process.returncode}; the demo ends, its log is in logs/{name}.log"
            )


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
