"""Reasons: every code that is given anywhere says its sentence with the numbers that it is given."""

import ast
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

import reconciler
from reconciler.model.reasons import Reason, Why, because, code_of

PACKAGE = Path(reconciler.__file__).parent
GIVERS = {"because", "_no"}


def fields(sentence: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name}


def given_reasons() -> Iterator[tuple[str, ast.Call]]:
    """Every call that gives a reason, and where it stands."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in GIVERS and node.args:
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node


CALLS = dict(given_reasons())


def code_in(node: ast.expr) -> list[str]:
    """Names of the codes in `Why.X`, or in `Why.X if … else Why.Y`."""
    return [part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute) and getattr(part.value, "id", "") == "Why"]


LITERAL = {where: call for where, call in CALLS.items() if code_in(call.args[0]) and all(word.arg for word in call.keywords)}


@pytest.mark.parametrize("where", LITERAL)
def test_a_reason_is_given_the_numbers_that_its_sentence_has(where: str) -> None:
    for name in code_in(LITERAL[where].args[0]):
        given = {str(word.arg) for word in LITERAL[where].keywords}
        assert fields(Why[name].value) <= given


def test_most_reasons_are_given_in_a_form_that_can_be_checked() -> None:
    assert len(LITERAL) > 50
    others = {where.partition(":")[0] for where in CALLS.keys() - LITERAL.keys()}
    # Codes or numbers come in a variable there; tests of planning make each of its reasons.
    assert all(path.startswith("planning/") for path in others - {"model/reasons.py"})


@pytest.mark.parametrize("why", list(Why))
def test_every_code_has_a_sentence_of_its_own_that_can_be_said(why: Why) -> None:
    reason = because(why, **dict.fromkeys(fields(why.value), "x"))
    assert reason.code == code_of(why)
    assert reason.code[0].isupper()
    assert reason.code.isalpha()
    assert "{" not in reason.text
    assert type(reason.text) is str
    assert Reason.model_validate_json(reason.model_dump_json()) == reason
    assert Reason.model_validate_json(reason.model_dump_json()).text == reason.text


def test_no_two_codes_are_one() -> None:
    """Two members with one sentence would be one member under two names."""
    assert len(Why.__members__) == len(list(Why)) == len({code_of(why) for why in Why})


def test_a_number_with_braces_is_said_as_it_is() -> None:
    assert because(Why.EXITED, code="{x}").text == "the program ended with exit code {x}"


def test_a_reason_of_another_version_is_told_by_its_code() -> None:
    assert Reason(code="Foo").text == "Foo"
    assert Reason(code="Foo", numbers={"region": "eu"}).text == "Foo {'region': 'eu'}"
