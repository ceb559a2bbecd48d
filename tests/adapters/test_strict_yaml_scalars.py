"""Unquoted values: read as all readers do, or refused. PyYAML's own loader is the witness for YAML 1.1."""

import re
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reconciler.adapters.strict_yaml import parse
from reconciler.adapters.yaml_scalars import Trap, plain_value
from reconciler.model.problem import Invalid, Problem
from tests.examples import examples


def only_problem(text: str, path: str = "a.yaml") -> Problem:
    with pytest.raises(Invalid) as caught:
        parse(text.encode(), path)
    (problem,) = caught.value.problems
    return problem


READ: dict[str, Any] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    "0": 0, "-0": 0, "7": 7, "+7": 7, "-12": -12, "9223372036854775807": 2**63 - 1, "-9223372036854775808": -(2**63),
    "1.5": 1.5, "-1.5": -1.5, "1.10": 1.1, "1.": 1.0, "0.25": 0.25, ".5": 0.5, "1.0e+3": 1000.0, "2.5E-3": 0.0025,
    "20260101": 20260101,
    **{text: text for text in (
        "se", "Nope", "yEs", "oN", "tRUE", "nULL", "none", "inf", "NaN", ".inf.", "1.2.3", "10.0.0.1", "reg.example.com:5000",
        "12:99", "1000:1000", "64Gi", "500m", "8x", "0xZZ", "0bad", "0b", "1e", "e3", "+", ".", "2026-01", "2026-01-01-run3",
        "2026-01-01 nightly", "12h", "90d", "1-2", "===", "<<<", "a<<", "_1", "A100-80GB", "0123abc", "12345e7f", "--flag", "-x",
    )},
}  # fmt: skip


@pytest.mark.parametrize("text", READ, ids=[text or "nothing" for text in READ])
def test_what_all_readers_agree_on_is_read(text: str) -> None:
    value = parse(f"a: {text}\n".encode(), "a.yaml").value["a"]
    assert value == READ[text]
    assert type(value) is type(READ[text])


# huggingface/huggingface_hub#797 (booleans), python-jsonschema/check-jsonschema#116 (dates), and their kinds
TRAPS: dict[str, tuple[list[str], str]] = {
    "words that are true to some": (["yes", "Yes", "YES", "on", "On", "ON", "y", "Y"], "the boolean true"),
    "words that are false to some": (["no", "No", "NO", "off", "Off", "OFF", "n", "N"], "the boolean false"),
    "a clock time in minutes": (["12:30"], "the number 750 (base 60)"),
    "a clock time in seconds": (["1:30:00"], "the number 5400 (base 60)"),
    "other numbers in base 60": (["1:30:00.5", "-1:30", "1_0:30", "0:5", "190:20:30:59:1"], "base 60"),
    "a file mode": (["0755"], "the number 493 (base 8)"),
    "other numbers with a leading zero": (["007", "-012", "00", "0_7"], "(base 8)"),
    "leading zeros that are not octal": (["08", "0129", "01.5", "00.5"], "without its leading zero"),
    "underscores": (["1_000", "-1_0", "1__0", "1_"], "the number"),
    "underscores in a fraction": (["1_0.5", "1.5_0", ".5_0"], "the number"),
    "a hexadecimal number": (["0x1F", "0X1f", "0x1_F"], "the number 31"),
    "an octal number of YAML 1.2": (["0o17", "0O17"], "the number 15"),
    "a binary number": (["0b101", "0B101"], "the number 5"),
    "a commit that is all digits and an e": (["12345e7"], "the number 123450000000"),
    "an exponent": (["1e3", "1E3", "1e+3", "1.e3", "1.0e3"], "the number 1000"),
    "other exponents": (["1e-5", "1e400", "-1e3", ".5e1", "+1e3", "123456789e12"], "number"),
    "a sign before a point": (["-.5", "+.5", "-.5e+1"], "a number"),
    "a date": (["2026-03-29", "2026-3-9"], "a date"),
    "a date that is none": (["2026-13-45", "0000-00-00", "9999-99-99"], "a date"),
    "a time": (
        ["2026-03-29T10:00:00Z", "2026-03-29 10:00:00", "2026-3-9t1:00:00.5 +01:00", "2026-03-29T10:00:00-0130"],
        "a date",
    ),
    "infinity and not-a-number": ([".inf", "-.INF", "+.Inf", ".nan", ".NaN"], "infinity or not-a-number"),
    "a number too large": (["9223372036854775808", "-9223372036854775809", "9" * 30], "more than 64 bits"),
    "a fraction too large": (["1.0e+999", "-1.0e+999"], "infinity"),
    "the default key": (["="], "the default key"),
    "the merge key": (["<<"], "a merge key"),
}


