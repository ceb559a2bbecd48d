"""What comes to the screen: tables drawn on a terminal, plain lines of aligned columns everywhere else; JSON for programs.

Decides the spelling only. Invariant: what is not a terminal gets one line for each row, however wide, without colours.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconciler.model.attempt import Attempt
from reconciler.model.quantity import as_bytes, as_length
from reconciler.model.reasons import Reason

if TYPE_CHECKING:
    from rich.table import Table

NOTHING = "–"
Rows = Sequence[Sequence[str]]


def say(text: str) -> None:
    """Print a line, at once: somebody may be reading along through a pipe."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def program() -> str:
    """How this program was called, for commands to copy: they may follow a `cd`."""
    called = Path(sys.argv[0])
    if called.name != "reconciler" or shutil.which("reconciler") == str(called.absolute()):
        return "reconciler"
    return str(called.absolute())


def say_json(value: Any) -> None:
    """Print a value as programs read it. ASCII, for paths may hold bytes that no encoder of the reader's takes."""
    say(json.dumps(value, indent=2))


def warn(text: str) -> None:
    """Say something beside the answer."""
    sys.stderr.write(f"{text}\n")


def reason_json(reason: Reason | None) -> dict[str, Any] | None:
    """A reason: its code, its sentence, the numbers in it."""
    return None if reason is None else {"code": reason.code, "text": reason.text, "numbers": reason.numbers}


def time_json(moment: datetime | None) -> str | None:
    """A moment as RFC 3339 in UTC, to the second."""
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def show_table(headers: Sequence[str], rows: Rows) -> None:
    """Print a table as the place it goes to wants it."""
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(drawn(headers, rows))
    else:
        say(plain(headers, rows))


def plain(headers: Sequence[str], rows: Rows, indent: str = "") -> str:
    """Aligned columns, two spaces between them, a line for each row."""
    lines = [headers, *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(headers))]
    written = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(indent + line.rstrip() for line in written)


def drawn(headers: Sequence[str], rows: Rows) -> "Table":
    """The same for a terminal: long texts are folded inside their column."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    return table


@contextmanager
def redrawn() -> Iterator[Callable[[Sequence[str], Rows, Sequence[str]], None]]:
    """A place on the terminal that is drawn anew with each call: headers, rows, and lines below the table."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False) as live:
        yield lambda headers, rows, notes: live.update(Group(drawn(headers, rows), *map(Text, notes)), refresh=True)


def one_line(text: str) -> str:
    """The text without what would leave its line, or speak to the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def since(moment: datetime | None, now: datetime) -> str:
    """How long ago it was."""
    return NOTHING if moment is None else as_length(max(0.0, (now - moment).total_seconds()))


def between(start: datetime | None, end: datetime | None) -> str:
    """How long it took."""
    return NOTHING if start is None or end is None else as_length(max(0.0, (end - start).total_seconds()))


def ahead(moment: datetime | None, now: datetime) -> str:
    """How far ahead it is."""
    if moment is None:
        return "unknown"
    seconds = (moment - now).total_seconds()
    return "now" if seconds < 1 else f"in {as_length(seconds)}"


def size(number: int | None) -> str:
    """Bytes, as people say them."""
    return "unknown" if number is None else as_bytes(number)


def gpus(nodes: int, per_node: int) -> str:
    """`nodes × per node = all`."""
    return f"{nodes} × {per_node} = {nodes * per_node}" if per_node else NOTHING


def clock(moment: datetime | None) -> str:
    """A moment in UTC, to the second."""
    return NOTHING if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def attempt_state(attempt: Attempt) -> str:
    """Where an attempt is, and of a stopped one why."""
    return f"{attempt.state} ({attempt.outcome})" if attempt.outcome is not None and attempt.ended else str(attempt.state)
