"""What is too long to be read in one go is split: modules of 300 lines, functions of 40."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "reconciler"
MODULES = sorted(path for path in ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_too_long(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 300
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    long = {one.name: lines for one in functions if (lines := (one.end_lineno or 0) - one.lineno + 1) > 40}
    assert not long
