"""The clone's folder and git's surroundings: first use, restart, damage, leftovers, other people's settings."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconciler.adapters.git import BareClone
from reconciler.ports import RefUpdate, Refused, Transient
from tests.githttp import GitServer, commit_files, install_hook, run_git, serving

WHEN = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
FILES = {f"jobs/{team}/{number}.yaml": f"{team}{number}".encode() for team in "abc" for number in range(5)}


@dataclass(frozen=True)
class World:
    """A remote with FILES on `main`, and the place of a clone that is not there yet."""

    server: GitServer
    bare: Path
    url: str
    folder: Path
    main: str

    def clone(self) -> BareClone:
        return BareClone(self.url, self.folder)


def all_files(clone: BareClone, commit: str) -> dict[str, bytes]:
    return {path: clone.read(entry.oid) for path, entry in clone.files(commit).items()}


@pytest.fixture(autouse=True)
def _plain_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with serving(tmp_path / "served") as server:
        bare = server.create("jobs")
        main = commit_files(bare, "main", FILES)
        yield World(server, bare, server.url("jobs"), tmp_path / "deep/er/clone", main)


# ---- life of the folder -------------------------------------------------------------------------------------------


def test_a_clone_is_made_at_first_use_and_used_again_after_a_restart(world: World) -> None:
    first = world.clone()
    assert not world.folder.exists()
    first.fetch()
    assert run_git(world.folder, "rev-parse", "--is-bare-repository") == "true"
    del first
    world.server.stop()
    assert all_files(world.clone(), world.main) == FILES


def test_a_folder_with_files_of_others_is_left_alone(world: World) -> None:
    world.folder.mkdir(parents=True)
    (world.folder / "thesis.tex").write_text("years of work")
    with pytest.raises(Refused, match="no clone of ours; name an empty or a new folder"):
        world.clone().fetch()
    assert [path.name for path in world.folder.iterdir()] == ["thesis.tex"]


def test_a_folder_that_cannot_be_made_is_refused(world: World, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("restarted", [True, False], ids=["after a restart", "while running"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_broken_clone_mends_itself_within_two_cycles(world: World, damage: Callable[[Path], object], restarted: bool) -> None:
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


def test_objects_cut_by_a_power_cut_are_had_again(world: World) -> None:
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


def test_a_broken_clone_inside_a_work_tree_does_not_touch_that(world: World, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    run_git(outer / ".git", "init", "--quiet", "--bare")
    run_git(outer / ".git", "config", "core.bare", "false")
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


def test_leftovers_of_a_killed_git_are_swept_when_nobody_else_has_the_folder(world: World) -> None:
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
    assert world.clone().fetch() == {"main": second, "tmp_branch": second}
    assert run_git(world.folder, "rev-parse", "refs/remotes/origin/tmp_branch") == second


def test_upkeep_packs_everything_and_the_same_clone_goes_on(world: World) -> None:
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
            clone.maintain()
    unpublished = clone.write_blob(b"made before, used after")
    clone.maintain()
    assert not loose(world.folder)
    assert len(list(world.folder.glob("objects/pack/*.pack"))) <= 4
    assert clone.read(unpublished) == b"made before, used after"
    assert [len(clone.files(commit)) for commit in seen] == [len(FILES) + n for n in range(1, 31)]
    assert clone.push([RefUpdate("main", world.main, tip)]).done
    assert clone.fetch() == {"main": tip}


def test_packs_that_others_replace_are_found(world: World) -> None:
    clone = world.clone()
    clone.fetch()
    run_git(world.folder, "repack", "-a", "-d", "-q")
    assert all_files(clone, world.main) == FILES
    commit_files(world.bare, "main", {**FILES, "b": b"b"})
    clone.fetch()
    run_git(world.folder, "repack", "-a", "-d", "-q")
    assert all_files(clone, world.main) == FILES


# ---- git's surroundings -------------------------------------------------------------------------------------------


def test_a_caller_inside_another_repository_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = world.server.create("other")
    for name, value in {
        "GIT_DIR": str(other),
        "GIT_WORK_TREE": str(tmp_path),
        "GIT_INDEX_FILE": str(tmp_path / "index"),
        "GIT_OBJECT_DIRECTORY": str(other / "objects"),
        "GIT_NAMESPACE": "elsewhere",
        "GIT_AUTHOR_NAME": "Intruder",
        "GIT_TRACE": "1",
        "GIT_CONFIG_PARAMETERS": "'core.bare=false'",
        "LC_ALL": "de_DE.UTF-8",
    }.items():
        monkeypatch.setenv(name, value)
    clone = world.clone()
    assert clone.fetch() == clone.heads() == {"main": world.main}
    new = clone.commit(clone.write_tree(world.main, {}), [world.main], "x\n", WHEN)
    assert clone.push([RefUpdate("status", None, new)]).done
    monkeypatch.undo()
    assert run_git(other, "for-each-ref") == ""
    assert not (tmp_path / "index").exists()
    assert "Intruder" not in run_git(world.bare, "log", "status")


def test_no_hook_of_this_machine_is_run(world: World, tmp_path: Path) -> None:
    clone = world.clone()
    clone.fetch()
    for place in (world.folder, tmp_path / "theirs"):
        for hook in ("pre-push", "reference-transaction", "post-merge", "pre-auto-gc"):
            place.mkdir(exist_ok=True)
            install_hook(place, hook, f"touch {tmp_path}/ran; exit 1")
    (tmp_path / "gitconfig").write_text(f"[core]\n\thooksPath = {tmp_path}/theirs/hooks\n")
    second = commit_files(world.bare, "main", {"b": b"b"})
    assert clone.fetch() == {"main": second}
    assert clone.push([RefUpdate("main", second, world.main)]).done
    assert not (tmp_path / "ran").exists()


UNFRIENDLY = """
[push]
    followTags = true
    gpgSign = true
    recurseSubmodules = on-demand
