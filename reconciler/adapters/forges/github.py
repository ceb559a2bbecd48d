"""GitHub by PyGithub: github.com, or a GitHub Enterprise server (`https://host/api/v3`).

Objects are made lazily, so that a change is one request and not two. The library's retries are off, for they sleep for as long as
a limit lasts: what is limited comes as Transient, and is tried later. It follows redirects on the same host only.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import takewhile
from typing import Final

import github
import requests
from github.GithubException import BadAttributeException, GithubException, IncompletableObject
from github.PullRequest import PullRequest
from github.Repository import Repository

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
    silence,
    taken,
    unreadable,
)
from reconciler.forge_port import Consent, Pull, Pulls, PullState, Verdict

_APP: Final = "Bot"
"""The kind of account that a GitHub App writes as; it may not ask who it is."""


class GithubForge:
    """One repository on GitHub."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._api = github.Github(
            base_url=account.url,
            auth=github.Auth.Token(account.token),
            timeout=int(TIMEOUT[1]),
            per_page=PAGE,
            retry=None,
            lazy=True,
        )
        self._me: str | None = None

    def open_pulls(self) -> Pulls:
        """All that are open, the oldest first."""
        with self._asking("listing the pull requests") as repository:
            return listed(map(self._pull, repository.get_pulls(state="open", sort="created", direction="asc")))

    def ended_pulls(self, base: str, since: datetime) -> Pulls:
        """Those into `base` that are over and were changed at `since` or after, newest first."""
        with self._asking("listing the pull requests") as repository:
            found = map(self._pull, repository.get_pulls(state="closed", sort="updated", direction="desc", base=base))
            return listed(takewhile(lambda pull: pull.updated_at >= since, found))

    def open(self, head: str, base: str, title: str, body: str) -> int:
        """Open one; its number. Raises Conflict where one is open already."""
        with self._asking(f"opening a pull request of {head}") as repository:
            return repository.create_pull(base, head, title=title, body=body).number

    def update(self, number: int, title: str, body: str) -> None:
        """Replace title and body."""
        with self._asking(f"changing #{number}") as repository:
            repository.get_pull(number).edit(title=title, body=body)

    def close(self, number: int) -> None:
        """Close it unmerged."""
        with self._asking(f"closing #{number}") as repository:
            repository.get_pull(number).edit(state="closed")

    def consent(self, number: int) -> Consent:
        """Who approved and merged it."""
        said: dict[str, str] = {}
        asked = f"reading the reviews of #{number}"
        with self._asking(asked) as repository:
            pull = repository.get_pull(number)
            merger = pull.merged_by
            for review in all_of(pull.get_reviews(), self._account, asked):
                if review.user is not None and review.state in ("APPROVED", "CHANGES_REQUESTED", "DISMISSED"):
                    said[review.user.login] = review.state
            merged_by = merger.login if merger is not None else None
        return Consent(tuple(sorted(who for who, what in said.items() if what == "APPROVED")), merged_by)

    def set_status(self, commit: str, context: str, verdict: Verdict, words: str) -> None:
        """Put a commit's status."""
        with self._asking(f"setting the status of {commit[:12]}") as repository:
            repository.get_commit(commit).create_status(verdict.value, description=cut(words), context=context)

    def upsert_comment(self, number: int, marker: str, body: str) -> None:
        """Make our one comment with that marker say `body`."""
        me = self._login()
        asked = f"commenting on #{number}"
        with self._asking(asked) as repository:
            issue = repository.get_issue(number)
            for comment in all_of(issue.get_comments(), self._account, asked):
                own = comment.user is not None and (comment.user.login == me if me else comment.user.type == _APP)
                if own and comment.body.startswith(marker):
                    if comment.body != body:
                        comment.edit(body)
                    return
            issue.create_comment(body)

    def head_ref(self, number: int) -> str:
        """The ref that has its head."""
        return f"refs/pull/{number}/head"

    def hang_up(self) -> None:
        """Let the connections go."""
        self._api.close()

    def _login(self) -> str:
        """Our account's name; '' where the token is an App's."""
        if self._me is None:
            try:
                self._me = self._api.get_user().login
            except GithubException as error:
                if error.status != 403:
                    raise self._failure("asking who we are", error) from error
                self._me = ""
            except requests.RequestException as error:
                raise silence(self._account, "asking who we are", error) from error
        return self._me

    def _pull(self, pull: PullRequest) -> Pull:
        source = pull.head.repo  # None where a fork is gone
        own = source is not None and source.full_name.lower() == self._account.repository.lower()
        branch = pull.head.ref if own else None
        state = PullState.OPEN if pull.state == "open" else PullState.MERGED if pull.merged_at is not None else PullState.CLOSED
        return Pull(
            number=pull.number,
            head=branch,
            commit=pull.head.sha,
            base=pull.base.ref,
            title=pull.title,
            body=body_of(branch, pull.body),
            state=state,
            updated_at=(pull.updated_at or pull.created_at).astimezone(UTC),
        )

    @contextmanager
    def _asking(self, asked: str) -> Iterator[Repository]:
        """The repository, for one request or a few; what the library raises comes out as ports.py has it."""
        try:
            yield self._api.get_repo(self._account.repository)
        except (BadAttributeException, IncompletableObject) as error:
            raise unreadable(self._account, asked) from error
        except GithubException as error:
            raise self._failure(asked, error) from error
        except requests.RequestException as error:
            raise silence(self._account, asked, error) from error
        except RuntimeError as error:  # so the library says that it would have to follow to another host
            raise failure(self._account, asked, 301, str(error)) from error
        except UNREADABLE as error:
            raise unreadable(self._account, asked) from error

    def _failure(self, asked: str, error: GithubException) -> Exception:
        said = str(error.data) if not isinstance(error.data, dict) else _words(error.data)
        if error.status == 422 and "already exists" in said:
            return taken(self._account, asked, said)
        return failure(self._account, asked, error.status, said)


def _words(said: dict[str, object]) -> str:
    """The message, and what `errors` adds to it."""
    errors = said.get("errors")
    listed = errors if isinstance(errors, list) else []
    more = [str(each.get("message", "") if isinstance(each, dict) else each) for each in listed]
    return "; ".join(words for words in (str(said.get("message") or ""), *more) if words)
