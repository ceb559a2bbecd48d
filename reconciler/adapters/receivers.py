"""Calls to the receivers of sync engines: signed, outside of the cycle, and never needed.

Decides what a call looks like for each engine, and how long it may take. A call that fails is not repeated: the agent tells
its engine from inside, and the engine looks by itself. Trouble is kept until the region's next call succeeds.

Sources: Flux notification-controller, "Receivers", type generic-hmac; Argo CD, "Git Webhook Configuration" (its GitHub handler
reads `ref`, `before`, `after`, `repository.html_url` and `repository.default_branch`).
"""

import hashlib
import hmac
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import requests

from reconciler.model.names import region_branch
from reconciler.model.region import Receiver
from reconciler.ports import Moved

CALL_SECONDS: Final = 5.0
_LONGEST_WORDS: Final = 200


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a receiver."""

    url: str
    body: bytes
    headers: Mapping[str, str]


def call_of(moved: Moved, receiver: Receiver, secret: str, repo_url: str) -> Call:
    """The request that tells the region's engine. `repo_url`: the jobs repository's, without credentials."""
    if moved.region.sync_engine == "argocd":
        return _as_github(moved, receiver, secret, repo_url)
    body = _json({"region": moved.region.name, "branch": region_branch(moved.region.name), "commit": moved.after})
    return Call(receiver.url, body, {"Content-Type": "application/json", "X-Signature": _signed(secret, body)})


def _as_github(moved: Moved, receiver: Receiver, secret: str, repo_url: str) -> Call:
    """As GitHub tells of a push: the one form that Argo CD takes whichever forge it is, with a signature that it checks."""
    body = _json(
        {
            "ref": f"refs/heads/{region_branch(moved.region.name)}",
            "before": moved.before or "0" * 40,
            "after": moved.after,
            "commits": [],
            "repository": {"html_url": repo_url.removesuffix(".git"), "default_branch": "main"},
        }
    )
    signature = {"X-GitHub-Event": "push", "X-Hub-Signature-256": _signed(secret, body)}
    return Call(receiver.url, body, {"Content-Type": "application/json", **signature})


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _signed(secret: str, body: bytes) -> str:
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"


class ReceiverCalls:
    """`ports.Receivers` over HTTP: one thread, that sends the newest news of each region in turn."""

    def __init__(self, repo_url: str, environment: Mapping[str, str]) -> None:
        """`environment` holds the secrets, by the names that the regions' files give."""
        self._repo_url = repo_url
        self._environment = environment
        self._changed = threading.Condition()
        self._due: dict[str, Moved] = {}
        self._troubles: dict[str, str] = {}
        self._thread: threading.Thread | None = None

    def tell(self, moved: Sequence[Moved]) -> None:
        """Begin to tell the receivers of the regions that have one; the thread starts with the first that has."""
        wanted = {each.region.name: each for each in moved if each.region.receiver is not None}
        with self._changed:
            for each in moved:
                if each.region.receiver is None:
                    self._troubles.pop(each.region.name, None)
            if not wanted:
                return
            self._due |= wanted
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._send_all, name="receivers", daemon=True)
                self._thread.start()

    def troubles(self) -> Mapping[str, str]:
        """Region → why its receiver did not take the last news."""
        with self._changed:
            return dict(self._troubles)

    def _send_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._due)
                name = next(iter(self._due))
                moved = self._due.pop(name)
            words = self._sent(moved)
            with self._changed:
                if words:
                    self._troubles[name] = words
                else:
                    self._troubles.pop(name, None)

    def _sent(self, moved: Moved) -> str:
        """'' where the receiver took it, else why not."""
        receiver = moved.region.receiver
        if receiver is None:
            return ""
        secret = self._environment.get(receiver.secret_env)
        if not secret:
            return f"{receiver.secret_env} is not set in the hub's environment; set it to the secret that {receiver.url} shares"
        call = call_of(moved, receiver, secret, self._repo_url)
        try:
            answer = requests.post(
                call.url, data=call.body, headers=dict(call.headers), timeout=CALL_SECONDS, allow_redirects=False, stream=True
            )
            with answer:
                if answer.status_code < requests.codes.multiple_choices:
                    return ""
                return f"{call.url} answered {answer.status_code} {answer.reason or ''}".rstrip()[:_LONGEST_WORDS]
        except requests.RequestException as error:
            return f"{call.url}: {type(error).__name__}: {error}"[:_LONGEST_WORDS]
