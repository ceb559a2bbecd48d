"""Every file of tests/cases is a scenario: a world, jobs, steps in time, and what must hold after each."""

from pathlib import Path

import pytest

from tests.planning.course import change, course_of, cycle
from tests.planning.expectations import differences
from tests.planning.scenarios import read_scenario

CASES = sorted((Path(__file__).parents[1] / "cases").glob("*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    scenario = read_scenario(path)
    course = course_of(scenario)
    cycle(course)
    assert differences(course, scenario.expect) == {}
    for number, step in enumerate(scenario.then, start=1):
        change(course, step)
        cycle(course)
        assert differences(course, step.expect) == {}, f"step {number}"


def test_there_are_cases_and_each_says_what_it_is_about() -> None:
    assert len(CASES) >= 30
    for path in CASES:
        assert path.read_text(encoding="utf-8").startswith("about: ")
