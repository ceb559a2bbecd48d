"""The language of tests/cases/*.yaml; course.py runs them.

A case is a world, jobs, what is expected of them, and then steps in time, each with changes and expectations of its own:

    about:     one sentence
    policy, teams, links, datasets, regions   as in the files of a jobs repository, with short forms:
               a dataset's `replicas` may be names of regions; a region has `nodes` (what its agent reports, groups of
               equal ones) and `reported` (how long ago; `never`)
    running:   jobs that run already: `in` a region, `since` so long, and the fields of a job file
    jobs:      what is on main: the fields of a job file; `team` and `submitted` (how long ago) where they matter
    expect:    by job, what must hold: see `Expected`
    then:      steps: `after` so long; `regions` and `jobs` with the fields that change (a job without any is removed);
               `seen`, what the region now shows of a job (`SEEN` in course.py)

Times are written `90 s`, `40 min`, `2 h`.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from reconciler.model.record import Phase

Fields = dict[str, Any]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Expected(_Strict):
    """What must hold of a job after the step. What is left out may be anything."""

    where: str | None = Field(default=None, alias="in")
    """Region of its attempt that has not ended."""
    phase: Phase | None = None
    why: str | None = None
    """Code of the reason of its placement in this step, else of its phase."""
    says: str | None = None
    """A part of that reason's text."""
    others: dict[str, str | Fields] = Field(default_factory=dict)
    """Of each region that does not run it: the reason's code, or its code and some of its numbers."""
    attempts: int | None = None
    ended: str | None = None
    """How its newest ended attempt ended: an outcome such as `Superseded`, else its state."""
    model: str | None = None
    terms: dict[str, float] = Field(default_factory=dict)
    score: float | None = None
    price_usd: float | Literal["unknown"] | None = None
    copies_gb: float | None = None
    starts_in: str | None = None
    runners_up: list[str] | None = None


class Step(_Strict):
    """Changes, and what is expected after a cycle that sees them."""

    after: str = "0 s"
    regions: dict[str, Fields] = Field(default_factory=dict)
    jobs: dict[str, Fields | None] = Field(default_factory=dict)
    seen: dict[str, str] = Field(default_factory=dict)
    expect: dict[str, Expected]


class Scenario(_Strict):
    """A case file."""

    about: str
    policy: Fields = Field(default_factory=dict)
    teams: dict[str, Fields] = Field(default_factory=dict)
    links: list[Fields] = Field(default_factory=list)
    datasets: dict[str, Fields] = Field(default_factory=dict)
    regions: dict[str, Fields]
    running: dict[str, Fields] = Field(default_factory=dict)
    jobs: dict[str, Fields] = Field(default_factory=dict)
    expect: dict[str, Expected] = Field(default_factory=dict)
    then: list[Step] = Field(default_factory=list)


def read_scenario(path: Path) -> Scenario:
    """A case file. Raises ValidationError for a word that the language does not have."""
    return Scenario.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def span(text: str) -> timedelta:
    """`90 s`, `40 min` or `2 h`."""
    number, unit = text.split()
    return timedelta(seconds=float(number) * {"s": 1, "min": 60, "h": 3600}[unit])
