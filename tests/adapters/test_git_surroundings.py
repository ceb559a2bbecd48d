"""Git's surroundings: the caller's environment, other people's settings, hooks, and the way to the remote."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.adapters.git import BareClone
from reconciler.ports import RefUpdate, Refused
from tests.adapters.gitworld import FILES, WHEN, Unmade, hide_own_settings, unmade_clone
from tests.githttp import commit_files, install_hook, run_git, serving, tree_of


@pytest.fixture(autouse=True)
def _plain_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_own_settings(monkeypatch, str(tmp_path / "gitconfig"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Unmade]:
    with unmade_clone(tmp_path) as made:
        yield made


def test_a_caller_inside_another_repository_changes_nothing(
    world: Unmade, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
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


def test_no_hook_of_this_machine_is_run(world: Unmade, tmp_path: Path) -> None:
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


def module_file(world: Unmade) -> str:
    """A .gitmodules file that names a repository nobody serves."""
    body = b'[submodule "sub"]\n\tpath = sub\n\turl = http://127.0.0.1:9/sub.git\n'
    return run_git(world.bare, "hash-object", "-w", "--stdin", body=body)


UNFRIENDLY = """
[push]
    followTags = true
    gpgSign = true
    recurseSubmodules = only
[fetch]
    recurseSubmodules = true
    fsckObjects = true
    writeCommitGraph = true
[remote "origin"]
    url = /nowhere
    pushurl = /nowhere/else
    fetch = +refs/heads/main:refs/remotes/origin/copy
[color]
    ui = always
[core]
    pager = false
[transfer]
    credentialsInUrl = die
[init]
    defaultBranch = elsewhere
"""


def test_settings_of_the_user_change_no_outcome(world: Unmade, tmp_path: Path) -> None:
    (tmp_path / "gitconfig").write_text(UNFRIENDLY)
    run_git(world.bare, "tag", "-a", "-m", "one", "v1", "main")
    clone = world.clone()
    assert clone.fetch() == clone.heads() == {"main": world.main}
    module = tree_of(world.bare, {".gitmodules": ("100644", module_file(world)), "sub": ("160000", "1" * 40)})
    second = run_git(world.bare, "commit-tree", "-p", world.main, "-m", "submodule", module)
    run_git(world.bare, "update-ref", "refs/heads/main", second)
    assert clone.fetch() == {"main": second}
    new = clone.commit(clone.write_tree(second, {"sub": None}), [second], "x\n", WHEN)
    assert clone.push([RefUpdate("status", None, new), RefUpdate("copy", None, second)]).done
    install_hook(world.bare, "update", "echo no >&2; exit 1")
    outcome = clone.push([RefUpdate("status", new, second)])
    assert outcome.refusals["status"].startswith("hook declined: no")
    assert not list(world.folder.glob("objects/info/commit-graph*"))


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


def test_without_a_git_that_is_new_enough_it_says_so(world: Unmade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "bin"
    old.mkdir()
    monkeypatch.setenv("PATH", str(old))
    with pytest.raises(Refused, match="not on PATH"):
        world.clone().heads()
    (old / "git").write_text("#!/bin/sh\necho git version 2.20.1\n")
    (old / "git").chmod(0o755)
    with pytest.raises(Refused, match=r"git 2\.34 or later is needed; found .*2\.20\.1"):
        world.clone().heads()


def test_no_secret_of_the_url_reaches_an_argument(world: Unmade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
