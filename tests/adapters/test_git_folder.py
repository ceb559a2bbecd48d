"""The clone's folder: first use, restart, damage, leftovers, upkeep."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from reconciler.adapters.git import INNER, BareClone
from reconciler.ports import RefUpdate, Refused, Transient
from tests.adapters.gitworld import FILES, WHEN, Unmade, all_files, hide_own_settings, unmade_clone
from tests.githttp import commit_files, run_git


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Unmade]:
    hide_own_settings(monkeypatch)
    with unmade_clone(tmp_path) as made:
        yield made


def test_a_clone_is_made_at_first_use_and_used_again_after_a_restart(world: Unmade) -> None:
    first = world.clone()
    assert not world.folder.exists()
    first.fetch()
    assert run_git(world.folder, "rev-parse", "--is-bare-repository") == "true"
    del first
    world.server.stop()
    assert all_files(world.clone(), world.main) == FILES


def test_a_folder_with_files_of_others_is_left_alone(world: Unmade) -> None:
    world.folder.mkdir(parents=True)
    (world.folder / "thesis.tex").write_text("years of work")
    with pytest.raises(Refused, match="no clone of ours; name an empty or a new folder"):
        world.clone().fetch()
    assert [path.name for path in world.folder.iterdir()] == ["thesis.tex"]


def test_another_clone_in_the_folder_is_left_alone(world: Unmade) -> None:
    inner = BareClone(world.url, world.folder / INNER)
    inner.fetch()
    outer = world.clone()
    outer.fetch()
    del outer
    (world.folder / INNER / "refs/remotes/origin/x.lock").touch()
    outer = world.clone()
    assert outer.fetch()["main"] == world.main
    assert (world.folder / INNER / "refs/remotes/origin/x.lock").exists(), "it may be in use there"
    (world.folder / "config").write_bytes(b"\0\0[[[")
    for _ in range(3):  # it is made again within two
        with suppress(Transient):
            outer.fetch()
    assert all_files(outer, world.main) == all_files(inner, world.main) == FILES
    outer.maintain()
    assert inner.fetch()["main"] == world.main


def test_a_folder_that_cannot_be_made_is_refused(world: Unmade, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match="make it writable"):
        BareClone(world.url, tmp_path / "file/clone").fetch()


def loose(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("objects/??/*"))


def empty_one_of_each(folder: Path) -> None:
    for path in loose(folder):
        path.chmod(0o644)
        path.write_bytes(b"")


def lose_every_other(folder: Path) -> None:
    for path in loose(folder)[::2]:
        path.unlink()


def cut_the_packs(folder: Path) -> None:
    run_git(folder, "repack", "-a", "-d", "-q")
    for path in folder.glob("objects/pack/*.pack"):
        path.chmod(0o644)
        os.truncate(path, 100)


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "nothing": Path.exists,
    "HEAD is empty": lambda folder: (folder / "HEAD").write_text(""),
    "HEAD is gone": lambda folder: (folder / "HEAD").unlink(),
    "the configuration is garbage": lambda folder: (folder / "config").write_bytes(b"\0\0[[["),
    "the objects are gone": lambda folder: shutil.rmtree(folder / "objects"),
    "the branches are gone": lambda folder: shutil.rmtree(folder / "refs"),
    "a branch is empty": lambda folder: (folder / "refs/remotes/origin/main").write_text(""),
    "a branch is garbage": lambda folder: (folder / "refs/remotes/origin/main").write_bytes(b"\xff\xfe"),
    "a branch names nothing": lambda folder: (folder / "refs/remotes/origin/main").write_text("1" * 40 + "\n"),
    "packed branches are garbage": lambda folder: (folder / "packed-refs").write_text("garbage\n"),
    "objects are empty files": empty_one_of_each,
    "objects are missing": lose_every_other,
    "packs are cut": cut_the_packs,
    "the folder is empty": empty,
}


@pytest.mark.slow
@pytest.mark.parametrize("restarted", [True, False], ids=["after a restart", "while running"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_broken_clone_mends_itself_within_two_cycles(world: Unmade, damage: Callable[[Path], object], restarted: bool) -> None:
    clone = world.clone()
    clone.fetch()
    damage(world.folder)
    if restarted:
        del clone
        clone = world.clone()
    second = commit_files(world.bare, "main", {**FILES, "jobs/new.yaml": b"new"})

    def cycle() -> None:
        assert clone.fetch() == {"main": second}
        assert all_files(clone, second) == {**FILES, "jobs/new.yaml": b"new"}
        assert all_files(clone, world.main) == FILES
        new = clone.commit(clone.write_tree(second, {"x": clone.write_blob(b"a0")}), [second], "x\n", WHEN)
        assert clone.push([RefUpdate("status", None, new)]).done
        assert clone.push([RefUpdate("status", new, None)]).done

    failed = 0
    for _ in range(3):
        try:
            cycle()
        except Transient:
            failed += 1
    assert failed <= 2
    cycle()
    run_git(world.folder, "fsck", "--full")


def test_objects_cut_by_a_power_cut_are_had_again(world: Unmade) -> None:
    clone = world.clone()
    clone.fetch()
    fetched, made = clone.files(world.main)["jobs/b/3.yaml"].oid, clone.write_blob(b"unsaved" * 1000)
    del clone
    for oid in (fetched, made):
        path = world.folder / "objects" / oid[:2] / oid[2:]
        path.chmod(0o644)
        os.truncate(path, path.stat().st_size - 5)
    clone = world.clone()
    clone.fetch()
    with pytest.raises(Transient, match="fetch again"):
        all_files(clone, world.main)
    clone.fetch()
    assert all_files(clone, world.main) == FILES
    assert clone.read(clone.write_blob(b"unsaved" * 1000)) == b"unsaved" * 1000


def test_a_broken_clone_inside_a_work_tree_does_not_touch_that(world: Unmade, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    run_git(outer / ".git", "init", "--quiet", "--bare")
    before = sorted(path for path in (outer / ".git").rglob("*"))
    clone = BareClone(world.url, outer / "clone")
    clone.fetch()
    del clone
    (outer / "clone/HEAD").unlink()
    clone = BareClone(world.url, outer / "clone")
    clone.fetch()
    assert all_files(clone, world.main) == FILES
    assert sorted(path for path in (outer / ".git").rglob("*")) == before


LEFTOVERS = (
    "packed-refs.lock",
    "refs/remotes/origin/main.lock",
    "HEAD.lock",
    "config.lock",
    "objects/pack/tmp_pack_a1B2c3",
    "objects/pack/pack-1.keep",
)


def test_leftovers_of_a_killed_git_are_swept_when_nobody_else_has_the_folder(world: Unmade) -> None:
    clone = world.clone()
    clone.fetch()
    for name in LEFTOVERS:
        (world.folder / name).touch()
    second = commit_files(world.bare, "main", {**FILES, "b": b"b"})
    run_git(world.bare, "branch", "tmp_branch", second)
    another = world.clone()
    with pytest.raises(Transient, match="lock"):
        another.fetch()
    del another, clone
    restarted = world.clone()
    assert restarted.fetch() == {"main": second, "tmp_branch": second}
    assert not [name for name in LEFTOVERS if (world.folder / name).exists()]
    del restarted
    assert world.clone().files(second)
    assert run_git(world.folder, "rev-parse", "refs/remotes/origin/tmp_branch") == second


def test_upkeep_packs_everything_and_the_same_clone_goes_on(world: Unmade) -> None:
    clone = world.clone()
    clone.fetch()
    tip = world.main
    seen = []
    for number in range(30):
        tree = clone.write_tree(tip, {f"jobs/a/n{number}.yaml": clone.write_blob(str(number).encode())})
        tip = clone.commit(tree, [tip], f"{number}\n", WHEN)
        seen.append(tip)
        if number % 10 == 9:
            clone.maintain()
            assert len(clone.files(tip)) == len(FILES) + number + 1
    unpublished = clone.write_blob(b"made before, used after")
    clone.maintain()
    assert not loose(world.folder)
    held = [str(file.readlink()) for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]
    assert not [name for name in held if name.startswith(str(world.folder)) and name.endswith("(deleted)")]
    assert len(list(world.folder.glob("objects/pack/*.pack"))) <= 4
    assert clone.read(unpublished) == b"made before, used after"
    assert [len(clone.files(commit)) for commit in seen] == [len(FILES) + n for n in range(1, 31)]
    assert clone.push([RefUpdate("main", world.main, tip)]).done
    assert clone.fetch() == {"main": tip}


def test_packs_that_others_replace_are_found(world: Unmade) -> None:
    clone = world.clone()
    clone.fetch()
    run_git(world.folder, "repack", "-a", "-d", "-q")
    assert all_files(clone, world.main) == FILES
    commit_files(world.bare, "main", {**FILES, "b": b"b"})
    clone.fetch()
    run_git(world.folder, "repack", "-a", "-d", "-q")
    assert all_files(clone, world.main) == FILES
