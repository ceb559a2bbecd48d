"""A real Git server over smart HTTP on loopback, for tests: `git http-backend` behind the standard library's server.

The bare repositories lie on disk below `root`, so hooks, configuration and refs can be set there. Faults can be asked
for: no server at all (`stop`, `start`), wrong credentials, and replies that get lost on the way (`lose_replies`).
"""

import base64
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, urlsplit

SERVER_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C",
    "PATH": os.environ["PATH"],
}
"""What git is given on the server's side: nothing of the caller's."""


def run_git(repository: Path, *arguments: str, body: bytes | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Run git on a bare repository of the server and return what it prints, without the last line's end."""
    done = subprocess.run(
        ["git", f"--git-dir={repository}", "-c", "user.name=Someone", "-c", "user.email=someone@example.com", *arguments],
        input=body,
        capture_output=True,
        check=False,
        env={**SERVER_ENVIRONMENT, **(environment or {})},
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")


def install_hook(repository: Path, name: str, script: str) -> None:
    """Write a hook of the server's repository; `script` is the body of a POSIX shell script."""
    hook = repository / "hooks" / name
    hook.parent.mkdir(exist_ok=True)
    # Renamed into place: a file that is still open for writing cannot be run.
    fresh = hook.with_name(f".{name}.new")
    fresh.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    fresh.chmod(0o755)
    fresh.replace(hook)


def commit_files(repository: Path, branch: str, files: Mapping[str, bytes], *, orphan: bool = False) -> str:
    """Put a commit with exactly these files on a branch, after its tip or (`orphan`) in its stead; return its id."""
    stream = [f"commit refs/heads/{branch}\ncommitter Someone <someone@example.com> 1790000000 +0000\ndata 6\nchange\n"]
    known = run_git(repository, "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")
    if known and not orphan:
        stream.append(f"from {known}\n")
    body = "".join([*stream, "deleteall\n"]).encode()
    for path, content in files.items():
        quoted = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        body += f'M 100644 inline "{quoted}"\n'.encode("utf-8", "surrogateescape") + b"data %d\n" % len(content) + content + b"\n"
    run_git(repository, "fast-import", "--force", "--quiet", body=body)
    return run_git(repository, "rev-parse", f"refs/heads/{branch}")


def tree_of(repository: Path, entries: Mapping[str, tuple[str, str]]) -> str:
    """Git's own tree for path → (mode, object id), made through an index as `git commit` does."""
    lines = "".join(f"{mode} {oid}\t{path}\0" for path, (mode, oid) in entries.items())
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": f"{folder}/index"}
        run_git(
            repository, "update-index", "-z", "--index-info", body=lines.encode("utf-8", "surrogateescape"), environment=index
        )
        return run_git(repository, "write-tree", "--missing-ok", environment=index)


class GitServer:
    """Serves the repositories below `root`; with `login` (user, password) only to those who know it.

    `requests` lists (method, path with query) of every request so far. While `lose_replies` is set, a push is carried
    out and its answer never sent. While `answer_only` is an HTTP status, every request gets that and nothing else.
    """

    def __init__(self, root: Path, login: tuple[str, str] | None = None) -> None:
        self.root = root
        self.login = login
        self.requests: list[tuple[str, str]] = []
        self.lose_replies = threading.Event()
        self.answer_only: int | None = None
        self.port = 0
        self._http: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Listen on a free port; after `stop`, on the same port again."""
        server = self

        class Exchange(_Exchange):
            git = server

        ThreadingHTTPServer.allow_reuse_address = True
        self._http = ThreadingHTTPServer(("127.0.0.1", self.port), Exchange)
        self._http.daemon_threads = True
        self.port = self._http.server_port
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Refuse connections from now on; the repositories stay."""
        if self._http is not None and self._thread is not None:
            self._http.shutdown()
            self._http.server_close()
            self._thread.join()
            self._http = None

    def create(self, name: str) -> Path:
        """A new empty bare repository that may be pushed to."""
        path = self.root / f"{name}.git"
        path.mkdir(parents=True)
        run_git(path, "init", "--quiet", "--bare", "--initial-branch=main", "--template=")
        run_git(path, "config", "http.receivepack", "true")
        run_git(path, "config", "gc.auto", "0")
        return path

    def url(self, name: str, login: tuple[str, str] | None = None) -> str:
        """The repository's URL, with the credentials given."""
        user = "" if login is None else f"{quote(login[0], safe='')}:{quote(login[1], safe='')}@"
        return f"http://{user}127.0.0.1:{self.port}/{name}.git"


@contextmanager
def serving(root: Path, login: tuple[str, str] | None = None) -> Iterator[GitServer]:
    """A server for the time of a `with` block."""
    server = GitServer(root, login)
    server.start()
    try:
        yield server
    finally:
        server.stop()


class _Exchange(BaseHTTPRequestHandler):
    """One request, handed to `git http-backend` by CGI."""

    git: GitServer

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base class names it so
        """Keep the test's output clean; `GitServer.requests` has it all."""

    def _answer(self) -> None:
        self.git.requests.append((self.command, self.path))
        with tempfile.TemporaryFile() as body:
            self._take(body)
            if self._may_enter():
                self._run_backend(body)

    def _take(self, body: IO[bytes]) -> None:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body.write(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
        else:
            body.write(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        body.seek(0)

    def _may_enter(self) -> bool:
        if self.git.answer_only is not None:
            self._say(self.git.answer_only)
            return False
        if self.git.login is None:
            return True
        wanted = base64.b64encode(":".join(self.git.login).encode()).decode()
        if self.headers.get("Authorization") == f"Basic {wanted}":
            return True
        self._say(401)
        return False

    def _say(self, status: int) -> None:
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _run_backend(self, body: IO[bytes]) -> None:
        with subprocess.Popen(
            ["git", "http-backend"], stdin=body, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self._cgi()
        ) as backend:
            assert backend.stdout is not None
            if self.git.lose_replies.is_set() and self.command == "POST" and self.path.endswith("/git-receive-pack"):
                backend.stdout.read()
                return
            status, headers = "200 OK", []
            while line := backend.stdout.readline().strip().decode("latin-1"):
                name, _, value = line.partition(": ")
                if name == "Status":
                    status = value
                else:
                    headers.append((name, value))
            self.send_response(int(status.split()[0]))
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()
            try:
                shutil.copyfileobj(backend.stdout, self.wfile)
            except (BrokenPipeError, ConnectionResetError):
                # The client has gone away, as some tests want. What git does goes on to its end.
                backend.stdout.read()

    def _cgi(self) -> dict[str, str]:
        parts = urlsplit(self.path)
        given = {
            "CONTENT_TYPE": self.headers.get("Content-Type"),
            "CONTENT_LENGTH": self.headers.get("Content-Length"),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding"),
            "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol"),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol"),
        }
        return {
            **SERVER_ENVIRONMENT,
            **{name: value for name, value in given.items() if value},
            "GIT_PROJECT_ROOT": str(self.git.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "REMOTE_ADDR": self.client_address[0],
            "REMOTE_USER": self.git.login[0] if self.git.login else "",
            "REQUEST_METHOD": self.command,
            "SERVER_PROTOCOL": "HTTP/1.1",
        }
