"""Values come back from YAML as they went in, whoever reads them."""

import math
from datetime import date
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.rendering.quoting import block, quoted
from tests.rendering.strategies import AWKWARD

LOADERS = (yaml.SafeLoader, yaml.CSafeLoader)

text = st.sampled_from(AWKWARD) | st.text()
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
keys = st.sampled_from([awkward for awkward in AWKWARD if len(awkward) < 100]) | st.text(max_size=80)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=25
)


def read(written: str) -> list[Any]:
    return [yaml.load(str(written), Loader=loader) for loader in LOADERS]  # noqa: S506 - both are safe loaders


def same(one: Any, other: Any) -> bool:
    """Equal in value and type: 1, 1.0 and true are three different things."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@given(values)
def test_on_one_line(value: Any) -> None:
    written = quoted(value)
    assert "\n" not in written
    assert all(same(found, value) for found in read(written))


@given(values, st.sampled_from((2, 4, 8)))
def test_as_a_block_below_a_key(value: Any, indent: int) -> None:
    pad = " " * (indent - 2)
    written = f"{pad}before: 1\n{pad}at:{block(value, indent)}\n{pad}after: 2\n"
    assert all(same(found, {"before": 1, "at": value, "after": 2}) for found in read(written))


@pytest.mark.parametrize("value", AWKWARD)
def test_awkward_text_stays_text(value: str) -> None:
    key = value[:50]
    meant = {"a": value, "b": [value, {key: [value]}]}
    for written in (quoted(meant), f"top:{block(meant, 2)}"):
        assert all(same(found.get("top", found), meant) for found in read(written))
        # A reviewer sees all there is: no control characters, marks without width, or turns of direction.
        assert all(letter == "\n" or letter.isprintable() or ord(letter) > 0xFFFF for letter in written)


@pytest.mark.parametrize("value", [1e16, -1e300, 5e-324, 1.5e20, 0.1, -0.0, 1.0, 2**70])
def test_numbers_stay_numbers_of_their_kind(value: float) -> None:
    assert all(same(found, value) and str(found) == str(value) for found in read(quoted(value)))


@pytest.mark.parametrize("word", ["y", "Y", "no", "On", "off", "true", "NULL", "yes"])
def test_keys_that_old_readers_take_for_booleans_are_quoted(word: str) -> None:
    assert quoted({word: 1}) == f'{{"{word}": 1}}'


@pytest.mark.parametrize(
    ("value", "error"),
    {
        "not a number": (math.nan, ValueError),
        "without end": (math.inf, ValueError),
        "half of a surrogate pair": ("a\ud800b", ValueError),
        "half a pair as a key": ({"\udfff": 1}, ValueError),
        "a date": (date(2026, 5, 1), TypeError),
        "bytes": (b"a", TypeError),
        "a set": ({1}, TypeError),
        "a key that is a number": ({1: 2}, TypeError),
        "a key that is too long for readers": ({"k" * 2000: 1}, ValueError),
    }.values(),
)
def test_what_json_has_no_word_for_is_an_error(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        quoted(value)
    with pytest.raises(error):
        block({"a": [value]}, 2)
