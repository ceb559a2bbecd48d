"""Where an API server is, whom it is trusted by and who we are: a pod's service account, or a kubeconfig file.

Both are read by the official client. Decides only what is refused of what it takes, and how long it may take. Which file, and
which context, is for whoever wires the cluster.

The client goes on in silence where it must not: with a server that nobody checks (`insecure-skip-tls-verify`), over plain HTTP,
with our own rights where another's were meant (`as`), as nobody where a program failed, with what a token file once had in it.
Invariant: what comes out reaches its server by TLS whose certificate is checked, as the one whom the file names, or not at all.
"""

import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import urllib3
import yaml
from kubernetes.client.configuration import Configuration
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import InClusterConfigLoader
from kubernetes.config.kube_config import KubeConfigLoader

from reconciler.ports import Refused, Transient

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes puts a pod's own token and its cluster's CA."""
PROGRAM_SECONDS: Final = 20.0
"""How long a program may take that a kubeconfig names for its credential."""
_NOT_TAKEN: Final = {
    "insecure-skip-tls-verify": "name the cluster's CA as certificate-authority; an unchecked server is not spoken to",
    "auth-provider": "name an exec program, a tokenFile or a client certificate; Kubernetes knows no auth providers any more",
    "username": "name a tokenFile or a client certificate; Kubernetes takes no passwords",
    "as": "make a context of the user that is meant; nobody is impersonated",
}
_BROKEN: Final = (ConfigException, ValueError, TypeError, AttributeError, KeyError, OSError)
"""What the client raises where a file is not as it should be."""
_REPAIR: Final = "correct it, or write it anew with `kubectl config view --raw --flatten`"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Credentials:
    """A server, and who we are there as long as it is not said otherwise. `authorization` is asked for each request."""

    configuration: Configuration = field(repr=False)
    authorization: Callable[[], str]
    """The header; '' where a certificate tells who we are. Raises Refused or Transient."""


@dataclass(frozen=True, slots=True)
class Access:
    """One API server as somebody. `load` reads the credentials as they are now; it raises Refused or Transient."""

    origin: str
    """Where that is written, for messages."""
    load: Callable[[], Credentials]


class _Chosen(NamedTuple):
    """A kubeconfig's content, and what the context that counts names of it."""

    content: dict[str, Any]
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]


