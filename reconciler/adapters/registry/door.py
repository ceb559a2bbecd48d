"""One request to a registry: its address, who we are there, redirects, and what a failure means.

Decides when a login or token is sent: to the registry that it is for and its token server, never to where a registry redirects.
Invariant: no password or token is in a message.
"""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import requests
from requests.auth import AuthBase
from urllib3.exceptions import HTTPError

from reconciler.adapters.registry.challenges import LEAST_SECONDS, Challenge, challenges_in, token_url
from reconciler.adapters.registry.logins import Login
from reconciler.model.image_ref import DEFAULT_REGISTRY, ImageRef
from reconciler.ports import Refused, Transient

TIMEOUT: Final = (5.0, 30.0)
"""Seconds until a connection must stand, and between two bytes of the answer."""
HOSTS: Final = "RECONCILER_REGISTRY_HOSTS"
"""Hosts that may be asked, separated by commas: registries as they are reached (Docker Hub: registry-1.docker.io), their token
servers, and where they redirect manifests to; not set: any. Whoever writes a job names an image, and that image's registry names
other servers; this is for whoever runs the hub to say where it may send requests to."""
PLAIN: Final = "RECONCILER_REGISTRY_PLAIN_HTTP"
"""Registries that are spoken to without TLS, separated by commas; those on loopback are so anyway."""
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HUB: Final = "registry-1.docker.io"
_PASSING: Final = frozenset({408, 423, 425, 429})
_MOST_REDIRECTS: Final = 5
_TOKEN_LIMIT: Final = 1024 * 1024
BROKEN: Final = (requests.RequestException, HTTPError, OSError)
"""What is raised where an answer does not come, or breaks off."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. `challenged`: the registry asked who we are; `logged_in`: we had a login for it."""

    response: requests.Response
    challenged: bool
    logged_in: bool


@dataclass(frozen=True, slots=True)
class _Token:
    header: str = field(repr=False)
    until: float
    """By the monotonic clock, seconds."""


