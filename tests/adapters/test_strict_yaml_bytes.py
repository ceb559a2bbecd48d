"""Bytes: one encoding, one kind of line end, nothing that cannot be seen; and no bytes that bring the loader down."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reconciler.adapters.strict_yaml import Document, parse
from reconciler.model.problem import Invalid, Problem
from tests.examples import examples

J0 = """\
job_id: llm-a
task_type: training
gpu: {count: 8, model: A100-80GB}
image: reg.example.com:5000/team/train:1.4
dataset: {name: corpus-a, uri: s3://data-eu/corpus-a/, size_gb: 120, version: "7"}
args:
- |
  set -e

  run
- >-
  one
  line
owner: José 🚀
"""


def refused(body: bytes, path: str = "a.yaml") -> tuple[Problem, ...]:
    with pytest.raises(Invalid) as caught:
        parse(body, path)
    return caught.value.problems


def told(problems: tuple[Problem, ...]) -> list[tuple[str, int, int]]:
    return [(problem.code, problem.line, problem.column) for problem in problems]


BOM = b"\xef\xbb\xbf"
SAME = {
    "a byte-order mark": BOM + J0.encode(),
    "CRLF line ends": J0.replace("\n", "\r\n").encode(),
    "CR line ends": J0.replace("\n", "\r").encode(),
    "line ends of both kinds": J0.replace("\n", "\r\n", 4).encode(),
    "a byte-order mark and CRLF": BOM + J0.replace("\n", "\r\n").encode(),
    "no line end at the end": J0.rstrip("\n").encode(),
}


@pytest.mark.parametrize("body", SAME.values(), ids=SAME.keys())
def test_the_same_file_in_other_bytes_is_the_same_value(body: bytes) -> None:
    """Nothing restarts because an editor converted the line ends."""
    plain, other = parse(J0.encode(), "a.yaml"), parse(body, "a.yaml")
    assert other.value == plain.value
    assert other.position(("owner",)) == plain.position(("owner",)) == (14, 8)


NOT_UTF8: dict[str, tuple[bytes, tuple[int, int]]] = {
    "Latin-1": (b"a: 1\nowner: Jos\xe9\n", (2, 11)),
    "Latin-1 after CRLF": (b"a: 1\r\nowner: Jos\xe9\r\n", (2, 11)),
    "Latin-1 after a byte-order mark": (BOM + b"a: Jos\xe9\n", (1, 7)),
    "Latin-1 after letters that are UTF-8": ("ä: ".encode() + b"\xe9\n", (1, 4)),
    "a character cut at the end": (b"a: \xf0\x9f\x9a", (1, 4)),
    "a character that is longer than it need be": (b"a: \xc0\xaf\n", (1, 4)),
    "half of a surrogate pair": (b"a: \xed\xa0\xbd\n", (1, 4)),
    "UTF-16 with a mark": ("a: 1\n".encode("utf-16"), (1, 1)),
    "UTF-16 big-endian with a mark": (b"\xfe\xff" + "a: 1\n".encode("utf-16-be"), (1, 1)),
    "UTF-16 without a mark": ("a: 1\n".encode("utf-16-le"), (1, 1)),
    "UTF-16 big-endian without a mark": ("a: 1\n".encode("utf-16-be"), (1, 1)),
    "UTF-32": ("a: 1\n".encode("utf-32"), (1, 1)),
}


@pytest.mark.parametrize(("body", "at"), NOT_UTF8.values(), ids=NOT_UTF8.keys())
def test_what_is_not_utf8_is_refused_where_it_is_not(body: bytes, at: tuple[int, int]) -> None:
    (problem,) = refused(body)
    assert (problem.code, (problem.line, problem.column)) == ("NotUtf8", at)
    assert "not UTF-8" in problem.what
    assert "UTF-8" in problem.todo


def test_the_byte_and_its_line_are_named() -> None:
    (problem,) = refused(b"a: 1\nowner: Jos\xe9\n")
    assert "byte 0xe9 on line 2" in problem.what


UNSEEN = ["\x00", "\x01", "\x08", "\x0b", "\x0c", "\x1b", "\x1f", "\x7f", "\x80", "\x85", "\x9f", "\u2028", "\u2029", "\u202a",
          "\u202e", "\u2066", "\u2069", "\ufeff", "\ufffe", "\uffff"]  # fmt: skip


@pytest.mark.parametrize("character", UNSEEN, ids=ascii)
@pytest.mark.parametrize("place", ["a value", "a comment", "quotes", "a text block"])
def test_what_cannot_be_seen_is_refused_wherever_it_stands(character: str, place: str) -> None:
    text = {"a value": "b: x{}y", "a comment": "b: 1 # {}", "quotes": 'b: "{}"', "a text block": "b: |\n  {}x"}[place]
    problems = refused(f"first: 1\n{text.format(character)}\n".encode())
    line = 3 if place == "a text block" else 2
    assert told(problems) == [("ControlCharacter", line, (text.split("\n")[-1]).index("{") + 1)]
    assert f"U+{ord(character):04X}" in problems[0].what
    assert character not in str(problems[0])


@pytest.mark.parametrize(
    "character", ["\t", "\xa0", "é", "\u2027", "\u200b", "\ue000", "\ufdd0", "\ufffd", "🚀", "\U0010ffff"], ids=ascii
)
def test_all_other_characters_may_stand_in_quotes(character: str) -> None:
    assert parse(f'a: "x{character}y"\n'.encode(), "a.yaml").value == {"a": f"x{character}y"}


JSON = {
    "tabs between tokens": ('{\n\t"a":\t1,\t"b"\t: [\t]\n}\t\n', {"a": 1, "b": []}),
    "a tab before everything": ('\t{"a": 1}', {"a": 1}),
    "a tab after everything": ('{"a": 1}\t', {"a": 1}),
    "an escaped tab in a string": ('{"a": "x\\ty"}', {"a": "x\ty"}),
    "an escaped slash": ('{"a": "s3:\\/\\/b\\/"}', {"a": "s3://b/"}),
    "a surrogate pair": ('{"a": "\\ud83d\\ude80!"}', {"a": "🚀!"}),
    "two surrogate pairs": ('{"a": "\\uD83D\\uDE80\\ud83d\\ude80"}', {"a": "🚀🚀"}),
    "a backslash before what looks like a pair": ('{"a": "\\\\ud83d\\\\ude80"}', {"a": "\\ud83d\\ude80"}),
    "a quote before a tab": ('{"a": "x\\"",\t"b": "\\\\"\t}', {"a": 'x"', "b": "\\"}),
    "braces on one line without spaces": ('{"a":1,"b":{"c":[true,null,-1.5e3]}}', {"a": 1, "b": {"c": [True, None, -1500.0]}}),
}


@pytest.mark.parametrize(("text", "value"), JSON.values(), ids=JSON.keys())
def test_json_is_read_as_json_readers_do(text: str, value: object) -> None:
    assert parse(text.encode(), "jobs/a.JSON").value == value


def test_json_has_no_duplicate_keys_either() -> None:
    (problem,) = refused(b'{"gpu": {"count": 1,\n\t"count": 8}}', "a.json")
    assert (problem.code, problem.line, problem.column) == ("DuplicateKey", 2, 2)


def test_half_of_a_surrogate_pair_is_refused_in_json_too() -> None:
    assert [problem.code for problem in refused(b'{"a": "\\ud83d"}', "a.json")] == ["YamlSyntax"]


# ---- whatever the bytes ---------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    ["a", "b: ", "- ", "  ", "\n", "\n  ", "\t", "[", "]", "{", "}", ", ", ": ", "? ", "&x ", "*x", "!t ", "!!", "|", ">-", "'",
     '"', "\\", "\\u", "#", " #", "%", "@", "---\n", "...\n", "<<: ", "=", "yes", "0755", "1e3", "2026-13-45", "12:30", "~", "é",
     "\xa0", "\x85", "\r", "\r\n", "\ufeff", "\x00", "%YAML 1.2\n", "%TAG ! x\n", "{{ x }}", "key: value\n", "9" * 30]
)  # fmt: skip
YAML_LIKE = st.lists(PIECES, max_size=30).map("".join).map(str.encode)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A usual file with bytes taken out, put in, or exchanged."""
    body = bytearray(J0.encode())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(body) - 1))
        until = draw(st.integers(at, min(len(body), at + 8)))
        body[at:until] = draw(st.binary(max_size=3) | PIECES.map(str.encode))
        body = body or bytearray(b"a")
    return bytes(body)


