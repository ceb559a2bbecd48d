"""Histories: drawn from a seed, played in a world, made smaller when they fail.

A seed names a history for good: nothing but `random.Random` and the steps decide it. Replay one with
`python -m tests.sim SEED`.
"""

import tempfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.sim import breaks, ending, pushes
from tests.sim.steps import Step, happen, weights
from tests.sim.world import World, worlds

LENGTH = 70
"""Steps of a history, time included."""
MEMORY = Path("/dev/shm")
KINDS = (pushes, breaks)
"""Where kinds of steps are; to import them is to know them."""


@dataclass(frozen=True, slots=True)
class Failed:
    """How a history failed: the kind of the error, and its words."""

    kind: str
    words: str


def drawn(seed: int, length: int = LENGTH) -> tuple[Step, ...]:
    """The steps of a seed."""
    draw = Random(f"history {seed}")
    kinds, often = zip(*sorted(weights().items()), strict=True)
    first = [Step("new_job", draw.randrange(1000), draw.randrange(1000), draw.randrange(1000)) for _ in range(3)]
    chosen = draw.choices(kinds, often, k=length)
    return (*first, *(Step(kind, draw.randrange(1000), draw.randrange(1000), draw.randrange(1000)) for kind in chosen))


def play(seed: int, steps: Sequence[Step], parent: Path) -> Failed | None:
    """Play these steps in the world of a seed, and drain it; what went wrong, if anything did."""
    with worlds(parent, seed) as world:
        try:
            _run(world, deque(steps))
            ending.mend(world)
            found = ending.drain(world)
        except Exception as error:  # noqa: BLE001 - whatever it is, the history has failed, and is to be made smaller
            return Failed(type(error).__name__, str(error))
        return Failed("Faults", "\n".join(found)) if found else None


def _run(world: World, steps: deque[Step]) -> None:
    """All steps in turn; while somebody is paused, some of those to come happen inside his pause."""

    def some(number: int) -> None:
        for _ in range(number):
            if steps:
                happen(world, steps.popleft())

    world.later = some
    while steps:
        some(1)


def shrunk(seed: int, steps: Sequence[Step], parent: Path, within_seconds: float) -> tuple[Step, ...]:
    """As few of the steps as fail in the same way, as far as the time allows."""
    failed = play(seed, steps, parent)
    until = time.monotonic() + within_seconds
    kept, size, start = tuple(steps), len(steps) // 2, 0
    while failed is not None and size and time.monotonic() < until:
        smaller = kept[:start] + kept[start + size :]
        again = play(seed, smaller, parent)
        if again is not None and again.kind == failed.kind:
            kept = smaller
        else:
            start += size
        if start >= len(kept):
            size, start = size // 2, 0
    return kept


def judged(seed: int, within_seconds: float = 60.0) -> str | None:
    """Play a seed's history; None where all went well, else what went wrong and the smallest history that shows it."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None, prefix="reconciler-sim-") as folder:
        steps = drawn(seed)
        failed = play(seed, steps, Path(folder))
        if failed is None:
            return None
        kept = shrunk(seed, steps, Path(folder), within_seconds)
        after = play(seed, kept, Path(folder)) or failed
    shown = "\n".join(f"    {tuple(step)}" for step in kept)
    return f"seed {seed}: {after.kind}: {after.words}\n{len(kept)} of {len(steps)} steps:\n{shown}"
