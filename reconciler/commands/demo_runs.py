"""What really ran: by the regions' own records of programs, not by what hub or agent believe. And a picture of it.

A local region's folder has `claim` (when a program began) and `exit` (when it, and all that it had started, had ended) of each
container, written by the shim beside the program; those of pods that are gone are kept with their logs.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from reconciler.model.pods import MAIN

_POD: Final = re.compile(r".+-[0-9a-f]{6}-a(\d+)-.+")
_STEP: Final = re.compile(r"step (\d+) loss ([0-9.]+)")
_TICK_SECONDS: Final = 10
_WIDTH: Final = 100
"""Columns of the picture, at most."""


@dataclass(frozen=True, slots=True)
class Run:
    """One container's program. Times in seconds since the epoch."""

    region: str
    attempt: int
    pod: str
    container: str
    began: float
    ended: float | None
    """None while it runs."""
    code: int | None
    lines: tuple[str, ...]
    """What it had written by then, in whole lines."""


def runs_in(region: str, folder: Path) -> tuple[Run, ...]:
    """All that has run in a local region, in the order in which it began."""
    found: dict[tuple[str, str], Run] = {}
    # In this order: what a pod that goes just now has left in its place no more is then where its records are kept.
    for run in (*_present(region, folder), *_kept(region, folder)):
        before = found.get((run.pod, run.container))
        found[run.pod, run.container] = run if before is None else _both(before, run)
    return tuple(sorted(found.values(), key=lambda run: run.began))


def programs(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Those of the jobs themselves, without the steps before them."""
    return tuple(run for run in runs if run.container == MAIN)


def steps_of(run: Run) -> list[tuple[int, float]]:
    """The steps that a training program says it has done, and the loss of each."""
    found = [_STEP.match(line) for line in run.lines]
    return [(int(match[1]), float(match[2])) for match in found if match is not None]


def _present(region: str, folder: Path) -> Iterator[Run]:
    for claim in (folder / "pods").glob("*/containers/*/claim"):
        place = claim.parent
        said, named = _read(claim), _text(place.parent.parent / "name")
        if said is not None and named is not None:
            yield _run(region, (named, place.name), said | (_read(place / "exit") or {}), place / "log")


def _kept(region: str, folder: Path) -> Iterator[Run]:
    for file in (folder / "logs").glob("*/*.exit"):
        said = _read(file)
        if said is not None:
            yield _run(region, (file.parent.name, file.stem), said, file.with_suffix(".log"))


def _both(one: Run, other: Run) -> Run:
    """What two reads of a run have found together: its files are moved one by one."""
    whole = one if other.ended is None else other
    return replace(whole, lines=max(one.lines, other.lines, key=len))


def _run(region: str, names: tuple[str, str], said: Mapping[str, Any], log: Path) -> Run:
    found = _POD.fullmatch(names[0])
    lines = tuple((_text(log) or "").rpartition("\n")[0].splitlines())
    ended = said["finished"] / 1000 if "finished" in said else None
    return Run(region, int(found[1]) if found else 0, *names, said["started"] / 1000, ended, said.get("code"), lines)


def _text(file: Path) -> str | None:
    try:
        return file.read_text("utf-8", "replace")
    except FileNotFoundError:
        return None


def _read(file: Path) -> dict[str, Any] | None:
    said = _text(file)
    found: dict[str, Any] | None = json.loads(said) if said else None
    return found


# ---- drawn --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment to be shown below the picture."""

    letter: str
    at: float
    """Seconds since the epoch."""
    means: str


def picture(regions: Sequence[str], runs: Sequence[Run], marks: Sequence[Mark], zero: float) -> list[str]:
    """A row for each region, with the number of the attempt wherever a program ran. `zero`: the moment that is called 0."""
    times = [time for run in runs for time in (run.began, run.ended) if time is not None] + [mark.at for mark in marks]
    first = (min(times) - zero) // _TICK_SECONDS * _TICK_SECONDS
    last = max(times) - zero
    each = max(1.0, (last - first) / _WIDTH)
    side = max(map(len, regions)) + 2

    def column(since: float) -> int:
        return int((since - first) / each)

    width = column(last) + 1
    lines = [" " * side + _scale(first, last, width, each)]
    for region in regions:
        row = ["."] * width
        for run in runs:
            if run.region == region:
                end = last if run.ended is None else run.ended - zero
                for at in range(column(run.began - zero), max(column(run.began - zero) + 1, column(end))):
                    row[at] = str(run.attempt)
        lines.append(region.ljust(side) + "".join(row))
    lines.append((" " * side + _letters([(mark.letter, column(mark.at - zero)) for mark in marks])).rstrip())
    return lines


def _scale(first: float, last: float, width: int, each: float) -> str:
    row = [" "] * (width + 8)
    tick = first
    while tick <= last:
        word, at = f"|{tick:.0f} s", int((tick - first) / each)
        row[at : at + len(word)] = word
        tick += _TICK_SECONDS * (2 if each > 1.5 else 1)
    return "".join(row).rstrip()


def _letters(places: Sequence[tuple[str, int]]) -> str:
    """Each letter at its column, or at the next one that is free."""
    row: dict[int, str] = {}
    for letter, place in places:
        at = place
        while at in row:
            at += 1
        row[at] = letter
    return "".join(row.get(at, " ") for at in range(max(row, default=-1) + 1))
