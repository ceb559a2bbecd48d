"""`init`, `schema`, `version`, and how every command ends when something is wrong."""

import json
import subprocess
from pathlib import Path

import pytest

from reconciler.adapters.schemas import KINDS, schema_of
from reconciler.commands import ends
from reconciler.commands.repository import cache_folder, chosen
from reconciler.model.problem import Invalid, Problem
from reconciler.ports import Conflict, Refused, Transient
from tests.cli.world import Command


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


# ---- init ---------------------------------------------------------------------------------------------------------


def test_init_makes_a_repository_with_one_commit_by_its_maker(command: Command, folder: Path) -> None:
    command.done("init", folder / "new")
    assert git(folder / "new", "log", "--format=%an <%ae> %D") == "Ann Example <ann@example.com> HEAD -> main"
    assert git(folder / "new", "status", "--porcelain") == ""
    assert (folder / "new/regions/eu-west.yaml").is_file()


def test_init_local_puts_every_store_below_the_root(command: Command, folder: Path) -> None:
    root = folder / "with space"
    command.done("init", folder / "new", "--local", root)
    said = {line for file in (folder / "new").rglob("*.yaml") for line in file.read_text().splitlines() if "file://" in line}
    assert said
    assert all(f"file://{folder}/with%20space/" in line for line in said)
    assert command("validate", folder / "new").out.count("\n") == 1  # the example's own broken file, and no other


def test_init_without_an_identity_still_commits(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    command.done("init", folder / "new")
    assert git(folder / "new", "log", "--format=%an") == "gpu-reconciler"


def test_init_touches_no_folder_that_is_in_use(command: Command, folder: Path) -> None:
    (folder / "mine.txt").write_text("mine")
    ended = command("init", folder)
    assert ended.code == 1
    assert ended.err == f"reconciler: {folder} is there and not empty\n  name a new folder\n"
    assert [file.name for file in folder.iterdir()] == ["mine.txt"]


# ---- schema, version ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_schema_prints_what_is_published(command: Command, kind: str) -> None:
    assert json.loads(command.done("schema", kind)) == schema_of(kind)


def test_schema_lists_its_kinds(command: Command) -> None:
    assert command.done("schema").split() == list(KINDS)


def test_a_schema_that_there_is_not(command: Command) -> None:
    ended = command("schema", "jobs")
    assert ended.code == 1
    assert ended.err.startswith("reconciler: there is no schema of jobs\n  kinds are job, region, ")


def test_version_is_one_line(command: Command) -> None:
    assert command.done("version").count("\n") == 1


@pytest.mark.parametrize("verb", "init validate plan why status submit cancel rerun confirm logs hub schema version".split())
def test_every_verb_has_help(command: Command, verb: str) -> None:
    assert command.done(verb, "--help").startswith(f"Usage: reconciler {verb}")


# ---- ends ---------------------------------------------------------------------------------------------------------


def raising(error: Exception) -> None:
    raise error


ENDS = {
    "a name that is not known": (
        ends.BadInput("there is no job x", "name another"),
        1,
        "reconciler: there is no job x\n  name another\n",
    ),
    "an answer that is no": (ends.AnswerIsNo(), 1, ""),
    "a file that is wrong": (
        Invalid([Problem("a.yaml", 1, 2, "Bad", "it is bad", "mend it")]),
        1,
        "a.yaml:1:2: Bad: it is bad; mend it\n",
    ),
    "a refusal that says what to do": (
        Refused("it is closed; it is\nlocked; open it"),
        2,
        "reconciler: it is closed; it is locked\n  open it\n",
    ),
    "a refusal that does not": (Refused("it is closed"), 2, "reconciler: it is closed\n  a person has to mend that first\n"),
    "a world that does not answer": (Transient("no answer"), 2, "reconciler: no answer\n  try again; if it stays so, "),
    "a write that was lost": (Conflict("somebody was quicker"), 2, "reconciler: somebody was quicker\n  try again; "),
    "a fault of ours": (
        ZeroDivisionError("by zero"),
        2,
        "reconciler: ZeroDivisionError: by zero\n  this is a fault of the program; ",
    ),
}


@pytest.mark.parametrize(("error", "code", "said"), ENDS.values(), ids=ENDS.keys())
def test_an_end_is_a_code_and_two_lines(capsys: pytest.CaptureFixture[str], error: Exception, code: int, said: str) -> None:
    assert ends.guarded(lambda: raising(error)) == code
    captured = capsys.readouterr()
    assert captured.err.startswith(said)
    assert captured.out == ""
    assert "Traceback" not in captured.err


def test_who_asks_for_it_sees_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILER_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        ends.guarded(lambda: raising(ZeroDivisionError("by zero")))


# ---- which repository ---------------------------------------------------------------------------------------------


def test_the_repository_is_named_by_the_option_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen("https://git.example.com/jobs.git") == "https://git.example.com/jobs.git"
    (folder / "jobs.git").mkdir()
    monkeypatch.chdir(folder)
    assert chosen("./jobs.git") == str(folder / "jobs.git")


def test_else_it_is_the_origin_of_where_one_stands(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(folder, "init", "-q", "tree")
    git(folder / "tree", "remote", "add", "origin", "https://git.example.com/jobs.git")
    (folder / "tree/jobs").mkdir()
    monkeypatch.chdir(folder / "tree/jobs")
    assert chosen(None) == "https://git.example.com/jobs.git"


def test_an_origin_that_is_a_path_counts_from_the_top_of_the_tree(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(folder, "init", "-q", "--bare", "jobs.git")
    git(folder, "init", "-q", "tree")
    git(folder / "tree", "remote", "add", "origin", "../jobs.git")
    (folder / "tree/jobs").mkdir()
    monkeypatch.chdir(folder / "tree/jobs")
    assert chosen(None) == str(folder / "jobs.git")


def test_without_an_origin_it_is_the_tree_itself(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(folder, "init", "-q", "tree")
    monkeypatch.chdir(folder / "tree")
    assert chosen(None) == str(folder / "tree")


def test_without_any_repository_it_says_what_to_do(command: Command) -> None:
    ended = command("status")
    assert ended.code == 2
    assert (
        ended.err
        == "reconciler: no jobs repository is named\n  give --repo URL, set RECONCILER_REPO, or stand in a clone of one\n"
    )


def test_the_environment_names_it_too(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILER_REPO", str(folder / "nowhere.git"))
    assert "nowhere.git" in command("status").err


def test_clones_are_kept_apart_in_the_users_cache(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    one, other = cache_folder("https://git.example.com/a.git"), cache_folder("https://git.example.com/b.git")
    assert one.parent == other.parent == folder / "gpu-reconciler"
    assert one != other
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder("x").parent == Path.home() / ".cache" / "gpu-reconciler"
