"""Faults that users of other systems met, as small inputs: names, text, injection, clean-up."""

from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from reconciler.model import names
from reconciler.model.job import JobSpec
from reconciler.rendering.manifest import problems, render_job
from tests.rendering.builders import BASIC, env_of, job, main_of, objects, pod_of, rendering

LONG = "experiment-" + "a" * 60

# ---- names: kubernetes/kubernetes#50850, keikoproj/kube-forensics#43

IDS = {
    "alike in their first 71 letters": (f"{LONG}-1", f"{LONG}-2"),
    "the longest there may be": ("x" * 127 + "a", "x" * 127 + "b"),
    "a dash where a cut would end": ("b" * 62 + "-c", "b" * 62 + "-d"),
    "one named like the short form of another": (f"{LONG}-1", names.shortened(f"{LONG}-1", 43)),
    "numbers in front": ("7", "07"),
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
@pytest.mark.parametrize("number", [1, 99_999])
def test_names_fit_differ_and_stay(ids: tuple[str, str], number: int) -> None:
    made = [objects(render_job(rendering(job(job_id=one, nodes=4096), number=number))) for one in ids]
    found = [one["Job"]["metadata"]["name"] for one in made]
    assert found[0] != found[1]
    for job_id, one, name in zip(ids, made, found, strict=True):
        # Pods are called <name>-<index>-<5 random>, their hosts <name>-<index>.
        assert len(f"{name}-4095-abcde") <= 63
        assert name[0].isalpha()
        assert name[-1].isalnum()
        assert one["Service"]["metadata"]["name"] == name
        assert one["Job"]["metadata"]["annotations"][names.ANNOTATION_JOB_ID] == job_id
        assert len(one["Job"]["metadata"]["labels"][names.LABEL_JOB]) <= 63
        assert problems(render_job(rendering(job(job_id=job_id, nodes=4096), number=number))) == []
    assert found[0] == rendering(job(job_id=ids[0], nodes=4096), number=number).attempt


# ---- a string here, a number there

STRINGS = [
    "12345e7",
    "1e3",
    "y",
    "n",
    "0o17",
    "0x1f",
    "1_000",
    "12:30",
    "16",
    "true",
    "null",
    "~",
    "",
    "0.10",
    "+1",
    ".5",
    "2026-05-01",
    "=",
    "<<",
]


@pytest.mark.parametrize("value", STRINGS)
def test_strings_are_strings_for_readers_of_yaml_1_1_and_1_2(value: str) -> None:
    manifest = render_job(rendering(job(env={"X": value}, args=[value], labels={"example.com/a": "1e3", "y": "n"})))
    assert env_of(main_of(manifest))["X"] == value
    assert main_of(manifest)["args"] == [value]
    assert objects(manifest)["Job"]["metadata"]["labels"]["y"] == "n"
    # Quoted in the text itself: then no reader has a choice.
    assert f'"{value}"' in manifest.decode()


# ---- scripts survive

SCRIPT = r"""set -e
HOSTS=`tr "\n" "," < hosts`; export NCCL_SOCKET_IFNAME=^lo
if true; then
  echo "{{output}} ${VAR} %d: #x" 'it''s' \
    | cat
fi
"""

SCRIPTS = {
    "back-ticks, quotes, braces, a continued line": SCRIPT,
    "without a last line end": SCRIPT.rstrip("\n"),
    "with many last line ends": SCRIPT + "\n\n\n",
    "with Windows line ends": SCRIPT.replace("\n", "\r\n"),
    "with blanks at the ends of lines": "a  \n\t\n  b\t\n",
    "with blanks in front": "    indented\n  less\n",
    "a heredoc with a document's end in it": "cat <<'E'\n---\nkind: Secret\n...\nE\n",
    "template code": "{% for x in y %}{{ x }}{% endfor %}{# note #}",
    "Kubernetes' own variables": "echo $(NODE_RANK) $$(date) $$",
    "one line of 70,000 letters would not fit, 60,000 do": "x" * 60_000,
    "text beyond the first plane": "echo 🜁 欧洲 \u2028 \x85 \ufeff",
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_scripts_reach_the_pod_byte_for_byte(script: str) -> None:
    spec = job(
        command=["bash", "-c"],
        args=[script],
        prepare={"command": ["sh", "-c", script]},
        files=[{"path": "/run.sh", "content": script}],
    )
    manifest = render_job(rendering(spec))
    assert main_of(manifest)["args"] == [script]
    assert main_of(manifest)["command"] == ["bash", "-c"]
    assert pod_of(manifest)["initContainers"][0]["command"] == ["sh", "-c", script]
    assert list(objects(manifest)["ConfigMap"]["data"].values()) == [script]


# ---- a field that becomes YAML: helm/helm-www#2211

PRIVILEGED = "reg.example.com:5000/team/train:1\n    securityContext: {privileged: true}"
ANOTHER_KIND = "a\n---\napiVersion: v1\nkind: Secret"

INJECTIONS: dict[str, dict[str, Any]] = {
    "an image with a line of YAML behind it": {"image": PRIVILEGED},
    "an id that begins another document": {"job_id": ANOTHER_KIND},
    "a folder": {"working_dir": f"/x\n{ANOTHER_KIND}"},
    "a label's value": {"labels": {"a": ANOTHER_KIND}},
    "an owner": {"owner": ANOTHER_KIND},
    "a variable's name": {"env": {ANOTHER_KIND: "x"}},
}


@pytest.mark.parametrize("field", INJECTIONS.values(), ids=INJECTIONS)
def test_a_value_that_would_be_structure_is_refused_by_the_model(field: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        JobSpec.model_validate({**BASIC, **field})


@pytest.mark.parametrize("field", INJECTIONS.values(), ids=INJECTIONS)
def test_and_stays_one_value_even_without_the_model(field: dict[str, Any]) -> None:
    spec = JobSpec.model_construct(**{**dict(job()), **field})
    manifest = render_job(rendering(spec, attempt="llm-a-000000-a1", run_hash="0" * 64))
    documents = list(yaml.safe_load_all(manifest))
    assert [one["kind"] for one in documents] == ["Job"]
    assert "privileged" not in main_of(manifest)["securityContext"]
    [(name, value)] = field.items()
    if name == "image":
        assert main_of(manifest)["image"] == value


# ---- cleaned up, so run again: argoproj/argo-cd#8586, airbytehq/airbyte#15202

FORBIDDEN = (
    "ttlSecondsAfterFinished",
    "activeDeadlineSeconds",
    "generateName",
    "kueue",
    "hook",
    "sync-wave",
    "sync-options",
    "force",
    "replace",
)


def test_nothing_in_a_manifest_deletes_or_starts_it_again() -> None:
    spec = job(nodes=2, max_runtime_seconds=10, queue="research", retries=3, files=[{"path": "/a", "content": "b"}])
    text = render_job(rendering(spec)).decode()
    assert [word for word in FORBIDDEN if word in text] == []
    parsed = objects(text.encode())["Job"]
    assert parsed["spec"]["suspend"] is True
    assert parsed["spec"]["backoffLimit"] == 0
    assert parsed["spec"]["podReplacementPolicy"] == "Failed"
    assert parsed["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert parsed["spec"]["template"]["spec"]["schedulingGates"] == [{"name": names.GATE}]
    for one in objects(text.encode()).values():
        assert one["metadata"]["annotations"]["kustomize.toolkit.fluxcd.io/ssa"] == "IfNotPresent"
        assert one["metadata"]["annotations"]["argocd.argoproj.io/ignore-healthcheck"] == "true"


@pytest.mark.parametrize(
    "key",
    [
        "kueue.x-k8s.io/queue-name",
        "app.kubernetes.io/managed-by",
        "app.kubernetes.io/instance",
        "argocd.argoproj.io/instance",
        "kustomize.toolkit.fluxcd.io/name",
        "batch.kubernetes.io/job-name",
        "volcano.sh/queue-name",
        names.LABEL_ATTEMPT,
        names.LABEL_TEAM,
        f"sub.{names.PREFIX}/x",
    ],
)
def test_no_label_of_a_person_wakes_another_controller_or_passes_for_ours(key: str) -> None:
    spec = job(labels={key: "theirs", "example.com/mine": "1", "app.kubernetes.io/name": "llm"})
    manifest = render_job(rendering(spec))
    parsed = objects(manifest)["Job"]
    for labels in (parsed["metadata"]["labels"], parsed["spec"]["template"]["metadata"]["labels"]):
        assert labels.get(key) != "theirs"
        assert (labels["example.com/mine"], labels["app.kubernetes.io/name"]) == ("1", "llm")
    assert problems(manifest) == []


# ---- secrets that were pasted into an address


@pytest.mark.parametrize(
    ("git", "shown"),
    {
        "without anybody": ("https://git.example.com/a.git", "https://git.example.com/a.git@v1"),
        "a user": ("ssh://git@git.example.com:22/a.git", "ssh://git@git.example.com:22/a.git@v1"),
        "a password": ("https://ada:s3cret@git.example.com/a.git", "https://git.example.com/a.git@v1"),
    }.values(),
)
def test_where_the_code_came_from_is_shown_without_a_password(git: str, shown: str) -> None:
    manifest = render_job(rendering(job(code={"git": git, "ref": "v1"})))
    assert objects(manifest)["Job"]["metadata"]["annotations"][f"{names.PREFIX}/code"] == shown
    assert b"s3cret" not in manifest
