"""Where an API server is, whom it is trusted by and who we are: from a pod's service account or from a kubeconfig file.

Decides what of a kubeconfig is taken; what it cannot take it refuses, and nothing is left out in silence. Which file, and
which context, is for whoever wires the cluster. Invariant: what comes out reaches its server by TLS whose certificate is checked.
"""

import base64
import binascii
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from reconciler.ports import Refused

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes puts a pod's own token and its cluster's CA."""
_NOT_TAKEN: Final = {
    "insecure-skip-tls-verify": "name the cluster's CA as certificate-authority; an unchecked server is not spoken to",
    "proxy-url": "name a server address that is reached without a proxy",
    "exec": "name a tokenFile, or a client certificate; programs are not run for a credential",
    "auth-provider": "name a tokenFile, or a client certificate",
    "username": "name a tokenFile, or a client certificate; Kubernetes takes no passwords",
    "as": "make a context of the user that is meant; nobody is impersonated",
}


@dataclass(frozen=True, slots=True)
class Pem:
    """Something in PEM form: in a file, which is read anew for each connection pool, or here."""

    path: Path | None = None
    body: bytes = field(default=b"", repr=False)

    def read(self) -> bytes:
        """Its bytes. Raises Refused where its file cannot be read."""
        return self.body if self.path is None else _bytes(self.path)


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach one API server as somebody. A token in a file is read for every request: Kubernetes replaces them hourly."""

    server: str
    """`https://host:port`, with a path in front of the API's own where there is one."""
    authority: Pem | None = None
    """Whose certificates are believed; None: those that this machine believes."""
    certificate: Pem | None = None
    key: Pem | None = None
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    server_name: str | None = None
    """What the server's certificate must be made out to, where that is not the host of its address."""

    def __post_init__(self) -> None:
        """Raises Refused for an address that is not https, and for half of a certificate and key."""
        parts = urlsplit(self.server)
        if parts.scheme != "https" or not parts.hostname:
            raise Refused(f"the API server's address {self.server!r} is not of the form https://host:port; correct it")
        if (self.certificate is None) != (self.key is None):
            raise Refused(f"for {self.server} there is a client certificate or its key, not both; name the other as well")


def in_cluster(environment: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> Access:
    """The access of the pod that we run in. Raises Refused outside of one."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise Refused("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no pod; name a kubeconfig file")
    for name in ("token", "ca.crt"):
        if not (folder / name).is_file():
            raise Refused(f"{folder / name} is not there; give the pod a service account with automountServiceAccountToken: true")
    address = f"[{host}]" if ":" in host else host
    return Access(f"https://{address}:{port}", authority=Pem(folder / "ca.crt"), token_file=folder / "token")


def from_kubeconfig(path: Path, context: str | None = None) -> Access:
    """What a kubeconfig file says of a context (None: its current one). Raises Refused, naming the file and the entry."""
    try:
        content = yaml.load(_bytes(path), Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise Refused(
            f"{path} is not YAML: {error}; write it anew, for example with `kubectl config view --raw --flatten`"
        ) from error
    if not isinstance(content, Mapping):
        raise Refused(f"{path} is not a kubeconfig file: it holds no mapping")
    chosen = context or content.get("current-context") or ""
    about = _named(content, "contexts", "context", chosen, path)
    cluster = _named(content, "clusters", "cluster", str(about.get("cluster", "")), path)
    user = _named(content, "users", "user", str(about.get("user", "")), path)
    for word in (*cluster, *user):
        if word in _NOT_TAKEN and (cluster.get(word) or user.get(word)):
            raise Refused(f"{path}, context {chosen}: {word} is not supported; {_NOT_TAKEN[word]}")
    token_file = user.get("tokenFile")
    return Access(
        server=str(cluster.get("server", "")).rstrip("/"),
        authority=_pem(cluster, "certificate-authority", path),
        certificate=_pem(user, "client-certificate", path),
        key=_pem(user, "client-key", path),
        token="" if token_file else str(user.get("token") or ""),
        token_file=path.parent / str(token_file) if token_file else None,
        server_name=cluster.get("tls-server-name") or None,
    )


def tls_of(access: Access) -> ssl.SSLContext:
    """TLS as the access wants it. Raises Refused where a certificate or key cannot be read or used."""
    try:
        authority = access.authority.read().decode("ascii") if access.authority else None
        context = ssl.create_default_context(cadata=authority)
        if access.certificate is not None and access.key is not None:
            _load_pair(context, access.certificate.read(), access.key.read())
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise Refused(f"a certificate or key for {access.server} cannot be used: {error}; replace it") from error
    return context


def authorization(access: Access) -> dict[str, str]:
    """The header that says who we are; none where a certificate does. Raises Refused where the token's file cannot be read."""
    token = _bytes(access.token_file).decode(errors="replace").strip() if access.token_file else access.token
    return {"Authorization": f"Bearer {token}"} if token else {}


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # OpenSSL takes a pair from a file only.
    with TemporaryDirectory(prefix="gpu-reconciler-") as folder:
        pair = Path(folder) / "pair.pem"
        pair.touch(mode=0o600)
        pair.write_bytes(key + b"\n" + certificate)
        context.load_cert_chain(pair)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}; put the file there, readable for this account") from error


def _named(content: Mapping[str, Any], field_name: str, kind: str, name: str, path: Path) -> Mapping[str, Any]:
    for entry in content.get(field_name) or ():
        if isinstance(entry, Mapping) and entry.get("name") == name:
            found = entry.get(kind) or {}
            if isinstance(found, Mapping):
                return found
    raise Refused(f"{path} has no {kind} named {name!r} in {field_name}; add it, or choose another context")


def _pem(entry: Mapping[str, Any], name: str, path: Path) -> Pem | None:
    written = entry.get(f"{name}-data")
    if written:
        try:
            return Pem(body=base64.b64decode(str(written), validate=True))
        except binascii.Error as error:
            raise Refused(f"{path}: {name}-data is not base64 ({error}); write it anew") from error
    return Pem(path.parent / str(entry[name])) if entry.get(name) else None
