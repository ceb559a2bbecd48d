"""A region's real control plane for tests: etcd, kube-apiserver, controller-manager, scheduler and kwok, as processes on loopback.

Pods are played by kwok, by annotations of the pod: `sim/run` how long it runs ("3s"), `sim/exit-code`, `sim/stop` how long it takes
to stop. All state is in one folder; what is started here is ended here, by its process.
"""

import fcntl
import json
import os
import random
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Any

from tests.waiting import until

HERE = Path(__file__).parent
_SECONDS = 60.0


@cache
def built(part: str) -> Path:
    """The folder with a part's programs (`kubestack`, `flux`, `argocd`, `gitea`, `s3`, `kueue`), built where they are missing."""
    return Path(subprocess.run([HERE / "build.sh", part], check=True, stdout=subprocess.PIPE, text=True).stdout.strip())


class ControlPlane:
    """One region. `start` brings it up, `stop` ends it; it may be started again, on what etcd has kept."""

    def __init__(
        self, folder: Path, programs: Path, name: str = "eu", gates: Sequence[str] = (), apis: Sequence[str] = ()
    ) -> None:
        self.folder, self.name = folder, name
        # Of all three, as a cluster has them; and versions of APIs that are not served by default.
        self._gates = [f"--feature-gates={','.join(f'{gate}=true' for gate in gates)}"] if gates else []
        self._apis = [f"--runtime-config={','.join(f'{api}=true' for api in apis)}"] if apis else []
        self._programs = programs
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._hurried = True
        self._ports = dict(zip(("etcd", "peer", "api", "kcm", "scheduler", "kwok"), free_ports(6), strict=True))
        self.server = f"https://127.0.0.1:{self._ports['api']}"
        self.logs = folder / "container.log"
        """What every container has written, in the form of a container runtime's log."""
        for sub in ("pki", "log"):
            (folder / sub).mkdir(parents=True)
        self.logs.write_bytes(b"")
        self._make_keys()
        self.kubeconfig = self.kubeconfig_of("admin")

    # ---- keys

    def _make_keys(self) -> None:
        self._openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "ca.key")
        self._openssl("req", "-x509", "-new", "-key", "ca.key", "-subj", f"/CN={self.name}-ca", "-days", "30", "-out", "ca.crt")
        self.sign("apiserver", "/CN=kube-apiserver", "IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes.default.svc")
        self.sign("admin", "/O=system:masters/CN=admin")
        self._openssl("genrsa", "-out", "sa.key", "2048")
        self._openssl("rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")

    def sign(self, name: str, subject: str, alternative: str = "DNS:client") -> None:
        """A key and a certificate of the region's CA: `pki/<name>.key` and `.crt`."""
        (self.folder / "pki" / f"{name}.ext").write_text(
            f"subjectAltName={alternative}\nextendedKeyUsage=serverAuth,clientAuth\n"
        )
        self._openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{name}.key")
        self._openssl("req", "-new", "-key", f"{name}.key", "-subj", subject, "-out", f"{name}.csr")
        signer = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30", "-extfile", f"{name}.ext")
        self._openssl("x509", "-req", "-in", f"{name}.csr", *signer, "-out", f"{name}.crt")

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, cwd=self.folder / "pki", capture_output=True)

    def kubeconfig_of(self, name: str) -> Path:
        """A kubeconfig file for whom `sign` has made a certificate, with paths relative to it."""
        path = self.folder / f"{name}.kubeconfig"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": self.name,
            "clusters": [{"name": self.name, "cluster": {"server": self.server, "certificate-authority": "pki/ca.crt"}}],
            "users": [{"name": name, "user": {"client-certificate": f"pki/{name}.crt", "client-key": f"pki/{name}.key"}}],
            "contexts": [{"name": self.name, "context": {"cluster": self.name, "user": name}}],
        }
        path.write_text(json.dumps(content))
        return path

    # ---- processes

    def start(self) -> None:
        """All of it; returns when the API server is ready and its controllers have made the default namespace's account."""
        self.start_api()
        self.start_controllers()
        until(lambda: self._answers("get", "serviceaccount", "default"), _SECONDS, 0.2)

    def start_controllers(self, *, hurried: bool = True) -> None:
        """Controllers, scheduler and kubelets, if they do not run. Not `hurried`: the controllers ask as seldom as by default."""
        self._hurried = hurried
        for program in ("kube-controller-manager", "kube-scheduler", "kwok"):
            if program not in self._running:
                self._start(program)

    def start_api(self) -> None:
        """etcd and the API server, if they do not run."""
        for program in ("etcd", "kube-apiserver"):
            if program not in self._running:
                self._start(program)
        until(lambda: self._answers("get", "--raw", "/readyz"), _SECONDS, 0.2)

    def stop(self, *programs: str) -> None:
        """End the processes named, or all; those that were started last first. What does not end soon is killed."""
        for program in programs or tuple(reversed(self._running)):
            running = self._running.pop(program)
            running.terminate()
            try:
                running.wait(3)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()

    def port(self, of: str) -> int:
        """Where on loopback a part listens: etcd, api, ..."""
        return self._ports[of]

    def running(self, program: str) -> subprocess.Popen[bytes]:
        """A program's process."""
        return self._running[program]

    def _start(self, program: str) -> None:
        with (self.folder / "log" / program).open("ab") as log:
            command = [str(self._programs / "kubestack"), program, *self._arguments()[program]]
            self._running[program] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _answers(self, *arguments: str) -> bool:
        for program, running in self._running.items():
            if running.poll() is not None:
                words = (self.folder / "log" / program).read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{program} ended with {running.returncode}:\n{words}")
        return self._kubectl(arguments, None).returncode == 0

    def _arguments(self) -> Mapping[str, Sequence[str]]:
        pki, port = self.folder / "pki", self._ports
        client, peer = f"http://127.0.0.1:{port['etcd']}", f"http://127.0.0.1:{port['peer']}"
        config = f"--kubeconfig={self.kubeconfig}"
        trusting = [config, f"--authentication-{config[2:]}", f"--authorization-{config[2:]}", "--bind-address=127.0.0.1"]
        hurried = ["--leader-elect=false", *(["--kube-api-qps=300", "--kube-api-burst=600"] if self._hurried else [])]
        return {
            "etcd": [
                f"--name={self.name}", f"--data-dir={self.folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=warn",
                f"--listen-client-urls={client}", f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}", f"--initial-cluster={self.name}={peer}",
            ],
            "kube-apiserver": [
                f"--etcd-servers={client}", "--bind-address=127.0.0.1", f"--secure-port={port['api']}",
                "--endpoint-reconciler-type=none", f"--tls-cert-file={pki / 'apiserver.crt'}",
                f"--tls-private-key-file={pki / 'apiserver.key'}", f"--client-ca-file={pki / 'ca.crt'}",
                # Without these, the controllers complain for ever.
                f"--requestheader-client-ca-file={pki / 'ca.crt'}", "--requestheader-allowed-names=front-proxy",
                "--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
                "--requestheader-extra-headers-prefix=X-Remote-Extra-",
                f"--service-account-key-file={pki / 'sa.pub'}", f"--service-account-signing-key-file={pki / 'sa.key'}",
                "--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=Node,RBAC",
                f"--kubelet-client-certificate={pki / 'apiserver.crt'}", f"--kubelet-client-key={pki / 'apiserver.key'}",
                "--service-cluster-ip-range=10.96.0.0/16", "--shutdown-delay-duration=0s", *self._gates, *self._apis,
            ],
            "kube-controller-manager": [
                *trusting, *hurried, f"--secure-port={port['kcm']}", f"--service-account-private-key-file={pki / 'sa.key'}",
                f"--root-ca-file={pki / 'ca.crt'}", "--use-service-account-credentials=false", *self._gates,
            ],
            "kube-scheduler": [*trusting, *hurried, f"--secure-port={port['scheduler']}", *self._gates],
            "kwok": [
                config, f"--config={self._kwok_config()}", "--manage-nodes-with-label-selector=sim/kubelet=up",
                "--node-ip=127.0.0.1", f"--node-port={port['kwok']}", f"--server-address=127.0.0.1:{port['kwok']}",
                f"--tls-cert-file={pki / 'apiserver.crt'}", f"--tls-private-key-file={pki / 'apiserver.key'}",
            ],
        }  # fmt: skip

    def _kwok_config(self) -> Path:
        path = self.folder / "kwok.yaml"
        path.write_text((HERE / "kwok.yaml").read_text().replace("@LOGS@", str(self.logs)))
        return path

    # ---- what a person does

    def kubectl(self, *arguments: str, stdin: Any = None) -> str:
        """Run kubectl as an administrator; `stdin` is an object, or a text of several. Returns its output."""
        found = self._kubectl(arguments, stdin if stdin is None or isinstance(stdin, str) else json.dumps(stdin))
        if found.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {found.stderr}")
        return found.stdout

    def _kubectl(self, arguments: Sequence[str], stdin: str | None) -> subprocess.CompletedProcess[str]:
        command = [str(self._programs / "kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        environment = {"PATH": os.defpath, "HOME": str(self.folder)}
        return subprocess.run(command, check=False, capture_output=True, text=True, input=stdin, env=environment)

    def get(self, kind: str, name: str, namespace: str = "default") -> dict[str, Any]:
        """One object, as kubectl shows it."""
        found: dict[str, Any] = json.loads(self.kubectl("get", kind, name, "-n", namespace, "-o", "json"))
        return found

    def add_nodes(self, count: int, gpus: int = 8, product: str = "NVIDIA-H100-80GB-HBM3") -> None:
        """Nodes with GPUs; returns when all are ready."""
        names = [f"{self.name}-gpu-{number}" for number in range(1, count + 1)]
        items = [_node(name, gpus, product) for name in names]
        self.kubectl("create", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": items})
        until(lambda: self.kubectl("get", "nodes", "--no-headers").count(" Ready ") >= count, _SECONDS, 0.2)


@contextmanager
def region(folder: Path, name: str = "eu", gates: Sequence[str] = (), apis: Sequence[str] = ()) -> Iterator[ControlPlane]:
    """A control plane that is up, and down again afterwards; with feature gates, and versions of APIs, beside the usual ones."""
    plane = ControlPlane(folder, built("kubestack"), name, gates, apis)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


_PORTS = range(15_000, 30_000)
"""Below those from which the system takes ports for clients: one of these could be gone before its server listens."""
_KEPT: list[IO[bytes]] = []
"""Locks on the ports that were given out here, so that tests side by side get others. They fall with the process."""


def free_ports(count: int) -> tuple[int, ...]:
    """Ports of loopback that nobody listens on, and that nobody else is given as long as this process lives."""
    folder = Path(tempfile.gettempdir()) / "gpu-reconciler-ports"
    folder.mkdir(exist_ok=True)
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(found) == count:
            break
        lock = (folder / str(port)).open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            lock.close()
            continue
        _KEPT.append(lock)
        found.append(port)
    return tuple(found)


def _node(name: str, gpus: int, product: str) -> dict[str, Any]:
    resources = {"cpu": "96", "memory": "1Ti", "ephemeral-storage": "2Ti", "pods": "110", "nvidia.com/gpu": str(gpus)}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "sim/kubelet": "up",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/cuda.driver-version.full": "570.86.15",
    }
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": resources, "allocatable": resources}}
