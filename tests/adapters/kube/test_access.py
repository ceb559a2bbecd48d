"""What a kubeconfig file is taken for, and what is refused of it, where the client itself would go on."""

import base64
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.kube import Access, from_kubeconfig, in_cluster
from reconciler.adapters.kube.access import within
from reconciler.adapters.kube.answers import Request
from reconciler.adapters.kube.connection import Connection
from reconciler.ports import Refused, Transient
from tests.adapters.kube.answering import Server, answering, http, kubeconfig, status


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with answering(tmp_path) as made:
        yield made


def as_user(at: Server, folder: Path, user: dict[str, Any], **cluster: Any) -> Access:
    """The way into the server by a kubeconfig with that user."""
    return from_kubeconfig(kubeconfig(folder / "config", at.port, user, **cluster))


def said(server: Server, access: Access) -> list[str]:
    """The Authorization headers of two requests of one connection."""
    connection = Connection(access, SystemClock(), 5.0)
    server.answers = [http(200, {}), http(200, {})]
    for _ in range(2):
        connection.ask(Request("GET", "/api"))
    connection.close()
    return [line for one in server.asked[-2:] for line in one.splitlines() if line.lower().startswith("authorization")]


def test_a_token_file_is_meant_from_the_files_own_folder_counts_before_a_token_and_is_read_each_time(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("one\n")
    access = as_user(server, tmp_path, {"tokenFile": "token", "token": "older"})
    connection = Connection(access, SystemClock(), 5.0)
    for token in ("one", "two"):
        (tmp_path / "token").write_text(f"{token}\n")
        server.answers = [http(200, {})]
        connection.ask(Request("GET", "/api"))
        assert f"Authorization: Bearer {token}" in server.asked[-1].splitlines()
    connection.close()
    (tmp_path / "token").unlink()
    with pytest.raises(Refused, match="token cannot be read: No such file"):
        connection.ask(Request("GET", "/api"))


def test_who_is_known_by_a_certificate_sends_no_token(server: Server, tmp_path: Path) -> None:
    both = base64.b64encode((tmp_path / "server.pem").read_bytes()).decode()
    assert said(server, as_user(server, tmp_path, {"client-certificate-data": both, "client-key-data": both})) == []


def test_a_certificate_inside_the_file_and_another_name_of_the_server(server: Server, tmp_path: Path) -> None:
    inline = base64.b64encode((tmp_path / "server.crt").read_bytes()).decode()
    access = as_user(server, tmp_path, {"token": "t"}, **{"certificate-authority-data": inline})
    assert said(server, access) == ["Authorization: Bearer t"] * 2
    other = as_user(server, tmp_path, {"token": "t"}, **{"tls-server-name": "elsewhere.example.com"})
    with pytest.raises(Refused, match="certificate"):
        Connection(other, SystemClock(), 5.0).ask(Request("GET", "/api"))


# ---- programs that give a credential


def program(folder: Path, script: str) -> dict[str, Any]:
    """A user whose credential a program gives; each run is a line in `runs`."""
    path = folder / "credential"
    path.write_text(f"#!/bin/sh\necho x >> {folder}/runs\n{script}\n")
    path.chmod(0o700)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), "interactiveMode": "Never"}}


def credential(**status_: str) -> str:
    made = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status_}
    return f"echo '{json.dumps(made)}'"


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


def test_a_program_gives_a_token_once_as_long_as_it_lasts(server: Server, tmp_path: Path) -> None:
    script = credential(token="of-a-program", expirationTimestamp="2999-01-01T00:00:00Z")
    assert said(server, as_user(server, tmp_path, program(tmp_path, script))) == ["Authorization: Bearer of-a-program"] * 2
    assert runs(tmp_path) == 1


def test_a_program_is_run_again_when_what_it_gave_ends(server: Server, tmp_path: Path) -> None:
    script = credential(token="of-a-program", expirationTimestamp="2020-01-01T00:00:00Z")
    said(server, as_user(server, tmp_path, program(tmp_path, script)))
    assert runs(tmp_path) == 3


def test_what_the_server_does_not_know_is_loaded_anew(server: Server, tmp_path: Path) -> None:
    connection = Connection(as_user(server, tmp_path, program(tmp_path, credential(token="t"))), SystemClock(), 5.0)
    server.answers = [status(401, "Unauthorized"), http(200, {})]
    with pytest.raises(Refused, match="401"):
        connection.ask(Request("GET", "/api"))
    assert runs(tmp_path) == 1
    connection.ask(Request("GET", "/api"))
    assert runs(tmp_path) == 2
    connection.close()


FAILING_PROGRAMS = {
    "it fails": "exit 3",
    "it says nothing": "true",
    "it gives nothing": credential(),
}


