"""What must hold of Git and the store after every cycle of a hub, whatever happened in it."""

from collections.abc import Mapping
from pathlib import Path

import pygit2

from reconciler.hub.ledger import HubFile, written
from reconciler.hub.results import Ended, Result
from reconciler.model.attempt import ENDED, MAY_RUN
from reconciler.model.grants import Grants
from reconciler.model.names import record_path
from reconciler.model.record import JobRecord
from reconciler.ports import ObjectStore
from tests.hub.remote import Remote

_WENT_WELL = (Ended.PUBLISHED, Ended.QUIET, Ended.IDLE)


class Rules:
    """Holds one remote and one store against the rules; remembers what stood there before."""

    def __init__(self, remote: Remote, store: ObjectStore) -> None:
        self._remote, self._store = remote, store
        self._seen: Mapping[str, str] = {}
        self._manifests: dict[tuple[str, str], str] = {}
        self._left: set[tuple[str, str]] = set()
        self._attempts: dict[str, tuple[str, int, str]] = {}

    def check(self, result: Result, before: Mapping[str, str], kept: Mapping[str, JobRecord]) -> None:
        """After a cycle. `before`: the branches as they were; `kept`: what the hub remembers of records, by blob."""
        tips, repository = self._remote.tips(), self._remote.repository
        records = self._records(repository)
        self._grants(result, records)
        if tips == self._seen:
            return
        self._seen = tips
        assert tips.get("main") == before.get("main") or tips["main"] in self._remote.people, "the hub wrote to main"
        for branch, tip in tips.items():
            if tip != before.get(branch):
                self._commits(repository, branch, tip, before.get(branch))
        self._ledger(records, repository, kept)
        self._branches(tips, records)

    def _records(self, repository: pygit2.Repository) -> dict[str, JobRecord | None]:
        """Path → record of all that stands on the status branch; None where it cannot be read, is another job's or is missed."""
        hub = HubFile.model_validate_json(self._remote.text("status", "hub.json") or "{}")
        missed = [trouble.subject for trouble in hub.troubles if trouble.code == "RecordUnusable"]
        found: dict[str, JobRecord | None] = {}
        for path, oid in self._remote.tree("status").items():
            if path.startswith("jobs/"):
                try:
                    record = JobRecord.model_validate_json(repository[oid].data)
                except ValueError:
                    record = None
                found[path] = record if record is not None and record_path(record.key) == path else None
        return found | dict.fromkeys(missed)

    def _commits(self, repository: pygit2.Repository, branch: str, tip: str, old: str | None) -> None:
        """No commit without a change, and every one of the hub's says from what it follows."""
        for commit in repository.walk(pygit2.Oid(hex=tip)):
            if str(commit.id) == old or commit.author.email != "reconciler@localhost":
                return
            assert not commit.parents or commit.tree_id != commit.parents[0].tree_id, f"an empty commit on {branch}"
            trailers = dict(line.split(": ", 1) for line in commit.message.strip().split("\n\n")[-1].splitlines())
            assert set(trailers) <= {"Reconciler-Cycle", "Reconciler-Main", "Reconciler-Region"}, commit.message
            assert len(trailers["Reconciler-Cycle"]) == 16
            assert ("Reconciler-Region" in trailers) == branch.startswith("region/")
            assert len(commit.message.splitlines()[0]) <= 72, commit.message

    def _ledger(
        self, records: Mapping[str, JobRecord | None], repository: pygit2.Repository, kept: Mapping[str, JobRecord]
    ) -> None:
        """Names are never given twice, at most the last attempt is open, and what was written reads as it was meant."""
        tree = self._remote.tree("status")
        for path, record in records.items():
            if record is None:
                continue
            assert written(record) == repository[tree[path]].data, path
            assert kept.get(tree[path], record) == record, f"{path}: the hub remembers something else than it wrote"
            assert all(attempt.state in ENDED for attempt in record.attempts[:-1]), f"{record.key}: two attempts at once"
            for attempt in record.attempts:
                meant = (str(record.key), attempt.number, attempt.region)
                assert self._attempts.setdefault(attempt.name, meant) == meant, f"{attempt.name} was given twice"

    def _branches(self, tips: Mapping[str, str], records: Mapping[str, JobRecord | None]) -> None:
        """A manifest is never edited and never comes back, and leaves only after its attempt has ended in the ledger."""
        attempts = [attempt for record in records.values() if record is not None for attempt in record.attempts]
        ended = {attempt.name for attempt in attempts if attempt.ended}
        for branch in [name for name in tips if name.startswith("region/")]:
            there = {path: oid for path, oid in self._remote.tree(branch).items() if path.startswith("manifests/")}
            for path, oid in there.items():
                assert self._manifests.setdefault((branch, path), oid) == oid, f"{path} on {branch} was edited"
                assert (branch, path) not in self._left, f"{path} came back to {branch}"
            if tips[branch] in self._remote.people:
                continue
            for known, path in self._manifests.keys() - self._left:
                if known == branch and path not in there:
                    assert Path(path).stem in ended, f"{path} left {branch} before its attempt had ended"
                    self._left.add((branch, path))

    def _grants(self, result: Result, records: Mapping[str, JobRecord | None]) -> None:
        """First the ledger, then the grant; no job has two. After a cycle that went well they say what the ledger says of attempts of
        the epoch that they are of.
        """
        known = {one.name: one for record in records.values() if record is not None for one in record.attempts}
        granted: dict[str, str] = {}
        epochs: dict[str, int] = {}
        for listed in self._store.list("regions/"):
            if not listed.key.endswith("/grants.json"):
                continue
            stored = self._store.get(listed.key)
            assert stored is not None
            grants = Grants.model_validate_json(stored.body)
            epochs[grants.region] = grants.epoch
            for grant in grants.attempts:
                job = f"{grant.team}/{grant.job_id}"
                assert granted.setdefault(job, grant.attempt) == grant.attempt, f"{job} is granted twice"
                published = grant.attempt in known or grant.attempt in self._attempts
                assert published or None in records.values() or not records, f"{grant.attempt} is in no ledger"
        if result.ended in _WENT_WELL and not result.ungranted and records and None not in records.values():
            told = {name for name in granted.values() if name in known or not result.troubles}
            assert told == {name for name, one in known.items() if one.state in MAY_RUN and one.epoch == epochs[one.region]}


def check_pods(running: Mapping[str, list[str]]) -> None:
    """At no moment do two attempts of one job have running pods. `running`: region → attempts with pods that run."""
    seen: dict[str, set[str]] = {}
    for region, attempts in running.items():
        for attempt in attempts:
            seen.setdefault(attempt.rsplit("-", 2)[0], set()).add(f"{region}/{attempt}")
    for job, where in seen.items():
        assert len(where) <= 1, f"{job} runs twice: {where}"
