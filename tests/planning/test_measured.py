"""One value a directed link, of what the agents at its two ends say."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.report import LinkProbe
from reconciler.planning.measured import MOST_AGE_SECONDS, Measured, measured_links

WAY = ("eu", "us")


def probe(rate: float | None = 100.0, age: float | None = 10.0, **more: Any) -> LinkProbe:
    said = {"source": "eu", "target": "us", "newest_bytes_per_second": rate, "samples": 5, "rtt_ms": 80.0} | more
    return LinkProbe(bytes_per_second=rate, age_seconds=age, **said)


SAYS: dict[str, tuple[dict[str, tuple[LinkProbe, float | None]], Measured | None]] = {
    "one end": ({"eu": (probe(), 5.0)}, Measured(100.0, 15.0, 5, 80.0)),
    "the fresher end is believed": (
        {"eu": (probe(100.0, 60.0), 5.0), "us": (probe(90.0, 20.0, samples=3, rtt_ms=81.0), 5.0)},
        Measured(90.0, 25.0, 3, 81.0),
    ),
    "the age is counted from the report on": (
        {"eu": (probe(100.0, 60.0), 5.0), "us": (probe(90.0, 20.0), 500.0)},
        Measured(100.0, 65.0, 5, 80.0),
    ),
    "one end has seen it fall twice, the other only just once": (
        {"eu": (probe(33.0, 60.0), 5.0), "us": (probe(100.0, 20.0, newest_bytes_per_second=34.0), 5.0)},
        Measured(33.0, 25.0, 5, 80.0),
    ),
    "one end has seen it rise, the other not yet": (
        {"eu": (probe(100.0, 20.0, newest_bytes_per_second=101.0), 5.0), "us": (probe(33.0, 60.0), 5.0)},
        Measured(100.0, 25.0, 5, 80.0),
    ),
    "a single slow transfer is scatter where the other end has seen none": (
        {"eu": (probe(100.0, 60.0), 5.0), "us": (probe(99.0, 20.0, newest_bytes_per_second=20.0), 5.0)},
        Measured(99.0, 25.0, 5, 80.0),
    ),
    "a round trip that one end knows": (
        {"eu": (probe(100.0, 60.0), 5.0), "us": (probe(90.0, 20.0, rtt_ms=None), 5.0)},
        Measured(90.0, 25.0, 5, 80.0),
    ),
    "no rate": ({"eu": (probe(None, None, samples=0, problem="refused"), 5.0)}, None),
    "a try that failed takes nothing away, and is told": (
        {"eu": (probe(problem="refused"), 5.0)},
        Measured(100.0, 15.0, 5, 80.0, "refused"),
    ),
    "one end can still move bytes": (
        {"eu": (probe(problem="refused"), 5.0), "us": (probe(100.0, 60.0), 5.0)},
        Measured(100.0, 15.0, 5, 80.0),
    ),
    "neither end can": (
        {"eu": (probe(problem="refused"), 5.0), "us": (probe(100.0, 60.0, problem="reset"), 5.0)},
        Measured(100.0, 15.0, 5, 80.0, "refused"),
    ),
    "an end without a rate leaves it to the other": (
        {"eu": (probe(None, None, samples=0, problem="refused"), 5.0), "us": (probe(), 5.0)},
        Measured(100.0, 15.0, 5, 80.0),
    ),
    "too old": ({"eu": (probe(100.0, MOST_AGE_SECONDS), 1.0)}, None),
    "just not too old": ({"eu": (probe(100.0, MOST_AGE_SECONDS - 1), 1.0)}, Measured(100.0, MOST_AGE_SECONDS, 5, 80.0)),
    "a report that never came": ({"eu": (probe(), None)}, None),
    "what a third region says of it": ({"ap": (probe(), 5.0)}, None),
    "a rate of nothing is no rate": ({"eu": (probe(0.0), 5.0)}, None),
    "nor is one without end": ({"eu": (probe(float("inf")), 5.0)}, None),
}


@pytest.mark.parametrize("case", SAYS)
def test_what_is_believed_of_a_link(case: str) -> None:
    says, wanted = SAYS[case]
    found = measured_links({name: [told] for name, (told, _) in says.items()}, {name: age for name, (_, age) in says.items()})
    assert found == ({} if wanted is None else {WAY: wanted})


def test_the_two_directions_are_two_links() -> None:
    back = probe(7.0, source="us", target="eu")
    found = measured_links({"eu": [probe(), back]}, {"eu": 0.0})
    assert {way: one.bytes_per_second for way, one in found.items()} == {WAY: 100.0, ("us", "eu"): 7.0}


RATES = st.floats(min_value=1.0, max_value=1e10)
AGES = st.floats(min_value=0.0, max_value=2 * MOST_AGE_SECONDS)


@given(st.lists(st.tuples(RATES, RATES, AGES), min_size=2, max_size=2), AGES, AGES)
def test_it_is_one_of_the_two_rates_and_the_age_of_the_newest(
    views: list[tuple[float, float, float]], first: float, second: float
) -> None:
    probes = [probe(rate, age, newest_bytes_per_second=newest) for rate, newest, age in views]
    said, ages = {"eu": [probes[0]], "us": [probes[1]]}, {"eu": first, "us": second}
    found = measured_links(said, ages)
    whole = {views[0][2] + first: views[0][0], views[1][2] + second: views[1][0]}
    fresh = [age for age in whole if age <= MOST_AGE_SECONDS]
    assert found.keys() == ({WAY} if fresh else set())
    if fresh:
        assert found[WAY].age_seconds == min(fresh)
        assert found[WAY].bytes_per_second in {
            view[0] for view, age in zip(views, (first, second), strict=True) if view[2] + age <= MOST_AGE_SECONDS
        }
    assert measured_links(dict(reversed(said.items())), ages) == found
