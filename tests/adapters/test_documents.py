"""From a file's bytes to a value of the model, or to problems at the right line and column."""

import json

import pytest

from reconciler.adapters.documents import reader
from reconciler.adapters.schemas import KINDS
from reconciler.model.base import Model
from reconciler.model.fleet import Dataset, Links
from reconciler.model.identity import spec_hash
from reconciler.model.job import JobSpec
from reconciler.model.placement import Placement
from reconciler.model.policy import Policy, Settings
from reconciler.model.problem import Invalid
from tests.adapters.schema_samples import SAMPLES

JOB = """\
job_id: llm-a
gpu: {count: 8, model: A100-80GB}
image: reg.example.com:5000/team/train:1.4
"""
PATH = "jobs/nlp/a.yaml"


def problems_of(kind: type[Model], body: str | bytes, path: str = PATH) -> list[str]:
    with pytest.raises(Invalid) as refused:
        reader.read_config(kind, body.encode() if isinstance(body, str) else body, path)
    assert refused.value.__cause__ is None, "a cause may show what the file holds"
    assert refused.value.__context__ is None
    return [f"{problem.line}:{problem.column}: {problem.code}: {problem.what}" for problem in refused.value.problems]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_read_from_json_and_from_yaml(kind: str) -> None:
    model = KINDS[kind]
    text = json.dumps(SAMPLES[kind], indent=1)
    value = reader.read_config(model, text.encode(), "x.json")
    assert value == model.model_validate_json(text)
    assert reader.read_config(model, text.encode(), "x.yaml") == value
    assert type(value) is model


def test_a_job_is_read_with_its_defaults() -> None:
    spec = reader.read_job(JOB.encode(), PATH)
    assert (spec.job_id, spec.gpu.count, spec.nodes, spec.retries) == ("llm-a", 8, 1, 0)
    assert spec.gpu.models == ("A100-80GB",)


def test_line_ends_and_a_byte_order_mark_change_nothing() -> None:
    windows = b"\xef\xbb\xbf" + JOB.replace("\n", "\r\n").encode()
    assert spec_hash(reader.read_job(windows, PATH)) == spec_hash(reader.read_job(JOB.encode(), PATH))


RULES: dict[str, tuple[type[Model], str, str]] = {
    "a launcher without its script": (
        JobSpec,
        JOB + "launcher: torchrun\n",
        "4:1: RuleBroken: `launcher: torchrun` needs `args`: the script and its arguments",
    ),
    "a launcher and a command": (
        JobSpec,
        JOB + "command: [python]\nargs: [a.py]\nlauncher: torchrun\n",
        "6:1: RuleBroken: `launcher: torchrun` makes the command itself; put the script into `args`",
    ),
    "one place mounted twice": (
        JobSpec,
        JOB + "volumes:\n- {kind: scratch, mount_path: /x}\nfiles:\n- path: /x\n  content: hello\n",
        "7:3: RuleBroken: `/x` is mounted twice",
    ),
    "one variable set twice": (
        JobSpec,
        JOB + "env:\n  USER: ada\nsecrets:\n- name: login\n  env: USER\n",
        "8:3: RuleBroken: the variable `USER` is set twice",
    ),
    "a dataset without name and address": (
        JobSpec,
        JOB + "dataset:\n  version: '7'\n",
        "4:1: RuleBroken: dataset: a dataset needs a `name` (of a file under datasets/) or a `uri`",
    ),
    "the same in a list": (
        JobSpec,
        JOB + "dataset:\n- s3://b/x/\n- version: '7'\n",
        "6:3: RuleBroken: dataset[1]: a dataset needs a `name` (of a file under datasets/) or a `uri`",
    ),
    "a size in two ways": (
        JobSpec,
        JOB + "dataset:\n- {name: a}\n- name: b\n  size_gb: 1\n  size: 1G\n",
        "8:3: RuleBroken: dataset[1]: give `size` or `size_gb`, not both",
    ),
    "a claim without a name": (
        JobSpec,
        JOB + "volumes: [{kind: scratch, mount_path: /y}, {mount_path: /x, kind: claim}]\n",
        "4:61: RuleBroken: volumes[1]: `name` goes with `kind: claim`, and only with it",
    ),
    "a secret that goes nowhere": (
        JobSpec,
        JOB + "secrets:\n- name: login\n",
        "5:3: RuleBroken: secrets[0]: say where the secret goes: `env` or `mount_path`, one of them",
    ),
    "a link to itself": (
        Links,
        "links:\n- {source: eu, target: us}\n- {source: eu, target: eu}\n",
        "3:3: RuleBroken: links[1]: a link joins two different regions",
    ),
    "a dataset of two sizes": (
        Dataset,
        "name: d\nuri: s3://b/d/\nsize: 1G\nsize_gb: 1\nreplicas: [{region: eu}]\n",
        "3:1: RuleBroken: give `size` or `size_gb`, not both",
    ),
    "weights that weigh nothing": (
        Policy,
        "weights: {data_affinity: 0, idle_gpus: 0, cost: 0, rdma: 0}\n",
        "1:1: RuleBroken: weights: at least one weight must be above 0",
    ),
    "two branches of one name": (
        Settings,
        "branches:\n  status: main\n",
        "1:1: RuleBroken: branches: the branches must differ, and none may be under region/ or proposals/",
    ),
    "a time that is none": (
        Placement,
        json.dumps(SAMPLES["placement"] | {"decided_at": "yesterday"}),
        "RuleBroken: decided_at: Input should be a valid datetime",
    ),
}


