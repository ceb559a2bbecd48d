"""The three forges side by side: what each one's documentation says it answers, and what it is asked, for the same call of ours.

Shapes: `/api/swagger` of Gitea 1.26; docs.github.com/rest (pulls, issues, commits); docs.gitlab.com/api (merge_requests,
merge_request_approvals, notes, commits). Only the fields that matter, and some that are easily mistaken for them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reconciler.adapters.forges.gitea import GiteaForge
from reconciler.adapters.forges.github import GithubForge
from reconciler.adapters.forges.gitlab import GitlabForge
from reconciler.adapters.forges.shared import Account
from reconciler.forge_port import Forge, Pull, PullState
from tests.builders import NOW

SHA = "1" * 40
AT = NOW.isoformat().replace("+00:00", "Z")


def pull(number: int = 7, head: str | None = "proposals/a/b", state: PullState = PullState.OPEN, **fields: Any) -> Pull:
    """A pull request as it should come out."""
    said = {"commit": SHA, "base": "placements", "title": "t", "body": "b", "updated_at": NOW, **fields}
    return Pull(number=number, head=head, state=state, **said)


def _gitea(wanted: Pull) -> dict[str, Any]:
    own = wanted.head is not None
    return {
        "id": wanted.number + 1000,
        "number": wanted.number,
        "title": wanted.title,
        "body": wanted.body,
        "state": "open" if wanted.state is PullState.OPEN else "closed",
        "merged": wanted.state is PullState.MERGED,
        "updated_at": wanted.updated_at.isoformat(),
        "user": {"login": "bot"},
        "head": {"label": wanted.head or "proposals/a/b", "ref": "refs/pull/7/head", "sha": SHA, "repo_id": 1 if own else 2},
        "base": {"label": wanted.base, "ref": wanted.base, "sha": "2" * 40, "repo_id": 1},
    }


def _github(wanted: Pull) -> dict[str, Any]:
    name = "ML/jobs" if wanted.head is not None else "mallory/jobs"  # spelt as its owner does, which is not always as we do
    return {
        "url": f"https://api.example.com/repos/ml/jobs/pulls/{wanted.number}",
        "number": wanted.number,
        "title": wanted.title,
        "body": wanted.body or None,
        "state": "open" if wanted.state is PullState.OPEN else "closed",
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": wanted.updated_at.isoformat().replace("+00:00", "Z"),
        "merged_at": AT if wanted.state is PullState.MERGED else None,
        "user": {"login": "bot"},
        "head": {"ref": wanted.head or "proposals/a/b", "sha": SHA, "repo": {"full_name": name}, "user": {"login": "x"}},
        "base": {"ref": wanted.base, "sha": "2" * 40, "repo": {"full_name": "ML/jobs"}},
    }


def _gitlab(wanted: Pull) -> dict[str, Any]:
    states = {PullState.OPEN: "opened", PullState.CLOSED: "closed", PullState.MERGED: "merged"}
    return {
        "id": wanted.number + 1000,
        "iid": wanted.number,
        "project_id": 1,
        "title": wanted.title,
        "description": wanted.body or None,
        "state": states[wanted.state],
        "updated_at": wanted.updated_at.isoformat().replace("+00:00", "Z"),
        "source_branch": wanted.head or "proposals/a/b",
        "target_branch": wanted.base,
        "source_project_id": 1 if wanted.head is not None else 2,
        "target_project_id": 1,
        "sha": SHA,
        "author": {"username": "bot"},
    }


@dataclass(frozen=True, slots=True)
class Dialect:
    """One kind of forge: where its calls go, and how it spells things."""

    make: Callable[[Account], Forge]
    pulls: str
    """The path of its pull requests."""
    spelt: Callable[[Pull], dict[str, Any]]
    change: str
    """Method of a change."""
    closing: Mapping[str, Any]
    text: Sequence[str]
    """What it calls title and body."""
    ends: Mapping[str, str]
    """The head and the base of a new one, as it calls them."""
    comments: str
    statuses: str
    failure: str
    user: str
    """The path that says who we are."""
    login: str
    header: tuple[str, str]
    """The token's header, and what stands before the token in it."""
    taken: tuple[int, Any]
    """How it says that there is one already."""
    listing: Mapping[str, str]
    """How the ended ones are asked for."""


DIALECTS: dict[str, Dialect] = {
    "gitea": Dialect(
        make=GiteaForge,
        pulls="/api/v1/repos/ml/jobs/pulls",
        spelt=_gitea,
        change="PATCH",
        closing={"state": "closed"},
        text=("title", "body"),
        ends={"head": "head", "base": "base"},
        comments="/api/v1/repos/ml/jobs/issues/7/comments",
        statuses=f"/api/v1/repos/ml/jobs/statuses/{SHA}",
        failure="failure",
        user="/api/v1/user",
        login="login",
        header=("Authorization", "token "),
        taken=(409, {"message": "pull request already exists for these targets [id: 7]"}),
        listing={"state": "closed", "sort": "recentupdate", "base_branch": "placements"},
    ),
    "github": Dialect(
        make=GithubForge,
        pulls="/repos/ml/jobs/pulls",
        spelt=_github,
        change="PATCH",
        closing={"state": "closed"},
        text=("title", "body"),
        ends={"head": "head", "base": "base"},
        comments="/repos/ml/jobs/issues/7/comments",
        statuses=f"/repos/ml/jobs/statuses/{SHA}",
        failure="failure",
        user="/user",
        login="login",
        header=("Authorization", "token "),
        taken=(
            422,
            {
                "message": "Validation Failed",
                "errors": [
                    {
                        "resource": "PullRequest",
                        "code": "custom",
                        "message": "A pull request already exists for ml:proposals/a/b.",
                    }
                ],
            },
        ),
        listing={"state": "closed", "sort": "updated", "direction": "desc", "base": "placements"},
    ),
    "gitlab": Dialect(
        make=GitlabForge,
        pulls="/api/v4/projects/ml%2Fjobs/merge_requests",
        spelt=_gitlab,
        change="PUT",
        closing={"state_event": "close"},
        text=("title", "description"),
        ends={"head": "source_branch", "base": "target_branch"},
        comments="/api/v4/projects/ml%2Fjobs/merge_requests/7/notes",
        statuses=f"/api/v4/projects/ml%2Fjobs/statuses/{SHA}",
        failure="failed",
        user="/api/v4/user",
        login="username",
        header=("PRIVATE-TOKEN", ""),
        taken=(409, {"message": ["Another open merge request already exists for this source branch: !7"]}),
        listing={"state": "all", "order_by": "updated_at", "sort": "desc", "target_branch": "placements"},
    ),
}


def comment(kind: str, number: int, who: str, body: str) -> dict[str, Any]:
    """A comment as that kind of forge spells it."""
    if kind == "gitlab":
        return {"id": number, "body": body, "author": {"username": who}, "system": False, "noteable_iid": 7}
    page = f"https://api.example.com/repos/ml/jobs/issues/comments/{number}"
    return {"id": number, "url": page, "body": body, "user": {"login": who, "type": "User"}}


def comment_at(kind: str, number: int) -> str:
    """The path of one comment."""
    if kind == "gitlab":
        return f"/api/v4/projects/ml%2Fjobs/merge_requests/7/notes/{number}"
    return f"{'/api/v1' if kind == 'gitea' else ''}/repos/ml/jobs/issues/comments/{number}"
