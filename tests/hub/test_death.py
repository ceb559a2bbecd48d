"""A hub, or an agent, is killed at every single write, before it is done and after, and started again: nothing comes of it.

Each course is played by real processes that end by SIGKILL, over a real remote and a real store, on virtual time; the judges of
`tests/sim` look on. What is compared is the undisturbed course: phases, attempts and their outcomes, and one run of each.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hub.deaths import Course, Outcome, Process, agent_process, course, hub_process
from tests.hub.mortal import Doom

BOTH = ("eu", "us")
CHUNKS = 8
SAMPLE = (6,)
"""The write that `make check` tries: the first push."""


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    shutil.rmtree(tmp_path)


def _hub_dies(root: Path, doom: Doom) -> tuple[Outcome, list[str]]:
    root.mkdir(parents=True)
    with course(root, BOTH, lambda made: [hub_process(made, "hub-a", doom)]) as made:
        return made.play([*made.world.syncs, *made.world.agents]), made.processes[0].deaths


def _agent_dies(root: Path, doom: Doom) -> tuple[Outcome, list[str]]:
    root.mkdir(parents=True)
    with course(root, ["us"], lambda made: [agent_process(made, "us", doom)]) as made:
        return made.play([*made.world.hubs, made.region("us")[1]]), made.processes[0].deaths


def _standing_by(root: Path, doom: Doom) -> tuple[Outcome, list[str]]:
    """Two hubs; the first is not started again when it has died."""
    root.mkdir(parents=True)

    def both(made: Course) -> list[Process]:
        return [hub_process(made, "hub-a", doom, again=False), hub_process(made, "hub-b", Doom())]

    with course(root, BOTH, both) as made:
        return made.play([*made.world.syncs, *made.world.agents]), made.processes[0].deaths


COURSES: dict[str, Callable[[Path, Doom], tuple[Outcome, list[str]]]] = {
    "the only hub": _hub_dies,
    "the first of two hubs": _standing_by,
    "the agent": _agent_dies,
}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Outcome]:
    """The outcome of each course in which nobody dies, played once."""
    known: dict[str, Outcome] = {}

    def outcome(who: str) -> Outcome:
        if who not in known:
            known[who], deaths = COURSES[who](tmp_path_factory.mktemp("undisturbed") / "world", Doom())
            assert deaths == []
        return known[who]

    return outcome


@pytest.mark.slow
def test_the_undisturbed_course(undisturbed: Callable[[str], Outcome]) -> None:
    found = undisturbed("the only hub")
    assert {key.job_id: phase for key, (phase, _) in found.jobs.items()} == {
        "ends-well": "Succeeded",
        "second-try": "Succeeded",
        "two-nodes": "Succeeded",
        "edited": "Succeeded",
        "removed": "Cancelled",
        "late": "Succeeded",
    }
    attempts = {key.job_id: list(attempts) for key, (_, attempts) in found.jobs.items()}
    assert attempts["second-try"] == [("Failed", "None"), ("Succeeded", "None")]
    assert attempts["edited"] == [("Stopped", "Superseded"), ("Succeeded", "None")]
    assert attempts["removed"] == [("Stopped", "Cancelled")]
    assert sorted(found.starts.values()) == [1, 1, 1, 1, 1, 1, 1, 2], "each attempt once, the gang on two nodes"
    for who in COURSES:
        assert undisturbed(who) == found


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", SAMPLE)
def test_the_hub_dies(root: Path, undisturbed: Callable[[str], Outcome], at: int, after: bool) -> None:
    found, deaths = _hub_dies(root / "world", Doom(at, after))
    assert len(deaths) == 1
    assert found == undisturbed("the only hub")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("who", COURSES)
def test_death_at_every_write(root: Path, undisturbed: Callable[[str], Outcome], who: str, after: bool, chunk: int) -> None:
    at = 1 + chunk
    while True:
        found, deaths = COURSES[who](root / f"world-{at}", Doom(at, after))
        shutil.rmtree(root / f"world-{at}")
        assert found == undisturbed(who), f"{who} died at write {at}, {deaths}"
        if not deaths:
            break
        at += CHUNKS
    assert at > 2 * CHUNKS, "so few writes cannot be all"
