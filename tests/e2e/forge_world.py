"""A hub as it is run, `reconciler hub` in a process of its own, over a repository on a real Gitea; regions are told of by reports."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import requests

from reconciler.adapters.file_store import FileStore
from reconciler.model.grants import Grants, Lease, grants_key, lease_key, report_key
from reconciler.model.record import JobRecord
from tests.builders import TEAM, make_nodes, make_report
from tests.e2e.control_plane import free_ports
from tests.e2e.gitea import Gitea, Repository
from tests.hub.words import region_file
from tests.waiting import until

OWNER, BOT = "ops", "bot"
SCOPES = ("write:repository", "write:issue", "read:user")
POLICY = "approval: {always: true}\nthresholds: {report_fresh_seconds: 86400}\n"


class ForgeWorld:
    """One repository, its hub, a store, two regions."""

    def __init__(self, gitea: Gitea, folder: Path) -> None:
        self.gitea, self.folder = gitea, folder
        gitea.person(BOT)
        name = f"jobs-{secrets.token_hex(4)}"
        gitea.do(OWNER, "POST", "/user/repos", {"name": name, "private": False})
        self.repository = Repository(gitea, OWNER, name, folder)
        gitea.do(OWNER, "PUT", f"{self.repository.api}/collaborators/{BOT}", {"permission": "write"})
        self.token = gitea.token(BOT, *SCOPES)
        self.secret = secrets.token_hex(16)
        self.port = free_ports(1)[0]
        (folder / "store").mkdir()
        self.store = FileStore(folder / "store")
        self._sequence = 0
        self._running: subprocess.Popen[bytes] | None = None
        self.log = folder / "hub.log"
        forge = f"forge: {{kind: gitea, url: '{gitea.url}', repository: {OWNER}/{name}}}\n"
        self.push({"reconciler.yaml": f"intervals: {{push_seconds: 0}}\n{forge}", "policy.yaml": POLICY})
        self.push({"regions/eu.yaml": region_file("eu", 1.0), "regions/us.yaml": region_file("us", 20.0)})

    # ---- the hub

    def start(self, poll_seconds: float = 0.5, **environment: str) -> None:
        """Start the hub; returns as soon as it listens. `environment` replaces what it is given."""
        given = {"RECONCILER_FORGE_TOKEN": self.token, "RECONCILER_WEBHOOK_SECRETS": self.secret, **environment}
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        command = [sys.executable, "-m", "reconciler.cli", "hub", "--repo", self.repository.url(BOT, self.token)]
        command += ["--folder", str(self.folder / "clone"), "--store", f"file://{self.folder / 'store'}"]
        command += ["--listen", f"127.0.0.1:{self.port}", "--poll", str(poll_seconds)]
        with self.log.open("ab") as log:
            self._running = subprocess.Popen(command, env={**kept, **given}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(lambda: self.health() is not None, 60.0, 0.1)

    def stop(self) -> None:
        """End the hub in good order."""
        if self._running is not None:
            self._running.terminate()
            try:
                self._running.wait(30)
            except subprocess.TimeoutExpired:
                self._running.kill()
                self._running.wait()
            self._running = None

    def kill(self) -> None:
        """End the hub as a machine does that loses power."""
        assert self._running is not None
        self._running.kill()
        self._running.wait()
        self._running = None

    def health(self) -> dict[str, Any] | None:
        """What /healthz says; None where nobody answers."""
        assert self._running is not None
        assert self._running.poll() is None, self.log.read_text()[-3000:]
        try:
            return dict(requests.get(f"http://127.0.0.1:{self.port}/healthz", timeout=5).json())
        except requests.ConnectionError:
            return None

    def webhooks(self, secret: str | None = None, *events: str) -> int:
        """Let Gitea tell the hub of events; the webhook's number."""
        config = {
            "url": f"http://127.0.0.1:{self.port}/webhooks/gitea",
            "content_type": "json",
            "secret": self.secret if secret is None else secret,
        }
        said = {"type": "gitea", "active": True, "events": list(events) or ["push", "pull_request", "pull_request_review"]}
        return int(self.gitea.do(OWNER, "POST", f"{self.repository.api}/hooks", {**said, "config": config})["id"])

    def tell(self, *regions: str, used: int = 0) -> None:
        """Regions report two nodes of 8 GPUs, `used` of them taken on each."""
        self._sequence += 1
        for name in regions:
            lease = Lease(region=name, epoch=1, incarnation="one", renewal=0)
            self._put(lease_key(name), lease.model_dump_json().encode())
            report = make_report(name, make_nodes(2, used=used), (), sequence=self._sequence, grants_version=self._version(name))
            self._put(report_key(name), report.model_dump_json().encode())

    def _version(self, region: str) -> int:
        found = self.store.get(grants_key(region))
        return 0 if found is None else Grants.model_validate_json(found.body).version

    def _put(self, key: str, body: bytes) -> None:
        self.store.put(key, body, expect=self.store.etag(key))

    # ---- what people do

    def push(self, files: Mapping[str, str | None], who: str = OWNER, branch: str = "main", base: str = "main") -> str:
        """A person's commit."""
        return self.repository.push(who, files, branch, base)

    def pull(self, number: int) -> dict[str, Any]:
        """A pull request, by its own page of the API."""
        return dict(self.gitea.do(OWNER, "GET", f"{self.repository.api}/pulls/{number}"))

    def merge(self, number: int, who: str = OWNER) -> tuple[int, Any]:
        """A person merges; status and answer of the attempt."""
        return self.gitea.ask(who, "POST", f"{self.repository.api}/pulls/{number}/merge", {"Do": "merge"})

    def close(self, number: int, who: str = OWNER) -> None:
        """A person closes it unmerged."""
        self.gitea.do(who, "PATCH", f"{self.repository.api}/pulls/{number}", {"state": "closed"})

    # ---- what is so

    def record(self, job_id: str = "llm-a") -> JobRecord | None:
        """A job's record, if there is one."""
        text = self.repository.text("status", f"jobs/{TEAM}/{job_id}.json")
        return None if text is None else JobRecord.model_validate_json(text)

    def troubles(self) -> dict[str, str]:
        """Troubles by code, from the status branch."""
        text = self.repository.text("status", "hub.json")
        found = json.loads(text or "{}").get("troubles", [])
        return {each["code"]: each["what"] for each in found}

    def proposal(self, state: str = "open", job_id: str = "llm-a") -> dict[str, Any]:
        """The job's pull request in that state, as soon as there is one."""
        branch = f"proposals/{TEAM}/{job_id}"

        def found() -> dict[str, Any] | None:
            mine = [pull for pull in self.repository.pulls(state, "placements") if pull["head"]["label"] == branch]
            return mine[-1] if mine else None

        return until(found, 30.0, 0.2)

    def proposal_numbers(self) -> list[int]:
        """All pull requests on placements."""
        return [int(pull["number"]) for pull in self.repository.pulls(base="placements")]
