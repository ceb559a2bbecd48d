"""What the record of programs calls a fault, so that its silence means something."""

from pathlib import Path

import pytest

from tests.e2e.faults.runs import Revocation, Run, Runs
from tests.e2e.faults.training import EVERY, Curve, assert_one_curve, trained

FIRST = Run("eu-west", "train", "train-a1", "pod-1", 101, 10.0, 40.0)
LOST = Revocation("eu-west", 2, 45.0)


def run(number: int, began: float, ended: float | None = None, pod: str = "", region: str = "us-east") -> Run:
    return Run(region, "train", f"train-a{number}", pod or f"pod-{number}", 100 + number, began, ended)


HISTORIES = {
    "one after the other is well": ([FIRST, run(2, 50.0)], [LOST], ""),
    "an attempt that begins before the other has ended": ([FIRST, run(2, 39.9, 60.0)], [], "ran at the same time"),
    "an attempt that begins while the other runs on": ([run(1, 10.0), run(2, 50.0)], [], "ran at the same time"),
    "an attempt in a second pod": ([FIRST, run(1, 50.0, pod="pod-9")], [], "ran again in another pod"),
    "several processes of one pod are one": ([FIRST, run(1, 11.0, 39.0, "pod-1", "eu-west")], [], ""),
    "a program that runs when its region has lost its right": ([run(1, 10.0, region="eu-west")], [LOST], "was revoked"),
    "a program that ends after that": ([run(1, 10.0, 45.1, region="eu-west")], [LOST], "was revoked"),
    "a program of another region": ([run(1, 10.0)], [LOST], ""),
    "a program of the next epoch": ([FIRST, run(3, 46.0, region="eu-west")], [LOST], ""),
}


@pytest.mark.parametrize(("runs", "revocations", "fault"), HISTORIES.values(), ids=HISTORIES.keys())
def test_faults(tmp_path: Path, runs: list[Run], revocations: list[Revocation], fault: str) -> None:
    found = Runs(tmp_path, ("eu-west", "us-east"), runs=runs, revocations=revocations).faults()
    assert [fault in words for words in found] == ([True] if fault else [])


def test_what_a_kubelet_started_and_nobody_saw_is_told(tmp_path: Path) -> None:
    (tmp_path / "eu-west/plane").mkdir(parents=True)
    lines = ["pod language/train-a1-x7k2p: Running main=running", "pod language/train-a2-abcde: Pending main=waiting"]
    log = [*lines, "pod language/train-a3-abcde: Failed main=terminated143", "node gpu-1: registered"]
    (tmp_path / "eu-west/plane/kubelet.log").write_text("\n".join(log))
    assert Runs(tmp_path, ("eu-west",), runs=[FIRST]).unseen() == ["eu-west: train-a3-abcde"]


def losses(first: int, last: int) -> dict[int, str]:
    weight, found = 0.0, {}
    for step in range(1, last + 1):
        weight, loss = trained(step, weight)
        found[step] = repr(loss)
    return {step: loss for step, loss in found.items() if step >= first}


CURVES = {
    "one attempt": ([Curve(0, losses(1, 8))], True),
    "from the last checkpoint": ([Curve(0, losses(1, 8)), Curve(6, losses(7, 12))], True),
    "killed between a checkpoint and its line": ([Curve(0, losses(1, 8)), Curve(9, losses(10, 12))], True),
    "from an older checkpoint": ([Curve(0, losses(1, 8)), Curve(3, losses(4, 12))], False),
    "from the beginning": ([Curve(0, losses(1, 8)), Curve(0, losses(1, 12))], False),
    "steps that nobody did": ([Curve(0, losses(1, 8)), Curve(12, losses(13, 14))], False),
    "a step left out": ([Curve(0, {step: loss for step, loss in losses(1, 8).items() if step != 4})], False),
    "losses of another state": (
        [Curve(0, losses(1, 8)), Curve(6, dict(zip(range(7, 9), losses(1, 2).values(), strict=True)))],
        False,
    ),
}


@pytest.mark.parametrize(("curves", "good"), CURVES.values(), ids=CURVES.keys())
def test_curves(curves: list[Curve], good: bool) -> None:
    assert EVERY == 3
    if good:
        assert_one_curve(curves)
    else:
        with pytest.raises(AssertionError):
            assert_one_curve(curves)
