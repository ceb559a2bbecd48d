"""The file loader: structure, positions, and that all faults of a file are told at once."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.adapters.strict_yaml import Limits, parse
from reconciler.model.problem import Invalid, Problem

JOB = b"""\
# the usual one
job_id: llm-a
gpu: {count: 8, model: [H200, "H100"]}
image: reg.example.com:5000/team/train:1.4
args:
- train.py
- |
  set -e
  echo "{{output}} ${VAR} %d: #x" 'it''s'
env:
  FLAG: "yes"
  EMPTY:
stages:
  - name: a
    after: []
  - name: b
"""


def refused(body: bytes | str, path: str = "jobs/a.yaml", **limits: int) -> tuple[Problem, ...]:
    with pytest.raises(Invalid) as caught:
        parse(body if isinstance(body, bytes) else body.encode(), path, limits=Limits(**limits))
    return caught.value.problems


def told(problems: tuple[Problem, ...]) -> list[tuple[str, int, int]]:
    return [(problem.code, problem.line, problem.column) for problem in problems]


def test_a_usual_file_is_plain_values() -> None:
    assert parse(JOB, "jobs/a.yaml").value == {
        "job_id": "llm-a",
        "gpu": {"count": 8, "model": ["H200", "H100"]},
        "image": "reg.example.com:5000/team/train:1.4",
        "args": ["train.py", "set -e\necho \"{{output}} ${VAR} %d: #x\" 'it''s'\n"],
        "env": {"FLAG": "yes", "EMPTY": None},
        "stages": [{"name": "a", "after": []}, {"name": "b"}],
    }


POSITIONS = {
    "the file itself is where its first value is": ((), False, (2, 1)),
    "a value": (("job_id",), False, (2, 9)),
    "a key": (("job_id",), True, (2, 1)),
    "a value inside braces": (("gpu", "count"), False, (3, 14)),
    "a key inside braces": (("gpu", "count"), True, (3, 7)),
    "an item of a list": (("gpu", "model", 1), False, (3, 31)),
    "an item of a list has no key": (("gpu", "model", 1), True, (3, 31)),
    "a text block": (("args", 1), False, (7, 3)),
    "a value that is not there": (("env", "EMPTY"), False, (12, 9)),
    "a mapping in a list": (("stages", 1), False, (16, 5)),
    "a key in a mapping in a list": (("stages", 0, "after"), True, (15, 5)),
}


@pytest.mark.parametrize(("pointer", "key", "expected"), POSITIONS.values(), ids=POSITIONS.keys())
def test_position(pointer: tuple[str | int, ...], key: bool, expected: tuple[int, int]) -> None:
    assert parse(JOB, "jobs/a.yaml").position(pointer, key=key) == expected


@pytest.mark.parametrize("pointer", [("nothing",), ("job_id", "x"), ("job_id", 0), ("gpu", 0), ("args", "x"), ("args", 9)])
def test_a_place_that_is_not_there_has_no_position(pointer: tuple[str | int, ...]) -> None:
    with pytest.raises(LookupError):
        parse(JOB, "jobs/a.yaml").position(pointer)


def test_how_a_scalar_was_written_is_kept_where_it_was_not_quoted() -> None:
    document = parse(b'a: 1.10\nb: "1.10"\nc: True\nd: [1]\n', "a.yaml")
    assert [document.written((key,)) for key in "abcd"] == ["1.10", None, "True", None]


# Whatever a reader may resolve in silence (yaml/pyyaml#165)
STRUCTURE: dict[str, tuple[str, list[tuple[str, int, int]]]] = {
    "a key twice in an inner mapping": ("gpu:\n  model: A100\n  count: 1\n  count: 8\n", [("DuplicateKey", 4, 3)]),
    "a key twice at the top": ("a: 1\nb: 2\na: 1\n", [("DuplicateKey", 3, 1)]),
    "a key twice in braces": ("gpu: {count: 1, count: 1}\n", [("DuplicateKey", 1, 17)]),
    "a key three times": ("a: 1\na: 2\na: 3\n", [("DuplicateKey", 2, 1), ("DuplicateKey", 3, 1)]),
    "a key twice, once in quotes": ('a: 1\n"a": 2\n', [("DuplicateKey", 2, 1)]),
    "a key twice in a list's mapping": ("l:\n- a: 1\n  a: 2\n", [("DuplicateKey", 3, 3)]),
    "two readings of one boolean are two keys": ("yes: 1\ntrue: 2\non: 3\nyes: 4\n", [("DuplicateKey", 4, 1)]),
    "an anchor on a value": ("a: &x 1\n", [("AnchorUsed", 1, 4)]),
    "an anchor on a mapping": ("a: &x\n  b: 1\n", [("AnchorUsed", 1, 4)]),
    "an anchor on a key": ("&x a: 1\n", [("AnchorUsed", 1, 1)]),
    "an alias": ("a: &x 1\nb: *x\n", [("AnchorUsed", 1, 4), ("AliasUsed", 2, 4)]),
    "an alias of nothing": ("a: *x\n", [("AliasUsed", 1, 4)]),
    "an alias as a key": ("*x : 1\n", [("AliasUsed", 1, 1)]),
    "a merge key": ("a: {b: 1}\nc:\n  <<: *a\n", [("MergeKeyUsed", 3, 3), ("AliasUsed", 3, 7)]),
    "a tag for a Python object": ("a: !!python/object/apply:os.system [ls]\n", [("TagUsed", 1, 4)]),
    "a tag of one's own": ("a: !x 1\n", [("TagUsed", 1, 4)]),
    "a standard tag": ("a: !!str 1\n", [("TagUsed", 1, 4)]),
    "a tag that says nothing": ("a: ! 1\n", [("TagUsed", 1, 4)]),
    "a tag in full": ("a: !<tag:yaml.org,2002:str> x\n", [("TagUsed", 1, 4)]),
    "a tag on a mapping": ("!x\na: 1\n", [("TagUsed", 1, 1)]),
    "a tag and an anchor": ("a: !x &y 1\n", [("AnchorUsed", 1, 4), ("TagUsed", 1, 4)]),
    "a list as a key": ("? [a]\n: 1\n", [("BadKey", 1, 3)]),
    "a mapping as a key": ("{a: 1}: 2\n", [("BadKey", 1, 1)]),
    "a template's braces as a value": ("image: {{ image }}\n", [("BadKey", 1, 9)]),
    "a key of several lines": ("? |\n  a\n: 1\n", [("BadKey", 1, 3)]),
    "no name before the colon": ('? \n: x\n', [("BadKey", 1, 2)]),
    "a second document": ("a: 1\n---\nb: 1\n", [("SeveralDocuments", 2, 1)]),
    "a second document that is empty": ("a: 1\n---\n", [("SeveralDocuments", 2, 1)]),
    "an escape for a control character": ('a: "\\0"\n', [("ControlCharacter", 1, 4)]),
    "an escape for the terminal's escape": ('a: "\\e[31m"\n', [("ControlCharacter", 1, 4)]),
    "an escape for a control character in a key": ('"a\\u202e": 1\n', [("BadKey", 1, 1)]),
    "nothing": ("", [("EmptyFile", 0, 0)]),
    "spaces and line ends": ("\n  \n", [("EmptyFile", 0, 0)]),
    "only comments": ("# job\n#\n", [("EmptyFile", 0, 0)]),
    "only the beginning of a document": ("---\n", [("EmptyFile", 0, 0)]),
    "all at once, in order": (
        "a: yes\nb: &x 1\nc: {d: 2026-01-01, d: 2}\ne: !x 1\n",
        [("AmbiguousValue", 1, 4), ("AnchorUsed", 2, 4), ("AmbiguousValue", 3, 8), ("DuplicateKey", 3, 20), ("TagUsed", 4, 4)],
    ),
    "what came before a fault that ends it": (
        "a: 1\na: no\nb: [1\nc: 2\n",
        [("DuplicateKey", 2, 1), ("AmbiguousValue", 2, 4), ("YamlSyntax", 4, 2)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), STRUCTURE.values(), ids=STRUCTURE.keys())
def test_structure_that_readers_could_take_in_two_ways_is_refused(text: str, expected: list[tuple[str, int, int]]) -> None:
    assert told(refused(text)) == expected


def test_a_duplicate_key_names_its_path_and_both_lines() -> None:
    (problem,) = refused("gpu:\n  model: A100-80GB\n  count: 1\n  count: 8\n")
    assert problem.what == "gpu.count is given twice, on line 3 and on line 4"


def test_a_duplicate_key_inside_a_list_names_the_item() -> None:
    (problem,) = refused("roles:\n- {}\n- gpu: {count: 1, count: 2}\n")
    assert problem.what.startswith("roles[1].gpu.count is given twice")


def test_one_document_between_marks_is_one_document() -> None:
    assert parse(b"%YAML 1.2\n---\na: 1\n...\n", "a.yaml").value == {"a": 1}


KEYS = ["on", "no", "y", "3", "2026-01-01", "true", "null", "~", "0755", "1e3", "12:30", ".inf", "="]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_the_text_as_it_was_written(key: str) -> None:
    assert parse(f"{key}: x\n".encode(), "a.yaml").value == {key: "x"}


SYNTAX = {
    "a tab before a name": ("a:\n\tb: 1\n", "TabIndent", (2, 1), "a tab"),
    "a tab after spaces": ("a:\n  \tb: 1\n", "TabIndent", (2, 3), "a tab"),
    "a tab after a dash": ("a:\n  - \tb: 1\n", "TabIndent", (2, 5), "a tab"),
    "a tab at the very beginning": ("\ta: 1\n", "TabIndent", (1, 1), "a tab"),
    "a tab in a text block's indentation": ("a: |\n\tx\n", "TabIndent", (2, 1), "a tab"),
    "a tab in the next line of a text": ("a: x\n\ty: 1\n", "TabIndent", (2, 1), "a tab"),
    "a list that is not closed": ("a: [1, 2\n", "YamlSyntax", (1, 4), "not closed"),
    "a list that is closed by a brace": ("a: [1, 2}\n", "YamlSyntax", (1, 9), "not closed"),
    "a mapping that is not closed": ("a: {b: 1\nc: 2\n", "YamlSyntax", (2, 2), "began on line 1"),
    "a quote that is not closed": ("a: 'x\nb: y\n", "YamlSyntax", (1, 4), "never closed"),
    "a quote that runs into the next document": ('a: "x\n---\n', "YamlSyntax", (1, 4), "never closed"),
    "a colon in a text": ("a: b: c\n", "YamlSyntax", (1, 5), "`:` is not expected"),
    "an indentation that is too deep": ("a: 1\n  b: 2\n", "YamlSyntax", (2, 4), "`:` is not expected"),
    "an indentation between two others": ("a:\n    b: 1\n  c: 2\n", "YamlSyntax", (3, 3), "fits none of the lines above"),
    "a name after a list's items": ("- a\nb: 1\n", "YamlSyntax", (2, 1), "not an item of the list"),
    "a list item behind a name": ("a: - 1\n", "YamlSyntax", (1, 4), "list item"),
    "a line without a colon": ("a: 1\nb\nc: 1\n", "YamlSyntax", (3, 1), "not of the form"),
    "a value that begins with an at sign": ("a: @x\n", "YamlSyntax", (1, 4), "cannot begin with"),
    "a value that begins with a percent sign": ("a: %x\n", "YamlSyntax", (1, 4), "cannot begin with"),
    "a value that begins with a backtick": ("a: `x`\n", "YamlSyntax", (1, 4), "cannot begin with"),
    "a value that begins with a star": ("a: *.parquet\n", "YamlSyntax", (1, 5), "cannot begin with `*`"),
    "a value that begins with an ampersand": ("a: &&\n", "YamlSyntax", (1, 5), "cannot begin with `&`"),
    "a value that begins with an exclamation mark": ("a: !a!b\n", "YamlSyntax", (1, 4), "cannot begin with `!`"),
    "a bracket that closes nothing": ("a: ]\n", "YamlSyntax", (1, 4), "closes nothing"),
    "a backslash in double quotes": ('a: "C:\\data"\n', "YamlSyntax", (1, 7), "begins an escape"),
    "an escape without its digits": ('a: "\\xZ"\n', "YamlSyntax", (1, 7), "lacks its digits"),
    "half of a surrogate pair": ('a: "\\ud83d"\n', "YamlSyntax", (1, 7), "names no character"),
    "text after the value": ('"a":1\n', "YamlSyntax", (1, 4), "after the end"),
    "text after a mapping in braces": ("{a: 1} b\n", "YamlSyntax", (1, 8), "after the end"),
    "another version of YAML": ("%YAML 2.0\n---\na: 1\n", "YamlSyntax", (1, 1), "another version"),
    "an unknown directive": ("%FOO\na: 1\n", "YamlSyntax", (1, 5), "begins with `%`"),
    "a no-break space from a web page": ("a: 1\n \xa0b: 1\n", "YamlSyntax", (2, 4), "`:` is not expected"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "code", "at", "words"), SYNTAX.values(), ids=SYNTAX.keys())
def test_a_syntax_error_is_told_in_plain_words(text: str, code: str, at: tuple[int, int], words: str) -> None:
    (problem,) = refused(text)
    assert (problem.code, (problem.line, problem.column)) == (code, at)
    assert words in problem.what


def test_a_no_break_space_is_named_as_the_cause() -> None:
    (problem,) = refused("a: 1\n \xa0b: 1\n")
    assert "no-break space" in problem.todo


def test_a_file_may_be_as_large_as_the_limit() -> None:
    body = b"a: 1\n# "
    assert parse(body, "a.yaml", limits=Limits(size_bytes=len(body))).value == {"a": 1}
    (problem,) = refused(body, size_bytes=len(body) - 1)
    assert (problem.code, problem.what) == ("TooLarge", "the file has 7 bytes, the limit is 6")


def test_the_usual_limit_is_256_kib() -> None:
    assert parse(b"a: 1\n#".ljust(256 * 1024, b"x"), "a.yaml").value == {"a": 1}
    assert told(refused(b"a: 1\n#".ljust(256 * 1024 + 1, b"x"))) == [("TooLarge", 0, 0)]


NESTS = {
    "lists in brackets": ("[", "]"),
    "mappings in braces": ("{a: ", "}"),
    "lists by dashes": ("- ", ""),
}


@pytest.mark.parametrize(("opening", "closing"), NESTS.values(), ids=NESTS.keys())
def test_depth_has_a_limit(opening: str, closing: str) -> None:
    assert parse((opening * 20 + "x" + closing * 20).encode(), "a.yaml").value
    (problem,) = refused(opening * 21 + "x" + closing * 21)
    assert (problem.code, problem.column) == ("TooDeep", 20 * len(opening) + 1)


def test_mappings_and_lists_count_together_in_the_depth() -> None:
    indented = "".join(f"{' ' * (2 * n)}{'k:' if n % 2 == 0 else '-'}\n" for n in range(20))
    assert parse(indented.encode(), "a.yaml").value
    assert told(refused(f"{indented}{' ' * 40}x: 1\n")) == [("TooDeep", 21, 41)]


def test_many_problems_are_cut_to_fifty_and_a_count() -> None:
    problems = refused("\n".join(f"k{n}: yes" for n in range(80)))
    assert len(problems) == 51
    assert [problem.line for problem in problems] == list(range(1, 52))
    assert (problems[-1].code, problems[-1].what) == ("MoreProblems", "and 30 more problems")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(exclude_categories=["C", "Z"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcxyz_-19", min_size=1), inner, max_size=4),
    max_leaves=12,
)


def places(value: Any, pointer: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(pointer, value), *(place for key, inner in items for place in places(inner, (*pointer, key)))]


@given(value=JSON_VALUES, indent=st.sampled_from([None, 1, 4]), ascii_only=st.booleans())
@settings(deadline=None)
def test_any_json_is_read_as_json_readers_do_and_every_place_is_known(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    document = parse(text.encode(), "a.json")
    assert document.value == value
    lines = document.text.split("\n")
    for pointer, inner in places(value):
        line, column = document.position(pointer)
        rest = lines[line - 1][column - 1 :]
        if isinstance(inner, (dict, list)):
            assert rest[0] == ("{" if isinstance(inner, dict) else "[")
        elif not isinstance(inner, str):
            assert rest.startswith(json.dumps(inner))
        else:
            assert rest[0] == '"'
        if pointer and isinstance(pointer[-1], str):
            line, column = document.position(pointer, key=True)
            assert lines[line - 1][column - 1 :].startswith(json.dumps(pointer[-1]))
