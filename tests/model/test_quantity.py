"""Kubernetes quantities against exact fractions."""

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.quantity import as_bytes, milli, whole
from tests.examples import examples

UNITS = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15),
    "E": Fraction(10**18), "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
    "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.one_of(st.none(), st.integers(0, 999)), st.sampled_from(sorted(UNITS)))
def test_against_exact_fractions(units: int, thousandths: int | None, suffix: str) -> None:
    text = f"{units}" if thousandths is None else f"{units}.{thousandths:03}"
    exact = (units + Fraction(thousandths or 0, 1000)) * UNITS[suffix]
    assert whole(text + suffix) == ceil(exact)
    assert milli(text + suffix) == ceil(exact * 1000)


@pytest.mark.parametrize(
    ("text", "in_whole", "in_milli"),
    [
        ("1e3", 1000, 1_000_000), ("1E3", 1000, 1_000_000), ("1E", 10**18, 10**21), ("12e-1", 2, 1200), ("0.5", 1, 500),
        ("500m", 1, 500), ("0.1m", 1, 1), ("1500m", 2, 1500), (" 8 ", 8, 8000), (8, 8, 8000), ("0", 0, 0), ("-1", -1, -1000),
        ("81559Mi", 81559 * 2**20, 81559 * 2**20 * 1000), ("100n", 1, 1), ("1.5Gi", 3 * 2**29, 3 * 2**29 * 1000),
        (".5", 1, 500), ("1.", 1, 1000), ("1.Gi", 2**30, 2**30 * 1000), ("1e30", 10**30, 10**33), ("9223372036854775807", 2**63 - 1, (2**63 - 1) * 1000),
    ],
)  # fmt: skip
def test_spellings(text: str | int, in_whole: int, in_milli: int) -> None:
    assert (whole(text), milli(text)) == (in_whole, in_milli)


NO_QUANTITIES = (
    "", " ", "lots", "64 Gib", "64GiB", "1.2.3", "Gi", "--1", "0x10", "1e", "ki", "1K", "NaN", "nan1", "inf", "-Infinity", "1e31",
    "1e999999999",
)  # fmt: skip


@pytest.mark.parametrize("text", NO_QUANTITIES)
def test_what_is_no_quantity(text: str) -> None:
    for read in (whole, milli):
        with pytest.raises(ArithmeticError):
            read(text)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"), (1, "1 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (102_400, "100 KiB"), (2**20 - 1, "1024 KiB"),
        (2**30, "1 GiB"), (500 * 10**9, "466 GiB"), (2**40, "1 TiB"), (2**50, "1024 TiB"),
    ],
)  # fmt: skip
def test_bytes_for_people(number: int, text: str) -> None:
    assert as_bytes(number) == text
