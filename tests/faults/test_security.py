"""What people of good or ill will put into files: YAML in a field, paths out of the folder, credentials."""

import tracemalloc
from pathlib import Path

import pytest
import yaml

from reconciler.adapters.documents import reader
from reconciler.app import health_of
from reconciler.hub.loop import HubLoop
from reconciler.hub.results import Ended
from reconciler.model.job import JobSpec
from reconciler.model.names import attempt_name, manifest_path
from reconciler.model.problem import Invalid
from reconciler.model.record import Phase
from reconciler.rendering.manifest import render_job
from tests.builders import TEAM
from tests.faults.bytes_in_git import commit_bytes
from tests.faults.go_reader import KUBECTL, main_in_go
from tests.githttp import run_git
from tests.hub.rig import Rig
from tests.hub.words import job_file
from tests.rendering.builders import main_of, rendering

PATH = f"jobs/{TEAM}/llm-a.yaml"
JOB = "job_id: llm-a\ngpu: {count: 8}\nimage: reg.example.com:5000/team/train:1.4\n"


def spec_of(text: str) -> JobSpec:
    return reader.read_job(text.encode(), PATH)


# ---- SE-1 ---------------------------------------------------------------------------------------------------------

IMAGE_LINE = r'image: "reg.example.com:5000/team/train:1\n    securityContext: {privileged: true}"'
ID_LINE = r'job_id: "a\n---\napiVersion: v1\nkind: Secret"'


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (JOB.replace("image: reg.example.com:5000/team/train:1.4", IMAGE_LINE), (3, 8)),
        (JOB.replace("job_id: llm-a", ID_LINE), (1, 9)),
    ],
    ids=["an image", "an id"],
)
def test_a_field_that_would_become_yaml_is_refused_where_it_stands(text: str, place: tuple[int, int]) -> None:
    with pytest.raises(Invalid) as refused:
        spec_of(text)
    assert [(one.code, one.line, one.column) for one in refused.value.problems] == [("BadPattern", *place)]


def test_even_past_the_schema_an_image_stays_one_value_for_a_reader_in_go() -> None:
    image = yaml.safe_load(IMAGE_LINE)["image"]
    spec = JobSpec.model_construct(**{**dict(spec_of(JOB)), "image": image})
    manifest = render_job(rendering(spec, attempt="llm-a-000000-a1", run_hash="0" * 64))
    containers = [main_of(manifest), *([main_in_go(manifest)] if KUBECTL is not None else [])]
    for main in containers:
        assert main["image"] == image
        assert "privileged" not in main["securityContext"]
    pasted = yaml.safe_load(f"containers:\n  - name: main\n    image: {image}\n")
    assert pasted["containers"][0]["securityContext"] == {"privileged": True}, "pasted, the pod would be privileged"


# ---- SE-3 ---------------------------------------------------------------------------------------------------------

LARGE = 200 * 1000 * 1000


@pytest.mark.slow
def test_a_file_of_200_mb_is_refused_and_never_in_memory(rig: Rig, tmp_path: Path) -> None:
    rig.placed()
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(LARGE)
    oid = run_git(rig.bare, "hash-object", "-w", str(large))
    tip = rig.tip("main")
    change = f"from {tip}\nM 100644 {oid} jobs/{TEAM}/large.yaml\nM 100644 inline jobs/{TEAM}/other.yaml\n"
    body = job_file("other", gpus=1)
    head = "commit refs/heads/main\ncommitter Someone <someone@example.com> 1790000000 +0000\ndata 6\nchange\n"
    run_git(rig.bare, "fast-import", "--force", "--quiet", body=f"{head}{change}data {len(body)}\n{body}\n".encode())
    commit = rig.tip("main")
    assert commit is not None
    rig.people.add(commit)
    tracemalloc.start()
    try:
        rig.settle()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [(one["path"], one["code"]) for one in rig.rejected()] == [(f"jobs/{TEAM}/large.yaml", "TooLarge")]
    assert rig.record("other").phase is Phase.STARTING
    assert most < LARGE / 4


