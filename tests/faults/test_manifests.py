"""From a job's file to its manifest, read again by other readers: strings and scripts."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from reconciler.adapters.documents import reader
from reconciler.adapters.strict_yaml import parse
from reconciler.model.job import JobSpec
from reconciler.rendering.manifest import render_job
from tests.faults.go_reader import KUBECTL, main_in_go
from tests.rendering.builders import env_of, main_of, objects, rendering

PATH = "jobs/team-a/llm-a.yaml"
JOB = "job_id: llm-a\ngpu: {count: 8}\nimage: reg.example.com:5000/team/train:1.4\n"


def spec_of(text: str) -> JobSpec:
    return reader.read_job(text.encode(), PATH)


# ---- RN-3 ---------------------------------------------------------------------------------------------------------

STRINGS = {"GIT_SHA": "12345e7", "FLAG": "y", "MODE": "0o17", "OTHER": "1e3", "NOT": "n", "CLOCK": "12:30", "DAY": "2026-05-01"}


def of_strings() -> bytes:
    lines = "".join(f'  {name}: "{value}"\n' for name, value in STRINGS.items())
    return render_job(rendering(spec_of(f"{JOB}env:\n{lines}args: [{', '.join(map(json.dumps, STRINGS.values()))}]\n")))


def holds_strings(container: Mapping[str, Any]) -> bool:
    variables = env_of(container)
    return {name: variables[name] for name in STRINGS} == STRINGS and container["args"] == list(STRINGS.values())


def test_no_plain_value_of_a_manifest_is_read_in_two_ways() -> None:
    """Our own reader of files refuses every value that readers of YAML 1.1 and 1.2 take differently."""
    for document in of_strings().decode().split("\n---\n"):
        value = parse(document.removeprefix("---\n").encode(), "manifest.yaml").value
        if value["kind"] == "Job":
            (main,) = [one for one in value["spec"]["template"]["spec"]["containers"] if one["name"] == "main"]
            assert holds_strings(main)


@pytest.mark.skipif(KUBECTL is None, reason="no reader in Go on this machine")
def test_a_reader_in_go_finds_the_same_strings() -> None:
    assert holds_strings(main_in_go(of_strings()))
    naive = yaml.safe_dump_all(list(objects(of_strings()).values())).encode()
    assert not holds_strings(main_in_go(naive)), "as PyYAML writes them, they are numbers and booleans there"


# ---- RN-7 ---------------------------------------------------------------------------------------------------------

SCRIPT_FILE = r"""command: [bash, -c]
args:
- |
  set -e
  HOSTS=`tr "\n" "," < hosts`; export NCCL_SOCKET_IFNAME=^lo
  if true; then
    echo "{{output}} ${VAR} %d: #x" 'it''s' \
      | cat
  fi
"""
SCRIPT = (
    "set -e\n"
    'HOSTS=`tr "\\n" "," < hosts`; export NCCL_SOCKET_IFNAME=^lo\n'
    "if true; then\n"
    "  echo \"{{output}} ${VAR} %d: #x\" 'it''s' \\\n"
    "    | cat\n"
    "fi\n"
)


def test_a_script_comes_from_its_file_into_the_pod_byte_for_byte() -> None:
    manifest = render_job(rendering(spec_of(JOB + SCRIPT_FILE)))
    assert main_of(manifest)["args"] == [SCRIPT]
    if KUBECTL is not None:
        assert main_in_go(manifest)["args"] == [SCRIPT]


def test_pasted_into_a_template_it_would_be_no_yaml() -> None:
    with pytest.raises(yaml.YAMLError):
        yaml.safe_load(f"args:\n- {SCRIPT}\n")