@pytest.mark.parametrize("script", FAILING_PROGRAMS.values(), ids=FAILING_PROGRAMS.keys())
def test_nobody_goes_on_as_nobody_where_a_program_fails(server: Server, tmp_path: Path, script: str) -> None:
    connection = Connection(as_user(server, tmp_path, program(tmp_path, script)), SystemClock(), 5.0)
    with pytest.raises(Refused, match=r"config: the program '.*credential' gave no credential; run it yourself"):
        connection.ask(Request("GET", "/api"))
    assert server.asked == []


def test_a_program_that_hangs_is_not_waited_for() -> None:
    hanging = threading.Event()
    with pytest.raises(Transient, match=r"c: the program for the credential has not ended after 0.05 s"):
        within(0.05, hanging.wait, "c")
    hanging.set()


# ---- what is refused

REFUSED_AT_ONCE = {
    "an unchecked server": ({"insecure-skip-tls-verify": True}, {}, "insecure-skip-tls-verify is not supported; name the clust"),
    "an old way": ({}, {"auth-provider": {"name": "gcp"}}, "auth-provider is not supported; name an exec program"),
    "a password": ({}, {"username": "u", "password": "p"}, "username is not supported"),
    "somebody else": ({}, {"as": "admin"}, "as is not supported; make a context"),
}
REFUSED_WHEN_USED = {
    "a certificate without its key": ({}, {"client-certificate": "server.pem"}, "not both; name the other"),
    "a key without its certificate": ({}, {"client-key": "server.pem"}, "not both; name the other"),
    "no TLS": ({"server": "http://api.example.com"}, {}, "not of the form https://host:port"),
    "no server": ({"server": ""}, {}, "config: .*server"),
    "data that is not base64": ({"certificate-authority-data": "#"}, {}, "config: a certificate or key of .*cannot be used"),
    "a CA that is not there": ({"certificate-authority": "gone.crt"}, {}, "config: File does not exist: .*gone.crt; correct it"),
    "a CA that is none": ({"certificate-authority": "config"}, {}, "config: a certificate or key of .*config cannot be used"),
    "a key that is none": (
        {},
        {"client-certificate": "server.pem", "client-key": "config"},
        "a certificate or key of .*cannot be used",
    ),
    "a token over two lines": ({}, {"token": "secret\nword"}, "the token has characters that no token has"),
}


@pytest.mark.parametrize(("cluster", "user", "words"), REFUSED_AT_ONCE.values(), ids=REFUSED_AT_ONCE.keys())
def test_what_is_refused_at_once(tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        from_kubeconfig(kubeconfig(tmp_path / "config", 1, user, **cluster))


@pytest.mark.parametrize(("cluster", "user", "words"), REFUSED_WHEN_USED.values(), ids=REFUSED_WHEN_USED.keys())
def test_what_is_refused_when_used(
    server: Server, tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], words: str
) -> None:
    connection = Connection(as_user(server, tmp_path, user, **cluster), SystemClock(), 5.0)
    with pytest.raises(Refused, match=words) as raised:
        connection.ask(Request("GET", "/api"))
    assert "word" not in str(raised.value), "no secret is shown"
    assert server.asked == []


def test_what_says_no_is_no_refusal(server: Server, tmp_path: Path) -> None:
    access = as_user(server, tmp_path, {"username": "", "token": "t"}, **{"insecure-skip-tls-verify": False})
    assert said(server, access) == ["Authorization: Bearer t"] * 2


BROKEN = {
    "not YAML": ("{", "is not YAML"),
    "no mapping": ("- a", "holds no mapping"),
    "nothing": ("", "holds no mapping"),
    "no such context": ("current-context: x\ncontexts: [{name: y}]", "has no context named 'x' in contexts"),
    "no such cluster": (
        "current-context: x\ncontexts: [{name: x, context: {cluster: k}}]\nclusters: [odd]",
        "has no cluster named 'k'",
    ),
}


@pytest.mark.parametrize(("text", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(Refused, match=f"config.*{words}"):
        from_kubeconfig(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="config cannot be read: No such file"):
        from_kubeconfig(tmp_path / "config")


def test_a_pods_own_access(tmp_path: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(Refused, match=r"token file does not exist.*name a kubeconfig file"):
        in_cluster(environment, tmp_path)
    make_authority(tmp_path / "ca.crt")
    (tmp_path / "token").write_text("abc\n")
    found = in_cluster(environment, tmp_path).load()
    assert (found.configuration.host, found.authorization()) == ("https://[fd00::1]:443", "Bearer abc")
    with pytest.raises(Refused, match="Service host/port is not set"):
        in_cluster({}, tmp_path)


def make_authority(path: Path) -> None:
    """A CA that has signed nothing."""
    key = path.with_suffix(".key")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-subj", "/CN=stranger", "-out", path]
    subprocess.run(command, check=True, capture_output=True, env={"PATH": os.defpath})
