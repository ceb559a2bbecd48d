"""A person with a clone of the jobs repository: commits, pushes over HTTP, and reads what the hub has written."""

import json
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reconciler.model.record import JobRecord, Phase
from tests.waiting import until

_ENVIRONMENT = {
    "PATH": os.environ.get("PATH", os.defpath),
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "Someone",
    "GIT_AUTHOR_EMAIL": "someone@example.com",
    "GIT_COMMITTER_NAME": "Someone",
    "GIT_COMMITTER_EMAIL": "someone@example.com",
}


class Person:
    """Works in `folder`, a working tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(self, *arguments: str) -> str:
        """Run git in the working tree and return what it prints."""
        done = subprocess.run(["git", *arguments], cwd=self.folder, check=False, capture_output=True, text=True, env=_ENVIRONMENT)
        if done.returncode != 0:
            raise AssertionError(f"git {' '.join(arguments)}: {done.stderr}")
        return done.stdout.strip()

    def push(self, changes: Mapping[str, str | None], message: str = "Change jobs") -> float:
        """Write or remove (None) files, commit and push; returns when the push was done, by the monotonic clock."""
        for path, text in changes.items():
            target = self.folder / path
            if text is None:
                target.unlink()
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
        self.commit(message)
        self.git("push", "--quiet", "origin", "HEAD:main")
        return time.monotonic()

    def commit(self, message: str) -> None:
        """Commit all that is in the working tree."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def fetched(self, branch: str) -> str | None:
        """The commit of a branch as the remote has it now; None where there is none."""
        self.git("fetch", "--quiet", "--prune", "origin", "+refs/heads/*:refs/remotes/origin/*")
        found = self.git("for-each-ref", "--format=%(objectname)", f"refs/remotes/origin/{branch}")
        return found or None

    def read(self, branch: str, path: str) -> str | None:
        """A file of a branch, as last fetched; None where it is not."""
        done = subprocess.run(
            ["git", "show", f"origin/{branch}:{path}"],
            cwd=self.folder,
            check=False,
            capture_output=True,
            text=True,
            env=_ENVIRONMENT,
        )
        return done.stdout if done.returncode == 0 else None

    def record(self, team: str, job: str) -> JobRecord | None:
        """A job as the ledger has it now."""
        if self.fetched("status") is None:
            return None
        text = self.read("status", f"jobs/{team}/{job}.json")
        return None if text is None else JobRecord.model_validate_json(text)

    def records(self) -> dict[str, JobRecord]:
        """All jobs of the ledger, by `team/job_id`."""
        if self.fetched("status") is None:
            return {}
        paths = self.git("ls-tree", "-r", "--name-only", "origin/status", "jobs/").splitlines()
        found = {}
        for path in paths:
            record = JobRecord.model_validate_json(self.read("status", path) or "")
            found[str(record.key)] = record
        return found

    def manifests(self, region: str) -> list[str]:
        """Names of the manifests on a region's branch now, sorted."""
        if self.fetched(f"region/{region}") is None:
            return []
        paths = self.git("ls-tree", "-r", "--name-only", f"origin/region/{region}", "manifests/").splitlines()
        return sorted(Path(path).stem for path in paths if not path.endswith("_sentinel.yaml"))

    def until_phase(self, team: str, job: str, *phases: Phase, within_seconds: float = 60.0) -> JobRecord:
        """Wait until a job is in one of the phases, and return its record."""
        seen: list[str] = []

        def reached() -> JobRecord | None:
            record = self.record(team, job)
            words = "not there" if record is None else f"{record.phase} ({record.why.text if record.why else ''})"
            if not seen or seen[-1] != words:
                seen.append(words)
            return record if record is not None and record.phase in phases else None

        try:
            return until(reached, within_seconds, 0.2)
        except AssertionError as error:
            raise AssertionError(f"{team}/{job} is never {' or '.join(phases)}; it was {', then '.join(seen)}") from error


def job_text(job_id: str, script: str, **fields: Any) -> str:
    """A job's file: a Python program on one GPU unless `fields` say otherwise. (JSON is YAML.)"""
    spec: dict[str, Any] = {
        "job_id": job_id,
        "gpu": {"count": 1, "model": "A100-80GB"},
        "image": "registry.example.com/ml/train:1.4",
        "command": ["python3", "-u", "-c", script],
        "max_runtime_seconds": 600,
        "expected_runtime_seconds": 5,
    }
    return json.dumps({**spec, **fields}, indent=2) + "\n"


LASTS = "import time\nprint('begun')\ntime.sleep({seconds})\nprint('done')\n"
"""A program that runs for so long."""

SLOW_TO_STOP = """\
import signal, sys, time
def stop(*_):
    print('stopping'); time.sleep({stop}); print('stopped'); sys.exit(143)
signal.signal(signal.SIGTERM, stop)
print('begun')
time.sleep({seconds})
"""
"""A program that takes its time to end when it is told to."""
