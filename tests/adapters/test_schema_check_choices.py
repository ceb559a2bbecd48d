"""The schema check: which branch of a choice is told, what is odd in a text, and that no secret is repeated."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.adapters.schema_check import check
from reconciler.adapters.strict_yaml import parse
from reconciler.model.problem import Invalid
from tests.adapters.schema_check_sample import GOOD, VALIDATOR, problems
from tests.examples import examples

CHOICES: dict[str, tuple[str, list[str]]] = {
    "a word where a class or a number may be": (
        f"{GOOD}priority: hihg\n",
        ['3:11: NotAllowed: priority: "hihg" is not one of high, low; did you mean "high"?'],
    ),
    "a number where a class or a number may be": (
        f"{GOOD}priority: 101\n",
        ["3:11: OutOfRange: priority: 101 is more than 100; give a number from 0 to 100"],
    ),
    "neither class nor number": (
        f"{GOOD}priority: [1]\n",
        ["3:11: WrongType: priority: a string or a whole number is needed, found a list; give one value, not a list"],
    ),
    "none of the forms": (
        f"{GOOD}dataset: 7\n",
        ['3:10: WrongType: dataset: a string, a mapping or a list is needed, found the number 7; put it in quotes: "7"'],
    ),
    "a URI that is none": (
        f"{GOOD}dataset: foo\n",
        ['3:10: BadPattern: dataset: "foo" does not have the right form; correct it: where it is, for example s3://b/c/'],
    ),
    "a mapping with a field that is unknown": (
        f"{GOOD}dataset: {{nme: d}}\n",
        ["3:11: UnknownField: dataset.nme: there is no such field; did you mean `name`?"],
    ),
    "a fault inside a choice inside a list inside a choice": (
        f"{GOOD}dataset:\n- s3://b/\n- name: d\n  size_gb: -1\n",
        ["6:12: OutOfRange: dataset[1].size_gb: -1 is less than 0; change it"],
    ),
    "the branch that `kind` names": (
        f"{GOOD}volume: {{kind: claim, size: 1}}\n",
        ["3:9: MissingField: volume: `claim` is missing; add `claim: …`"],
    ),
    "a list item of the wrong type": (
        "job_id: a\ngpu: {count: 1, model: [H100, 7]}\n",
        ['2:31: WrongType: gpu.model[1]: a string is needed, found the number 7; put it in quotes: "7"'],
    ),
}


@pytest.mark.parametrize(("text", "expected"), CHOICES.values(), ids=CHOICES.keys())
def test_of_a_choice_the_branch_is_told_that_fits_best(text: str, expected: list[str]) -> None:
    assert problems(text) == expected


# What a pattern of the form ^...$(?!\n) refuses, and that the cause is told
ODD = {
    "a text block": ("job_id: |\n  llm-a\n", r'"llm-a\n" ends with a line break; write it on one line, without `|` or `>`'),
    "a folded text block": ("job_id: >\n  llm-a\n", r'"llm-a\n" ends with a line break'),
    "a line break in quotes": ('job_id: "llm-a\\n"\n', "ends with a line break"),
    "several lines": ("job_id: |-\n  llm\n  a\n", "has more than one line"),
    "a space at the end": ('job_id: "llm-a "\n', '"llm-a " begins or ends with a space'),
    "a space at the beginning": ('job_id: " llm-a"\n', "begins or ends with a space"),
    "a digit of another script": ('job_id: "٣"\n', "holds the character U+0663, which is not plain ASCII"),
    "a letter of another script": ('job_id: "а"\n', "holds the character U+0430, which is not plain ASCII"),
    "a dash that is none": ("job_id: llm–a\n", "holds the character U+2013, which is not plain ASCII"),
    "a name that becomes YAML": ('job_id: "a\\n---\\napiVersion: v1\\nkind: Secret"\n', "has more than one line"),
    "a path out of the folder": ("job_id: ../../main\n", '"../../main" does not have the right form'),
    "a branch that is none": ("job_id: x.lock\n", '"x.lock" does not have the right form'),
    "a name with a space": ("job_id: a b\n", '"a b" does not have the right form'),
    "a name that is an option": ("job_id: -x\n", '"-x" does not have the right form'),
    "a name in capitals": ("job_id: HEAD\n", '"HEAD" does not have the right form'),
    "a name too long": (f"job_id: {'a' * 300}\n", "does not have the right form"),
}


@pytest.mark.parametrize(("line", "words"), ODD.values(), ids=ODD.keys())
def test_what_a_pattern_refuses_is_told_with_the_cause(line: str, words: str) -> None:
    (problem,) = problems(f"{line}gpu: {{count: 1}}\n")
    assert "BadPattern: job_id: " in problem
    assert words in problem
    assert problem.isprintable()


@pytest.mark.parametrize("form", ["job_id: |-\n  llm-a\n", "job_id: >-\n  llm-a\n", "job_id: 'llm-a'\n"])
def test_a_text_block_without_its_line_break_is_the_same_name(form: str) -> None:
    assert problems(f"{form}gpu: {{count: 1}}\n") == []


# ---- nothing that may be a secret is repeated -----------------------------------------------------------------------

SECRET = "hf_" + "Ab3dE6" * 5
QUIET = {
    "a value of the environment": (f"{GOOD}env: {{A: 123456}}\n", "123456"),
    "a name of the environment": (f"{GOOD}env: {{{SECRET}: x}}\n", SECRET),
    "an argument": (f"{GOOD}args: [123456]\n", "123456"),
    "arguments in one text": (f"{GOOD}args: login correct-horse\n", "horse"),
    "a number in a field that is called like a secret": (f"{GOOD}api_key: 123456\n", "123456"),
    "a token where a list of values is": (f"{GOOD}mode: {SECRET}\n", SECRET[3:]),
    "a token where a number is needed": (f"{GOOD}nodes: {SECRET}\n", SECRET[3:]),
    "a token inside another text": (f"{GOOD}mode: x{SECRET[3:]}y\n", SECRET[3:]),
    "a token as a field": (f"{GOOD}{SECRET}: 1\n", SECRET[3:]),
    "a token as a field's wrong writing": (f"{GOOD}nodes:{SECRET}: 1\n", SECRET[3:]),
    "a token in a list that has it twice": (f"{GOOD}regions: [{SECRET}, {SECRET}]\n", SECRET[3:]),
    "a key of forty hexadecimal digits": (f"{GOOD}mode: {'0a1b2c3d' * 5}\n", "0a1b2c3d"),
    "a UUID": (f"{GOOD}mode: 3f2b8c1e-9a4d-4c6b-8e7f-0123456789ab\n", "3f2b8c1e"),
    "a password in a URL": (f"{GOOD}dataset: https://me:hunter2x@example.com/\n", "hunter2x"),
    "a token of letters only": (f"{GOOD}mode: hf_{'abcdefghij' * 3}\n", "abcdefghij"),
}


@pytest.mark.parametrize(("text", "secret"), QUIET.values(), ids=QUIET.keys())
def test_what_may_be_a_secret_is_not_repeated(text: str, secret: str) -> None:
    told = problems(text)
    assert told
    assert not any(secret in problem for problem in told)


PLACES = st.sampled_from(
    ["{}", "- {}", "{}: 1", "job_id: {}", "gpu: {}", "gpu: {{count: {}}}", "gpu: {{{}: 1}}", "nodes: {}", "mode: {}",
     "mode: [{}]", "args: {}", "args: [{}]", "args: [[{}]]", "env: {}", "env: {{A: {}}}", "env: {{{}: 1}}",
     "env: {{A: {{b: {}}}}}", "labels: {{{}: 1}}", "regions: [{0}, {0}]", "priority: {}", "dataset: {}", "dataset: [{}, 7]",
     "volume: {}", "volume: {{kind: {}}}", "kind: {}", "x: &a {}", "x: !t {}", "x: {0}\nx: {0}", "{0}: 1\n{0}: 2",
     "? [{}]\n: 1", "x: [{}", "x: '{}", "x: \"\\q{}", "x: {}: y", "\tx: {}", "---\n{}\n---\n"]
)  # fmt: skip
TOKENS = st.one_of(
    st.from_regex(r"hf_[A-Za-z0-9]{34}", fullmatch=True),
    st.from_regex(r"ghp_[A-Za-z0-9]{36}", fullmatch=True),
    st.from_regex(r"AKIA[A-Z0-9]{16}", fullmatch=True),
    st.from_regex(r"glpat-[A-Za-z0-9_-]{20}", fullmatch=True),
    st.from_regex(r"xoxb-[0-9]{12}-[A-Za-z0-9]{24}", fullmatch=True),
    st.from_regex(r"[0-9a-f]{40}", fullmatch=True).filter(lambda text: not text.isdigit() and not text.isalpha()),
)


@given(place=PLACES, token=TOKENS)
@settings(max_examples=examples(400), deadline=None)
def test_a_token_is_repeated_in_no_message_wherever_it_stands(place: str, token: str) -> None:
    try:
        told = check(parse(place.format(token).encode(), "a.yaml"), "a.yaml", VALIDATOR)
    except Invalid as refusal:
        told = list(refusal.problems)
    whole = "\n".join(map(str, told))
    assert told
    assert not any(token[start : start + 12] in whole for start in range(len(token) - 11))
