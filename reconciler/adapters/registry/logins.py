"""Who we are at which registry: names and passwords from the environment, or from a file in the form of docker's config.json.

Decides which registry a login is for, and gives it to no other. Credential programs (`credsStore`, `credHelpers`) are not run.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from reconciler.model.image_ref import DEFAULT_REGISTRY
from reconciler.ports import Refused

HOST: Final = "RECONCILER_REGISTRY_HOST"
"""The registry that the two variables below are for."""
USER: Final = "RECONCILER_REGISTRY_USER"
PASSWORD: Final = "RECONCILER_REGISTRY_PASSWORD"  # noqa: S105 - its name
FILE: Final = "RECONCILER_REGISTRY_CONFIG"
"""Path of a file in the form of docker's config.json; left out: `config.json` in `DOCKER_CONFIG`, else in `~/.docker`."""
_HUB_NAMES: Final = frozenset({"index.docker.io", "registry-1.docker.io", DEFAULT_REGISTRY})


@dataclass(frozen=True, slots=True)
class Login:
    """A name and its password."""

    user: str
    password: str = field(repr=False)

    @property
    def basic(self) -> str:
        """The value of an Authorization header."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


def logins_from(environment: Mapping[str, str]) -> Mapping[str, Login]:
    """Registry → login. Raises Refused for a file that is named and cannot be used."""
    found = _of_file(environment)
    host, user, password = (environment.get(name, "") for name in (HOST, USER, PASSWORD))
    if host and user:
        found[_registry(host)] = Login(user, password)
    return found


def _of_file(environment: Mapping[str, str]) -> dict[str, Login]:
    named = environment.get(FILE)
    folder = environment.get("DOCKER_CONFIG") or (f"{environment['HOME']}/.docker" if environment.get("HOME") else "")
    path = Path(named or f"{folder}/config.json")
    if not named and not (folder and path.is_file()):
        return {}
    try:
        auths = json.loads(path.read_bytes()).get("auths") or {}
        return {_registry(key): login for key, entry in auths.items() if (login := _login(entry)) is not None}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        kind = type(error).__name__  # its words may hold what stands in the file
        raise Refused(f"{path} cannot be read as a docker config.json ({kind}); mend it, or name another in {FILE}") from None


def _login(entry: Mapping[str, Any]) -> Login | None:
    if entry.get("auth"):
        try:
            user, _, password = base64.b64decode(entry["auth"], validate=True).decode().partition(":")
        except binascii.Error as error:
            raise ValueError("auth is not base64") from error
        return Login(user, password)
    return Login(str(entry["username"]), str(entry.get("password", ""))) if entry.get("username") else None


def _registry(key: str) -> str:
    """The registry of a key of `auths`: a host with its port, or, as docker writes Docker Hub's, a URL."""
    host = key.partition("://")[2] or key
    host = host.partition("/")[0]
    return DEFAULT_REGISTRY if host in _HUB_NAMES else host
