"""Opens the forge that reconciler.yaml names, with the token that the hub was started with.

Decides whether the token may be sent there. Whoever may write main names the forge's address: without the rule below they could
have the token sent to a server of their own. Which library speaks to which forge is known here and nowhere else.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from reconciler.adapters.forges.shared import Account
from reconciler.forge_port import Forge
from reconciler.model.policy import ForgeAddress
from reconciler.ports import Refused

HOSTS: Final = "RECONCILER_FORGE_HOSTS"
"""Hosts that may have the token besides the repository's own, separated by commas."""
_PUBLIC: Final = {"github": "https://api.github.com", "gitlab": "https://gitlab.com"}
_API_OF: Final = {"github.com": "api.github.com"}
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


def open_forge(address: ForgeAddress, repository_url: str, environment: Mapping[str, str]) -> Forge:
    """The forge at an address; nothing is asked of it yet.

    `repository_url`: from where the hub has its repository. Raises Refused where the token is missing, may not be sent there,
    or the library for that kind of forge is not installed.
    """
    url = (address.url or _PUBLIC[address.kind]).rstrip("/")
    token = environment.get(address.token_env, "").strip()
    if not token:
        raise Refused(f"no token for the forge; set {address.token_env} in the hub's environment, and start it again")
    _check_host(url, repository_url, environment.get(HOSTS, ""))
    account = Account(url, address.repository, token)
    if address.kind == "gitea":
        from reconciler.adapters.forges.gitea import GiteaForge

        return GiteaForge(account)
    try:
        if address.kind == "github":
            from reconciler.adapters.forges.github import GithubForge

            return GithubForge(account)
        from reconciler.adapters.forges.gitlab import GitlabForge

        return GitlabForge(account)
    except ModuleNotFoundError as missing:
        raise Refused(
            f"pull requests on {address.kind} need one more library; install it: pip install 'gpu-reconciler[{address.kind}]'"
        ) from missing


def _check_host(url: str, repository_url: str, allowed: str) -> None:
    """Whether the token may be sent to that URL."""
    there = urlsplit(url)
    host = there.hostname or ""
    own = _host_of(repository_url)
    known = {own, _API_OF.get(own, ""), *(each.strip().lower() for each in allowed.split(","))} - {""}
    if host not in known:
        raise Refused(
            f"the forge at {host} is not where the repository is{f' ({own})' if own else ''}, so it is not given the token; "
            f"if it is yours, set {HOSTS}={host} in the hub's environment"
        )
    if there.scheme == "http" and host not in _LOOPBACK and not repository_url.startswith("http://"):
        raise Refused(f"the token is not sent to {host} without TLS; give `forge.url` as https://{host}")


def _host_of(url: str) -> str:
    """The host of a URL or of an scp-like address (`git@host:path`); '' for a path."""
    if "://" in url:
        return urlsplit(url).hostname or ""
    before, colon, _ = url.partition(":")
    return before.rpartition("@")[2].lower() if colon and "/" not in before else ""
