"""What a registry wants before it answers: its WWW-Authenticate header, and the token that another server gives for it.

Sources: OCI distribution specification; distribution's "Token Authentication Specification"; RFC 7617.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode, urlsplit

_PARAMETER: Final = re.compile(r'([a-zA-Z_]+)\s*=\s*"([^"]*)"')
_SCHEME: Final = re.compile(r"(?:^|,)\s*(bearer|basic)\s", re.IGNORECASE)
LEAST_SECONDS: Final = 60.0
"""How long a token holds that does not say (the specification's default)."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """`scheme`: "bearer" or "basic"."""

    scheme: str
    realm: str
    service: str = ""
    scope: str = ""


def challenges_in(header: str) -> Mapping[str, Challenge]:
    """Those that we can meet, by scheme."""
    found = list(_SCHEME.finditer(header))
    ends = [*(one.start() for one in found[1:]), len(header)][: len(found)]
    result: dict[str, Challenge] = {}
    for one, end in zip(found, ends, strict=True):
        said: dict[str, str] = {}
        for name, value in _PARAMETER.findall(header[one.end() : end]):
            said.setdefault(name.lower(), value)  # what follows may be another's, of a kind that we do not know
        scheme = one[1].lower()
        result.setdefault(scheme, Challenge(scheme, said.get("realm", ""), said.get("service", ""), said.get("scope", "")))
    return result


def token_url(challenge: Challenge, repository: str, *, plain: bool) -> str | None:
    """Where to ask for a token that lets pull; None where that is no address to which a password may go. `plain`: the registry is
    itself asked without TLS."""
    parts = urlsplit(challenge.realm)
    if parts.scheme not in ({"http", "https"} if plain else {"https"}) or not parts.hostname:
        return None
    asked = {"service": challenge.service, "scope": f"repository:{repository}:pull"}
    query = urlencode({name: value for name, value in asked.items() if value})
    return parts._replace(query=f"{parts.query}&{query}" if parts.query else query, fragment="").geturl()
