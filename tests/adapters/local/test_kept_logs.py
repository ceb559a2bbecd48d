"""Logs of pods that are gone stay where people look for them."""

import json
from pathlib import Path

import pytest

from reconciler.adapters.local import ProcessRuntime, ProcessSettings
from reconciler.adapters.local.runtime import Ended, Launch
from tests.waiting import until


@pytest.fixture
def runtime(tmp_path: Path) -> ProcessRuntime:
    settings = ProcessSettings({"PATH": "/usr/bin:/bin"}, tmp_path / "secrets", tmp_path / "claims", logs=tmp_path / "logs")
    return ProcessRuntime(tmp_path / "pods", settings)


def _launch(name: str) -> Launch:
    container = {"name": "main", "image": "x", "command": ["sh", "-c", f"echo I am {name}"]}
    pod = {"metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"}, "spec": {"containers": [container]}}
    return Launch(pod=pod, container=container, is_init=False, config_maps=lambda _namespace, _name: None)


def test_a_log_outlives_its_pod(runtime: ProcessRuntime, tmp_path: Path) -> None:
    runtime.start(_launch("a-0-x"), 0)
    until(lambda: isinstance(runtime.poll("uid-a-0-x", "main", 0), Ended))
    runtime.forget("uid-a-0-x", 0)
    assert not (tmp_path / "pods" / "uid-a-0-x").exists()
    assert (tmp_path / "logs" / "a-0-x" / "main.log").read_text() == "I am a-0-x\n"


def test_when_it_ran_and_how_it_ended_outlives_its_pod_too(runtime: ProcessRuntime, tmp_path: Path) -> None:
    runtime.start(_launch("a-0-x"), 0)
    ended = until(lambda: found if isinstance(found := runtime.poll("uid-a-0-x", "main", 0), Ended) else None)
    runtime.forget("uid-a-0-x", 0)
    said = json.loads((tmp_path / "logs" / "a-0-x" / "main.exit").read_text())
    assert (said["code"], said["started"], said["finished"]) == (0, ended.started, ended.finished)
