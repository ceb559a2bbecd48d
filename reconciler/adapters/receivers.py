"""Calls to the receivers of sync engines: signed, outside of the cycle, and never needed.

Decides what a call looks like for each engine, which hosts may be called, and how long it may take. A call that fails is not
repeated: the agent tells its engine from inside, and the engine looks by itself. Trouble is kept until the region's next call, or
for an hour: by then its engine has long looked by itself, and a region that was removed has no next call.

Invariant: the thread lives as long as the hub, whatever a region's file names.

Sources: Flux notification-controller, "Receivers", type generic-hmac; Argo CD, "Git Webhook Configuration" (its GitHub handler
reads `ref`, `before`, `after`, `repository.html_url` and `repository.default_branch`).
"""

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import requests
from urllib3.exceptions import HTTPError
from urllib3.util import parse_url

from reconciler.model.names import region_branch
from reconciler.model.region import Receiver
from reconciler.receiver_port import Moved

CALL_SECONDS: Final = 5.0
TROUBLE_SECONDS: Final = 3600.0
"""How long the trouble of a region's last call is told."""
HOSTS: Final = "RECONCILER_RECEIVER_HOSTS"
"""The hosts that may be called, separated by commas; not set: any. Whoever may write main names a receiver's address; this is for
whoever runs the hub to say where it may send requests to."""
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


def is_allowed(url: str, hosts: str | None) -> bool:
    """Whether the host of `url` is among `hosts`: whole names or addresses, separated by commas; None are all.

    Raises urllib3's HTTPError for what is no URL. The URL is taken apart by whoever calls it, so both see the same host.
    """
    return hosts is None or (parse_url(url).host or "") in {one.strip().lower() for one in hosts.split(",") if one.strip()}


@dataclass(frozen=True, slots=True)
class _Trouble:
    words: str
    at: float
    """By the monotonic clock, seconds."""


class ReceiverCalls:
    """`ports.Receivers` over HTTP: one thread, that sends the newest news of each region in turn."""

    def __init__(self, repo_url: str, environment: Mapping[str, str], monotonic: Callable[[], float] = time.monotonic) -> None:
        """`environment` holds the secrets, by the names that the regions' files give, and the hosts that may be called."""
        self._repo_url = repo_url
        self._environment = environment
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._due: dict[str, Moved] = {}
        self._troubles: dict[str, _Trouble] = {}
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
            oldest = self._monotonic() - TROUBLE_SECONDS
            self._troubles = {name: one for name, one in self._troubles.items() if one.at > oldest}
            return {name: one.words for name, one in self._troubles.items()}

    def _send_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._due)
                name = next(iter(self._due))
                moved = self._due.pop(name)
            try:
                words = self._sent(moved)
            except Exception as error:  # noqa: BLE001 - a bug costs one call, not those of all regions; the hub tells it
                words = f"it was not called, by a fault of the hub's own: {error!r}"
            with self._changed:
                if words:
                    self._troubles[name] = _Trouble(words[:_LONGEST_WORDS], self._monotonic())
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
            if not is_allowed(call.url, self._environment.get(HOSTS)):
                return (
                    f"the hub may not call {call.url}; add its host to {HOSTS} in the hub's environment, or correct the address"
                )
            return _posted(call)
        except (requests.RequestException, HTTPError, ValueError) as error:  # requests lets some of urllib3's through
            return f"{call.url}: {type(error).__name__}: {error}"


def _posted(call: Call) -> str:
    """'' where the call was taken, else the answer. Raises what requests and urllib3 raise."""
    answer = requests.post(
        call.url, data=call.body, headers=dict(call.headers), timeout=CALL_SECONDS, allow_redirects=False, stream=True
    )
    with answer:
        if answer.status_code < requests.codes.multiple_choices:
            return ""
        return f"{call.url} answered {answer.status_code} {answer.reason or ''}".rstrip()
