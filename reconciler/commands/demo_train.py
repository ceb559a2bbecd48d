"""Fits a curve by stochastic gradient descent, with a checkpoint after each step. Only the standard library.

Run as a program of its own, by the job that `reconciler demo --cut` pushes. It knows nothing of regions: it goes on from the
newest complete checkpoint below CHECKPOINT_PATH, and saves its step when it is told to end. The points of a step are the same in
every attempt, so that one which goes on from a checkpoint has the same losses as one that was never stopped.
"""

import json
import math
import os
import random
import signal
import sys
import threading
from pathlib import Path
from urllib.parse import unquote, urlsplit

STEPS = 44
STEP_SECONDS = 1.0
RATE = 0.02
POINTS = 60
TERMS = 6
TOLD_TO_END = 143


def newest(checkpoints: Path) -> Path | None:
    """The newest complete checkpoint; without its marker a folder is only half written."""
    complete = [mark.parent for mark in checkpoints.glob("step-*/_COMPLETE")]
    return max(complete, key=lambda folder: int(folder.name.rpartition("-")[2]), default=None)


def save(checkpoints: Path, step: int, weights: list[float]) -> None:
    """Write a whole checkpoint; the marker last."""
    folder = checkpoints / f"step-{step}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state.json").write_text(json.dumps({"step": step, "weights": weights}))
    (folder / "_COMPLETE").touch()


def train(step: int, weights: list[float]) -> float:
    """One step over its points: changes the weights, and returns the mean squared error before each change."""
    points = random.Random(step)  # noqa: S311 - not a secret: the same points in every attempt
    loss = 0.0
    for _ in range(POINTS):
        x = points.uniform(-1, 1)
        powers = [x**power for power in range(TERMS)]
        miss = sum(weight * power for weight, power in zip(weights, powers, strict=True)) - math.sin(3 * x)
        weights[:] = [weight - RATE * miss * power for weight, power in zip(weights, powers, strict=True)]
        loss += miss * miss / POINTS
    return loss


def curve() -> list[float]:
    """The losses of a run that nothing interrupts, from the first step to the last."""
    weights = [0.0] * TERMS
    return [train(step, weights) for step in range(1, STEPS + 1)]


def main() -> int:
    """Train to the last step, or until told to end; returns the exit code."""
    told_to_end = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told_to_end.set())
    checkpoints = Path(unquote(urlsplit(os.environ["CHECKPOINT_PATH"]).path))
    step, weights = 0, [0.0] * TERMS
    found = newest(checkpoints)
    if found is not None:
        state = json.loads((found / "state.json").read_text())
        step, weights = state["step"], state["weights"]
        sys.stdout.write(f"going on from checkpoint {found.name}\n")
    while step < STEPS:
        step += 1
        loss = train(step, weights)
        save(checkpoints, step, weights)
        sys.stdout.write(f"step {step} loss {loss:.4f}\n")
        sys.stdout.flush()
        if told_to_end.wait(STEP_SECONDS):
            sys.stdout.write(f"told to end: step {step} is saved\n")
            return TOLD_TO_END
    return 0


if __name__ == "__main__":
    sys.exit(main())
