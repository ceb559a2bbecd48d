"""`validate`: which files a path means, how problems are named, and the exit code, for folders with and without Git."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.world import FLEET, Command, job

GOOD = {**FLEET, "jobs/red/one.yaml": job("one"), "jobs/blue/sub/two.yaml": job("two")}
BAD = "job_id: bad\ngpu: {count: no}\nimage: reg.example.com/ml/train:1\n"
BAD_PLACE = "2:14: AmbiguousValue"


def write(folder: Path, files: dict[str, str]) -> Path:
    for path, body in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(body, encoding="utf-8")
    return folder


@pytest.fixture
def tree(folder: Path) -> Path:
    return write(folder / "jobs-repo", {**GOOD, "jobs/red/bad.yaml": BAD})


def test_a_sound_repository_is_told_so(command: Command, folder: Path) -> None:
    ended = command("validate", write(folder, GOOD))
    assert (ended.code, ended.out, ended.err) == (0, "", "nothing is wrong (2 jobs, 2 regions)\n")


def test_a_problem_is_one_line_and_ends_with_1(command: Command, tree: Path) -> None:
    ended = command("validate", tree)
    assert ended.code == 1
    assert ended.out.startswith(f"{tree}/jobs/red/bad.yaml:{BAD_PLACE}: gpu.count: no is the boolean false")
    assert ended.out.count("\n") == 1
    assert ended.err == "1 problem in 1 file\n"


WHERE = {
    "the folder that one stands in": ("", "", "jobs/red/bad.yaml"),
    "a folder of one team": ("", "jobs/red", "jobs/red/bad.yaml"),
    "the file itself": ("", "jobs/red/bad.yaml", "jobs/red/bad.yaml"),
    "the folder one stands in, deep inside": ("jobs/red", "", "bad.yaml"),
    "a file, from deep inside": ("jobs/red", "bad.yaml", "bad.yaml"),
    "a file of a neighbour": ("jobs/blue", "../red/bad.yaml", "../red/bad.yaml"),
}


@pytest.mark.parametrize(("stand", "given", "named"), WHERE.values(), ids=WHERE.keys())
def test_a_problem_is_named_as_its_path_was_given(
    command: Command, tree: Path, monkeypatch: pytest.MonkeyPatch, stand: str, given: str, named: str
) -> None:
    monkeypatch.chdir(tree / stand)
    ended = command("validate", *([given] if given else []))
    assert ended.code == 1
    assert ended.out.startswith(f"{named}:{BAD_PLACE}")


def test_only_what_is_below_the_path_is_told(command: Command, tree: Path) -> None:
    assert command("validate", tree / "jobs/blue").code == 0
    assert command("validate", tree / "jobs/red/one.yaml", tree / "regions").code == 0


def test_a_file_is_judged_in_view_of_the_repository(command: Command, tree: Path) -> None:
    write(tree, {"jobs/red/twin.yaml": job("one")})
    ended = command("validate", tree / "jobs/red/twin.yaml")
    assert ended.code == 1
    assert "DuplicateJob: jobs/red/one.yaml names the job `one` as well" in ended.out


def test_a_file_outside_any_repository_is_judged_as_a_job_by_itself(command: Command, folder: Path) -> None:
    write(folder, {"alone.yaml": job("alone"), "bad.yaml": BAD})
    assert command("validate", folder / "alone.yaml").code == 0
    assert command("validate", folder / "bad.yaml").out.startswith(f"{folder}/bad.yaml:{BAD_PLACE}")


def test_a_team_may_have_a_folder_called_jobs(command: Command, tree: Path) -> None:
    write(tree, {"jobs/red/jobs/green/x.yaml": job("one")})
    ended = command("validate", tree / "jobs/red/jobs/green/x.yaml")
    assert "DuplicateJob" in ended.out


def test_json_is_for_programs(command: Command, tree: Path) -> None:
    (found,) = json.loads(command("validate", tree, "--format", "json").out)
    assert (found["path"], found["line"], found["column"], found["code"]) == (
        f"{tree}/jobs/red/bad.yaml",
        2,
        14,
        "AmbiguousValue",
    )


def test_json_without_problems_is_an_empty_list(command: Command, folder: Path) -> None:
    assert json.loads(command("validate", write(folder, GOOD), "--format", "json").out) == []


def test_github_and_sarif_name_the_place(command: Command, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    assert command("validate", "--format", "github").out.startswith(
        "::error file=jobs/red/bad.yaml,line=2,col=14,title=AmbiguousValue::"
    )
    sarif = json.loads(command("validate", "--format", "sarif").out)
    place = sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "jobs/red/bad.yaml"
    assert place["region"] == {"startLine": 2, "startColumn": 14}


NOTHING_CHECKED = {
    "a path that is not there": "nowhere.yaml",
    "a folder without anything of ours": "empty",
}


@pytest.mark.parametrize("given", NOTHING_CHECKED.values(), ids=NOTHING_CHECKED.keys())
def test_where_nothing_could_be_checked_it_ends_with_2(command: Command, folder: Path, given: str) -> None:
    (folder / "empty").mkdir()
    ended = command("validate", folder / given)
    assert ended.code == 2
    assert ended.out == ""
    what, todo = ended.err.splitlines()
    assert what.startswith("reconciler: ")
    assert todo.startswith("  name a")


def test_a_format_that_there_is_not_ends_with_2(command: Command, folder: Path) -> None:
    assert command("validate", write(folder, GOOD), "--format", "xml").code == 2


def test_validating_imports_nothing_heavy(folder: Path) -> None:
    """What is imported is what a start costs; a figure in seconds would measure the machine."""
    script = (
        "import sys\nfrom reconciler.cli import main\n"
        "try:\n    main(['validate', sys.argv[1]])\nexcept SystemExit as end:\n    assert end.code == 0, end.code\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", script, str(write(folder, GOOD))], capture_output=True, text=True, check=True, env=environment
    )
    heavy = {"pygit2", "boto3", "botocore", "rich", "jinja2", "apscheduler", "structlog", "starlette", "uvicorn", "packaging"}
    assert not heavy & set(done.stdout.split())


def test_a_name_twice_on_one_line_is_told_by_its_columns(command: Command, tree: Path) -> None:
    body = "job_id: dup\ngpu: {count: 1, count: 2}\nimage: reg.example.com/ml/train:1\n"
    (tree / "jobs/red").mkdir(parents=True, exist_ok=True)
    (tree / "jobs/red/dup.yaml").write_text(body, encoding="utf-8")
    said = command("validate", tree / "jobs/red/dup.yaml").out
    assert "dup.yaml:2:17: DuplicateKey: gpu.count is given twice, on line 2 at columns 7 and 17; " in said
