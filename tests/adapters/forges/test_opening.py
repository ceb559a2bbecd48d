"""Which forge is opened, and to whom the token may be sent."""

import sys

import pytest

from reconciler.adapters.forges import open_forge
from reconciler.model.policy import ForgeAddress
from reconciler.ports import Refused

TOKEN = {"RECONCILER_FORGE_TOKEN": "s3cret"}
OWN = "https://git.example.com/ml/jobs.git"


def address(kind: str = "gitea", url: str | None = "https://git.example.com", **fields: str) -> ForgeAddress:
    return ForgeAddress.model_validate({"kind": kind, "url": url, "repository": "ml/jobs", **fields})


MAY: dict[str, tuple[ForgeAddress, str, dict[str, str]]] = {
    "the repository's own host": (address(), OWN, {}),
    "the repository's own host, by SSH": (address(), "git@git.example.com:ml/jobs.git", {}),
    "the repository's own host, by an SSH URL": (address(), "ssh://git@git.example.com:2222/ml/jobs.git", {}),
    "the repository's own host, with credentials in its URL": (address(), "https://bot:pw@git.example.com/ml/jobs.git", {}),
    "github.com's API": (address("github", None), "https://github.com/ml/jobs.git", {}),
    "gitlab.com": (address("gitlab", None), "git@gitlab.com:ml/jobs.git", {}),
    "a host that the hub's environment names": (
        address(),
        "/srv/jobs.git",
        {"RECONCILER_FORGE_HOSTS": "a.example, git.example.com"},
    ),
    "this machine, without TLS": (address(url="http://127.0.0.1:3000"), "http://127.0.0.1:3000/ml/jobs.git", {}),
    "a repository that is had without TLS as well": (
        address(url="http://git.example.com"),
        "http://git.example.com/ml/jobs.git",
        {},
    ),
}
MAY_NOT: dict[str, tuple[ForgeAddress, str, dict[str, str], str]] = {
    "another host": (address(url="https://evil.example.net"), OWN, {}, "RECONCILER_FORGE_HOSTS=evil.example.net"),
    "a host that ends alike": (address(url="https://x.git.example.com"), OWN, {}, "not where the repository is"),
    "any host, where the repository is a folder": (address(), "/srv/jobs.git", {}, "not where the repository is"),
    "the repository's own host without TLS": (address(url="http://git.example.com"), OWN, {}, "without TLS"),
    "anybody, where there is none": (address(), OWN, {"RECONCILER_FORGE_TOKEN": " "}, "set RECONCILER_FORGE_TOKEN"),
    "anybody, where its own variable is not set": (
        address(token_env="RECONCILER_FORGE_TOKEN_B"),
        OWN,
        {},
        "set RECONCILER_FORGE_TOKEN_B",
    ),
}


@pytest.mark.parametrize("case", MAY)
def test_the_token_may_go_to(case: str) -> None:
    where, repository, more = MAY[case]
    assert open_forge(where, repository, TOKEN | more).head_ref(1)


@pytest.mark.parametrize("case", MAY_NOT)
def test_the_token_does_not_go_to(case: str) -> None:
    where, repository, more, words = MAY_NOT[case]
    with pytest.raises(Refused, match=words) as told:
        open_forge(where, repository, TOKEN | more)
    assert "s3cret" not in str(told.value)


@pytest.mark.parametrize(("kind", "library"), [("github", "github"), ("gitlab", "gitlab")])
def test_a_library_that_is_not_installed_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, kind: str, library: str
) -> None:
    monkeypatch.delitem(sys.modules, f"reconciler.adapters.forges.{kind}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(Refused, match=rf"pip install 'gpu-reconciler\[{kind}\]'"):
        open_forge(address(kind), OWN, TOKEN)


def test_only_variables_of_the_forge_can_be_named() -> None:
    with pytest.raises(ValueError, match="token_env"):
        address(token_env="AWS_SECRET_ACCESS_KEY")
