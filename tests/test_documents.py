"""The documents that are made from the code say what the code does."""

import pytest

from tests.docs import DOCS, GENERATED


@pytest.mark.parametrize("name", sorted(GENERATED))
def test_generated_documents_have_not_drifted(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == GENERATED[name](), f"run `make docs` and commit docs/{name}"
