"""`reconciler demo --cut REGION`: a region is cut off while a job trains there, and comes back. To look at, and to be judged.

Decides how a line is cut, how long is waited for each step, and what must be so at the end; the steps are demo_story.py's. Each
region reaches the repository and the hub's store by a folder of links of its own. To cut it off, that folder is moved away: agent
and programs go on as they are, every request of theirs to the outside fails. Ends by itself, with exit code 0 only if every step
was seen and no two attempts of the job ever ran at once.
"""

import json
import re
import shutil
import textwrap
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Final

from reconciler.adapters.clock import SystemClock
from reconciler.commands import demo_train, screen
from reconciler.commands.demo_runs import Mark, Run, picture, programs
from reconciler.commands.demo_sight import KEY, Sight, sight
from reconciler.commands.demo_stage import REGIONS, Running, Stage, ended_early, publish, running, stay, url
from reconciler.commands.demo_story import AFTER, BEFORE, TIMES, Scene, while_cut
from reconciler.commands.demo_verdict import faults
from reconciler.commands.ends import AnswerIsNo, BadInput
from reconciler.commands.init import make_repository
from reconciler.commands.user_git import commit_all
from reconciler.model.region_state import RegionState

_LIMIT_SECONDS: Final = 150.0
"""The most that each of the three parts of the story takes."""
_LOOK_SECONDS: Final = 0.3
_GIVEN_UP: Final = (RegionState.LOST, RegionState.REVOKED)
_PRICE: Final = "0.90"
"""Of a GPU-hour in the region that is to be cut off: the cheapest, so that the job goes there."""

_JOB: Final = """\
# Trains with a checkpoint after each step. Where it runs is a matter of price; if that region is lost, it goes on elsewhere.
job_id: curve-fit
gpu: {count: 8, model: A100-80GB}
image: registry.example.com/ml/train:1.4
command: [python3, /job/train.py]
checkpoint_path: CHECKPOINTS
strategy: cost
on_region_lost: rerun
grace_seconds: 10
max_runtime_seconds: 600
expected_runtime_seconds: 60
files:
  - path: /job/train.py
    content: |
"""


@dataclass(slots=True)
class _Telling:
    """The story so far: what was seen and when, in seconds since the epoch."""

    stage: Stage
    cut: str
    processes: Running
    cut_at: float | None = None
    seen: dict[str, float] = field(default_factory=dict)
    """What a scene lacks until it is seen → when that was."""
    marks: list[Mark] = field(default_factory=list)
    others: set[str] = field(default_factory=set)
    """Other regions that were taken for lost at any time."""
    last: Sight | None = None


def demo_cut(root: Path, cut: str, *, keep: bool) -> None:
    """Run it in a new folder. Raises AnswerIsNo where something was not seen, or not as it must be."""
    if cut not in REGIONS:
        raise BadInput(f"{quote(cut)} is no region of the demo", f"cut off one of {', '.join(REGIONS)}")
    stage = Stage(root, lines=True)
    _prepare(stage, cut)
    screen.say(_OPENING.format(cut=cut, root=root))
    with running(stage) as processes:
        telling = _Telling(stage, cut, processes)
        _tell(telling)
        wrong = [*_unseen(telling), *_faults(telling)]
        _show(telling, wrong, keep=keep)
        if keep:
            stay(stage, processes)
    if wrong:
        raise AnswerIsNo


_OPENING: Final = """\
Three regions on this machine, a hub, and a Git repository; a job trains in {cut}, and {cut} is then cut off from all the others.
What must never happen: that the job runs twice, or loses its work. All of it lies in {root}.
Times are in seconds since the cut; they are short here, a real fleet waits for minutes.
"""


# ---- the stage ----------------------------------------------------------------------------------------------------


def _prepare(stage: Stage, cut: str) -> None:
    """The repository with one job, regions with short times, and a line to each of them."""
    make_repository(stage.clone, stage.root)
    shutil.rmtree(stage.clone / "jobs")
    job = stage.clone / "jobs" / KEY.team / f"{KEY.job_id}.yaml"
    job.parent.mkdir(parents=True)
    program = Path(demo_train.__file__).read_text("utf-8")
    checkpoints = url(stage.root / "stores" / "checkpoints" / KEY.job_id) + "/"
    job.write_text(_JOB.replace("CHECKPOINTS", checkpoints) + textwrap.indent(program, " " * 6), "utf-8")
    for region in REGIONS:
        file = stage.clone / "regions" / f"{region}.yaml"
        text = file.read_text("utf-8") + f"loss: {json.dumps(TIMES.model_dump())}\n"
        file.write_text(re.sub(r"(A100-80GB: )[0-9.]+", rf"\g<1>{_PRICE}", text) if region == cut else text, "utf-8")
    commit_all(stage.clone, f"Train in the cheapest region, which is {cut} now; regions are lost sooner, to look on")
    publish(stage)
    stage.store.mkdir()
    for region in REGIONS:
        line = stage.line(region)
        line.mkdir(parents=True)
        for end in (stage.bare, stage.store):
            (line / end.name).symlink_to(end)


def _away(stage: Stage, region: str) -> Path:
    return stage.line(region).with_name(f"{region}.cut")


# ---- the story ----------------------------------------------------------------------------------------------------


