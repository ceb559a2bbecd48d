"""Gitea's and Forgejo's API, as much of it as is needed: a small client of our own.

Invariant: requests go to the one address that was given; a redirect is an error, so that the token goes nowhere else.
API: `/api/swagger` of any installation; verified on Gitea 1.26.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import count, takewhile
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import requests

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

Json: TypeAlias = Any
Query: TypeAlias = Mapping[str, str]

_NONE: Final[Query] = {}


class _Token(requests.auth.AuthBase):
    """Puts the token into a request. Given as `auth`, so that no .netrc takes its place."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"token {self._token}"
        return request


class GiteaForge:
    """One repository on Gitea or Forgejo."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._session = requests.Session()
        self._session.auth = _Token(account.token)
        self._at = f"/repos/{quote(account.repository)}"
        self._me: str | None = None

    def open_pulls(self) -> Pulls:
        """All that are open, the oldest first."""
        with self._asking("listing the pull requests") as asked:
            return listed(map(_pull, self._pages(f"{self._at}/pulls", {"state": "open", "sort": "oldest"}, asked)))

    def ended_pulls(self, base: str, since: datetime) -> Pulls:
        """Those into `base` that are over and were changed at `since` or after, newest first."""
        query = {"state": "closed", "sort": "recentupdate", "base_branch": base}
        with self._asking("listing the pull requests") as asked:
            found = map(_pull, self._pages(f"{self._at}/pulls", query, asked))
            read = listed(takewhile(lambda pull: pull.updated_at >= since, found))
        # An older server does not know the filter.
        return Pulls(tuple(pull for pull in read.those if pull.base == base), read.complete)

    def open(self, head: str, base: str, title: str, body: str) -> int:
        """Open one; its number. Raises Conflict where one is open already."""
        said = {"head": head, "base": base, "title": title, "body": body}
        with self._asking(f"opening a pull request of {head}") as asked:
            return int(self._send(asked, "POST", f"{self._at}/pulls", said).json()["number"])

    def update(self, number: int, title: str, body: str) -> None:
        """Replace title and body."""
        with self._asking(f"changing #{number}") as asked:
            self._send(asked, "PATCH", f"{self._at}/pulls/{number}", {"title": title, "body": body})

    def close(self, number: int) -> None:
        """Close it unmerged."""
        with self._asking(f"closing #{number}") as asked:
            self._send(asked, "PATCH", f"{self._at}/pulls/{number}", {"state": "closed"})

    def consent(self, number: int) -> Consent:
        """Who approved and merged it."""
        said: dict[str, str] = {}
        with self._asking(f"reading the reviews of #{number}") as asked:
            pull = self._send(asked, "GET", f"{self._at}/pulls/{number}").json()
            for review in all_of(self._pages(f"{self._at}/pulls/{number}/reviews", _NONE, asked), self._account, asked):
                # Whoever may read may review; official are those whose word counts for merging.
                counts = review["official"] and not review["dismissed"]
                if review["user"] and counts and review["state"] in ("APPROVED", "REQUEST_CHANGES"):
                    said[review["user"]["login"]] = review["state"]
            merger = pull.get("merged_by")
            approved = sorted(who for who, what in said.items() if what == "APPROVED")
            return Consent(tuple(approved), merger["login"] if merger else None)

    def set_status(self, commit: str, context: str, verdict: Verdict, words: str) -> None:
        """Put a commit's status."""
        said = {"context": context, "state": verdict.value, "description": cut(words)}
        with self._asking(f"setting the status of {commit[:12]}") as asked:
            self._send(asked, "POST", f"{self._at}/statuses/{commit}", said)

    def upsert_comment(self, number: int, marker: str, body: str) -> None:
        """Make our one comment with that marker say `body`."""
        with self._asking(f"commenting on #{number}") as asked:
            me = self._login(asked)
            for each in all_of(self._pages(f"{self._at}/issues/{number}/comments", _NONE, asked), self._account, asked):
                if each["user"] and each["user"]["login"] == me and each["body"].startswith(marker):
                    if each["body"] != body:
                        self._send(asked, "PATCH", f"{self._at}/issues/comments/{each['id']}", {"body": body})
                    return
            self._send(asked, "POST", f"{self._at}/issues/{number}/comments", {"body": body})

    def head_ref(self, number: int) -> str:
        """The ref that has its head."""
        return f"refs/pull/{number}/head"

    def hang_up(self) -> None:
        """Let the connections go."""
        self._session.close()

    def _login(self, asked: str) -> str:
        if self._me is None:
            self._me = str(self._send(asked, "GET", "/user").json()["login"])
        return self._me

    def _pages(self, path: str, query: Query, asked: str) -> Iterator[Json]:
        """Entries of a listing, a page at a time."""
        had = 0
        for page in count(1):
            answer = self._send(asked, "GET", path, query={**query, "page": str(page), "limit": str(PAGE)})
            found = answer.json()
            yield from found
            had += len(found)
            # Some listings come whole whatever is asked for, so that another page would be the same again.
            total = answer.headers.get("X-Total-Count", "")
            more = had < int(total) if total.isdecimal() else "next" in answer.links
            if not found or not more:
                return

    def _send(self, asked: str, method: str, path: str, said: Json = None, query: Query = _NONE) -> requests.Response:
        url = f"{self._account.url}/api/v1{path}"
        answer = self._session.request(method, url, params=query, json=said, timeout=TIMEOUT, allow_redirects=False)
        if answer.status_code == 409 and path.endswith("/pulls"):
            raise taken(self._account, asked, _message(answer))
        if not 200 <= answer.status_code < 300:
            raise failure(self._account, asked, answer.status_code, _message(answer))
        return answer

    @contextmanager
    def _asking(self, asked: str) -> Iterator[str]:
        """What comes of no answer, or of one that cannot be read, comes out as ports.py has it."""
        try:
            yield asked
        except requests.JSONDecodeError as error:
            raise unreadable(self._account, asked) from error
        except requests.RequestException as error:
            raise silence(self._account, asked, error) from error
        except UNREADABLE as error:
            raise unreadable(self._account, asked) from error


def _message(answer: requests.Response) -> str:
    try:
        said = answer.json()
    except ValueError:
        return answer.reason or ""
    return str(said.get("message") or "") if isinstance(said, dict) else ""


def _pull(said: Json) -> Pull:
    head, base = said["head"], said["base"]
    # A head without a name was pushed to no branch at all (`refs/for/…`), which takes no more than the right to read.
    branch = (head["label"] or None) if head["repo_id"] == base["repo_id"] else None
    state = PullState.MERGED if said["merged"] else PullState.OPEN if said["state"] == "open" else PullState.CLOSED
    return Pull(
        number=int(said["number"]),
        head=branch,
        commit=head.get("sha") or "",
        base=base["ref"],
        title=said["title"],
        body=body_of(branch, said.get("body")),
        state=state,
        updated_at=moment(said["updated_at"]),
    )
