"""GitLab by python-gitlab: gitlab.com or a server of one's own. Its merge requests are our pull requests.

The library's waits for limits are off, and it follows no redirect, for it would take the token along: its header is not one that
`requests` takes out on the way to another host.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

import gitlab
import requests
from gitlab.exceptions import GitlabError
from gitlab.v4.objects import Project

from reconciler.adapters.forges.shared import (
    PAGE,
    TIMEOUT,
    UNREADABLE,
    Account,
    all_of,
    body_of,
    cut,
    failure,
    listed,
    moment,
    silence,
    taken,
    unreadable,
)
from reconciler.forge_port import Consent, Pull, Pulls, PullState, Verdict
from reconciler.ports import Refused

_ONCE: Final[dict[str, Any]] = {"obey_rate_limit": False}
_STATES: Final = {Verdict.PENDING: "pending", Verdict.SUCCESS: "success", Verdict.FAILURE: "failed"}


class GitlabForge:
    """One project on GitLab."""

    def __init__(self, account: Account) -> None:
        self._account = account
        session = requests.Session()
        session.max_redirects = 0
        self._api = gitlab.Gitlab(
            account.url, private_token=account.token, timeout=TIMEOUT[1], per_page=PAGE, session=session, keep_base_url=True
        )
        self._me: str | None = None

    def open_pulls(self) -> Pulls:
        """All that are open, the oldest first."""
        with self._asking("listing the merge requests") as project:
            found = project.mergerequests.list(state="opened", order_by="created_at", sort="asc", iterator=True, **_ONCE)
            return listed(_pull(each.attributes) for each in found)

    def ended_pulls(self, base: str, since: datetime) -> Pulls:
        """Those into `base` that are over and were changed at `since` or after, newest first."""
        query = {"state": "all", "order_by": "updated_at", "sort": "desc", "target_branch": base}
        with self._asking("listing the merge requests") as project:
            found = project.mergerequests.list(**query, updated_after=since.isoformat(), iterator=True, **_ONCE)
            read = listed(_pull(each.attributes) for each in found)
        ended = tuple(pull for pull in read.those if pull.state is not PullState.OPEN and pull.updated_at >= since)
        return Pulls(ended, read.complete)

    def open(self, head: str, base: str, title: str, body: str) -> int:
        """Open one; its number. Raises Conflict where one is open already."""
        said = {"source_branch": head, "target_branch": base, "title": title, "description": body}
        with self._asking(f"opening a merge request of {head}") as project:
            return int(project.mergerequests.create(said, **_ONCE).iid)

    def update(self, number: int, title: str, body: str) -> None:
        """Replace title and body."""
        with self._asking(f"changing !{number}") as project:
            project.mergerequests.update(number, {"title": title, "description": body}, **_ONCE)

    def close(self, number: int) -> None:
        """Close it unmerged."""
        with self._asking(f"closing !{number}") as project:
            project.mergerequests.update(number, {"state_event": "close"}, **_ONCE)

    def consent(self, number: int) -> Consent:
        """Who approved and merged it."""
        with self._asking(f"reading the approvals of !{number}") as project:
            pull = project.mergerequests.get(number, **_ONCE)
            said = pull.approvals.get(**_ONCE).attributes
        # `merge_user` came with 14.7; before it, `merged_by`.
        merger = pull.attributes.get("merge_user") or pull.attributes.get("merged_by") or {}
        names = sorted(each["user"]["username"] for each in said.get("approved_by") or ())
        return Consent(tuple(names), merger.get("username"))

    def set_status(self, commit: str, context: str, verdict: Verdict, words: str) -> None:
        """Put a commit's status."""
        said = {"state": _STATES[verdict], "name": context, "description": cut(words)}
        try:
            with self._asking(f"setting the status of {commit[:12]}") as project:
                project.commits.get(commit, lazy=True).statuses.create(said, **_ONCE)
        except Refused as error:
            if "Cannot transition status" not in str(error):  # it says so already
                raise

    def upsert_comment(self, number: int, marker: str, body: str) -> None:
        """Make our one comment with that marker say `body`."""
        asked = f"commenting on !{number}"
        with self._asking(asked) as project:
            me = self._login()
            notes = project.mergerequests.get(number, lazy=True).notes
            for note in all_of(notes.list(order_by="created_at", sort="asc", iterator=True, **_ONCE), self._account, asked):
                said = note.attributes
                if said["author"]["username"] == me and said["body"].startswith(marker):
                    if said["body"] != body:
                        notes.update(note.id, {"body": body}, **_ONCE)
                    return
            notes.create({"body": body}, **_ONCE)

    def head_ref(self, number: int) -> str:
        """The ref that has its head."""
        return f"refs/merge-requests/{number}/head"

    def hang_up(self) -> None:
        """Let the connections go."""
        self._api.session.close()

    def _login(self) -> str:
        if self._me is None:
            said = self._api.http_get("/user", **_ONCE)
            self._me = str(said["username"]) if isinstance(said, dict) else ""
        return self._me

    @contextmanager
    def _asking(self, asked: str) -> Iterator[Project]:
        """The project, for one request or a few; what the library raises comes out as ports.py has it."""
        try:
            yield self._api.projects.get(self._account.repository, lazy=True)
        except requests.TooManyRedirects as error:
            raise failure(self._account, asked, 302, "") from error
        except requests.RequestException as error:
            raise silence(self._account, asked, error) from error
        except GitlabError as error:
            code, said = error.response_code, str(error.error_message)
            if code == 409:
                raise taken(self._account, asked, said) from error
            # Without a code the library could not read the answer.
            raise failure(self._account, asked, code or 502, said) from error
        except UNREADABLE as error:
            raise unreadable(self._account, asked) from error


def _pull(said: dict[str, Any]) -> Pull:
    branch = said["source_branch"] if said["source_project_id"] == said["target_project_id"] else None
    states = {"opened": PullState.OPEN, "locked": PullState.OPEN, "merged": PullState.MERGED}  # locked: being merged
    return Pull(
        number=int(said["iid"]),
        head=branch,
        commit=said.get("sha") or "",
        base=said["target_branch"],
        title=said["title"],
        body=body_of(branch, said.get("description")),
        state=states.get(said["state"], PullState.CLOSED),
        updated_at=moment(said["updated_at"]),
    )
