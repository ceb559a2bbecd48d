"""The golden trees hold, byte for byte, in this and in any other run of Python."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.rendering.manifest import problems
from tests.golden import cases, files_of, tree_of

ROOT = Path(__file__).parents[2]

DIGEST = """
import hashlib
from tests.golden import cases, tree_of
print(hashlib.sha256(repr([tree_of(case) for case in cases()]).encode()).hexdigest())
"""


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_tree_is_as_written_down(case: Path) -> None:
    made, kept = tree_of(case), files_of(case)
    assert set(made) == set(kept)
    for path, body in made.items():
        assert body.decode() == kept[path].decode(), f"{case.name}/{path}: review the change, then `python -m tests.golden`"


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_nothing_in_it_is_refused(case: Path) -> None:
    tree = tree_of(case)
    assert {path: problems(body) for path, body in tree.items() if path.startswith("manifests/") and problems(body)} == {}
    # What engines read as manifests is exactly what stands under manifests/.
    assert {path.partition("/")[0] for path in tree if path.endswith((".yaml", ".yml", ".json"))} == {"manifests"}


def test_there_are_cases_of_different_kinds() -> None:
    assert len(cases()) >= 6


@pytest.mark.parametrize("seed", ["1", "2"])
def test_another_run_of_python_gives_the_same_bytes(seed: str) -> None:
    here = hashlib.sha256(repr([tree_of(case) for case in cases()]).encode()).hexdigest()
    there = subprocess.run(
        [sys.executable, "-c", DIGEST],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == here