@pytest.mark.parametrize(
    ("text", "reading"), [(text, reading) for texts, reading in TRAPS.values() for text in texts], ids=lambda text: text[:20]
)
def test_what_readers_read_differently_is_refused_with_the_other_reading(text: str, reading: str) -> None:
    problem = only_problem(f"a:\n- x\n- {text}\n")
    assert (problem.code, problem.line, problem.column) == ("AmbiguousValue", 3, 3)
    assert problem.what.startswith(f"a[1]: {text} is ")
    assert reading in problem.what
    assert problem.todo.startswith(f'write "{text}" if text is meant')


@pytest.mark.parametrize("text", [text for texts, _ in TRAPS.values() for text in texts])
def test_in_quotes_it_is_text(text: str) -> None:
    assert parse(f"a: \"{text}\"\nb: '{text}'\n".encode(), "a.yaml").value == {"a": text, "b": text}


def test_what_to_write_instead_is_said_where_there_is_such_a_thing() -> None:
    assert only_problem("a: no\n").todo == 'write "no" if text is meant, false if not'
    assert only_problem("a: 1e3\n").todo == 'write "1e3" if text is meant, 1000 if not'
    assert only_problem("a: 0x1F\n").todo == 'write "0x1F" if text is meant, 31 if not'
    assert only_problem("a: -.5\n").todo == 'write "-.5" if text is meant, -0.5 if not'
    assert only_problem("a: 12:30\n").todo == 'write "12:30" if text is meant'


def test_countries_in_a_list_are_each_named() -> None:
    with pytest.raises(Invalid) as caught:
        parse(b"allowed_regions: [no, se, on]\non: push\n", "a.yaml")
    assert [str(problem).partition(" to some")[0] for problem in caught.value.problems] == [
        "a.yaml:1:19: AmbiguousValue: allowed_regions[0]: no is the boolean false",
        "a.yaml:1:27: AmbiguousValue: allowed_regions[2]: on is the boolean true",
    ]


@pytest.mark.parametrize("field", ["env", "args", "command", "files", "content", "db_password", "api_key"])
def test_a_value_that_may_be_a_secret_is_not_repeated(field: str) -> None:
    problem = only_problem(f"{field}: 0123456\n")
    assert problem.code == "AmbiguousValue"
    assert "123456" not in str(problem)
    assert "42798" not in str(problem)  # the octal reading


@pytest.mark.parametrize("text", ["1e3", "1E3", "1e-05", "1.5e3", "-1.5e3"])
def test_json_has_numbers_with_an_exponent(text: str) -> None:
    assert parse(f'{{"a": {text}}}'.encode(), "a.json").value == {"a": float(text)}


@pytest.mark.parametrize("text", ["1e999", "0755", "yes", "0x1F", "12:30"])
def test_json_too_has_no_traps(text: str) -> None:
    assert only_problem(f'{{"a": {text}}}', "a.json").code == "AmbiguousValue"


CORE_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
CORE_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def core_type(text: str) -> type:
    """The type that YAML 1.2's core schema gives to a plain scalar (yaml.org/spec/1.2.2, 10.3.2)."""
    if re.fullmatch("null|Null|NULL|~|", text):
        return type(None)
    if re.fullmatch("true|True|TRUE|false|False|FALSE", text):
        return bool
    if CORE_INT.fullmatch(text):
        return int
    return float if CORE_FLOAT.fullmatch(text) else str


NUMERIC = st.text("0123456789.+-_:eExXoObBtTzZ ", min_size=1, max_size=14).map(str.strip)
WORDS = st.sampled_from(["yes", "No", "TRUE", "oFF", "y", "null", "~", ".inf", "-.Inf", ".NaN", "=", "<<", "2026-13-45", "1:2:3"])


@given(
    text=NUMERIC
    | WORDS
    | st.from_regex(CORE_FLOAT, fullmatch=True)
    | st.from_regex(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}", fullmatch=True)
)
@settings(max_examples=examples(500), deadline=None)
@example("1.5e3")
@example("0o17")
@example("-.5")
def test_whatever_is_read_is_read_alike_by_yaml_1_1_and_1_2(text: str) -> None:
    value = plain_value(text)
    if isinstance(value, Trap):
        return
    assert core_type(text) is type(value)
    resolver = yaml.SafeLoader("")
    tag: str = resolver.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    assert tag == {str: "tag:yaml.org,2002:str", int: "tag:yaml.org,2002:int", float: "tag:yaml.org,2002:float",
                   bool: "tag:yaml.org,2002:bool", type(None): "tag:yaml.org,2002:null"}[type(value)]  # fmt: skip
    if not isinstance(value, str):
        assert resolver.construct_object(yaml.ScalarNode(tag, text)) == value
