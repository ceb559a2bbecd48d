"""`reconciler demo`: the whole path on one machine, to look at. A hub and three regions as processes of their own.

Decides what is shown meanwhile, and when it is over; how each job should end stands in demo_ends.py, what is started in
demo_stage.py. Ends by itself, with exit code 0 only if every job came to its expected end. Everything lies in one folder.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from reconciler.adapters.clock import SystemClock
from reconciler.commands import screen
from reconciler.commands.demo_ends import EXPECTED, REFUSED, differs, reached
from reconciler.commands.demo_stage import LOOK_SECONDS, REGIONS, Running, Stage, ended_early, looked, publish, running, stay
from reconciler.commands.ends import AnswerIsNo
from reconciler.commands.init import make_repository
from reconciler.commands.repository import Look
from reconciler.commands.status import HEADERS, problem_line, row_of
from reconciler.model.names import JobKey
from reconciler.model.record import JobRecord

LIMIT_SECONDS = 110.0


def demo(root: Path, *, keep: bool) -> None:
    """Run the demo in a new folder. Raises AnswerIsNo where a job did not end as it should."""
    stage = Stage(root)
    make_repository(stage.clone, root)
    publish(stage)
    screen.say(
        f"pushed {len(EXPECTED) + len(REFUSED)} jobs to {stage.bare}; starting a hub and the regions {', '.join(REGIONS)}\n"
    )
    with running(stage) as processes:
        records = _watched(stage, processes)
        wrong = _verdict(records)
        _say_where(stage, wrong, keep=keep)
        if keep:
            stay(stage, processes)
    if wrong:
        raise AnswerIsNo


# ---- watching -----------------------------------------------------------------------------------------------------

Records = Mapping[JobKey, JobRecord]


def _watched(stage: Stage, processes: Running) -> Records:
    """Show the table until every job has come to its end, or time is up."""
    pause, until = threading.Event(), time.monotonic() + LIMIT_SECONDS
    records: Records = {}
    with _table() as draw:
        while True:
            found = looked(stage)
            if found is not None:
                records = found.ledger.records
                draw(records, [f"refused: {problem_line(problem)}" for problem in found.ledger.rejected.problems])
            if _all_reached(found) or time.monotonic() > until:
                return records
            ended_early(stage, processes)
            pause.wait(LOOK_SECONDS)


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
