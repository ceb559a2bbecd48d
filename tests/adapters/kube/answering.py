"""An API server on loopback that answers as it is told, over TLS: what a real one cannot be made to do at will.

What a real one does is tested against a real one, in tests/e2e.
"""

import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.kube import Access, KubeCluster, Settings, from_kubeconfig

Raw = Callable[[ssl.SSLSocket], None]
"""Writes an answer, or less than one, onto the connection."""


def http(code: int, body: Any, *, more: int = 0, headers: str = "Connection: close\r\n") -> Raw:
    """An answer with a JSON body (or a text); `more` bytes are promised that do not come."""
    payload = (body if isinstance(body, str) else json.dumps(body)).encode()
    head = f"HTTP/1.1 {code} Words\r\nContent-Length: {len(payload) + more}\r\n{headers}\r\n"
    return lambda connection: connection.sendall(head.encode() + payload)


def status(code: int, message: str, *causes: str) -> Raw:
    """A failure as the API tells it; `causes` are the fields that it blames."""
    details = {"causes": [{"field": name} for name in causes]}
    return http(code, {"kind": "Status", "status": "Failure", "code": code, "message": message, "details": details})


def page(kind: str, *items: dict[str, Any], following: str = "") -> Raw:
    """One page of a list."""
    return http(200, {"kind": f"{kind}List", "apiVersion": "v1", "metadata": {"continue": following}, "items": list(items)})


def hang_up(connection: ssl.SSLSocket) -> None:
    """No answer at all."""


def drip(connection: ssl.SSLSocket) -> None:
    """An answer that never ends, a little at a time."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    pause = threading.Event()
    try:
        while True:
            connection.sendall(b" ")
            pause.wait(0.05)
    except OSError:
        return


@dataclass
class Server:
    """Gives its answers in order, one for each request, each on its own connection; `asked` are the requests, each
    body in the shortest form of its JSON."""

    access: Access
    port: int
    answers: list[Raw] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    closed: int = 0
    """Connections that are closed by now."""

    def cluster(self, **settings: Any) -> KubeCluster:
        """The cluster behind it."""
        return KubeCluster(self.access, SystemClock(), Settings(**{"request_seconds": 5.0, **settings}))


@contextmanager
def answering(folder: Path) -> Iterator[Server]:
    """A server at work, with a certificate of its own."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(_certificate(folder))
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port = listening.getsockname()[1]
        server = Server(from_kubeconfig(kubeconfig(folder / "config", port)), port)
        serving = threading.Thread(target=_serve, args=(listening, tls, server))
        serving.start()
        try:
            yield server
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            serving.join()


def kubeconfig(path: Path, port: int, user: dict[str, Any] | None = None, **cluster: Any) -> Path:
    """A kubeconfig file for a server here."""
    about = {"server": f"https://127.0.0.1:{port}", "certificate-authority": "server.crt", **cluster}
    content = {
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": about}],
        "users": [{"name": "u", "user": {"token": "secret-word"} if user is None else user}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    }
    path.write_text(json.dumps(content))
    return path


def _serve(listening: socket.socket, tls: ssl.SSLContext, server: Server) -> None:
    while True:
        try:
            plain, _ = listening.accept()
        except OSError:
            return
        with plain:
            try:
                with tls.wrap_socket(plain, server_side=True) as connection:
                    server.asked.append(_request(connection))
                    server.answers.pop(0)(connection)
            except OSError:
                pass
        server.closed += 1


def _request(connection: ssl.SSLSocket) -> str:
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0)
    while len(body) < length:
        body += connection.recv(65536)
    written = json.dumps(json.loads(body), separators=(",", ":"), ensure_ascii=False) if body else ""
    return f"{head.decode()}\n{written}"


def _certificate(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(minutes=5), now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate = made.public_bytes(serialization.Encoding.PEM)
    (folder / "server.crt").write_bytes(certificate)
    pair = folder / "server.pem"
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    pair.write_bytes(key.private_bytes(*form) + certificate)
    return pair


def events(*items: dict[str, Any] | bytes, silent: bool = False) -> Raw:
    """A watch that tells these, and then ends as it should; or says nothing more until the other side gives up."""
    lines = b"".join(item if isinstance(item, bytes) else json.dumps(item).encode() + b"\n" for item in items)

    def answer(connection: ssl.SSLSocket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + lines)
        while silent and connection.recv(65536):
            pass

    return answer
