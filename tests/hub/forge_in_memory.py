"""A forge without a server: pull requests in memory, every call counted, and made to fail when a test wants that."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from reconciler.forge_port import Consent, Pull, Pulls, PullState, Verdict
from reconciler.ports import Conflict, Refused, Transient


class ForgeInMemory:
    """What people see there is in `pulls`, `comments` and `statuses`; what the hub asked is in `calls`."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.calls: list[str] = []
        self.pulls: dict[int, Pull] = {}
        self.comments: dict[int, list[str]] = {}
        self.statuses: list[tuple[str, Verdict, str]] = []
        self.said: dict[int, Consent] = {}
        self.hung_up = 0
        self.most = 5000
        """Pull requests of one listing."""
        self.down = False
        self.dies_after: int | None = None
        """Calls that are answered before everything is silent."""
        self.refuses: set[str] = set()
        """Calls that are refused, by their name and number or branch."""

    def _call(self, what: str) -> None:
        if self.down or (self.dies_after is not None and len(self.calls) >= self.dies_after):
            raise Transient("the forge got no answer")
        self.calls.append(what)
        if what in self.refuses:
            raise Refused(f"{what} is not allowed")

    # ---- what the hub asks

    def open_pulls(self) -> Pulls:
        self._call("open_pulls")
        found = [pull for pull in self.pulls.values() if pull.state is PullState.OPEN]
        return Pulls(found[: self.most], complete=len(found) <= self.most)

    def ended_pulls(self, base: str, since: datetime) -> Pulls:
        self._call("ended_pulls")
        ended = [one for one in self.pulls.values() if one.state is not PullState.OPEN and one.base == base]
        found = sorted((one for one in ended if one.updated_at >= since), key=lambda one: one.updated_at, reverse=True)
        return Pulls(found[: self.most], complete=len(found) <= self.most)

    def open(self, head: str, base: str, title: str, body: str) -> int:
        self._call(f"open {head}")
        if any((one.head, one.base, one.state) == (head, base, PullState.OPEN) for one in self.pulls.values()):
            raise Conflict(f"{head} has one already")
        return self.add(head, base, title=title, body=body)

    def update(self, number: int, title: str, body: str) -> None:
        self._call(f"update {number}")
        self._change(number, title=title, body=body)

    def close(self, number: int) -> None:
        self._call(f"close {number}")
        self._change(number, state=PullState.CLOSED)

    def consent(self, number: int) -> Consent:
        self._call(f"consent {number}")
        return self.said[number]

    def set_status(self, commit: str, context: str, verdict: Verdict, words: str) -> None:
        assert context == "reconciler/validate"
        self._call(f"set_status {verdict.value}")
        self.statuses.append((commit, verdict, words))

    def upsert_comment(self, number: int, marker: str, body: str) -> None:
        self._call(f"upsert_comment {number}")
        assert body.startswith(marker)
        said = self.comments.setdefault(number, [])
        if not said or said[-1] != body:
            said.append(body)

    def head_ref(self, number: int) -> str:
        return f"refs/pull/{number}/head"

    def hang_up(self) -> None:
        self.hung_up += 1

    # ---- what people do

    def add(self, head: str | None, base: str, *, commit: str = "", title: str = "t", body: str = "") -> int:
        """Somebody opens one."""
        number = len(self.pulls) + 1
        self.pulls[number] = Pull(number, head, commit, base, title, body, PullState.OPEN, self._now())
        return number

    def _change(self, number: int, **fields: object) -> None:
        self.pulls[number] = replace(self.pulls[number], updated_at=self._now(), **fields)  # type: ignore[arg-type]

    def people_close(self, number: int, **fields: object) -> None:
        """Somebody closes it unmerged."""
        self._change(number, state=PullState.CLOSED, **fields)

    def people_edit(self, number: int, **fields: object) -> None:
        """Somebody edits it."""
        self._change(number, **fields)

    def people_merge(self, number: int, *approved_by: str, merged_by: str | None = "carol") -> None:
        """Somebody merges it; in Git that is for the test to do."""
        self._change(number, state=PullState.MERGED)
        self.said[number] = Consent(approved_by, merged_by)

    def only(self) -> Pull:
        """The only one that is open."""
        (pull,) = [one for one in self.pulls.values() if one.state is PullState.OPEN]
        return pull

    def heads(self, state: PullState = PullState.OPEN) -> list[str | None]:
        """Heads of those in that state."""
        return [one.head for one in self.pulls.values() if one.state is state]
