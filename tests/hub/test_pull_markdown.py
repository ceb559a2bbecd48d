"""Words of strangers in our Markdown: whatever they write, it stays words."""

import re

import pytest

from reconciler.hub.pull_markdown import MOST, code, fitting, table, words

HOSTILE = {
    "a mention": "hello @ops and @team/all",
    "an end of the cell": "x | forged | row |",
    "an end of the line": "x\n| forged | row |\r\n/close\u2028/merge\x0b",
    "an end of the code": "`` ` @ops",
    "an image": "![x](https://evil.example.com/p.png)",
    "a link": "[approve here](https://evil.example.com)",
    "a bare address": "https://evil.example.com www.evil.example.com mailto:a@b.example",
    "HTML": "<img src=x onerror=y><!-- gpu-reconciler:check --><details>",
    "a reference": "fixes #1, closes ml/jobs#2 and !3 and ~bug",
    "an issue and a commit": "see GH-123, gh-4, 0a1b2c3 and 0A1B2C3D4E5F60718293a4b5c6d7e8f901234567",
    "an end of the table's row, escaped": "x \\| y \\",
    "a turn of the writing's direction": "safe\u202egnp.exe",
    "mathematics": "$\\rm{x}$ and $$x$$",
    "emphasis": "**bold** _thin_ ~~gone~~",
}
_ACTIVE = {
    "a mention": re.compile(r"@\w"),
    "a reference": re.compile(r"[#!~]\w"),
    "an address": re.compile(r"(?i)(https?:|www\.|mailto:)"),
    "an issue": re.compile(r"(?i)GH-\d"),
    "a commit": re.compile(r"(?i)\b(?=\d*[a-f])[0-9a-f]{7,64}\b"),
    "something unseen": re.compile(r"[\x00-\x1f\u202a-\u202e\u2028\u2029]"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_as_words_it_has_nothing_that_acts(case: str) -> None:
    said = words(HOSTILE[case])
    for what, pattern in _ACTIVE.items():
        assert not pattern.search(said), what
    unescaped = re.sub(r"\\[\\`*_{}\[\]<>#!|~$&^]", "", said)
    assert not re.search(r"[\\`*_{}\[\]<>|~$^]", unescaped), "every letter that Markdown knows is escaped"


@pytest.mark.parametrize("case", HOSTILE)
def test_as_code_it_ends_neither_the_code_nor_the_cell(case: str) -> None:
    said = code(HOSTILE[case])
    assert re.fullmatch(r"`[^`|\\\n\r]+`", said)
    assert not _ACTIVE["a mention"].search(said)
    assert not _ACTIVE["something unseen"].search(said)


def test_ordinary_words_stay_as_they_are() -> None:
    text = "eu: the largest node has 64 GiB, llm-a-3f2a1b-a1 asks for 12345678 bytes of A100-80GB; mend jobs/team-a/x.yaml:3:5"
    assert words(text) == text
    assert code("jobs/team-a/llm-a.yaml:3:5") == "`jobs/team-a/llm-a.yaml:3:5`"
    assert code(" \n") == "–"


def test_what_is_too_long_is_cut() -> None:
    assert len(words("x" * 10_000)) == MOST
    lines = table(("a", "b"), [("x" * 100, "y")] * 1000)
    text = fitting(lines, 5000)
    assert len(text) < 5100
    assert text.endswith("which does not fit here.")
    assert fitting(lines[:5], 5000) == "\n".join(lines[:5])
