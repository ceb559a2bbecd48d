"""Names that we make: never alike for what differs, and inside the limits of whoever reads them."""

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from reconciler.model.base import matches_name
from reconciler.model.fleet import Team
from reconciler.model.names import (
    ATTEMPT_LIMIT,
    JobKey,
    attempt_name,
    digest,
    label_value,
    manifest_path,
    placement_path,
    proposal_branch,
    record_path,
    region_branch,
    shortened,
)
from reconciler.model.region import Region
from tests.builders import make_spec
from tests.examples import examples

job_ids = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,126}[a-z0-9])?", fullmatch=True)
hashes = st.from_regex(r"[0-9a-f]{64}", fullmatch=True)
numbers = st.integers(1, 99_999)
DNS_LABEL = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
HASH = "0123456789abcdef" * 4

LONG = "experiment-" + 60 * "a"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"{LONG}-1", f"{LONG}-2"),
        (62 * "a" + "-b", 62 * "a" + "-c"),  # the 63rd character is a hyphen
        (52 * "b", 53 * "b"),
        ("1-b", "j-1-b"),
        ("a" * 40 + "-x" + "0" * 8, "a" * 41),
    ],
)
def test_ids_that_a_cut_would_confuse(one: str, other: str) -> None:
    names = [attempt_name(one, HASH, 1), attempt_name(other, HASH, 1)]
    assert names[0] != names[1]
    assert all(DNS_LABEL.fullmatch(name) and len(name) <= ATTEMPT_LIMIT for name in names)
    assert names == [attempt_name(one, HASH, 1), attempt_name(other, HASH, 1)]
    assert label_value(one) != label_value(other)


def test_nobody_can_be_named_after_the_short_form_of_another() -> None:
    short = shortened(100 * "c", 43)
    assert shortened(short, 43) != short
    victim, thief = attempt_name(100 * "c", HASH, 1), attempt_name(short, HASH, 1)
    assert victim != thief
    digits = attempt_name("7-up", HASH, 1).removesuffix(f"-{HASH[:6]}-a1")
    assert attempt_name(digits, HASH, 1) != attempt_name("7-up", HASH, 1)


def test_what_an_attempt_is_called() -> None:
    assert attempt_name("llm-a", HASH, 12) == "llm-a-012345-a12"
    assert attempt_name("7-up", HASH, 1) == "j-7-up-x784f52d2-012345-a1"


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(job_ids, hashes, numbers)
def test_limits(job_id: str, run_hash: str, number: int) -> None:
    make_spec(job_id)  # the model takes it
    name = attempt_name(job_id, run_hash, number)
    assert DNS_LABEL.fullmatch(name)
    assert len(name) <= ATTEMPT_LIMIT
    pod = f"{name}-{4095}-abcde"
    assert len(pod) <= 63
    assert LABEL_VALUE.fullmatch(name)
    assert LABEL_VALUE.fullmatch(label_value(job_id))


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(st.tuples(job_ids, hashes, numbers), st.tuples(job_ids, hashes, numbers))
def test_different_attempts_have_different_names(one: tuple[str, str, int], other: tuple[str, str, int]) -> None:
    assume((one[0], one[1][:6], one[2]) != (other[0], other[1][:6], other[2]))
    assert attempt_name(*one) != attempt_name(*other)


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(job_ids, st.integers(10, 70))
def test_a_shortened_id_differs_from_its_neighbours(job_id: str, limit: int) -> None:
    others = {f"{job_id}0", f"{job_id}-0", f"0{job_id}", f"{job_id[:-1]}{'a' if job_id[-1] != 'a' else 'b'}", job_id}
    assert len({shortened(text, limit) for text in others}) == len(others)
    assert all(len(shortened(text, limit)) <= limit for text in others)


NO_NAMES = {
    "a second level": "eu/west",
    "a space": "a b",
    "a lock's ending": "x.lock",
    "the parent": "..",
    "a revision": "a~1",
    "an option": "-x",
    "git's own word": "HEAD",
    "upper case": "EU",
    "other letters": "欧洲",
    "other digits": "٣",
    "too long": 300 * "a",
    "one too long": 64 * "a",
    "nothing": "",
    "a newline at the end": "eu\n",
    "a hyphen at the end": "eu-",
    "a dot": "eu.west",
    "an underscore": "eu_west",
    "a null": "eu\x00",
}


@pytest.mark.parametrize("name", NO_NAMES.values(), ids=NO_NAMES.keys())
def test_names_that_are_refused_at_registration(name: str) -> None:
    assert not matches_name(name)
    for kind in (Region, Team):
        with pytest.raises(ValidationError, match="name"):
            kind.model_validate({"name": name})


@pytest.mark.parametrize("name", ["eu", "e", "1", "eu-west-1", 63 * "a", "a--b"])
def test_names_that_are_taken(name: str) -> None:
    assert matches_name(name)
    assert Region.model_validate({"name": name}).name == name
    assert region_branch(name) == f"region/{name}"


def test_where_a_job_stands() -> None:
    key = JobKey("vision", "llm-a")
    assert str(key) == "vision/llm-a"
    assert proposal_branch(key) == "proposals/vision/llm-a"
    assert placement_path(key) == "vision/llm-a.yaml"
    assert record_path(key) == "jobs/vision/llm-a.json"
    assert manifest_path("vision", "llm-a-012345-a1") == "manifests/vision/llm-a-012345-a1.yaml"


def test_a_digest_is_over_the_value_and_not_its_form() -> None:
    assert digest({"a": 1, "b": [True, None]}) == digest({"b": [True, None], "a": 1})
    assert digest({"a": 1}) != digest({"a": "1"})
    assert digest(["ab", "c"]) != digest(["a", "bc"])
    with pytest.raises(ValueError, match="JSON"):
        digest(float("nan"))