def assert_plain(value: object) -> None:
    assert type(value) in {dict, list, str, int, float, bool, type(None)}
    if isinstance(value, dict):
        assert all(type(key) is str for key in value)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        assert_plain(inner)


def read(body: bytes, path: str) -> Document | tuple[Problem, ...]:
    try:
        return parse(body, path)
    except Invalid as refusal:
        return refusal.problems


@given(body=st.binary(max_size=80) | YAML_LIKE | mutated(), path=st.sampled_from(["a.yaml", "a.json"]))
@settings(max_examples=examples(1500), deadline=None)
@example(b"a: 0x" + b"f" * 9000, "a.yaml")
@example(b"a: " + b"9" * 9000, "a.yaml")
@example(b"a: 1:" + b"0:" * 900 + b"0", "a.yaml")
@example(b"a: 1e" + b"9" * 900, "a.yaml")
@example(b"a: 0" + b"7" * 9000, "a.yaml")
def test_any_bytes_are_a_document_or_refused(body: bytes, path: str) -> None:
    outcome = read(body, path)
    if isinstance(outcome, Document):
        assert_plain(outcome.value)
        return
    lines = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n") + 1
    assert outcome
    for problem in outcome:
        assert 0 <= problem.line <= lines + 1
        assert problem.column >= 0
        assert str(problem).isprintable()
        assert len(problem.what) < 400
