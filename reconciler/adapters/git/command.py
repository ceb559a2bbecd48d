"""Runs the `git` command, and says what its failure means to us.

Decides what git sees of the caller's environment (ways in: credential helpers, proxies, SSH; never a state such as
GIT_DIR), when it has been silent for too long, and which failures a person must mend. What to run, and what the answer
says about a push, is left to `clone` and `pushing`. Credentials of the URL reach neither the command line, the disk nor
any message.
"""

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

from reconciler.ports import Refused, Transient

REMOTE: Final = "gpu-reconciler"
"""What the remote is called on the command line. Not `origin`: people's own settings may say something of that name."""
MOST_WORDS: Final = 2_000
"""Characters of git's or the remote's text that a message repeats."""
_OLDEST_GIT: Final = (2, 34)
_DYING_SECONDS: Final = 3.0
_SHORTEST_TOKEN: Final = 12

_KEPT: Final = frozenset(
    {
        "GIT_ALLOW_PROTOCOL", "GIT_ASKPASS", "GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM",
        "GIT_CONFIG_SYSTEM", "GIT_EXEC_PATH", "GIT_PROTOCOL_FROM_USER",
    }
)  # fmt: skip
_KEPT_STARTS: Final = ("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "GIT_HTTP_", "GIT_PROXY_", "GIT_SSH", "GIT_SSL_")
_SETTINGS: Final = (
    "core.hooksPath=/dev/null",
    "fetch.writeCommitGraph=false",
    "gc.auto=0",
    "maintenance.auto=false",
    f"remote.{REMOTE}.followRemoteHEAD=never",
)
_PROGRESS: Final = re.compile(
    r"^(remote: )?((Enumerating|Counting|Compressing|Receiving|Writing|Unpacking|Checking) \w+|Resolving deltas): +\d"
    r"|^(remote: )?Total \d+ \(delta \d|^Delta compression using"
)
_CONTROL: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
_FOR_A_PERSON: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), todo)
    for pattern, todo in (
        (
            r"authentication failed|could not read (username|password)|terminal prompts disabled|returned error: 401",
            "give valid credentials: a credential helper, an SSH key, or a token in the URL",
        ),
        (r"permission denied \(", "give the remote our SSH public key, or start with the right private key"),
        (r"host key verification failed", "add the remote's host key to known_hosts"),
        (r"returned error: 403|permission to .* denied|not allowed to", "let this account read and write the repository"),
        (
            r"returned error: (404|410)|repository (.* )?not found|does not appear to be a git repository",
            "check the URL, and that this account may see the repository",
        ),
        (r"certificate|SSL peer", "make the remote's certificate valid and trusted here"),
        (
            r"unable to find remote helper|'remote-.*' is not a git command|transport '.*' not allowed",
            "give a URL for https, ssh or a local path",
        ),
        (r"mismatched algorithms|unknown object format", "use a repository with SHA-1 object ids"),
        (r"dubious ownership", "give the clone's folder to the user that runs this program"),
        (r"does not support --atomic", "use a server with atomic pushes (receive.advertiseAtomic, git 2.4 or later)"),
    )
)
_DAMAGE: Final = re.compile(
    r"(?m)^(?!remote:).*(is corrupt|object corrupt|is empty$|bad object|reference broken|unable to resolve reference"
    r"|unable to read|missing (blob|tree|commit)|does not match index|cannot be accessed)"
)


