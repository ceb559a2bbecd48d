"""What the program finds in its environment, and whose word counts."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.rendering.environment import literal
from reconciler.rendering.manifest import problems, render_job
from tests.rendering.builders import EFA, env_of, job, main_of, region, rendering

TOLD: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, str | None]]] = {
    "one node is told who it is": (
        {}, {}, {"JOB_ID": "llm-a", "ATTEMPT_NUMBER": "1", "REGION": "lab", "NNODES": None, "MASTER_ADDR": None, "WORLD_SIZE": None},
    ),
    "an attempt knows its number": ({}, {"number": 7}, {"ATTEMPT_NUMBER": "7"}),
    "a checkpoint has a folder of its own": ({"checkpoint_path": "s3://c/x/"}, {}, {"CHECKPOINT_PATH": "s3://c/x/a1/"}),
    "no checkpoint, no path": ({}, {}, {"CHECKPOINT_PATH": None}),
    "one dataset": ({"dataset": "s3://a/"}, {}, {"DATASET_URI": "s3://a/", "DATASET_URI_1": "s3://a/", "DATASET_URI_2": None}),
    "datasets where they were found": (
        {"dataset": ["s3://a/", {"name": "b"}]}, {"dataset_uris": ("s3://near/a/", "file:///b")},
        {"DATASET_URI": "s3://near/a/", "DATASET_URI_1": "s3://near/a/", "DATASET_URI_2": "file:///b"},
    ),
    "results have a folder of the attempt's own": (
        {"outputs": [{"path": "/o", "uri": "s3://r/"}, {"path": "/p", "uri": "file:///p"}]}, {"attempt": "a-123456-a2"},
        {"OUTPUT_URI": "s3://r/a-123456-a2/", "OUTPUT_URI_1": "s3://r/a-123456-a2/", "OUTPUT_URI_2": "file:///p/a-123456-a2/"},
    ),
    "several nodes find each other": (
        {"nodes": 3}, {"attempt": "a-123456-a1"},
        {"NNODES": "3", "GPUS_PER_NODE": "8", "MASTER_ADDR": "a-123456-a1-0.a-123456-a1.team-a", "MASTER_PORT": "29500", "WORLD_SIZE": None},
    ),
    "a launcher on several nodes": ({"nodes": 3, "launcher": "torchrun", "args": ["t.py"]}, {}, {"NNODES": "3", "WORLD_SIZE": "24"}),
    "a launcher on one node": (
        {"launcher": "torchrun", "args": ["t.py"]}, {}, {"NNODES": "1", "NODE_RANK": "0", "MASTER_ADDR": "localhost", "WORLD_SIZE": "8"},
    ),
    "a launcher without GPUs": ({"gpu": {"count": 0}, "launcher": "torchrun", "args": ["t.py"]}, {}, {"GPUS_PER_NODE": "0", "WORLD_SIZE": "1"}),
    "a port of the job's choice": ({"nodes": 2, "env": {"MASTER_PORT": "7"}}, {}, {"MASTER_PORT": "7"}),
    "dollars in an address stay dollars": ({"dataset": "s3://a/$(HOME)/$$/"}, {}, {"DATASET_URI": "s3://a/$$(HOME)/$$$$/"}),
    "the spec's word counts for itself": ({"env": {"A": "$(B) $$"}}, {}, {"A": "$(B) $$"}),
    "ours are not to be had": ({"env": {"ATTEMPT": "x", "JOB_ID": "y"}}, {"attempt": "a-123456-a1"}, {"ATTEMPT": "a-123456-a1", "JOB_ID": "llm-a"}),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "changes", "expected"), TOLD.values(), ids=TOLD)
def test_what_it_is_told(spec: dict[str, Any], changes: dict[str, Any], expected: dict[str, str | None]) -> None:
    manifest = render_job(rendering(job(**spec), **changes))
    found = env_of(main_of(manifest))
    assert {name: found.get(name) for name in expected} == expected
    assert problems(manifest) == []


def test_the_rank_is_the_pods_index() -> None:
    found = env_of(main_of(render_job(rendering(job(nodes=2)))))
    assert found["NODE_RANK"] == {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}


def test_the_region_adds_and_the_spec_overrules_and_the_regions_pod_has_the_last_word() -> None:
    where = region(
        EFA, profile={"pod": {"containers": [{"env": [{"name": "NCCL_IB", "value": "pod"}, {"name": "TZ", "value": "UTC"}]}]}}
    )
    spec = job(network="rdma", env={"NCCL_DEBUG": "INFO", "NCCL_IB": "spec"})
    found = env_of(main_of(render_job(rendering(spec, where))))
    assert (found["FI_PROVIDER"], found["NCCL_DEBUG"], found["NCCL_IB"], found["TZ"]) == ("efa", "INFO", "pod", "UTC")


def test_secrets_come_by_reference_under_the_regions_name_for_them() -> None:
    spec = job(secrets=[{"name": "hf-token", "env": "HF_TOKEN"}, {"name": "other", "env": "KEY", "key": "api"}])
    found = env_of(main_of(render_job(rendering(spec, region(EFA)))))
    assert found["HF_TOKEN"] == {"secretKeyRef": {"name": "team-hf-token", "key": "HF_TOKEN"}}
    assert found["KEY"] == {"secretKeyRef": {"name": "other", "key": "api"}}


def expanded(text: str, known: dict[str, str]) -> str:
    """What Kubernetes makes of `$(NAME)` and `$$` (its expansion rules, told again)."""
    rule = re.compile(r"\$(?:\$|\(([^)]*)\)|)")
    return rule.sub(lambda match: "$" if match[0] in {"$$", "$"} else known.get(match[1], match[0]), text)


@given(st.text(alphabet="$()AB /x"))
def test_a_literal_text_survives_kubernetes(text: str) -> None:
    assert expanded(literal(text), {"A": "gone", "B": "gone", "": "gone"}) == text


LONG = {f"V{number:03}": f"$(V{number + 1:03})" for number in range(400)}
CHAINS: dict[str, tuple[dict[str, str], list[str]]] = {
    "sorted by name, as a map has no order": ({"B": "", "A": ""}, ["A", "B"]),
    "against the alphabet": ({"A": "$(B)/a", "B": "$(C)/b", "C": "c"}, ["C", "B", "A"]),
    "one of ours, which stand first": ({"A": "$(JOB_ID)"}, ["JOB_ID", "A"]),
    "itself": ({"A": "x$(A)"}, ["A"]),
    "in a circle nobody is first": ({"A": "$(B)", "B": "$(A)"}, ["B", "A"]),
    "to what there is not": ({"A": "$(GONE)"}, ["A"]),
    "a name in a shell's way is no reference": ({"A": "${B} $B", "B": ""}, ["A", "B"]),
    "a long chain": (LONG, sorted(LONG, reverse=True)),
}


@pytest.mark.parametrize(("env", "expected"), CHAINS.values(), ids=CHAINS)
def test_a_variable_stands_after_those_it_refers_to(env: dict[str, str], expected: list[str]) -> None:
    order = list(env_of(main_of(render_job(rendering(job(env=env))))))
    assert [name for name in order if name in expected] == expected
