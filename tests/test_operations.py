"""What docs/operations.md must name: every trouble that is told, every setting of the environment, and what is not built."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.docs import DOCS

ROOT = DOCS.parent
_MAKERS = {"Health", "troubled", "_of", "not_seen"}


def _codes() -> Iterator[str]:
    """Codes stand in the code as plain words: as an argument of what makes a trouble, or first in a pair with its words."""
    for part in ("agent", "hub"):
        for file in sorted((ROOT / "reconciler" / part).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _MAKERS:
                    words = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "code")]
                    yield from (word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str))


def test_every_trouble_that_is_told_is_in_the_table() -> None:
    codes = {code for code in _codes() if re.fullmatch(r"([A-Z][a-z]+)+", code)}
    assert {"ClusterImpaired", "Fenced", "SyncEngineRefuses"} <= codes
    named = set(re.findall(r"`([A-Za-z]+)`", (DOCS / "operations.md").read_text(encoding="utf-8")))
    assert codes <= named, f"docs/operations.md does not name {sorted(codes - named)}"


def test_no_trouble_is_in_the_table_that_nobody_tells() -> None:
    text = (DOCS / "operations.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    named = {code for row in rows for code in re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`", row)}
    code = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "reconciler").rglob("*.py"))
    from_reasons = (DOCS / "reasons.md").read_text(encoding="utf-8")
    gone = {one for one in named if f'"{one}"' not in code and f"`{one}`" not in from_reasons}
    assert gone == set()


def _variables() -> list[str]:
    """Variables of the environment that the code reads; those that end in `_` are only the beginnings of names."""
    found: set[str] = set()
    for file in (ROOT / "reconciler").rglob("*.py"):
        found |= set(re.findall(r"RECONCILER_[A-Z_]*[A-Z]\b(?!_)", file.read_text(encoding="utf-8")))
    return sorted(found - {"RECONCILER_TRACEBACK"})  # its own message tells of it, to whoever reports a bug


@pytest.mark.parametrize("variable", _variables())
def test_every_setting_of_the_environment_is_told_somewhere(variable: str) -> None:
    texts = [file.read_text(encoding="utf-8") for file in (*DOCS.glob("*.md"), ROOT / "README.md")]
    assert any(variable in text for text in texts)


WORDS = ("--receiver", "gpu-reconciler-receiver", "webhook.github.secret", "receiver: {", "profile.gang", "profile.stage_image")


@pytest.mark.parametrize("words", WORDS)
def test_what_a_person_must_set_up_is_told(words: str) -> None:
    assert words in (DOCS / "operations.md").read_text(encoding="utf-8")
