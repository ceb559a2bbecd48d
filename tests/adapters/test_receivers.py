"""Calls to receivers, against a server that checks their signatures as Flux and Argo CD do."""

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from reconciler.adapters.receivers import HOSTS, TROUBLE_SECONDS, ReceiverCalls, is_allowed
from reconciler.model.region import Region
from reconciler.receiver_port import Moved
from tests.waiting import until

SECRET, VARIABLE = "s3cret-of-eu", "RECONCILER_RECEIVER_EU"
REPO = "https://git.example.com/ml/jobs.git"
OLD, NEW = "a" * 40, "b" * 40


class Receiver:
    """Takes what is signed with the secret; `answers` with any other status where it is set."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        self.refused = 0
        self.answers: int | None = None
        self.held = threading.Event()
        self.held.set()
        receiver = self

        class Exchange(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.held.wait(20)
                self.send_response(receiver.judge(self.headers, body))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base class names it so
                """Nothing is printed."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Exchange)
        self.url = f"http://127.0.0.1:{self.http.server_port}/hook/x"

    def judge(self, headers: Any, body: bytes) -> int:
        expected = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        given = headers.get("X-Hub-Signature-256") if headers.get("X-GitHub-Event") == "push" else headers.get("X-Signature")
        if self.answers is not None:
            return self.answers
        if given != expected:
            self.refused += 1
            return 403
        self.taken.append(json.loads(body))
        return 200


@contextmanager
def listening() -> Iterator[Receiver]:
    """A receiver for the time of a `with` block."""
    found = Receiver()
    thread = threading.Thread(target=found.http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield found
    found.held.set()
    found.http.shutdown()
    found.http.server_close()
    thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with listening() as found:
        yield found


def moved(receiver: Receiver | None, engine: str = "flux", name: str = "eu", after: str = NEW) -> Moved:
    said = {"receiver": {"url": receiver.url, "secret_env": VARIABLE}} if receiver is not None else {}
    return Moved(Region.model_validate({"name": name, "sync_engine": engine, **said}), OLD, after)


def test_flux_is_told_by_a_body_that_it_can_check(receiver: Receiver) -> None:
    ReceiverCalls(REPO, {VARIABLE: SECRET}).tell([moved(receiver)])
    until(lambda: receiver.taken)
    assert receiver.taken == [{"region": "eu", "branch": "region/eu", "commit": NEW}]


def test_argocd_is_told_as_by_a_push_to_its_repository(receiver: Receiver) -> None:
    ReceiverCalls(REPO, {VARIABLE: SECRET}).tell([moved(receiver, "argocd")])
    until(lambda: receiver.taken)
    (said,) = receiver.taken
    assert (said["ref"], said["before"], said["after"]) == ("refs/heads/region/eu", OLD, NEW)
    assert said["repository"] == {"html_url": "https://git.example.com/ml/jobs", "default_branch": "main"}


def test_a_region_without_a_receiver_is_not_called(receiver: Receiver) -> None:
    calls = ReceiverCalls(REPO, {VARIABLE: SECRET})
    calls.tell([moved(None, name="us")])
    calls.tell([moved(receiver)])
    until(lambda: receiver.taken)
    assert [said["region"] for said in receiver.taken] == ["eu"]
    assert calls.troubles() == {}


def test_a_wrong_secret_is_a_trouble_until_a_call_succeeds(receiver: Receiver) -> None:
    environment = {VARIABLE: "another"}
    calls = ReceiverCalls(REPO, environment)
    calls.tell([moved(receiver)])
    until(calls.troubles)
    assert calls.troubles()["eu"] == f"{receiver.url} answered 403 Forbidden"
    assert SECRET not in str(calls.troubles())
    environment[VARIABLE] = SECRET
    calls.tell([moved(receiver)])
    until(lambda: not calls.troubles())
    assert (receiver.refused, len(receiver.taken)) == (1, 1)


def test_a_missing_secret_is_named_and_nothing_is_sent(receiver: Receiver) -> None:
    calls = ReceiverCalls(REPO, {})
    calls.tell([moved(receiver)])
    until(calls.troubles)
    assert calls.troubles()["eu"].startswith(f"{VARIABLE} is not set in the hub's environment")
    assert (receiver.refused, receiver.taken) == (0, [])


def test_a_redirection_is_not_followed(receiver: Receiver) -> None:
    receiver.answers = 302
    calls = ReceiverCalls(REPO, {VARIABLE: SECRET})
    calls.tell([moved(receiver)])
    until(calls.troubles)
    assert "answered 302" in calls.troubles()["eu"]


def test_while_one_receiver_hangs_the_caller_goes_on_and_only_the_newest_news_is_sent(receiver: Receiver) -> None:
    receiver.held.clear()
    calls = ReceiverCalls(REPO, {VARIABLE: SECRET})
    for number in range(5):
        calls.tell([moved(receiver, after=str(number) * 40)])
    receiver.held.set()
    until(lambda: receiver.taken and receiver.taken[-1]["commit"] == "4" * 40)
    assert len(receiver.taken) <= 2


def test_nobody_listening_is_a_trouble(receiver: Receiver) -> None:
    calls = ReceiverCalls(REPO, {VARIABLE: SECRET})
    receiver.http.server_close()
    calls.tell([moved(receiver)])
    until(calls.troubles)
    assert receiver.url in calls.troubles()["eu"]


ADDRESSES = {
    "an empty label": "http://a..b/x",
    "a label that is too long": f"http://{'a' * 70}.example.com/x",
    "a port that is none": "http://example.com:port/x",
    "half a bracket": "http://[::1/x",
    "a query in the place of a path": "http://a..b?x",
}


@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES.keys())
@pytest.mark.parametrize("hosts", [{}, {HOSTS: "127.0.0.1"}], ids=["any host", "some hosts"])
def test_an_address_that_is_none_is_its_regions_trouble_alone(receiver: Receiver, address: str, hosts: dict[str, str]) -> None:
    calls = ReceiverCalls(REPO, {VARIABLE: SECRET, **hosts})
    region = Region.model_validate({"name": "us", "receiver": {"url": address, "secret_env": VARIABLE}})
    calls.tell([Moved(region, OLD, NEW)])
    until(calls.troubles)
    calls.tell([moved(receiver)])
    until(lambda: receiver.taken)
    assert list(calls.troubles()) == ["us"]
    assert address in calls.troubles()["us"]


