"""The documents that are made from the code say what the code does."""

import ast
import re

import pytest

from tests.docs import DOCS, GENERATED


@pytest.mark.parametrize("name", sorted(GENERATED))
def test_generated_documents_have_not_drifted(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == GENERATED[name](), f"run `make docs` and commit docs/{name}"


def test_every_code_of_a_refused_file_is_listed() -> None:
    """Codes stand in the code as plain words: those that are refused with `what; what to do` are looked for where they are made."""
    listed = set(re.findall(r"`([A-Z][A-Za-z0-9]+)`", (DOCS / "concepts.md").read_text(encoding="utf-8")))
    made: set[str] = set()
    for module in ("hub/job_rules", "hub/fleet", "hub/sources", "hub/reading", "hub/repo_files", "adapters/yaml_text"):
        source = (DOCS.parent / "reconciler" / f"{module}.py").read_text(encoding="utf-8")
        calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
        named = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in ("Finding", "Problem")]
        words = [word.value for call in named for word in call.args if isinstance(word, ast.Constant)]
        made |= {word for word in words if isinstance(word, str) and re.fullmatch(r"([A-Z][a-z]+)+", word)}
    assert len(made) > 10
    assert made <= listed, f"docs/concepts.md does not list {sorted(made - listed)}"