class _Sent(AuthBase):
    """Exactly this Authorization, or none: without it `requests` would take one from a .netrc."""

    def __init__(self, header: str | None) -> None:
        self._header = header

    def __call__(self, prepared: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._header is not None:
            prepared.headers["Authorization"] = self._header
        return prepared


class Door:
    """Connections to registries, and the tokens that they gave. One thread at a time."""

    def __init__(
        self, environment: Mapping[str, str], logins: Mapping[str, Login], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._logins = logins
        self._plain = _names(environment.get(PLAIN, ""))
        self._allowed = _names(environment[HOSTS]) if HOSTS in environment else None
        self._monotonic = monotonic
        self._session = requests.Session()
        self._tokens: dict[tuple[str, str], _Token] = {}

    def ask(self, method: str, image: ImageRef, path: str, accept: str = "*/*", *, follow: bool = True) -> Answer:
        """Ask for something of an image's repository, `manifests/…` or `blobs/…`. The caller closes the response.

        Statuses below 500 are given back, but for those that pass by themselves. Raises Transient and Refused.
        """
        url = f"{self._scheme(image.registry)}://{_address(image.registry)}/v2/{image.repository}/{path}"
        login = self._logins.get(image.registry)
        known = self._tokens.get((image.registry, image.repository))
        header = known.header if known is not None and known.until > self._monotonic() else None
        response = self._sent(method, url, accept, header, follow=follow)
        challenged = header is not None
        if response.status_code == requests.codes.unauthorized:
            challenged = True
            fresh = self._authorization(image, response.headers.get("WWW-Authenticate", ""), login)
            if fresh is not None and fresh != header:
                response.close()
                response = self._sent(method, url, accept, fresh, follow=follow)
        _raise_if_passing(response, image.registry)
        return Answer(response, challenged, login is not None)

    def _scheme(self, registry: str) -> str:
        host = registry.rpartition(":")[0] if not registry.endswith("]") and ":" in registry else registry
        return "http" if registry in self._plain or host in _LOOPBACK else "https"

    def _authorization(self, image: ImageRef, header: str, login: Login | None) -> str | None:
        """What to send now that the registry has asked; None where we have nothing."""
        found = challenges_in(header)
        if "bearer" in found:
            return self._token(image, found["bearer"], login)
        if "basic" in found and login is not None:
            return self._kept(image, login.basic, 3600.0)
        return None

    def _token(self, image: ImageRef, challenge: Challenge, login: Login | None) -> str | None:
        url = token_url(challenge, image.repository, plain=self._scheme(image.registry) == "http")
        if url is None:
            raise Refused(f"{image.registry} sends us for a token to an address without TLS; mend that registry's settings")
        response = self._sent("GET", url, "application/json", login.basic if login is not None else None)
        with response:
            server = urlsplit(url).netloc
            _raise_if_passing(response, server)
            if response.status_code != requests.codes.ok:
                return None  # it gives us none: the registry's own no then stands
            said = _json(response, server)
        token = said.get("token") or said.get("access_token")
        if not isinstance(token, str):
            raise Refused(f"{server} gave no token for {image.registry}; see whether that is its token server")
        holds = said.get("expires_in")
        seconds = float(holds) if isinstance(holds, int | float) and holds > 0 else LEAST_SECONDS
        return self._kept(image, f"Bearer {token}", seconds * 0.8)

    def _kept(self, image: ImageRef, header: str, seconds: float) -> str:
        self._tokens = {key: one for key, one in self._tokens.items() if one.until > self._monotonic()}
        self._tokens[image.registry, image.repository] = _Token(header, self._monotonic() + seconds)
        return header

    def _sent(self, method: str, url: str, accept: str, authorization: str | None, *, follow: bool = True) -> requests.Response:
        """Follow redirects by hand: what we are let in with is for the first server alone. Raises Transient, Refused."""
        for _ in range(_MOST_REDIRECTS):
            response = self._once(method, url, accept, authorization)
            where = response.headers.get("Location") if response.is_redirect else None
            if where is None or not follow:
                return response
            response.close()
            before, url = urlsplit(url), urljoin(url, where)
            after = urlsplit(url)
            if after.scheme not in {"http", "https"} or (before.scheme, after.scheme) == ("https", "http"):
                raise Refused(f"{before.netloc} redirects to an address without TLS; mend that registry's settings")
            if (before.scheme, before.netloc) != (after.scheme, after.netloc):
                authorization = None
        raise Refused(f"{urlsplit(url).netloc} redirects again and again; mend that registry's settings")

    def _once(self, method: str, url: str, accept: str, authorization: str | None) -> requests.Response:
        where = urlsplit(url).netloc
        if self._allowed is not None and where not in self._allowed:
            raise Refused(f"{where} may not be asked; add it to {HOSTS} in the environment")
        headers = {"Accept": accept, "Accept-Encoding": "identity"}
        try:
            return self._session.request(
                method, url, headers=headers, auth=_Sent(authorization), timeout=TIMEOUT, allow_redirects=False, stream=True
            )
        except requests.exceptions.SSLError as error:
            raise Refused(f"{where} shows no certificate that is believed here ({_cause(error)}); mend it, or {PLAIN}") from error
        except BROKEN as error:
            raise Transient(f"{where} did not answer: {_cause(error)}") from error
        except ValueError as error:  # a host that is none, or what urllib3 cannot take for a URL
            raise Refused(
                f"{where} cannot be asked: {type(error).__name__}; write the image's registry as host or host:port"
            ) from error


def body_of(response: requests.Response, limit: int, where: str) -> bytes:
    """A whole answer. Raises Transient where it breaks off, Refused where it is longer than `limit` bytes."""
    found = bytearray()
    try:
        for chunk in response.raw.stream(64 * 1024, decode_content=True):
            found += chunk
            if len(found) > limit:
                raise Refused(f"{where} answered with more than {limit} bytes; see whether it is a registry")
    except BROKEN as error:
        raise Transient(f"the answer of {where} broke off: {_cause(error)}") from error
    return bytes(found)


def _json(response: requests.Response, where: str) -> dict[str, Any]:
    body = body_of(response, _TOKEN_LIMIT, where)
    with suppress(ValueError):
        found = json.loads(body)
        if isinstance(found, dict):
            return found
    raise Refused(f"{where} gave no token that can be read; see whether that is the registry's token server")


def _raise_if_passing(response: requests.Response, where: str) -> None:
    code = response.status_code
    if code < requests.codes.server_error and code not in _PASSING:
        return
    response.close()
    if code == requests.codes.too_many_requests:
        after = response.headers.get("Retry-After", "")
        raise Transient(f"{where} takes no more requests for now (429){f', again in {after} s' if after.isdecimal() else ''}")
    raise Transient(f"{where} answered {code} {response.reason or ''}".rstrip())


def _names(text: str) -> frozenset[str]:
    return frozenset(one.strip() for one in text.split(",") if one.strip())


def _address(registry: str) -> str:
    return _HUB if registry == DEFAULT_REGISTRY else registry


def _cause(error: BaseException) -> str:
    """The kind and number of what went wrong underneath; whole messages of these libraries hold URLs with signatures."""
    innermost: BaseException = error
    for _ in range(10):
        deeper = (
            innermost.__cause__ or innermost.__context__ or next((a for a in innermost.args if isinstance(a, Exception)), None)
        )
        deeper = getattr(innermost, "reason", None) if isinstance(getattr(innermost, "reason", None), Exception) else deeper
        if deeper is None:
            break
        innermost = deeper
    return innermost.strerror or type(innermost).__name__ if isinstance(innermost, OSError) else type(innermost).__name__
