"""What `status` says of a main that the hub doubts, by how it is doubted, and what to do."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.world import Command, HubWorld, job
from tests.githttp import run_git

JOBS = {f"jobs/red/job-{number}.yaml": job(f"job-{number}") for number in range(6)}


@pytest.fixture
def world(folder: Path) -> HubWorld:
    """Six jobs wait, the last of them since main's second commit."""
    made = HubWorld(folder, dict(list(JOBS.items())[:5]))
    made.cycle()
    made.commit({"jobs/red/job-5.yaml": JOBS["jobs/red/job-5.yaml"]})
    made.cycle(1)
    return made


def deleted(world: HubWorld) -> None:
    run_git(world.repository, "update-ref", "-d", "refs/heads/main")


def rewound(world: HubWorld) -> None:
    run_git(world.repository, "update-ref", "refs/heads/main", "main~1")


def emptied(world: HubWorld) -> None:
    world.commit(dict.fromkeys(JOBS))


def most_removed(world: HubWorld) -> None:
    world.commit(dict.fromkeys(list(JOBS)[:4]))


NOTHING = "nothing is stopped or changed until that is confirmed"

CASES: dict[str, tuple[Callable[[HubWorld], None], str, str]] = {
    "the branch is deleted": (
        deleted,
        "the main branch is gone; nothing is stopped or changed until it is back",
        "Restore the branch",
    ),
    "the branch is set back": (
        rewound,
        f"the main branch was set back to an earlier commit, where 1 of 6 live jobs are missing; {NOTHING}",
        "If it was meant: `reconciler confirm {main}`",
    ),
    "all jobs go": (
        emptied,
        f"the main branch has no jobs any more: 6 of 6 live jobs went in one step; {NOTHING}",
        "If it was meant: `reconciler confirm {main}`",
    ),
    "most jobs go": (
        most_removed,
        "4 of 6 live jobs went from the main branch in one step; nothing is stopped until that is confirmed",
        "If it was meant: `reconciler confirm {main}`",
    ),
}


@pytest.mark.parametrize(("happens", "words", "todo"), CASES.values(), ids=CASES.keys())
def test_a_doubt_in_the_words_of_its_kind(
    command: Command, world: HubWorld, happens: Callable[[HubWorld], None], words: str, todo: str
) -> None:
    happens(world)
    world.cycle(1)
    main = run_git(world.repository, "for-each-ref", "--format=%(objectname)", "refs/heads/main")
    expected = f"{words}. {todo.format(main=main)}"
    lines = command.done("status", "--repo", world.url).splitlines()
    assert expected in lines
    assert expected in run_git(world.repository, "show", "status:README.md")
    assert lines.index(expected) == 7, "it is the first line below the table"
