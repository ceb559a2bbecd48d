"""Who asks, whom is believed, and an API server that does not answer."""

import base64
import json
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.kube import Access, KubeCluster, Settings, from_kubeconfig, in_cluster
from reconciler.ports import ObjectRef, Refused, Transient
from tests.e2e.control_plane import ControlPlane, free_ports
from tests.e2e.world import Team, access_of, agents_cluster, job_of, ref_of
from tests.waiting import until


def cluster_of(access: Access, seconds: float = 10.0) -> KubeCluster:
    return KubeCluster(access, SystemClock(), Settings(request_seconds=seconds))


def test_who_has_no_rights_is_refused_everything_and_told_which(plane: ControlPlane) -> None:
    plane.sign("nobody", "/CN=nobody")
    cluster = cluster_of(from_kubeconfig(plane.kubeconfig_of("nobody")))
    target = ObjectRef("Job", "default", "train", "u", "1")
    calls: dict[str, Callable[[], object]] = {
        'cannot list resource "nodes".*allow get or list': cluster.read,
        'cannot patch resource "jobs".*allow patch': lambda: cluster.patch(target, {}),
        'cannot delete resource "jobs".*allow delete': lambda: cluster.delete(target, None),
        'cannot get resource "pods"': lambda: cluster.log_tail("default", "p", 10),
        'cannot get resource "configmaps"': cluster.read_record,
        'cannot create resource "configmaps".*allow create': lambda: cluster.write_record(b"x", expect=None),
    }
    for words, call in calls.items():
        with pytest.raises(Refused, match=f"403.*{words}"):
            call()


def test_the_agents_account_may_not_do_more_than_it_needs(plane: ControlPlane) -> None:
    agent = ("--as=system:serviceaccount:gpu-reconciler:agent",)
    for what in (
        "get secrets -A",
        "create pods -A",
        "create jobs.batch -A",
        "update configmaps -A",
        "delete nodes",
        "list secrets",
    ):
        with pytest.raises(AssertionError):
            plane.kubectl("auth", "can-i", *what.split(), *agent)
    assert plane.kubectl("auth", "can-i", "patch", "pods", "-A", *agent).strip() == "yes"


def moved(plane: ControlPlane, folder: Path, **cluster: object) -> Path:
    """The administrator's kubeconfig in that folder, its cluster told otherwise."""
    content = json.loads(plane.kubeconfig.read_text())
    shutil.copytree(plane.folder / "pki", folder / "pki", dirs_exist_ok=True)
    content["clusters"][0]["cluster"].update(cluster)
    path = folder / "config"
    path.write_text(json.dumps(content))
    return path


def account(plane: ControlPlane, folder: Path) -> Access:
    """The agent's own access, by a copy of what its pod finds mounted."""
    shutil.copytree(plane.folder / "serviceaccount", folder)
    host, _, port = plane.server.removeprefix("https://").rpartition(":")
    return in_cluster({"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}, folder)


def test_a_token_that_is_replaced_in_its_file_is_used_at_once(plane: ControlPlane, tmp_path: Path) -> None:
    folder = tmp_path / "account"
    cluster = cluster_of(account(plane, folder))
    good = (folder / "token").read_text()
    for token, works in ((good, True), ("nonsense", False), (good, True)):
        (folder / "token").write_text(token)
        if works:
            assert cluster.read().nodes
        else:
            with pytest.raises(Refused, match=r"401.*renew the token"):
                cluster.read()
    (folder / "token").unlink()
    with pytest.raises(Refused, match="token cannot be read"):
        cluster.read()


def test_a_client_certificate_that_is_replaced_in_its_file_is_taken(plane: ControlPlane, tmp_path: Path) -> None:
    path = moved(plane, tmp_path)
    cluster = cluster_of(from_kubeconfig(path))
    make_authority(tmp_path / "pki/admin.crt")
    shutil.copy(tmp_path / "pki/admin.crt.key", tmp_path / "pki/admin.key")
    with pytest.raises(Refused, match="401"):
        cluster.read()
    for name in ("admin.crt", "admin.key"):
        shutil.copy(plane.folder / "pki" / name, tmp_path / "pki" / name)
    assert cluster.read().nodes


def test_a_server_of_another_authority_is_not_spoken_to(plane: ControlPlane, tmp_path: Path) -> None:
    path = moved(plane, tmp_path)
    make_authority(tmp_path / "pki/ca.crt")
    cluster = cluster_of(from_kubeconfig(path))
    with pytest.raises(Refused, match=r"certificate.*name the CA"):
        cluster.read()
    shutil.copy(plane.folder / "pki/ca.crt", tmp_path / "pki/ca.crt")
    assert cluster.read().nodes, "a CA that was replaced in its file is taken without a restart"


def make_authority(path: Path) -> None:
    """A CA that has signed nothing, and its key beside it."""
    key = path.with_suffix(f"{path.suffix}.key")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-subj", "/CN=stranger", "-out", path]
    subprocess.run(command, check=True, capture_output=True)


def test_a_server_of_another_name_is_not_spoken_to(plane: ControlPlane, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="ostname"):
        cluster_of(from_kubeconfig(moved(plane, tmp_path, **{"tls-server-name": "elsewhere.example.com"}))).read()
    named = moved(plane, tmp_path, **{"tls-server-name": "kubernetes.default.svc"})
    assert cluster_of(from_kubeconfig(named)).read().nodes


def test_a_kubeconfig_with_everything_inside(plane: ControlPlane, tmp_path: Path) -> None:
    content = json.loads(plane.kubeconfig.read_text())
    pki = plane.folder / "pki"

    def inline(name: str) -> str:
        return base64.b64encode((pki / name).read_bytes()).decode()

    content["clusters"][0]["cluster"] = {"server": plane.server + "/", "certificate-authority-data": inline("ca.crt")}
    content["users"][0]["user"] = {"client-certificate-data": inline("admin.crt"), "client-key-data": inline("admin.key")}
    path = tmp_path / "config"
    path.write_text(json.dumps(content))
    assert cluster_of(from_kubeconfig(path)).read().nodes


def test_nobody_listens(plane: ControlPlane, tmp_path: Path) -> None:
    cluster = cluster_of(from_kubeconfig(moved(plane, tmp_path, server=f"https://127.0.0.1:{free_ports(1)[0]}")))
    with pytest.raises(Transient, match="no answer"):
        cluster.read()


def test_a_server_that_hangs_and_one_that_was_restarted(plane: ControlPlane, team: Team) -> None:
    cluster = cluster_of(access_of(plane), seconds=1.0)
    held = ref_of(team.held(job_of("train")))
    assert cluster.read().nodes
    server = plane.running("kube-apiserver")
    server.send_signal(signal.SIGSTOP)
    try:
        for call in (cluster.read, lambda: cluster.patch(held, {"spec": {"suspend": False}}), cluster.read_record):
            with pytest.raises(Transient, match="no answer"):
                call()
    finally:
        server.send_signal(signal.SIGCONT)
    assert until(lambda: answered(cluster))
    plane.stop("kube-apiserver")
    with pytest.raises(Transient):
        cluster.read()
    with pytest.raises(Transient):
        cluster.delete(held, None)
    plane.start_api()
    assert until(lambda: answered(cluster))


def answered(cluster: KubeCluster) -> bool:
    try:
        return bool(cluster.read().nodes)
    except Transient:
        return False


def test_the_agents_own_way_in_is_enough(plane: ControlPlane) -> None:
    assert agents_cluster(plane).read().nodes
