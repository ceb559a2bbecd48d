"""A real Gitea on loopback: Git over HTTP, pull requests, reviews, branch protection, signed webhooks, forks.

All state is in one folder. The process that is started here is ended here. Pages have no style, which nobody looks at.
"""

import base64
import getpass
import os
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import requests

from tests.e2e.control_plane import built, free_ports
from tests.waiting import until

_INI = """\
RUN_USER = {user}
RUN_MODE = prod
WORK_PATH = {folder}
[server]
PROTOCOL = http
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {port}
ROOT_URL = {url}/
STATIC_ROOT_PATH = {static}
DISABLE_SSH = true
OFFLINE_MODE = true
LFS_START_SERVER = false
[database]
DB_TYPE = sqlite3
PATH = {folder}/gitea.db
[repository]
ROOT = {folder}/repos
DEFAULT_BRANCH = main
[security]
INSTALL_LOCK = true
SECRET_KEY = {secret}
PASSWORD_HASH_ALGO = pbkdf2_v1
[webhook]
ALLOWED_HOST_LIST = loopback
[cron]
ENABLED = false
[log]
LEVEL = warn
logger.access.MODE = access
[log.access]
MODE = file
FILE_NAME = {folder}/access.log
LEVEL = info
FLAGS = none
[indexer]
ISSUE_INDEXER_TYPE = db
[service]
DISABLE_REGISTRATION = true
[actions]
ENABLED = false
[packages]
ENABLED = false
"""