class Forgetful(dict[str, str]):
    """An environment that fails in a way that nobody has foreseen, once."""

    failed = False

    def get(self, name: str, default: Any = None) -> Any:
        if not self.failed:
            self.failed = True
            raise RuntimeError("nobody has foreseen this")
        return super().get(name, default)


def test_a_fault_of_our_own_costs_one_call(receiver: Receiver) -> None:
    calls = ReceiverCalls(REPO, Forgetful({VARIABLE: SECRET}))
    calls.tell([moved(receiver, name="us")])
    until(calls.troubles)
    assert "nobody has foreseen this" in calls.troubles()["us"]
    calls.tell([moved(receiver)])
    until(lambda: receiver.taken)


def test_the_trouble_of_a_region_that_moves_no_more_is_told_for_an_hour() -> None:
    seconds = [100.0]
    calls = ReceiverCalls(REPO, {}, lambda: seconds[0])
    region = Region.model_validate({"name": "us", "receiver": {"url": "http://127.0.0.1/x"}})
    calls.tell([Moved(region, OLD, NEW)])
    until(calls.troubles)
    seconds[0] += TROUBLE_SECONDS - 1
    assert list(calls.troubles()) == ["us"]
    seconds[0] += 1
    assert calls.troubles() == {}


ALLOWED = {
    "no list": ("http://127.0.0.1:80/x", None, True),
    "an empty list": ("http://127.0.0.1:80/x", "", False),
    "the host of a list": ("https://flux.eu.example.com/hook/x", "argo.example.com, flux.eu.example.com", True),
    "in other letters": ("https://FLUX.example.com/x", "flux.Example.com", True),
    "a port does not matter": ("https://flux.example.com:8443/x", "flux.example.com", True),
    "another host": ("http://169.254.169.254/latest", "flux.example.com", False),
    "a host below it": ("https://x.flux.example.com/", "flux.example.com", False),
    "a host in the path": ("https://evil.example.com/@flux.example.com", "flux.example.com", False),
    "a host after a backslash": ("https://evil.example.com\\.flux.example.com/", "flux.example.com", False),
    "a host after a hash": ("https://evil.example.com#flux.example.com/", "flux.example.com", False),
    "an address of version 6": ("http://[::1]:80/x", "[::1]", True),
}


@pytest.mark.parametrize(("url", "hosts", "allowed"), ALLOWED.values(), ids=ALLOWED.keys())
def test_hosts_that_may_be_called(url: str, hosts: str | None, allowed: bool) -> None:
    assert is_allowed(url, hosts) is allowed


def test_a_host_that_may_not_be_called_is_not(receiver: Receiver) -> None:
    calls = ReceiverCalls(REPO, {VARIABLE: SECRET, HOSTS: "flux.example.com"})
    calls.tell([moved(receiver)])
    until(calls.troubles)
    assert f"add its host to {HOSTS}" in calls.troubles()["eu"]
    assert (receiver.refused, receiver.taken) == (0, [])
