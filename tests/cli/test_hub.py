"""`hub`: the process itself: it publishes, hears webhooks, says how it is, and ends when told."""

import hashlib
import hmac
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.world import FLEET, Command, job
from tests.githttp import commit_files, run_git
from tests.waiting import until

ROOT = Path(__file__).parents[2]
SECRET = "a-secret-of-the-forge"


@pytest.fixture
def repository(folder: Path) -> Path:
    made = folder / "jobs.git"
    made.mkdir()
    run_git(made, "init", "--quiet", "--bare", "--initial-branch=main", "--template=")
    commit(made, FLEET)
    return made


def commit(repository: Path, files: Mapping[str, str]) -> str:
    return commit_files(repository, "main", {path: body.encode() for path, body in files.items()})


class Running:
    """A hub as a process of its own, with what it has logged so far."""

    def __init__(self, started: subprocess.Popen[str], log: Path) -> None:
        self.process = started
        self._log = log

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.read_text(encoding="utf-8").splitlines() if line.endswith("}")]

    def logged(self, event: str) -> dict[str, Any]:
        """The first line of that event, once it is there."""

        def found() -> dict[str, Any] | None:
            assert self.process.poll() is None, self._log.read_text(encoding="utf-8")
            return next((line for line in self.lines() if line["event"] == event), None)

        return until(found, 60)

    def ask(self, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> tuple[int, dict[str, Any]]:
        link = http.client.HTTPConnection("127.0.0.1", self.logged("listening")["port"], timeout=20)
        try:
            link.request("GET" if body is None else "POST", path, body, dict(headers or {}))
            answer = link.getresponse()
            return answer.status, json.load(answer)
        finally:
            link.close()


@contextmanager
def hub(folder: Path, repository: Path, *arguments: str) -> Iterator[Running]:
    log = folder / "hub.log"
    call = [sys.executable, "-m", "reconciler.cli", "hub", "--repo", str(repository), "--folder", str(folder / "clone")]
    call += ["--store", f"file://{folder}/store", "--listen", "127.0.0.1:0", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RECONCILER_WEBHOOK_SECRETS": f"an-older-secret,{SECRET}"}
    with log.open("w", encoding="utf-8") as errors, subprocess.Popen(call, stderr=errors, env=environment, text=True) as process:
        try:
            yield Running(process, log)
        finally:
            process.kill()


def test_it_publishes_says_that_it_is_well_and_ends_when_told(folder: Path, repository: Path) -> None:
    with hub(folder, repository, "--poll", "0.2") as running:
        until(lambda: "refs/heads/status" in run_git(repository, "for-each-ref"), 60)
        until(lambda: running.ask("/healthz")[0] == 200, 30)
        code, figures = running.ask("/healthz")
        assert (code, figures["failures_in_a_row"], figures["published"] > 0) == (200, 0, True)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(30) == 0
        assert [line["event"] for line in running.lines()][-1] == "ended"
    assert (
        json.loads((folder / "store/hub/lease.json").read_bytes())["duration_seconds"] < 1
    )  # resigned, so that the next need not wait


def test_control_c_ends_it_as_well(folder: Path, repository: Path) -> None:
    with hub(folder, repository) as running:
        running.logged("started")
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(30) == 0


def test_a_webhook_that_is_signed_wakes_it_before_its_next_look(folder: Path, repository: Path) -> None:
    with hub(folder, repository, "--poll", "3600") as running:
        # With no job alive it has nothing to look for by itself.
        until(lambda: running.ask("/healthz")[1]["last_end"] == "nothing to publish", 60)
        commit(repository, {**FLEET, "jobs/red/new.yaml": job("new")})
        body = b'{"ref": "refs/heads/main"}'
        assert running.ask("/webhooks/github", body, {"X-Hub-Signature-256": "sha256=0"})[0] == 401
        digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        assert running.ask("/webhooks/github", body, {"X-Hub-Signature-256": f"sha256={digest}"})[0] == 202
        until(lambda: "jobs/red/new.json" in run_git(repository, "ls-tree", "-r", "--name-only", "status"), 60)


def test_without_a_store_it_does_not_start(command: Command, folder: Path, repository: Path) -> None:
    ended = command("hub", "--repo", repository, "--folder", folder / "clone")
    assert (ended.code, ended.err.splitlines()) == (
        2,
        ["reconciler: no store is named", "  give --store, or `store: {url: …}` in reconciler.yaml"],
    )


WRONG_CALLS = {
    "a store that is no address": (("--store", "store"), "store is no address of a store"),
    "a place that is none to listen on": (
        ("--store", "file:///nowhere/store", "--listen", "8080"),
        "8080 is no address to listen on",
    ),
    "a repository that is not there": (
        ("--store", "file:///nowhere/store", "--repo", "/nowhere.git"),
        "does not appear to be a git repository",
    ),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG_CALLS.values(), ids=WRONG_CALLS.keys())
def test_a_wrong_call_ends_with_2(
    command: Command, folder: Path, repository: Path, arguments: tuple[str, ...], said: str
) -> None:
    ended = command("hub", "--repo", repository, "--folder", folder / "clone", *arguments)
    assert ended.code == 2
    assert said in ended.err
    assert len(ended.err.splitlines()) == 2


def test_a_port_that_is_taken_is_said(command: Command, folder: Path, repository: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = command(
            "hub", "--repo", repository, "--folder", folder / "c", "--store", f"file://{folder}/s", "--listen", listen
        )
    assert ended.code == 2
    assert f"cannot listen on {listen}" in ended.err.splitlines()[-2]