@dataclass(frozen=True, slots=True)
class Remote:
    """A remote's URL. `shown` is the form for messages, without credentials."""

    url: str = field(repr=False)

    @property
    def shown(self) -> str:
        """The URL without user, password and query; scp-like addresses and paths as they are."""
        if "://" not in self.url:
            return self.url
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    def redact(self, text: str) -> str:
        """Text without this URL's credentials, nor those of any other URL in it."""
        text = text.replace(self.url, self.shown)
        for secret in self._secrets():
            text = text.replace(secret, "***")
        return re.sub(r"(://)[^/\s@]+@", r"\1***@", text)

    def _secrets(self) -> Sequence[str]:
        if "://" not in self.url:
            return ()
        user, colon, password = urlsplit(self.url).netloc.rpartition("@")[0].partition(":")
        # A token may stand alone in the user's place. A short name there is none, and often a common word (`git`).
        secret = password if colon else user if len(user) >= _SHORTEST_TOKEN else ""
        return sorted({secret, unquote(secret)} - {""}, key=len, reverse=True)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a git command said. `code` is None where it was ended because it had been silent for too long."""

    code: int | None
    out: bytes
    words: str
    """Its messages, one a line, redacted, without progress."""

    @property
    def suggests_damage(self) -> bool:
        """Whether the messages may mean that our own clone is broken; a reason to check it, no proof."""
        return _DAMAGE.search(self.words) is not None


def environment(caller: Mapping[str, str], remote: Remote) -> dict[str, str]:
    """The environment for git: the caller's, less what would point git elsewhere, and the remote's URL."""
    kept = {
        name: value
        for name, value in caller.items()
        if not name.startswith("GIT_") or name in _KEPT or name.startswith(_KEPT_STARTS)
    }
    count = caller.get("GIT_CONFIG_COUNT", "") or "0"
    if not count.isdecimal():
        raise Refused(f"the environment's GIT_CONFIG_COUNT is {count!r}; make it a number, or unset it")
    # A setting in the environment is seen by this user alone; arguments are seen by everybody, and a file stays.
    kept[f"GIT_CONFIG_KEY_{count}"] = f"remote.{REMOTE}.url"
    kept[f"GIT_CONFIG_VALUE_{count}"] = remote.url
    kept["GIT_CONFIG_COUNT"] = str(int(count) + 1)
    return kept | {"GIT_TERMINAL_PROMPT": "0", "GCM_INTERACTIVE": "never", "LC_ALL": "C"}


def git(remote: Remote, folder: os.PathLike[str], arguments: Sequence[str], silence: float, patience: int = 1) -> Answer:
    """Run git on the clone in `folder`.

    It is ended after `silence` seconds without a word from it, and after `patience` times that in any case: a first
    fetch may take long, a dead line may not. Raises Refused where there is no git.
    """
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    command = ["git", f"--git-dir={os.fspath(folder)}", *settings, *arguments]
    try:
        # A session of its own: SSH finds no terminal to ask on, and the whole group can be ended.
        running = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(os.environ, remote),
            start_new_session=True,
        )
    except FileNotFoundError as missing:
        raise Refused("the git command is not on PATH; install git 2.34 or later") from missing
    try:
        code, out, err = _listen(running, silence, patience)
    except BaseException:
        _end(running)
        raise
    return Answer(code, out, _words(remote, err))


def check_version(remote: Remote, folder: os.PathLike[str]) -> None:
    """Raises Refused where git is too old."""
    answer = git(remote, folder, ["version"], 10.0)
    found = re.search(rb"(\d+)\.(\d+)", answer.out)
    if found is None or (int(found[1]), int(found[2])) < _OLDEST_GIT:
        raise Refused(f"git {'.'.join(map(str, _OLDEST_GIT))} or later is needed; found {answer.out.decode(errors='replace')!r}")


def shorten(text: str) -> str:
    """A text's beginning and end, at most MOST_WORDS characters in all."""
    half = MOST_WORDS // 2
    return text if len(text) <= MOST_WORDS else f"{text[: half - 3]} ... {text[-half + 2 :]}"


def failure(remote: Remote, action: str, answer: Answer) -> Transient | Refused:
    """The error for a command that failed to reach or to satisfy the remote: Refused where a person must act."""
    words = shorten(answer.words).replace("\n", "; ") or f"git said nothing and ended with {answer.code}"
    if answer.code is None:
        return Transient(f"{action} {remote.shown} took too long and was ended: {words}")
    for pattern, todo in _FOR_A_PERSON:
        if pattern.search(answer.words):
            return Refused(f"{action} {remote.shown} was refused: {words}; {todo}")
    return Transient(f"{action} {remote.shown} failed: {words}")


def _listen(running: subprocess.Popen[bytes], silence: float, patience: int) -> tuple[int | None, bytes, bytes]:
    heard = 0
    out, err = b"", b""
    for _ in range(patience):
        try:
            out, err = running.communicate(timeout=silence)
        except subprocess.TimeoutExpired as late:
            out, err = late.output or b"", late.stderr or b""
            if len(out) + len(err) == heard:
                break
            heard = len(out) + len(err)
        else:
            return running.returncode, out, err
    _end(running)
    return None, out, err


def _end(running: subprocess.Popen[bytes]) -> None:
    """End the command and its children: asked first, so that git takes its lock files away."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(running.pid, sign)
        with suppress(subprocess.TimeoutExpired):
            running.wait(timeout=_DYING_SECONDS)
            break
    for pipe in (running.stdout, running.stderr):
        if pipe is not None:
            pipe.close()


def _words(remote: Remote, err: bytes) -> str:
    lines = (_CONTROL.sub("", line).rstrip() for line in re.split(r"[\r\n]+", err.decode(errors="replace")))
    said = "\n".join(line for line in lines if line and not _PROGRESS.match(line))
    return remote.redact(said)
