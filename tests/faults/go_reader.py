"""Manifests as a reader in Go takes them: Kubernetes' own command, where this machine has it. Nothing is asked of a cluster."""

import json
import shutil
import subprocess
from typing import Any

KUBECTL = shutil.which("kubectl")


def read_in_go(manifest: bytes) -> list[dict[str, Any]]:
    """The objects of a manifest, in order."""
    assert KUBECTL is not None
    call = [KUBECTL, "label", "--local", "--dry-run=client", "--filename=-", "--output=json", "read=again"]
    done = subprocess.run(call, input=manifest, capture_output=True, check=True, timeout=60)
    found, at, text = [], 0, done.stdout.decode().strip()
    while at < len(text):
        one, at = json.JSONDecoder().raw_decode(text, at)
        found.append(one)
        at += len(text[at:]) - len(text[at:].lstrip())
    return found


def main_in_go(manifest: bytes) -> dict[str, Any]:
    """The program's container."""
    job = next(one for one in read_in_go(manifest) if one["kind"] == "Job")
    main: dict[str, Any] = next(one for one in job["spec"]["template"]["spec"]["containers"] if one["name"] == "main")
    return main
