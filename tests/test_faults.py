"""docs/faults.md tells the truth: what it names is there, and what is there is named."""

import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "docs" / "faults.md"
SCENARIOS = "tests/planning/test_cases.py"
SOURCE = re.compile(r"[\w.-]+/[\w.-]+#\d+|GHSA-[\w-]+|measured|Python|example jobs")


@dataclass(frozen=True)
class Fault:
    """A line of the table. `shown_by`: tests by their ids, and files of scenarios."""

    name: str
    met: str
    source: str
    holds: str
    shown_by: tuple[str, ...]


def faults() -> list[Fault]:
    """Every line, in order."""
    found = []
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if re.match(r"\| [A-Z]{2}-\d+ \|", line):
            name, met, source, holds, shown_by = line.removeprefix("| ").removesuffix(" |").split(" | ")
            found.append(Fault(name, met, source, holds, tuple(re.findall(r"`([^`]+)`", shown_by))))
    return found


FAULTS = faults()


@pytest.fixture(scope="module")
def collected() -> frozenset[str]:
    """Ids of all tests in the files that the table names, with and without their parameters; scenarios by their files."""
    named = {one.partition("::")[0] for fault in FAULTS for one in fault.shown_by if "::" in one}
    ours = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / "faults").glob("test_*.py")}
    call = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
    files = sorted(name for name in {*named, *ours, SCENARIOS} if (ROOT / name).is_file())
    done = subprocess.run([*call, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    tests = {line for line in done.stdout.splitlines() if "::" in line}
    run = {
        f"tests/cases/{test.partition('[')[2].removesuffix(']')}.yaml"
        for test in tests
        if test.startswith(f"{SCENARIOS}::test_case[")
    }
    return frozenset(tests | {test.partition("[")[0] for test in tests} | run)


def test_every_fault_has_a_name_of_its_own_a_source_and_a_test() -> None:
    assert len(FAULTS) > 30
    assert [name for name, times in Counter(fault.name for fault in FAULTS).items() if times > 1] == []
    for fault in FAULTS:
        assert fault.shown_by, fault.name
        assert all(text.strip() for text in (fault.met, fault.holds)), fault.name
        assert SOURCE.search(fault.source), fault.name


@pytest.mark.slow
def test_what_the_table_names_is_there(collected: frozenset[str]) -> None:
    missing = {fault.name: lost for fault in FAULTS if (lost := [one for one in fault.shown_by if one not in collected])}
    assert missing == {}, "it was renamed or removed: mend docs/faults.md, or the fault is shown by nothing any more"


@pytest.mark.slow
def test_every_test_that_was_written_for_a_fault_is_named(collected: frozenset[str]) -> None:
    named = {one.partition("[")[0] for fault in FAULTS for one in fault.shown_by}
    ours = {test for test in collected if test.startswith("tests/faults/") and "[" not in test}
    assert sorted(ours - named) == [], "name it in docs/faults.md"