[fetch]
    recurseSubmodules = true
    fsckObjects = true
    writeCommitGraph = true
[remote "origin"]
    fetch = +refs/tags/*:refs/remotes/origin/*
    mirror = false
[color]
    ui = always
[core]
    pager = false
[transfer]
    credentialsInUrl = die
[init]
    defaultBranch = elsewhere
"""


def test_settings_of_the_user_change_no_outcome(world: World, tmp_path: Path) -> None:
    (tmp_path / "gitconfig").write_text(UNFRIENDLY)
    run_git(world.bare, "tag", "-a", "-m", "one", "v1", "main")
    clone = world.clone()
    assert clone.fetch() == clone.heads() == {"main": world.main}
    new = clone.commit(clone.write_tree(world.main, {}), [world.main], "x\n", WHEN)
    install_hook(world.bare, "update", "echo no >&2; exit 1")
    outcome = clone.push([RefUpdate("status", None, new)])
    assert outcome.refusals["status"].startswith("hook declined: no")


def test_ways_in_of_the_user_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path / "served", login=("robot", "p4ss")) as server:
        main = commit_files(server.create("jobs"), "main", FILES)
        helper = tmp_path / "helper"
        helper.write_text('#!/bin/sh\n[ "$1" = get ] && printf "username=robot\\npassword=%s\\n" "$SECRET"\n')
        helper.chmod(0o755)
        (tmp_path / "gitconfig").write_text(
            f'[credential]\n\thelper = {helper}\n[url "{server.url("").removesuffix(".git")}"]\n\tinsteadOf = forge:\n'
        )
        monkeypatch.setenv("SECRET", "p4ss")
        assert BareClone("forge:jobs.git", tmp_path / "one").fetch() == {"main": main}
        (tmp_path / "gitconfig").unlink()
        monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
        monkeypatch.setenv("GIT_CONFIG_KEY_0", "credential.helper")
        monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(helper))
        assert BareClone(server.url("jobs"), tmp_path / "two").fetch() == {"main": main}
        monkeypatch.setenv("GIT_CONFIG_COUNT", "many")
        with pytest.raises(Refused, match="GIT_CONFIG_COUNT"):
            BareClone(server.url("jobs"), tmp_path / "two").fetch()


def test_without_a_git_that_is_new_enough_it_says_so(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "bin"
    old.mkdir()
    monkeypatch.setenv("PATH", str(old))
    with pytest.raises(Refused, match="not on PATH"):
        world.clone().heads()
    (old / "git").write_text("#!/bin/sh\necho git version 2.20.1\n")
    (old / "git").chmod(0o755)
    with pytest.raises(Refused, match=r"git 2\.34 or later is needed; found .*2\.20\.1"):
        world.clone().heads()


def test_no_secret_of_the_url_reaches_an_argument(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tmp_path / "seen"
    real = shutil.which("git")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").write_text(f'#!/bin/sh\necho "$@" >> {seen}\nexec {real} "$@"\n')
    (tmp_path / "bin/git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    clone = BareClone(world.server.url("jobs", ("robot", "hunter2")), tmp_path / "clone")
    clone.fetch()
    clone.push([RefUpdate("status", None, world.main)])
    assert "ls-remote" not in seen.read_text()
    assert "push" in seen.read_text()
    assert "hunter2" not in seen.read_text()