def _tell(telling: _Telling) -> None:
    """All of it; ends early where a part was not seen, for the next would tell nothing."""
    line, away = telling.stage.line(telling.cut), _away(telling.stage, telling.cut)
    if not _play(telling, BEFORE) or telling.last is None:
        return
    step = telling.last.step(1)
    line.rename(away)
    telling.cut_at = _now()
    _say(telling, "CUT", f"{telling.cut} is cut off from Git and from the hub's store; its agent and its programs live, unheard")
    _mark(telling, "C", "cut off", telling.cut_at)
    if not _play(telling, while_cut(step)):
        return
    away.rename(line)
    _say(telling, "BACK", f"{telling.cut} has its line again")
    _mark(telling, "B", "line back", _now())
    _play(telling, AFTER)


def _play(telling: _Telling, scenes: Sequence[Scene]) -> bool:
    """Look until each scene was seen, and tell each when it is; whether all were."""
    pause, clock = threading.Event(), SystemClock()
    left, until = list(scenes), clock.monotonic() + _LIMIT_SECONDS
    while left and clock.monotonic() < until:
        ended_early(telling.stage, telling.processes)
        found = sight(telling.stage, telling.cut, _now())
        if found is not None:
            telling.last = found
            telling.others |= {name for name, one in found.away.items() if one.state in _GIVEN_UP} - {telling.cut}
            left = [scene for scene in left if not _told(telling, scene, found)]
        pause.wait(_LOOK_SECONDS)
    return not left


def _told(telling: _Telling, scene: Scene, found: Sight) -> bool:
    words = scene.seen(found)
    if words is None:
        return False
    telling.seen[scene.lacks] = found.at
    _say(telling, telling.cut if scene.who == "region" else scene.who, words)
    if scene.letter:
        _mark(telling, scene.letter, scene.means, found.at)
    return True


def _say(telling: _Telling, who: str, words: str) -> None:
    since = "" if telling.cut_at is None else f"{_now() - telling.cut_at:+.1f} s"
    screen.say(f"{since:>8}  {who:<8}  {screen.one_line(words)}")


def _mark(telling: _Telling, letter: str, means: str, at: float) -> None:
    telling.marks.append(Mark(letter, at, means))


def _now() -> float:
    return SystemClock().now().timestamp()


# ---- the verdict --------------------------------------------------------------------------------------------------


def _unseen(telling: _Telling) -> Iterator[str]:
    scenes = (*BEFORE, *while_cut(0), *AFTER)
    yield from (f"not seen: {scene.lacks}" for scene in scenes if scene.lacks not in telling.seen)


def _faults(telling: _Telling) -> Iterator[str]:
    runs = telling.last.runs if telling.last is not None else ()
    revoked = next((mark.at for mark in telling.marks if mark.letter == "R"), None)
    yield from (f"{name} was taken for lost, though nobody cut it off" for name in sorted(telling.others))
    yield from faults(runs, telling.cut, revoked)


# ---- the end ------------------------------------------------------------------------------------------------------


def _show(telling: _Telling, wrong: Sequence[str], *, keep: bool) -> None:
    found, zero = telling.last, telling.cut_at
    ran = programs(found.runs) if found is not None else ()
    if zero is not None and ran:
        screen.say("\nWhere the job's program really ran, by each region's own record (1: attempt a1, 2: attempt a2):\n")
        for line in picture(REGIONS, ran, telling.marks, zero):
            screen.say(f"  {line}")
        screen.say("\n  " + " · ".join(f"{mark.letter} {mark.means}" for mark in telling.marks) + "\n")
        screen.show_table(("attempt", "region", "from", "to", "ran for", "end"), [_row(run, zero) for run in ran])
        screen.say("")
    for line in wrong:
        screen.say(f"NOT AS IT MUST BE: {line}")
    if not wrong:
        _conclude(ran)
    for line in _where(telling.stage, keep=keep):
        screen.say(line)


def _row(run: Run, zero: float) -> tuple[str, ...]:
    if run.ended is None:
        return f"a{run.attempt}", run.region, f"{run.began - zero:+.1f} s", "still runs", screen.NOTHING, screen.NOTHING
    spans = f"{run.began - zero:+.1f} s", f"{run.ended - zero:+.1f} s", f"{run.ended - run.began:.1f} s"
    end = "done" if run.code == 0 else "told to end, saved its step" if run.code == demo_train.TOLD_TO_END else "failed"
    return f"a{run.attempt}", run.region, *spans, f"exit code {run.code}: {end}"


def _conclude(ran: Sequence[Run]) -> None:
    first, second = ran
    gap = second.began - (first.ended or second.began)
    screen.say(f"At no moment did two run: a2 began {gap:.1f} s after a1 had ended. That is the price of being sure.")
    words = f"each of the {demo_train.STEPS} steps was done once, with the very loss that it has in a run that nothing interrupts"
    screen.say(f"Nothing was lost: {words}.")


def _where(stage: Stage, *, keep: bool) -> Iterator[str]:
    yield f"\nEverything that was decided is a commit in {stage.bare}. Look at it:"
    yield f"  {screen.program()} why {KEY.job_id} --repo {stage.bare}"
    yield f"  git -C {stage.bare} log --format='%ai %s' status"
    yield f"  {screen.program()} logs {KEY.job_id} --attempt 1 --folder {stage.root} --repo {stage.bare}"
    yield f"It all lies in {stage.root}; delete that when you have seen enough."
    if keep:
        yield f"\nHub and regions stay up: push from {stage.clone}, or move a folder of {stage.root / 'lines'} away and back."
        yield "Ctrl-C ends it."