TRAVERSALS = ["../../main", "/etc/passwd", "..", "a/../../b", "a\n", ".git"]


@pytest.mark.parametrize("job_id", TRAVERSALS)
def test_no_id_is_a_path(job_id: str) -> None:
    with pytest.raises(Invalid) as refused:
        spec_of(JOB.replace("llm-a", yaml.safe_dump(job_id, default_style='"').strip(), 1))
    assert [one.code for one in refused.value.problems] == ["BadPattern"]


def test_outputs_stand_under_the_attempts_name_alone(rig: Rig) -> None:
    rig.job("x" * 100)
    rig.settle()
    attempt = rig.attempt("x" * 100)
    assert attempt.name == attempt_name("x" * 100, attempt.run_hash, 1)
    assert manifest_path(TEAM, attempt.name) in rig.tree("region/eu")
    assert all(part not in ("", ".", "..") for path in rig.tree("region/eu") for part in path.split("/"))


# ---- SE-5 ---------------------------------------------------------------------------------------------------------

# Written in pieces, so that no scanner takes this file for a leak. Neither was ever issued.
TOKEN = "hf_" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"
KEY = "0123456789abcdef" * 2 + "01234567"
SECRETS = {
    "a token in env": (f"env: {{HF_TOKEN: {TOKEN}}}\n", TOKEN, "4:17"),
    "a key in args": (f'args: ["wandb login {KEY}"]\n', KEY, "4:21"),
}


def told_anywhere(rig: Rig) -> str:
    """Everything that the hub has written down: all branches but main with their messages, and the store."""
    branches = [branch for branch in rig.tips() if branch != "main"]
    texts = [rig.text(branch, path) or "" for branch in branches for path in rig.tree(branch)]
    texts += [message for branch in branches for message in rig.messages(branch)]
    texts += [file.read_text("utf-8") for file in (rig.folder / "store").rglob("*") if file.is_file()]
    return "\n".join(texts)


@pytest.mark.parametrize("edited", [False, True], ids=["a new job", "an edit of a job that runs"])
@pytest.mark.parametrize("case", SECRETS)
def test_a_credential_is_refused_and_repeated_nowhere(
    rig: Rig, capsys: pytest.CaptureFixture[str], case: str, edited: bool
) -> None:
    lines, secret, place = SECRETS[case]
    before = rig.placed(gpus=8) if edited else None
    commit_bytes(rig, {PATH: JOB + lines})
    loop = HubLoop(rig.hub, rig.clock, lambda: None)
    while loop.health.last_end not in (Ended.QUIET, Ended.IDLE):
        loop.turn()
    (problem,) = rig.rejected()
    assert (problem["path"], f"{problem['line']}:{problem['column']}", problem["code"]) == (PATH, place, "CredentialInFile")
    assert "use `secrets:`" in problem["todo"]
    assert f"{PATH}:{place}" in rig.page()
    if before is None:
        assert rig.records() == {}
    else:
        assert rig.attempt() == before
    log = capsys.readouterr()
    for text in (told_anywhere(rig), log.out, log.err, str(health_of(loop)), str(problem)):
        assert secret not in text
    assert secret in (rig.text("main", PATH) or ""), "it was there to be found"


def test_a_reference_is_the_way_to_give_one(rig: Rig) -> None:
    commit_bytes(rig, {PATH: JOB + "secrets: [{name: hf-token, key: token, env: HF_TOKEN}]\n"})
    rig.settle()
    assert rig.rejected() == []
    assert rig.record().phase is Phase.STARTING
    manifest = render_job(rendering(spec_of(JOB + "secrets: [{name: hf-token, key: token, env: HF_TOKEN}]\n")))
    variables = {one["name"]: one for one in main_of(manifest)["env"]}
    assert variables["HF_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "hf-token", "key": "token"}
