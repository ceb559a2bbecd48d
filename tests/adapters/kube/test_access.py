"""What a kubeconfig file is taken for, and what is refused of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.kube import Access, from_kubeconfig, in_cluster
from reconciler.adapters.kube.access import Pem, authorization, tls_of
from reconciler.ports import Refused


def written(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    """A kubeconfig file with one context."""
    path = folder / "config"
    content = {
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": "https://api.example.com:6443", **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    }
    path.write_text(json.dumps(content))
    return path


def test_paths_are_meant_from_the_files_own_folder(tmp_path: Path) -> None:
    found = from_kubeconfig(written(tmp_path, {"certificate-authority": "ca.crt"}, {"tokenFile": "token", "token": "older"}))
    assert found == Access("https://api.example.com:6443", Pem(tmp_path / "ca.crt"), token_file=tmp_path / "token")
    (tmp_path / "token").write_text("abc\n")
    assert authorization(found) == {"Authorization": "Bearer abc"}


def test_what_is_inside_the_file_and_secrets_are_not_shown(tmp_path: Path) -> None:
    data = {"client-certificate-data": "Y2VydA==", "client-key-data": "a2V5"}
    cluster = {"server": "https://api.example.com/k8s/", "tls-server-name": "inner"}
    found = from_kubeconfig(written(tmp_path, cluster, {**data, "token": "secret-word"}), "c")
    assert (found.server, found.server_name) == ("https://api.example.com/k8s", "inner")
    assert (found.certificate, found.key, found.token) == (Pem(body=b"cert"), Pem(body=b"key"), "secret-word")
    assert "secret-word" not in repr(found)
    assert "key'" not in repr(found)
    with pytest.raises(Refused, match="cannot be used"):
        tls_of(found)


REFUSED = {
    "an unchecked server": (
        {"insecure-skip-tls-verify": True},
        {},
        "insecure-skip-tls-verify is not supported; name the cluster's CA",
    ),
    "a proxy": ({"proxy-url": "http://p"}, {}, "proxy-url is not supported"),
    "a program for the credential": ({}, {"exec": {"command": "x"}}, "exec is not supported; name a tokenFile"),
    "a password": ({}, {"username": "u", "password": "p"}, "username is not supported"),
    "somebody else": ({}, {"as": "admin"}, "as is not supported"),
    "a certificate without its key": ({}, {"client-certificate": "c.crt"}, "not both; name the other"),
    "a key without its certificate": ({}, {"client-key-data": "a2V5"}, "not both; name the other"),
    "no TLS": ({"server": "http://api.example.com"}, {}, "not of the form https://host:port"),
    "no server": ({"server": ""}, {}, "not of the form https://host:port"),
    "data that is not base64": ({"certificate-authority-data": "#"}, {}, "certificate-authority-data is not base64"),
}


@pytest.mark.parametrize(("cluster", "user", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        from_kubeconfig(written(tmp_path, cluster, user))


def test_what_says_no_is_no_refusal(tmp_path: Path) -> None:
    assert from_kubeconfig(written(tmp_path, {"insecure-skip-tls-verify": False}, {"username": ""})).token == ""


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
    with pytest.raises(Refused, match=words):
        from_kubeconfig(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="config cannot be read: No such file"):
        from_kubeconfig(tmp_path / "config")


def test_a_pods_own_access(tmp_path: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(Refused, match="token is not there; give the pod a service account"):
        in_cluster(environment, tmp_path)
    for name in ("token", "ca.crt"):
        (tmp_path / name).write_text("x")
    found = in_cluster(environment, tmp_path)
    assert (found.server, found.token_file, found.authority) == (
        "https://[fd00::1]:443",
        tmp_path / "token",
        Pem(tmp_path / "ca.crt"),
    )
    with pytest.raises(Refused, match="this is no pod"):
        in_cluster({}, tmp_path)
