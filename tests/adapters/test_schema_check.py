"""The schema check: each kind of fault once, at its place, in words that say what to do."""

import pytest

from tests.adapters.schema_check_sample import GOOD, problems

VALID = {
    "the least": GOOD,
    "a list of models": "job_id: a\ngpu: {count: 8, model: [H200, H100]}\n",
    "a dataset by URI": f"{GOOD}dataset: s3://b/\n",
    "no dataset": f"{GOOD}dataset: null\n",
    "datasets of both forms": f"{GOOD}dataset: [s3://b/, {{name: d}}]\n",
    "a class and a number": f"{GOOD}priority: 50\n",
    "one of two forms": f"{GOOD}volume: {{kind: claim, claim: c}}\n",
    "a number where a fraction may be": f"{GOOD}share: 1\n",
    "labels by pattern": f"{GOOD}labels: {{a: b}}\n",
}


@pytest.mark.parametrize("text", VALID.values(), ids=VALID.keys())
def test_a_valid_file_has_no_problems(text: str) -> None:
    assert problems(text) == []


FAULTS: dict[str, tuple[str, list[str]]] = {
    "a field that nearly is one": (
        "job_id: a\ngpu:\n  count: 1\n  modle: H100\n",
        ["4:3: UnknownField: gpu.modle: there is no such field; did you mean `model`?"],
    ),
    "a field in another way of writing": (
        f"{GOOD}Job-Id: b\n",
        ["3:1: UnknownField: Job-Id: there is no such field; did you mean `job_id`?"],
    ),
    "a field like none": (
        "job_id: a\ngpu: {count: 1, zzz: 2}\n",
        ["2:17: UnknownField: gpu.zzz: there is no such field; known here: count, model"],
    ),
    "a field without the space after its colon": (
        "job_id: a\ngpu: {count:8}\n",
        [
            "2:6: MissingField: gpu: `count` is missing; add `count: …`: GPUs per node",
            '2:7: UnknownField: gpu["count:8"]: there is no such field; put a space after the `:`',
        ],
    ),
    "a field after a no-break space": (
        f"{GOOD}\xa0nodes: 1\n",
        ['3:1: UnknownField: ["\\u00a0nodes"]: there is no such field; remove the space around it (it may be a no-break space)'],
    ),
    "several unknown fields, each told": (
        f"{GOOD}nods: 1\nargz: []\n",
        [
            "3:1: UnknownField: nods: there is no such field; did you mean `nodes`?",
            "4:1: UnknownField: argz: there is no such field; did you mean `args`?",
        ],
    ),
    "missing fields at the top": (
        "# a job\nnodes: 1\n",
        [
            "2:1: MissingField: the file: `job_id` is missing; add `job_id: …`: letters, digits, `-`, for example llm-a",
            "2:1: MissingField: the file: `gpu` is missing; add `gpu: …`",
        ],
    ),
    "a missing field in an inner mapping": (
        "job_id: a\ngpu:\n  model: H100\n",
        ["3:3: MissingField: gpu: `count` is missing; add `count: …`: GPUs per node"],
    ),
    "a number where a string is needed": (
        f"{GOOD}owner: 8\n",
        ['3:8: WrongType: owner: a string is needed, found the number 8; put it in quotes: "8"'],
    ),
    "a version that lost its zero": (
        f"{GOOD}dataset: {{version: 1.10}}\n",
        ['3:20: WrongType: dataset.version: a string is needed, found the number 1.1; put it in quotes: "1.10"'],
    ),
    "a boolean where a string is needed": (
        f"{GOOD}owner: True\n",
        ['3:8: WrongType: owner: a string is needed, found the boolean true; put it in quotes: "True"'],
    ),
    "nothing where a string is needed": (
        f"{GOOD}owner:\n",
        ["3:7: WrongType: owner: a string is needed, found nothing (null); give a value, or remove the line"],
    ),
    "a list where a string is needed": (
        f"{GOOD}owner: [x]\n",
        ["3:8: WrongType: owner: a string is needed, found a list; give one value, not a list"],
    ),
    "a quoted number": (
        "job_id: a\ngpu: {count: '8'}\n",
        ['2:14: WrongType: gpu.count: a whole number is needed, found the string "8"; remove the quotes'],
    ),
    "a word where a number is needed": (
        "job_id: a\ngpu: {count: all}\n",
        ['2:14: WrongType: gpu.count: a whole number is needed, found the string "all"; write a whole number'],
    ),
    "a fraction where a whole number is needed": (
        "job_id: a\ngpu: {count: 0.5}\n",
        ["2:14: WrongType: gpu.count: a whole number is needed, found the number 0.5; write a whole number"],
    ),
    "a whole number with a point": (
        f"{GOOD}nodes: 2.0\n",
        ["3:8: WrongType: nodes: a whole number is needed, found the number 2.0; write 2"],
    ),
    "a boolean where a number is needed": (
        f"{GOOD}nodes: true\n",
        ["3:8: WrongType: nodes: a whole number is needed, found the boolean true; write a whole number"],
    ),
    "a quoted boolean": (
        f"{GOOD}suspend: 'true'\n",
        ['3:10: WrongType: suspend: true or false is needed, found the string "true"; remove the quotes'],
    ),
    "one value where a list is needed": (
        f"{GOOD}regions: eu\n",
        ['3:10: WrongType: regions: a list is needed, found the string "eu"; write it as a list: ["eu"]'],
    ),
    "a mapping where a list is needed": (
        f"{GOOD}regions: {{eu: 1}}\n",
        ["3:10: WrongType: regions: a list is needed, found a mapping; write a list"],
    ),
    "a text where a mapping is needed": (
        "job_id: a\ngpu: two\n",
        ['2:6: WrongType: gpu: a mapping is needed, found the string "two"; write `name: value` lines below it'],
    ),
    "a mapping whose colons have no space": (
        "job_id: a\ngpu:\n  count:8\n",
        ['3:3: WrongType: gpu: a mapping is needed, found the string "count:8"; put a space after `count:`'],
    ),
    "a list where a mapping is needed": (
        "job_id: a\ngpu:\n- count: 1\n",
        ["3:1: WrongType: gpu: a mapping is needed, found a list; write `name: value`, without `-`"],
    ),
    "a file that is a text": (
        "just text\n",
        ['1:1: WrongType: the file: a mapping is needed, found the string "just text"; write `name: value` lines below it'],
    ),
    "a number below its range": (
        "job_id: a\ngpu:\n  count: 0\n",
        ["3:10: OutOfRange: gpu.count: 0 is less than 1; give a number from 1 to 1024"],
    ),
    "a number above its range": (
        f"{GOOD}nodes: 65\n",
        ["3:8: OutOfRange: nodes: 65 is more than 64; give a number from 1 to 64"],
    ),
    "a number at an open end": (f"{GOOD}share: 0\n", ["3:8: OutOfRange: share: 0 is not more than 0; change it"]),
    "a number that is no multiple": (f"{GOOD}step: 12\n", ["3:7: OutOfRange: step: 12 is not a multiple of 8; change it"]),
    "a word that nearly is one of a list": (
        f"{GOOD}mode: snyc\n",
        ['3:7: NotAllowed: mode: "snyc" is not one of sync, async, none; did you mean "sync"?'],
    ),
    "a word like none of a list": (
        f"{GOOD}mode: zzz\n",
        ['3:7: NotAllowed: mode: "zzz" is not one of sync, async, none; write one of sync, async, none'],
    ),
    "not the only value": (f"{GOOD}kind: pod\n", ['3:7: NotAllowed: kind: "pod" is not `job`; write `job`']),
    "not one of numbers and booleans": (
        f"{GOOD}retries: 7\n",
        ["3:10: NotAllowed: retries: 7 is not one of 0, 1, 2, true; write one of 0, 1, 2, true"],
    ),
    "a field that must not be there": (
        f"{GOOD}gone: 1\n",
        ["3:7: NotAllowed: gone: this is not allowed here; change or remove it"],
    ),
    "a text of the wrong form": (
        "job_id: LLM\ngpu: {count: 1}\n",
        ['1:9: BadPattern: job_id: "LLM" does not have the right form; correct it: letters, digits, `-`, for example llm-a'],
    ),
    "a text too long": (
        f"{GOOD}owner: abcdefghijk\n",
        ["3:8: TooLong: owner: it has 11 characters, at most 10 may be; make it shorter"],
    ),
    "a text too short": (f"{GOOD}owner: ''\n", ["3:8: TooShort: owner: it is empty; give more, or remove it"]),
    "a list too long": (
        f"{GOOD}args: [a, b, c, d, e]\n",
        ["3:7: TooMany: args: it has 5 items, at most 4 may be; make it shorter"],
    ),
    "a list too short": (f"{GOOD}regions: []\n", ["3:10: TooFew: regions: it is empty; give more, or remove it"]),
    "a mapping too large": (
        f"{GOOD}limits: {{a: 1, b: 1, c: 1}}\n",
        ["3:9: TooMany: limits: it has 3 fields, at most 2 may be; make it shorter"],
    ),
    "a mapping too small": (f"{GOOD}limits: {{}}\n", ["3:9: TooFew: limits: it is empty; give more, or remove it"]),
    "an item twice": (
        f"{GOOD}regions: [eu, us, eu]\n",
        ['3:19: NotUnique: regions[2]: "eu" is in the list already; remove one of the two'],
    ),
    "a bad name in a free mapping": (
        f"{GOOD}env: {{GOOD: x, bad name: z}}\n",
        ['3:16: BadPattern: env["bad name"]: the name does not have the right form; give it another name'],
    ),
    "a bad name where names have patterns": (
        f"{GOOD}labels: {{a: b, A1: c}}\n",
        ["3:16: BadPattern: labels.A1: the name does not have the right form; give it another name"],
    ),
    "one of two fields is needed": (
        f"{GOOD}either: {{}}\n",
        ["3:9: MissingField: either: one of these is missing: `a`, `b` and `c`; add one of them"],
    ),
    "two fields that exclude each other": (
        f"{GOOD}one: {{a: 1, b: 2}}\n",
        ["3:6: NotAllowed: one: `a`, `b` are given together; give one of them"],
    ),
    "a field that needs another": (
        f"{GOOD}together: {{user: u}}\n",
        ["3:11: MissingField: together: `user` needs `password_ref` as well; add what is missing, or remove it"],
    ),
    "fields that are refused together": (
        f"{GOOD}together: {{x: 1, y: 1}}\n",
        ["3:11: NotAllowed: together: `x`, `y` are given together; remove one of them"],
    ),
}


@pytest.mark.parametrize(("text", "expected"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_told_at_its_place_with_what_to_do(text: str, expected: list[str]) -> None:
    assert problems(text) == expected


def test_a_long_value_is_cut_to_forty_characters() -> None:
    (problem,) = problems(f"{GOOD}mode: {'ab ' * 30}\n")
    assert f'"{("ab " * 13)}…"' in problem


def test_problems_are_cut_to_fifty_and_a_count() -> None:
    told = problems(GOOD + "".join(f"zz{n}: 1\n" for n in range(70)))
    assert len(told) == 51
    assert told[-1] == "53:1: MoreProblems: and 20 more problems; mend these first"


def test_problems_come_in_order_of_position() -> None:
    told = problems("zz: 1\ngpu: {count: 0, a: 1}\nmode: x\njob_id: A\nargs: [1, 2]\n")
    places = [tuple(map(int, problem.split(":")[:2])) for problem in told]
    assert places == sorted(places)
    assert len(places) == 7
