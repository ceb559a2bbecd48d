"""Webhooks over a real server: who is believed, by which proof, and what is answered to everybody else."""

import hashlib
import hmac
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from reconciler.adapters.webhooks import BODY_LIMIT, SENDERS, WebServer, application, signed
from tests.waiting import until

SECRET, OLD = "s3cret word", "the one before"
BODY = b'{"ref": "refs/heads/main",  "odd": "\xc3\xa9\\u00e9"}\r\n'
Headers = Mapping[str, str]


def digest(secret: str, body: bytes, algorithm: str = "sha256") -> str:
    return hmac.new(secret.encode(), body, algorithm).hexdigest()


PROOFS: dict[str, Callable[[str, bytes], Headers]] = {
    "github": lambda secret, body: {"X-Hub-Signature-256": f"sha256={digest(secret, body)}"},
    "gitlab": lambda secret, _: {"X-Gitlab-Token": secret},
    "gitea": lambda secret, body: {"X-Gitea-Signature": digest(secret, body)},
    "forgejo": lambda secret, body: {"X-Forgejo-Signature": digest(secret, body)},
    "generic": lambda secret, body: {"X-Signature": f"sha256={digest(secret, body)}"},
}
"""How each kind of sender signs, by its own documentation."""


@dataclass
class Served:
    """A server, and how often it woke the hub."""

    secrets: list[str] = field(default_factory=lambda: [SECRET, OLD])
    woken: int = 0
    told: int = 0
    health: tuple[bool, dict[str, object]] = (True, {"cycles": 7})
    port: int = 0

    def wake(self) -> None:
        self.woken += 1

    def tell(self) -> None:
        self.told += 1

    def ask(self, method: str, path: str, body: bytes = b"", headers: Headers | None = None) -> tuple[int, dict[str, object]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            said = answer.read()
            return answer.status, json.loads(said) if said.startswith(b"{") else {}
        finally:
            connection.close()

    def deliver(self, sender: str, headers: Headers, body: bytes = BODY) -> int:
        return self.ask("POST", f"/webhooks/{sender}", body, headers)[0]


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    made = Served()
    serves = WebServer(application(made.secrets, made.wake, lambda: made.health, made.tell), "127.0.0.1", 0)
    made.port = serves.start()
    yield made
    serves.stop()


@pytest.fixture
def served(server: Served) -> Served:
    """The server, that has woken nobody yet."""
    server.woken, server.told, server.health = 0, 0, (True, {"cycles": 7})
    return server


# ---- who is believed ----------------------------------------------------------------------------------------------


def test_every_kind_of_sender_that_is_known_has_its_proof_here() -> None:
    assert PROOFS.keys() == SENDERS.keys()


@pytest.mark.parametrize("sender", PROOFS)
def test_a_delivery_with_the_right_proof_wakes_the_hub(served: Served, sender: str) -> None:
    assert served.deliver(sender, PROOFS[sender](SECRET, BODY)) == 202
    assert served.woken == 1


@pytest.mark.parametrize("sender", PROOFS)
def test_while_a_secret_is_changed_both_are_believed(served: Served, sender: str) -> None:
    assert served.deliver(sender, PROOFS[sender](OLD, BODY)) == 202
    assert served.deliver(sender, PROOFS[sender](SECRET, BODY)) == 202
    assert served.woken == 2


def spoilt(headers: Headers, change: Callable[[str], str]) -> Headers:
    return {name: change(value) for name, value in headers.items()}


WRONG: dict[str, Callable[[str], Headers]] = {
    "no proof": lambda _: {},
    "an empty proof": lambda sender: spoilt(PROOFS[sender](SECRET, BODY), lambda _: ""),
    "another secret": lambda sender: PROOFS[sender]("another", BODY),
    "an empty secret": lambda sender: PROOFS[sender]("", BODY),
    "a proof that is cut": lambda sender: spoilt(PROOFS[sender](SECRET, BODY), lambda value: value[:-1]),
    "a proof with more behind it": lambda sender: spoilt(PROOFS[sender](SECRET, BODY), lambda value: value + "0"),
    "the secret itself as the proof of a signer": lambda _: {"X-Hub-Signature-256": SECRET, "X-Signature": SECRET},
    "letters that are no ASCII": lambda sender: spoilt(PROOFS[sender](SECRET, BODY), lambda value: "é" + value),
    "the proof of another kind of sender": lambda sender: PROOFS["gitea" if sender == "github" else "github"](SECRET, BODY),
}


@pytest.mark.parametrize("sender", PROOFS)
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_delivery_without_the_right_proof_wakes_nobody(served: Served, sender: str, wrong: Callable[[str], Headers]) -> None:
    assert served.deliver(sender, wrong(sender)) == 401
    assert served.woken == 0


@pytest.mark.parametrize("sender", [sender for sender in PROOFS if sender != "gitlab"])
@pytest.mark.parametrize("body", [BODY.rstrip(), BODY + b" ", BODY.replace(b"  ", b" "), b""])
def test_a_signature_holds_for_the_very_bytes_that_were_signed(served: Served, sender: str, body: bytes) -> None:
    assert served.deliver(sender, PROOFS[sender](SECRET, BODY), body) == 401
    assert served.deliver(sender, PROOFS[sender](SECRET, body), body) == 202


def test_a_body_need_not_be_json(served: Served) -> None:
    body = bytes(range(256))
    assert served.deliver("github", PROOFS["github"](SECRET, body), body) == 202


@pytest.mark.parametrize(
    ("algorithm", "status"), [("sha256", 202), ("sha512", 202), ("sha1", 401), ("md5", 401), ("", 401), ("SHA256", 401)]
)
def test_a_generic_signature_names_its_algorithm_and_weak_ones_are_not_believed(
    served: Served, algorithm: str, status: int
) -> None:
    made = digest(SECRET, BODY, algorithm.lower() or "sha256")
    assert served.deliver("generic", {"X-Signature": f"{algorithm}={made}"}) == status


def test_github_s_old_signature_alone_is_not_believed(served: Served) -> None:
    old = hmac.new(SECRET.encode(), BODY, hashlib.sha1).hexdigest()
    assert served.deliver("github", {"X-Hub-Signature": f"sha1={old}"}) == 401


def test_gitea_s_header_is_believed_from_forgejo_and_the_other_way_round(served: Served) -> None:
    assert served.deliver("forgejo", PROOFS["gitea"](SECRET, BODY)) == 202
    assert served.deliver("gitea", PROOFS["forgejo"](SECRET, BODY)) == 202


@pytest.mark.parametrize("sender", PROOFS)
@pytest.mark.parametrize("secrets", [[], [""], ["", ""]])
def test_without_secrets_nothing_is_believed(sender: str, secrets: list[str]) -> None:
    for secret in ("", SECRET):
        given = {name.lower(): value for name, value in PROOFS[sender](secret, BODY).items()}
        assert not signed(sender, secrets, given, BODY)


def test_a_secret_of_any_letters_is_believed_as_it_is_sent() -> None:
    made = Served(secrets=["pässwort"])
    server = WebServer(application(made.secrets, made.wake, lambda: made.health), "127.0.0.1", 0)
    made.port = server.start()
    try:
        with socket.create_connection(("127.0.0.1", made.port), 20) as line:
            head = "POST /webhooks/gitlab HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\nX-Gitlab-Token: pässwort\r\n\r\n"
            line.sendall(head.encode())
            assert line.makefile("rb").readline().split()[1] == b"202"
        assert made.deliver("github", PROOFS["github"]("pässwort", BODY)) == 202
    finally:
        server.stop()


# ---- what else is answered ----------------------------------------------------------------------------------------


def test_an_unknown_sender_is_told_which_are_known(served: Served) -> None:
    status, said = served.ask("POST", "/webhooks/bitbucket", BODY, PROOFS["github"](SECRET, BODY))
    assert status == 404
    assert said["error"] == "no such sender; known: forgejo, generic, gitea, github, gitlab"
    assert served.woken == 0


@pytest.mark.parametrize(("method", "path"), [("GET", "/webhooks/github"), ("PUT", "/webhooks/github"), ("POST", "/healthz")])
def test_other_methods_are_refused(served: Served, method: str, path: str) -> None:
    assert served.ask(method, path)[0] == 405
    assert served.woken == 0


def test_errors_tell_what_to_do_and_never_a_secret(served: Served) -> None:
    status, said = served.ask("POST", "/webhooks/github", BODY, PROOFS["github"]("another", BODY))
    assert (status, said) == (401, {"error": "the signature does not fit; is the secret the same on both sides?"})


def test_a_body_of_just_the_limit_is_read(served: Served) -> None:
    body = b"x" * BODY_LIMIT
    assert served.deliver("github", PROOFS["github"](SECRET, body), body) == 202


def test_a_body_beyond_the_limit_is_refused_though_it_is_signed(served: Served) -> None:
    body = b"x" * (BODY_LIMIT + 1)
    assert served.deliver("github", PROOFS["github"](SECRET, body), body) == 413
    assert served.woken == 0


def test_a_body_without_end_is_refused_at_the_limit(served: Served) -> None:
    """Chunk after chunk, and no length said: no more than the limit is ever taken."""
    with socket.create_connection(("127.0.0.1", served.port), 20) as line:
        line.sendall(b"POST /webhooks/github HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        sent, answer = 0, b""
        line.settimeout(20)
        try:
            while sent <= 4 * BODY_LIMIT:
                line.sendall(chunk)
                sent += 0x10000
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server has closed the line, as it may
        try:
            answer = line.recv(64)
        except ConnectionResetError:
            answer = b"reset"
    assert answer.startswith((b"HTTP/1.1 413", b"reset"))
    assert served.woken == 0
    assert served.deliver("github", PROOFS["github"](SECRET, BODY)) == 202, "and the next one is heard"


def test_a_sender_that_goes_away_in_the_middle_wakes_nobody(served: Served) -> None:
    line = socket.create_connection(("127.0.0.1", served.port), 20)
    signature = PROOFS["github"](SECRET, b"x")["X-Hub-Signature-256"]
    head = f"POST /webhooks/github HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nX-Hub-Signature-256: {signature}\r\n\r\nx"
    line.sendall(head.encode())
    line.close()
    assert served.deliver("github", PROOFS["github"](SECRET, BODY)) == 202
    assert served.woken == 1


def test_many_deliveries_at_once_are_all_answered(served: Served) -> None:
    answers: list[int] = []
    posts = [
        threading.Thread(target=lambda: answers.append(served.deliver("gitlab", PROOFS["gitlab"](SECRET, BODY))))
        for _ in range(20)
    ]
    for post in posts:
        post.start()
    for post in posts:
        post.join()
    assert answers == [202] * 20
    assert served.woken == 20


# ---- what it is about ---------------------------------------------------------------------------------------------

KINDS: dict[str, tuple[str, Headers, int]] = {
    "a push to Gitea": ("gitea", {"X-Gitea-Event": "push", "X-GitHub-Event": "push"}, 0),
    "a branch that is deleted on Gitea": ("gitea", {"X-Gitea-Event": "delete"}, 0),
    "a pull request on Gitea": ("gitea", {"X-Gitea-Event": "pull_request"}, 1),
    "a review on Forgejo": ("forgejo", {"X-Forgejo-Event": "pull_request_approved"}, 1),
    "a push to GitHub": ("github", {"X-GitHub-Event": "push"}, 0),
    "a pull request on GitHub": ("github", {"X-GitHub-Event": "pull_request"}, 1),
    "a push to GitLab": ("gitlab", {"X-Gitlab-Event": "Push Hook"}, 0),
    "a merge request on GitLab": ("gitlab", {"X-Gitlab-Event": "Merge Request Hook"}, 1),
    "a kind that nobody knows": ("github", {"X-GitHub-Event": "something_new"}, 1),
    "no kind at all": ("generic", {}, 1),
}


@pytest.mark.parametrize("case", KINDS)
def test_only_what_may_be_about_pull_requests_asks_the_forge_and_everything_wakes_the_hub(served: Served, case: str) -> None:
    sender, headers, told = KINDS[case]
    assert served.deliver(sender, {**PROOFS[sender](SECRET, BODY), **headers}) == 202
    assert (served.woken, served.told) == (1, told)
    assert served.deliver(sender, headers) == 401
    assert (served.woken, served.told) == (1, told)


# ---- health -------------------------------------------------------------------------------------------------------


def test_health_is_told_with_its_figures(served: Served) -> None:
    assert served.ask("GET", "/healthz") == (200, {"cycles": 7})
    served.health = (False, {"cycles": 8, "trouble": "the remote does not answer"})
    assert served.ask("GET", "/healthz") == (503, {"cycles": 8, "trouble": "the remote does not answer"})


# ---- the server ---------------------------------------------------------------------------------------------------


def test_an_address_that_is_taken_is_an_error_at_the_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = WebServer(application([SECRET], lambda: None, lambda: (True, {})), "127.0.0.1", port)
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            server.start()
        server.stop()


def test_a_server_that_was_stopped_listens_no_more() -> None:
    server = WebServer(application([SECRET], lambda: None, lambda: (True, {})), "127.0.0.1", 0)
    port = server.start()
    server.stop()

    def refuses() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
        except ConnectionRefusedError:
            return True
        return False

    until(refuses)
