"""Copying 500 GB against waiting 40 minutes, with numbers missing or at their edges."""

import copy
import json
import re
from typing import Any

import pytest
import yaml

from tests.planning.course import course_of, cycle
from tests.planning.expectations import differences
from tests.planning.scenarios import Scenario

WORLD = """
about: 500 GB lie in eu, whose cards are taken for 40 minutes more; us is free, 67 minutes away.
policy: {thresholds: {link_share: 1, declared_margin: 0}}
links: [{source: eu, target: us, gbit_per_second: 1, usd_per_gb: 0.02}]
datasets:
  corpus-a: {size_gb: 500, replicas: [eu]}
regions:
  eu: {nodes: [{model: A100-80GB}]}
  us: {nodes: [{model: A100-80GB}]}
running:
  old: {in: eu, gpu: {count: 8, model: A100-80GB}, expected_runtime_seconds: 3600, since: 20 min}
jobs:
  llm-a: {gpu: {count: 8, model: A100-80GB}, dataset: {name: corpus-a}}
"""
WAITS = {"phase": "Pending", "in": None}

VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "as it stands: waiting is sooner": (
        {},
        WAITS
        | {
            "why": "WaitNotCopy",
            "says": "free at 2026-05-01T12:40:00Z; copying 465.7 GiB to us takes until 2026-05-01T13:06:40Z",
        },
    ),
    "nothing to copy: no copy, no waiting": (
        {"datasets.corpus-a.size_gb": 0},
        {"in": "us", "copies_gb": 0, "starts_in": "0 s", "price_usd": "unknown"},
    ),
    "nothing to copy, and no link that anybody has measured": (
        {"datasets.corpus-a.size_gb": 0, "links.0.gbit_per_second": None},
        {"in": "us", "copies_gb": 0, "starts_in": "0 s"},
    ),
    "a link whose bandwidth nobody knows": (
        {"links.0.gbit_per_second": None},
        WAITS | {"others": {"us": {"code": "DataUnreachable", "cause": "the bandwidth of the link from eu is not known"}}},
    ),
    "a link without any bandwidth": (
        {"links.0.gbit_per_second": 0},
        WAITS | {"others": {"us": {"code": "DataUnreachable", "cause": "the link from eu has no bandwidth"}}},
    ),
    "no price, and waiting is sooner": ({"links.0.usd_per_gb": None}, WAITS | {"why": "WaitNotCopy", "says": "13:06:40Z"}),
    "no price, and copying is sooner: unknown is not free": (
        {"links.0.usd_per_gb": None, "links.0.gbit_per_second": 10},
        WAITS | {"why": "WaitNotCopy", "says": "has no known price"},
    ),
    "a price, and copying is sooner": (
        {"links.0.usd_per_gb": 0.001, "links.0.gbit_per_second": 10},
        {"in": "us", "copies_gb": 500, "starts_in": "400 s"},
    ),
    "a size that nobody knows is not 0": (
        {"datasets.corpus-a.size_gb": None},
        WAITS | {"others": {"us": {"code": "DataUnreachable", "cause": "its size is not known"}}},
    ),
    "a deadline that neither way meets": (
        {"jobs.llm-a.deadline": "2026-05-01T12:30:00Z"},
        WAITS | {"why": "DeadlineOutOfReach", "says": "neither waiting for eu (until 2026-05-01T12:40:00Z) nor copying to us"},
    ),
    "a deadline that neither way meets, and copying is sooner": (
        {"jobs.llm-a.deadline": "2026-05-01T12:30:00Z", "links.0.gbit_per_second": 2},
        {"in": "us", "why": "DeadlineOutOfReach", "starts_in": "2000 s"},
    ),
}


def changed(world: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The world with those values put in their places; None takes one out."""
    made = copy.deepcopy(world)
    for path, value in changes.items():
        *above, last = path.split(".")
        place: Any = made
        for name in above:
            place = place[int(name)] if isinstance(place, list) else place[name]
        if value is None:
            del place[last]
        else:
            place[last] = value
    return made


@pytest.mark.parametrize("case", VARIANTS)
def test_copy_or_wait(case: str) -> None:
    changes, expected = VARIANTS[case]
    world = changed(yaml.safe_load(WORLD), changes) | {"expect": {"llm-a": expected}}
    scenario = Scenario.model_validate(world)
    course = course_of(scenario)
    cycle(course)
    assert differences(course, scenario.expect) == {}
    assert course.outcome is not None
    told = [*course.outcome.records.values(), *course.outcome.placements.values()]
    text = json.dumps([one.model_dump() for one in told], default=str, allow_nan=False)  # raises for what is not finite
    assert not re.search(r"\b(inf|infinity|nan)\b", text, re.IGNORECASE)
