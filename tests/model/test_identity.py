"""What of a spec decides what runs: every field must be on one side, and a new field must be put there by somebody."""

from typing import Any

import pytest

from reconciler.model.identity import RESTARTS_NOTHING, changed_fields, run_hash, spec_hash
from reconciler.model.job import JobSpec
from tests.builders import TEAM, make_spec

RESTARTS: dict[str, Any] = {
    "job_id": "other",
    "communication_mode": "none",
    "nodes": 2,
    "gpu": {"count": 4},
    "resources": {"cpu": "8"},
    "image": "reg.example.com:5000/team/train:1.5",
    "command": ["python"],
    "args": ["train.py"],
    "env": {"LR": "0.1"},
    "working_dir": "/work",
    "code": {"git": "https://git.example.com/team/code", "ref": "main"},
    "dataset": "s3://data-eu/corpus-a/",
    "outputs": [{"path": "/out", "uri": "s3://out/"}],
    "volumes": [{"kind": "scratch", "mount_path": "/scratch"}],
    "shm": "8Gi",
    "files": [{"path": "/etc/x", "content": "x"}],
    "secrets": [{"name": "token", "env": "TOKEN"}],
    "prepare": {"command": ["true"]},
    "network": "tcp",
    "checkpoint_path": "s3://ckpt/llm-a/",
    "pod_overlay": {"dnsPolicy": "Default"},
}
"""Field → another value; a change stops the attempt and makes a new one."""

RESTARTS_WITH: dict[str, dict[str, Any]] = {"launcher": {"launcher": "torchrun", "args": ["train.py"]}}
"""Fields that cannot be changed alone."""

CHANGES_IN_PLACE: dict[str, Any] = {
    "task_type": "eval",
    "priority": "critical",
    "queue": "research",
    "strategy": "cost",
    "allowed_regions": ["eu"],
    "denied_regions": ["us"],
    "compliance": ["gdpr"],
    "tolerations": ["spot"],
    "preemptible": False,
    "retries": 3,
    "on_exit": {"3": "retry"},
    "on_region_lost": "wait",
    "release": 1,
    "start_timeout_seconds": 60,
    "grace_seconds": 60,
    "max_runtime_seconds": 60,
    "expected_runtime_seconds": 60,
    "deadline": "2026-05-02T12:00:00Z",
    "suspend": True,
    "rerun": 1,
    "owner": "ann@example.com",
    "description": "a run",
    "labels": {"purpose": "eval"},
}
"""Field → another value; a change restarts nothing."""

ONE_VALUE = {"workload"}
"""Fields that have only one value yet; they decide what runs."""


def test_every_field_was_decided_on() -> None:
    restarts = RESTARTS.keys() | RESTARTS_WITH.keys() | ONE_VALUE
    assert restarts | CHANGES_IN_PLACE.keys() == set(JobSpec.model_fields)
    assert not restarts & CHANGES_IN_PLACE.keys()
    assert CHANGES_IN_PLACE.keys() == RESTARTS_NOTHING


@pytest.mark.parametrize("field", [*RESTARTS, *RESTARTS_WITH])
def test_a_change_of_what_runs(field: str) -> None:
    before = make_spec(args=["train.py"]) if field == "launcher" else make_spec()
    change = RESTARTS_WITH.get(field) or {field: RESTARTS.get(field)}
    after = JobSpec.model_validate({**before.model_dump(exclude_defaults=True), **change})
    assert run_hash(TEAM, after) != run_hash(TEAM, before)
    assert spec_hash(after) != spec_hash(before)
    assert changed_fields(before, after) == (field,)


@pytest.mark.parametrize("field", CHANGES_IN_PLACE)
def test_a_change_of_when_where_and_how_long(field: str) -> None:
    before, after = make_spec(), make_spec(**{field: CHANGES_IN_PLACE[field]})
    assert after != before
    assert run_hash(TEAM, after) == run_hash(TEAM, before)
    assert spec_hash(after) != spec_hash(before)
    assert changed_fields(before, after) == ()


def test_defaults_said_or_not_are_one() -> None:
    plain = make_spec()
    said = JobSpec.model_validate(
        {**plain.model_dump(exclude_defaults=True), "nodes": 1, "env": {}, "communication_mode": "sync"}
    )
    assert run_hash(TEAM, said) == run_hash(TEAM, plain)
    assert spec_hash(said) == spec_hash(plain)


def test_order_of_keys_is_no_change_and_order_of_lists_is() -> None:
    assert run_hash(TEAM, make_spec(env={"A": "1", "B": "2"})) == run_hash(TEAM, make_spec(env={"B": "2", "A": "1"}))
    assert run_hash(TEAM, make_spec(args=["1", "2"])) != run_hash(TEAM, make_spec(args=["2", "1"]))


def test_the_same_spec_of_two_teams_is_two_runs() -> None:
    assert run_hash("team-a", make_spec()) != run_hash("team-b", make_spec())
