"""Pull requests that a stranger made to fill the hub's memory: what is read of them is bounded before it is read."""

import json
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.adapters.git.trees import MOST_LEVELS, MOST_PATH
from reconciler.forge_port import Verdict
from reconciler.hub.pull_merge import MOST_BYTES, MOST_CHANGED
from tests.builders import TEAM
from tests.githttp import run_git
from tests.hub.forge_rig import ForgeRig
from tests.hub.test_forge_checks import comment, look, verdict
from tests.hub.words import job_file

MOST_MEMORY = 32 << 20
"""Bytes that a look may take at its peak; a small part of what the hub has."""
Tree = Mapping[str, tuple[str, str]]
"""Name → (mode, object id)."""


@pytest.fixture
def rig(tmp_path: Path) -> ForgeRig:
    return ForgeRig(tmp_path, policy="approval: {}\n")


def blob(rig: ForgeRig, text: str = "x") -> str:
    return run_git(rig.bare, "hash-object", "-w", "--stdin", body=text.encode())


def tree(rig: ForgeRig, entries: Tree) -> str:
    """One tree object, and nothing below it."""
    lines = "".join(f"{mode} {'tree' if mode == '040000' else 'blob'} {oid}\t{name}\0" for name, (mode, oid) in entries.items())
    return run_git(rig.bare, "mktree", "-z", body=lines.encode())


def bomb(rig: ForgeRig, width: int, levels: int, leaves: Tree) -> str:
    """As many trees as it has levels, and `width` to the power of that many folders when they are listed."""
    made = tree(rig, leaves)
    for _ in range(levels):
        made = tree(rig, {f"d{number:03}": ("040000", made) for number in range(width)})
    return made


def asks_for(rig: ForgeRig, entries: Tree) -> int:
    """Somebody asks to merge a root tree of main's with these entries in it."""
    main = rig.tip("main")
    listed = (line.split(None, 3) for line in run_git(rig.bare, "ls-tree", str(main)).splitlines())
    own = {name: (mode, oid) for mode, _, oid, name in listed}
    commit = run_git(rig.bare, "commit-tree", "-p", str(main), "-m", "change", tree(rig, own | dict(entries)))
    number = rig.forge.add(None, "main", commit=commit)
    run_git(rig.bare, "update-ref", f"refs/pull/{number}/head", commit)
    return number


def memory_of_a_look(rig: ForgeRig) -> int:
    """Bytes that the look takes at its peak."""
    rig.settle()
    rig.loop.tell()
    tracemalloc.start()
    try:
        rig.loop.turn()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def a_wide_folder(rig: ForgeRig) -> str:
    file = blob(rig)
    return tree(rig, {f"{number:06}.yaml": ("100644", file) for number in range(150_000)})


BOMBS = {
    "files without end": (lambda rig: bomb(rig, 32, 4, {f"f{at}.yaml": ("100644", blob(rig)) for at in range(32)}), "split it"),
    "folders without end": (lambda rig: bomb(rig, 32, 9, {}), "split it"),
    "one wide folder": (a_wide_folder, "split it"),
    "depth": (lambda rig: bomb(rig, 1, MOST_LEVELS + 1, {"x.yaml": ("100644", blob(rig))}), "deep"),
    "a long name": (lambda rig: tree(rig, {"x" * 100 * MOST_PATH: ("100644", blob(rig))}), "characters"),
}


@pytest.mark.parametrize("case", BOMBS)
def test_a_tree_that_is_small_and_lists_as_much_as_a_memory_holds_is_refused_and_never_listed(rig: ForgeRig, case: str) -> None:
    make, words = BOMBS[case]
    number = asks_for(rig, {"jobs": ("040000", make(rig))})
    assert memory_of_a_look(rig) < MOST_MEMORY
    state, said = verdict(rig, number)
    assert (state, words in said) == (Verdict.FAILURE, True), said
    assert words in comment(rig, number)


def test_what_is_in_other_folders_costs_nothing(rig: ForgeRig) -> None:
    thousand = {f"f{at:03}.yaml": ("100644", blob(rig)) for at in range(999)}
    number = asks_for(rig, {"docs": ("040000", bomb(rig, 1000, 1, thousand)), ".hidden": ("040000", bomb(rig, 32, 9, {}))})
    assert memory_of_a_look(rig) < MOST_MEMORY
    assert verdict(rig, number) == (Verdict.SUCCESS, "no file of jobs, regions or rules is touched")


def test_files_that_are_each_small_enough_may_be_too_much_together(rig: ForgeRig) -> None:
    large = job_file("large", env={"X": "x" * 250_000})
    file = blob(rig, large)
    team = tree(rig, {f"{at}.yaml": ("100644", file) for at in range(MOST_BYTES // 250_000 + 1)})
    number = asks_for(rig, {"jobs": ("040000", tree(rig, {TEAM: ("040000", team)}))})
    assert memory_of_a_look(rig) < MOST_MEMORY
    assert verdict(rig, number)[0] is Verdict.FAILURE
    assert "more than 4 MiB; split it" in comment(rig, number)


def test_as_many_files_as_are_looked_at_are_looked_at(rig: ForgeRig) -> None:
    file = blob(rig, "{}")
    team = tree(rig, {f"{at}.txt": ("100644", file) for at in range(MOST_CHANGED)})
    number = asks_for(rig, {"jobs": ("040000", tree(rig, {TEAM: ("040000", team)}))})
    look(rig)
    assert verdict(rig, number)[0] is Verdict.SUCCESS


def test_a_file_that_takes_a_folder_s_place_and_the_other_way_round(rig: ForgeRig) -> None:
    rig.jobs("one", "two", gpus=1)
    rig.settle()
    file = blob(rig, json.dumps({"job_id": "three"}))
    jobs = tree(rig, {TEAM: ("100644", file), "new": ("040000", tree(rig, {"a.yaml": ("100644", blob(rig, job_file("three")))}))})
    number = asks_for(rig, {"jobs": ("040000", jobs), "policy.yaml": ("040000", tree(rig, {"x": ("100644", file)}))})
    look(rig)
    rows = [line for line in comment(rig, number).splitlines() if line.startswith("| `")]
    assert [" | ".join(row.split(" | ")[:2]) for row in rows] == [
        "| `new/three` | new",
        f"| `{TEAM}/one` | removed",
        f"| `{TEAM}/two` | removed",
    ]
    assert "- `policy.yaml`" in comment(rig, number)