@pytest.mark.parametrize("case", RULES)
def test_a_rule_between_fields_has_a_place(case: str) -> None:
    kind, body, problem = RULES[case]
    (found,) = problems_of(kind, body)
    assert found.startswith(problem) or (not problem[0].isdigit() and problem in found)
    assert not found.startswith("0:"), "it has a line"


def test_several_rules_are_told_at_once() -> None:
    body = JOB + "volumes:\n- {kind: claim, mount_path: /x}\nsecrets:\n- name: a\n- name: b\n"
    assert [found.split(": ")[2] for found in problems_of(JobSpec, body)] == ["volumes[0]", "secrets[0]", "secrets[1]"]


def test_faults_of_the_form_are_told_all_at_once_and_before_the_rules() -> None:
    body = JOB.replace("8", "-1") + "gpus: 8\nlauncher: torchrun\nimages: x\n"
    found = problems_of(JobSpec, body)
    assert [problem.partition(": ")[0] for problem in found] == ["2:14", "4:1", "6:1"]
    assert not any("RuleBroken" in problem for problem in found)


def test_a_credential_is_told_beside_the_other_faults_and_never_repeated() -> None:
    token = "hf_ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"
    for more in ("", "gpus: 8\n", "launcher: torchrun\n", "secrets: [{name: a, env: TOKEN}]\n"):
        found = problems_of(JobSpec, JOB + f"env:\n  TOKEN: {token}\n{more}")
        assert len(found) == (2 if more else 1)
        assert any("CredentialInFile" in problem for problem in found)
        assert token not in "".join(found)


def test_a_value_in_the_place_of_a_rule_is_not_repeated() -> None:
    secret = "ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    found = problems_of(JobSpec, JOB + f"dataset: {{version: '{secret}'}}\n")
    assert secret not in "".join(found)


@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_file_of_any_kind_has_a_problem_with_a_place(kind: str) -> None:
    for body in ("[]", "x", "{}", "no_such_field: 1\n"):
        if body == "{}" and kind in {"links", "policy", "settings"}:
            continue
        for problem in problems_of(KINDS[kind], body, "any.yaml"):
            assert problem.startswith("1:1: "), problem


PLACES = {
    "a field": (("gpu",), (2, 1)),
    "a field of a field": (("gpu", "model"), (2, 17)),
    "an item of a list": (("args", 1), (4, 11)),
    "what is not there": (("gpu", "driver"), (2, 1)),
    "nothing that is there": (("priority",), (1, 1)),
    "an item too many": (("args", 7), (4, 1)),
    "the file": ((), (1, 1)),
}


@pytest.mark.parametrize("case", PLACES)
def test_locate(case: str) -> None:
    pointer, position = PLACES[case]
    assert reader.locate((JOB + "args: [a, b]\n").encode(), PATH, pointer) == position