class Gitea:
    """One server. `start` brings it up, `stop` ends it; it may be started again on what it has kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}"
        self.passwords: dict[str, str] = {}
        self._program = built("gitea")
        self._running: subprocess.Popen[bytes] | None = None
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "GITEA_WORK_DIR": str(folder),
            "GITEA_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT": "true",
        }
        folder.mkdir(parents=True)
        said = {"user": getpass.getuser(), "folder": folder, "port": self.port, "url": self.url}
        static = self._program / "static"
        (folder / "app.ini").write_text(_INI.format(**said, static=static, secret=secrets.token_hex(16)))
        self._run("migrate")
        self.passwords["ops"] = secrets.token_hex(12)
        self._run(
            *("admin", "user", "create", "--admin", "--username", "ops", "--email", "ops@example.com"),
            *("--password", self.passwords["ops"], "--must-change-password=false"),
        )

    def _command(self, *arguments: str) -> list[str]:
        return [str(self._program / "gitea"), "--config", str(self.folder / "app.ini"), *arguments]

    def _run(self, *arguments: str) -> None:
        subprocess.run(self._command(*arguments), check=True, env=self._environment, capture_output=True, timeout=60)

    def start(self) -> None:
        """Serve; returns as soon as it answers."""
        with (self.folder / "web.log").open("ab") as log:
            self._running = subprocess.Popen(
                self._command("web"), env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        until(self._answers, 60.0, 0.1)

    def _answers(self) -> bool:
        assert self._running is not None
        assert self._running.poll() is None, (self.folder / "web.log").read_text()[-2000:]
        try:
            return requests.get(f"{self.url}/api/healthz", timeout=5).ok
        except requests.ConnectionError:
            return False

    def stop(self) -> None:
        """End it, as a machine does that is switched off in good order."""
        if self._running is not None:
            self._running.terminate()
            try:
                self._running.wait(20)
            except subprocess.TimeoutExpired:
                self._running.kill()
                self._running.wait()
            self._running = None

    # ---- its API

    def ask(self, who: str, method: str, path: str, said: Any = None) -> tuple[int, Any]:
        """A request by a person, with their password; status and answer."""
        answer = requests.request(
            method, f"{self.url}/api/v1{path}", json=said, auth=(who, self.passwords[who]), timeout=30, allow_redirects=False
        )
        return answer.status_code, answer.json() if "json" in answer.headers.get("Content-Type", "") else None

    def do(self, who: str, method: str, path: str, said: Any = None) -> Any:
        """The same where it must succeed; the answer. Reading, and opening a pull request, is tried again: while a branch or a pull
        request is being made, Gitea finds for a moment that half of it is missing."""
        found: list[tuple[int, Any]] = []

        def succeeds() -> bool:
            found[:] = [self.ask(who, method, path, said)]
            return 200 <= found[0][0] < 300

        if method == "GET" or path.endswith("/pulls"):
            until(succeeds, 10.0, 0.2)
        assert found or succeeds(), f"{who}: {method} {path}: {found[0]}"
        return found[0][1]

    def person(self, name: str) -> str:
        """An account; nothing where it is there already. Returns its name."""
        if name not in self.passwords:
            self.passwords[name] = secrets.token_hex(12)
            account = {"username": name, "email": f"{name}@example.com", "password": self.passwords[name]}
            self.do("ops", "POST", "/admin/users", {**account, "must_change_password": False})
        return name

    def token(self, who: str, *scopes: str) -> str:
        """A token of that account."""
        said = {"name": secrets.token_hex(6), "scopes": list(scopes)}
        return str(self.do(who, "POST", f"/users/{who}/tokens", said)["sha1"])

    def calls(self, who: str) -> list[str]:
        """Requests to the API that this account has made, oldest first: method and path with query."""
        log = self.folder / "access.log"
        lines = log.read_text().splitlines() if log.exists() else []
        mine = (line.split('"')[1].split() for line in lines if f" {who} [" in line and "/api/v1/" in line)
        return [f"{words[0]} {words[1].removeprefix('/api/v1')}" for words in mine]


class Repository:
    """One repository on a server, owned by `owner`."""

    def __init__(self, gitea: Gitea, owner: str, name: str, folder: Path) -> None:
        self.gitea, self.owner, self.name = gitea, owner, name
        self.api = f"/repos/{owner}/{name}"
        self._folder = folder

    def url(self, who: str, password: str | None = None) -> str:
        """Its address for git, with a person's password or a token in it."""
        login = f"{quote(who)}:{quote(password or self.gitea.passwords[who])}@"
        return f"{self.gitea.url.replace('://', f'://{login}')}/{self.owner}/{self.name}.git"

    def push(self, who: str, files: Mapping[str, str | None], branch: str = "main", base: str | None = None) -> str:
        """A person's commit by git over HTTP: each path gets that text, or is removed (None). Returns the commit.

        `base`: the branch that a new one begins at.
        """
        work = self._folder / f"{self.owner}-{self.name}-{who}"
        if not work.exists():
            subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(work)], check=True)
        _git(work, "fetch", "--quiet", "--prune", self.url(who), "+refs/heads/*:refs/remotes/origin/*")
        known = _git(work, "for-each-ref", "--format=%(refname)", "refs/remotes/origin/").split()
        start = next((name for name in (branch, base) if f"refs/remotes/origin/{name}" in known), None)
        if start is None:
            _git(work, "checkout", "--quiet", "--orphan", secrets.token_hex(4))
            _git(work, "rm", "-rfq", "--ignore-unmatch", ".")
        else:
            _git(work, "checkout", "--quiet", "--force", "--detach", f"refs/remotes/origin/{start}")
        for path, text in files.items():
            place = work / path
            if text is None:
                place.unlink()
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text)
        _git(work, "add", "--all")
        _git(work, "-c", f"user.name={who}", "-c", f"user.email={who}@example.com", "commit", "--quiet", "-m", "change")
        _git(work, "push", "--quiet", self.url(who), f"HEAD:refs/heads/{branch}")
        return _git(work, "rev-parse", "HEAD")

    def delete(self, who: str, branch: str) -> None:
        """A person deletes a branch."""
        self.gitea.do(who, "DELETE", f"{self.api}/branches/{quote(branch, safe='')}")

    def text(self, branch: str, path: str) -> str | None:
        """What stands in a file of a branch; None where there is none."""
        where = f"{self.api}/contents/{quote(path)}?ref={quote(branch, safe='')}"
        status, said = until(lambda: found if (found := self.gitea.ask("ops", "GET", where))[0] in (200, 404) else None, 10.0)
        return None if status == 404 else base64.b64decode(said["content"]).decode()

    def pulls(self, state: str = "all", base: str | None = None) -> list[dict[str, Any]]:
        """Its pull requests, oldest first."""
        found = self.gitea.do("ops", "GET", f"{self.api}/pulls?state={state}&limit=50")
        return sorted((pull for pull in found if base in (None, pull["base"]["ref"])), key=lambda pull: pull["number"])

    def comments(self, number: int) -> list[dict[str, Any]]:
        """What people said below a pull request."""
        return list(self.gitea.do("ops", "GET", f"{self.api}/issues/{number}/comments"))

    def status(self, commit: str) -> tuple[str, str] | None:
        """The newest status of the hub on a commit: its state and words."""
        found = self.gitea.do("ops", "GET", f"{self.api}/commits/{commit}/statuses?sort=recentupdate")
        mine = [each for each in found if each["context"] == "reconciler/validate"]
        newest = max(mine, key=lambda each: each["id"], default=None)
        return (newest["status"], newest["description"]) if newest is not None else None


def _git(work: Path, *arguments: str) -> str:
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    done = subprocess.run(
        ["git", "-C", str(work), *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"git {arguments[0]}: {done.stderr}"
    return done.stdout.strip()


@contextmanager
def serving(folder: Path) -> Iterator[Gitea]:
    """A server for the time of a `with` block."""
    gitea = Gitea(folder)
    try:
        gitea.start()
        yield gitea
    finally:
        gitea.stop()
