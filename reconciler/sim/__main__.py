"""`python -m reconciler.sim`: many histories under faults, one history told, or a simulated day."""

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Final

from reconciler.sim.histories import story
from reconciler.sim.many import played
from reconciler.sim.soak import DAY, soak

_TELL_SECONDS: Final = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m reconciler.sim", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    faults = commands.add_parser("faults", help="play many histories; what breaks is told, as short as it can be")
    faults.add_argument("--seeds", default="0-999", help="FIRST-LAST, both included")
    faults.add_argument("--workers", type=int, default=2, help="how many at a time")
    faults.add_argument("--no-shrink", action="store_true", help="do not look for the shortest story")
    replay = commands.add_parser("replay", help="tell the whole history of one seed")
    replay.add_argument("seed", type=int)
    day = commands.add_parser("soak", help="a simulated day")
    day.add_argument("--seed", type=int, default=0)
    day.add_argument("--hours", type=float, default=DAY / 3600)
    asked = parser.parse_args(arguments)
    if asked.command == "faults":
        first, _, last = asked.seeds.partition("-")
        return _faults(range(int(first), int(last or first) + 1), asked.workers, shrink=not asked.no_shrink)
    if asked.command == "replay":
        told = story(asked.seed)
        _say(told)
        return 1 if told.kind else 0
    came = soak(asked.seed, asked.hours * 3600)
    _say(came)
    return 0 if came.is_well else 1


def _faults(seeds: range, workers: int, *, shrink: bool) -> int:
    began = told_at = time.monotonic()
    violations = done = 0
    for many, found in played(seeds, workers, shrink=shrink):
        done += many
        for each in found:
            violations += 1
            _say(f"{each}\n")
        now = time.monotonic()
        if now - told_at >= _TELL_SECONDS:
            told_at = now
            words = f"{done} of {len(seeds)} seeds, {violations} violations, {done / (now - began):.1f} a second"
            print(words, file=sys.stderr, flush=True)  # noqa: T201 - progress is for whoever watches
    _say(f"{len(seeds)} seeds, {violations} violations")
    return 1 if violations else 0


def _say(words: object) -> None:
    print(words, flush=True)  # noqa: T201 - the command's answer


if __name__ == "__main__":
    sys.exit(main())
