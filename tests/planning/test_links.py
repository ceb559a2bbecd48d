"""What a link is believed to give, how much of it may be held, and when it is full: against sums done by hand."""

from datetime import datetime, timedelta

import pytest

from reconciler.model.policy import Thresholds
from reconciler.model.reasons import Why
from reconciler.planning.links import believed, crowded_since, full_links, margin, usable, usable_rates
from reconciler.planning.measured import Measured
from tests.builders import NOW, make_link

DEFAULTS = Thresholds()
HOUR = 3600.0
MB = 1_000_000


def seen(mb: float, hours: float = 0.0) -> Measured:
    return Measured(mb * MB, hours * HOUR, 5, 80.0)


RATES: dict[str, tuple[float | None, Measured | None, float | None, int | None]] = {
    # declared Gbit/s, measured → believed MB/s, usable MB/s
    "nobody has said or seen anything": (None, None, None, None),
    "declared, and seen by nobody: half of it": (1, None, 62.5, 50),
    "declared to carry nothing": (0, None, 0, 0),
    "measured just now: all of it": (1, seen(100), 100, 80),
    "measured, and declared by nobody": (None, seen(100), 100, 80),
    "measured to carry nothing": (1, seen(0), 0, 0),
    "declared to carry nothing, whatever was measured": (0, seen(100), 0, 0),
    "measured three hours ago: a quarter less": (1, seen(100, 3), 75, 60),
    "measured six hours ago: half": (1, seen(100, 6), 50, 40),
    "measured last week: half still": (1, seen(100, 168), 50, 40),
    "a third of what is declared": (10, seen(400), 400, 320),
    "measured above what is declared, which may be all that is paid for": (1, seen(200), 125, 100),
}


@pytest.mark.parametrize("case", RATES.values(), ids=RATES.keys())
def test_a_rate(case: tuple[float | None, Measured | None, float | None, int | None]) -> None:
    gbit, measured, mb, may_be_held = case
    link = make_link("eu", "us", gbit)
    rate = believed(link, measured, DEFAULTS)
    assert (rate, usable(link, measured, DEFAULTS)) == (
        None if mb is None else pytest.approx(mb * MB),
        None if may_be_held is None else may_be_held * MB,
    )


@pytest.mark.parametrize(("held", "left"), [(0, 80), (30, 50), (80, 0), (81, 0), (1000, 0)])
def test_what_others_hold_is_taken_off(held: int, left: int) -> None:
    assert usable(make_link("eu", "us", 1), seen(100), DEFAULTS, held * MB) == left * MB


def test_doubt_grows_with_age_and_never_past_that_of_what_nobody_has_measured() -> None:
    doubts = [margin(seen(1, hours), DEFAULTS) for hours in (0, 0.5, 1, 3, 5.9, 6, 7, 1000)]
    assert doubts == sorted(doubts)
    assert (doubts[0], doubts[-1], margin(None, DEFAULTS)) == (0.0, 0.5, 0.5)


def test_the_numbers_are_the_policys() -> None:
    own = Thresholds(link_share=0.5, declared_margin=0.2, measured_for_hours=1.0)
    assert usable(make_link("eu", "us", 1), None, own) == 50 * MB
    assert usable(make_link("eu", "us", 1), seen(100, 0.5), own) == 45 * MB
    assert usable(make_link("eu", "us", 1), seen(100, 2), own) == 40 * MB


def test_links_of_unknown_rate_have_none() -> None:
    links = {
        (one.source, one.target): one for one in (make_link("eu", "us", 1), make_link("us", "eu", None), make_link("sa", "us", 0))
    }
    assert usable_rates(links, {}, DEFAULTS) == {("eu", "us"): 50 * MB, ("sa", "us"): 0}


WEST, EAST = ("eu", "us"), ("us", "eu")


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def test_a_link_is_full_when_more_than_may_be_was_held_for_five_minutes_without_a_break() -> None:
    rates, since = {WEST: 80 * MB, EAST: 80 * MB}, {}
    story = [
        (0, 80, False),
        (1, 81, False),
        (5.9, 81, False),
        (6, 81, True),
        (7, 80, False),
        (8, 90, False),
        (12.9, 90, False),
        (13, 90, True),
    ]
    for minutes, held, is_full in story:
        amounts = {WEST: held * MB, EAST: 10 * MB}
        since = crowded_since(amounts, rates, since, at(minutes))
        assert (WEST in full_links(since, amounts, rates, at(minutes), DEFAULTS)) is is_full, minutes
        assert EAST not in since


def test_a_link_that_worsens_under_what_is_held_is_crowded() -> None:
    held, link = {WEST: 80 * MB}, make_link("eu", "us", 1)
    good = usable_rates({WEST: link}, {WEST: seen(100)}, DEFAULTS)
    bad = usable_rates({WEST: link}, {WEST: seen(33)}, DEFAULTS)
    assert crowded_since(held, good, {}, NOW) == {}
    assert crowded_since(held, bad, {}, NOW) == {WEST: NOW}


def test_a_link_whose_rate_nobody_knows_is_not_crowded() -> None:
    assert crowded_since({WEST: 5}, {}, {}, NOW) == {}


CONDITIONS = {
    Why.LINK_FULL: "transfers have held more of the link from eu to us than they may since 2026-05-01T12:00:00Z: 80.0 MB/s, of which "
    "26.4 MB/s may be; none begins on it until that is over"
}


def test_what_is_said_of_a_full_link() -> None:
    (reason,) = full_links({WEST: NOW}, {WEST: 80 * MB}, {WEST: 26_400_000}, at(5), DEFAULTS).values()
    assert (reason.code, reason.text) == ("LinkFull", CONDITIONS[Why.LINK_FULL])
