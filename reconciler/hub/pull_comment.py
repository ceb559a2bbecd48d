"""The one comment on a pull request that changes jobs or declarations, and the words of its commit status.

Decides the wording. Invariant: whatever the pull request's files say stands in it as words or code (pull_markdown.py), never at
the beginning of a line.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import Final, TypeVar

from reconciler.forge_port import Verdict
from reconciler.hub.intents import doubt_in_words
from reconciler.hub.pull_check import Changed, Check, Longer
from reconciler.hub.pull_markdown import code, fitting, one_line, table, words
from reconciler.hub.pull_text import NOTHING, clock, size
from reconciler.hub.whatif import Imagined
from reconciler.model.problem import Problem
from reconciler.model.quantity import as_usd

MARKER: Final = "<!-- gpu-reconciler:check -->"
NOTHING_TOUCHED: Final = "no file of jobs, regions or rules is touched"
MOST_ROWS: Final = 50
JOB_HEADERS: Final = ("job", "file", "what would happen", "start (UTC)", "price", "to move", "why")
LATER_HEADERS: Final = ("job", "now", "with this pull request")

T = TypeVar("T")


def verdict_of(check: Check) -> tuple[Verdict, str]:
    """The commit status: at most 140 characters, which the forge's client cuts."""
    if check.errors:
        first = check.errors[0]
        more = f" (and {len(check.errors) - 1} more)" if len(check.errors) > 1 else ""
        return Verdict.FAILURE, one_line(f"{first.path}:{first.line}:{first.column}: {first.what}{more}")
    if not check.concerns:
        return Verdict.SUCCESS, NOTHING_TOUCHED
    if not check.changed:
        return Verdict.SUCCESS, f"sound; {count(len(check.declarations), 'declaration')} touched, no job's file"
    said = "; ".join(f"{each.key} {_outcome(each)}" for each in check.changed[:2])
    more = f"; and {len(check.changed) - 2} more" if len(check.changed) > 2 else ""
    return Verdict.SUCCESS, one_line(said + more)


def comment_of(check: Check, head: str, main: str) -> str:
    """The comment. `head`, `main`: the commits that it is about."""
    return fitting((MARKER, *_lines(check, head, main))) + "\n"


def broken_comment(what: str, head: str) -> str:
    """The comment where nothing can be said of the files at all."""
    return f"{MARKER}\nCommit `{head[:12]}` cannot be looked at: {words(what)}.\n"


def _lines(check: Check, head: str, main: str) -> Iterator[str]:
    when = f"{check.now.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    yield f"If `{head[:12]}` were merged into main at `{main[:12]}` now ({when}):"
    if not check.concerns:
        yield f"\n{NOTHING_TOUCHED}."
    if check.errors:
        yield f"\n### {count(len(check.errors), 'error')}\n"
        yield "A file with an error is not taken: what it said before stays in force.\n"
        yield from _listed([_problem(problem) for problem in check.errors])
    if check.conflicts:
        yield "\nMain has changed the same files; below this pull request's are taken. Rebase it:\n"
        yield from _listed([f"- {code(path)}" for path in check.conflicts])
    if check.doubt is not None:
        yield f"\n**The hub would stop nothing until a person confirms:** {words(doubt_in_words(check.doubt))}."
    if check.changed:
        yield "\n### Jobs\n"
        yield from _table(JOB_HEADERS, [_job(each) for each in check.changed])
    if check.longer:
        yield "\n### Jobs that it does not touch and that would be worse off\n"
        yield from _table(LATER_HEADERS, [_later(each) for each in check.longer])
    elif check.changed and not check.errors:
        yield "\nNo other job would wait longer."
    if check.declarations:
        yield "\n### Other files that it touches\n"
        yield from _listed([f"- {code(path)}" for path in check.declarations])
    if check.remarks:
        yield "\n### Remarks\n"
        yield from _listed([_problem(problem) for problem in check.remarks])


def _problem(problem: Problem) -> str:
    place = f"{problem.path}:{problem.line}:{problem.column}" if problem.line else problem.path
    return f"- {code(place)} {code(problem.code)} {words(problem.what)}; {words(problem.todo)}"


def _job(each: Changed) -> tuple[str, ...]:
    after = each.after
    decided = after.decided if after is not None else None
    chosen = decided.decision.chosen if decided is not None else None
    record = after.after if after is not None else None
    reason = decided.decision.reason if decided is not None else record.why if record is not None else None
    figures = (NOTHING,) * 3
    if chosen is not None:
        figures = (clock(chosen.start_at), as_usd(chosen.price_usd), size(chosen.move_bytes))
    return (
        code(str(each.key)),
        each.what,
        words(_outcome(each)),
        *figures,
        words(reason.text) if reason is not None else NOTHING,
    )


def _outcome(each: Changed) -> str:
    return outcome(each.after) if each.after is not None else "would not be taken"


def outcome(job: Imagined) -> str:
    """What would become of a job, in a few words."""
    record, last = job.after, job.after.last
    if job.decided is not None:
        return f"{'would be proposed' if job.proposed else 'would start'} in {job.decided.region}"
    where = f" in {last.region}" if record.current is not None and last is not None else ""
    same = job.before is not None and job.before.phase is record.phase
    return f"{'stays' if same else 'would be'} {record.phase}{where}"


def _later(each: Longer) -> tuple[str, ...]:
    others = [code(str(key)) for key in each.behind.named]
    more = f" and {each.behind.count - len(others)} more" if each.behind.count > len(others) else ""
    behind = f"; behind {', '.join(others)}{more}" if others else ""
    return (code(str(each.key)), _start(each.before), f"{_start(each.after)}{behind}")


def _start(job: Imagined) -> str:
    if job.decided is not None:
        return f"{words(outcome(job))}, {clock(job.decided.decision.chosen.start_at)}"
    why = f": {words(job.after.why.text)}" if job.after.why is not None else ""
    return f"{words(outcome(job))}{why}"


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = table(headers, rows[:MOST_ROWS])
    return lines if len(rows) <= MOST_ROWS else [*lines, f"\nand {len(rows) - MOST_ROWS} more"]


def _listed(lines: Sequence[str]) -> list[str]:
    return list(lines) if len(lines) <= MOST_ROWS else [*lines[:MOST_ROWS], f"- and {len(lines) - MOST_ROWS} more"]


def count(number: int, what: str) -> str:
    """So many of something."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