def in_cluster(environment: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> Access:
    """The access of the pod that we run in. Raises Refused outside of one."""

    def load() -> Credentials:
        configuration = Configuration()
        try:
            loader = InClusterConfigLoader(str(folder / "token"), str(folder / "ca.crt"), environ=environment)  # type: ignore[no-untyped-call]
            loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
        except _BROKEN as error:
            raise Refused(
                f"this is no pod with a service account in {folder} ({error}); name a kubeconfig file, "
                "or give the pod automountServiceAccountToken: true"
            ) from error
        # Kubernetes replaces it hourly.
        return Credentials(_checked(configuration, str(folder)), lambda: _bearer(_text(folder / "token"), str(folder)))

    load()
    return Access(str(folder), load)


def from_kubeconfig(path: Path, context: str | None = None) -> Access:
    """What a kubeconfig file says of a context (None: its current one). Raises Refused, naming the file and what to do."""
    origin = f"{path}, context {context}" if context else str(path)
    _chosen(path, context)
    return Access(origin, lambda: _from_file(path, context, origin))


def _from_file(path: Path, context: str | None, origin: str) -> Credentials:
    chosen = _chosen(path, context)
    program = chosen.user.get("exec")
    configuration = Configuration()

    def load() -> None:
        try:
            loader = KubeConfigLoader(chosen.content, context, config_base_path=str(path.parent))  # type: ignore[no-untyped-call]
            loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
        except _BROKEN as error:
            raise Refused(f"{origin}: {_words(error)}; {_REPAIR}") from error

    within(PROGRAM_SECONDS if program else None, load, origin)
    if program and not (configuration.api_key or configuration.cert_file):
        raise Refused(f"{origin}: the program {program.get('command')!r} gave no credential; run it yourself to see why")
    _checked(configuration, origin)
    token_file = chosen.user.get("tokenFile")
    if token_file:  # it counts before a token, as kubectl has it, and may be replaced at any time
        return Credentials(configuration, lambda: _bearer(_text(path.parent / str(token_file)), origin))

    def asked() -> str:
        # A program whose credential ends is run again.
        value = within(PROGRAM_SECONDS if program else None, lambda: configuration.get_api_key_with_prefix("BearerToken"), origin)
        return _bearer((value or "").removeprefix("Bearer "), origin)

    return Credentials(configuration, asked)


def within(seconds: float | None, call: Callable[[], T], origin: str) -> T:
    """What a call returns or raises, if it does so in time (None: however long); else Transient, and it is left to itself."""
    if seconds is None:
        return call()
    found: list[T] = []
    raised: list[Exception] = []

    def run() -> None:
        try:
            found.append(call())
        except Exception as error:  # noqa: BLE001 - it is raised by whoever waits
            raised.append(error)

    thread = threading.Thread(target=run, name="credential", daemon=True)
    thread.start()
    thread.join(seconds)
    if raised:
        raise raised[0]
    if not found:
        raise Transient(f"{origin}: the program for the credential has not ended after {seconds:g} s")
    return found[0]


def _chosen(path: Path, context: str | None) -> _Chosen:
    try:
        content = yaml.load(_text(path), Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise Refused(f"{path} is not YAML: {error}; {_REPAIR}") from error
    if not isinstance(content, dict):
        raise Refused(f"{path} is not a kubeconfig file: it holds no mapping; {_REPAIR}")
    name = context or content.get("current-context") or ""
    about = _named(content, "context", str(name), path)
    cluster = _named(content, "cluster", str(about.get("cluster", "")), path)
    user = _named(content, "user", str(about.get("user", "")), path)
    for word, advice in _NOT_TAKEN.items():
        if cluster.get(word) or user.get(word):
            raise Refused(f"{path}, context {name}: {word} is not supported; {advice}")
    return _Chosen(content, cluster, user)


def _named(content: Mapping[str, Any], kind: str, name: str, path: Path) -> Mapping[str, Any]:
    for entry in content.get(f"{kind}s") or ():
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(kind), dict):
            return dict(entry[kind])
    raise Refused(f"{path} has no {kind} named {name!r} in {kind}s; add it, or choose another context")


def _checked(configuration: Configuration, origin: str) -> Configuration:
    """The configuration, if it can be used and is safe. Raises Refused."""
    parts = urlsplit(configuration.host)
    if parts.scheme != "https" or not parts.hostname:
        raise Refused(f"{origin}: the server's address {configuration.host!r} is not of the form https://host:port; correct it")
    if not configuration.verify_ssl:
        raise Refused(f"{origin}: the server's certificate would not be checked; name the cluster's CA")
    if (configuration.cert_file is None) != (configuration.key_file is None):
        raise Refused(f"{origin}: there is a client certificate or its key, not both; name the other as well")
    try:
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file is not None:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
    except (ssl.SSLError, OSError) as error:
        files = ", ".join(name for name in (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file) if name)
        raise Refused(f"{origin}: a certificate or key of {files} cannot be used: {error}; replace it") from error
    # No request is sent again and no redirection followed: by default the client does both.
    configuration.retries = urllib3.Retry(total=False)
    configuration.keep_alive = True
    return configuration


def _bearer(token: str, origin: str) -> str:
    word = token.strip()
    if not word.isascii() or not word.isprintable():  # it is shown to nobody
        raise Refused(f"{origin}: the token has characters that no token has; write it anew")
    return f"Bearer {word}" if word else ""


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}; put the file there, readable for this account") from error


def _words(error: Exception) -> str:
    return f"{error}" if isinstance(error, ConfigException) else f"it is no kubeconfig ({type(error).__name__}: {error})"
