"""The status branch as it is written and read: same value, same bytes; what cannot be read is told and never guessed at."""

import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta

import pytest

from reconciler.hub.ledger import Corrupt, HubFile, LedgerCache, Rejected, RejectedFile, Suspicion, Trouble, read_ledger, written
from reconciler.hub.ledger import Ledger as ReadLedger
from reconciler.model.attempt import Outcome, State
from reconciler.model.names import JobKey, record_path
from reconciler.model.reasons import Why, because
from reconciler.model.record import Condition, JobRecord, Phase, PlacementSeen
from reconciler.ports import EntryKind, TreeEntry
from tests.builders import NOW, TEAM, make_attempt, make_record, make_spec

KEY = JobKey(TEAM, "llm-a")
PATH = record_path(KEY)


class Branch:
    """The status branch in memory; `asked` are the blobs that were read."""

    def __init__(self, files: Mapping[str, bytes], links: tuple[str, ...] = ()) -> None:
        self.blobs = {self.oid(body): body for body in files.values()}
        self.entries = {
            path: TreeEntry(self.oid(body), EntryKind.LINK if path in links else EntryKind.FILE) for path, body in files.items()
        }
        self.asked: list[str] = []

    @staticmethod
    def oid(body: bytes) -> str:
        return hashlib.sha256(body).hexdigest()

    def get(self, oid: str) -> bytes:
        self.asked.append(oid)
        return self.blobs[oid]

    def read(self, cache: LedgerCache | None = None) -> ReadLedger:
        return read_ledger(self.entries, self.get, cache or LedgerCache())


RECORDS: dict[str, JobRecord] = {
    "a job that has just come": make_record(),
    "one that runs": make_record(make_attempt(), phase=Phase.RUNNING),
    "one with all that a record can hold": make_record(
        make_attempt(
            1,
            State.FAILED,
            exit_code=4,
            log_tail="ü \x1b[31m\n\ud7ff",
            counts_as_failure=True,
            reason=because(Why.EXITED, code=4),
        ),
        make_attempt(2, State.STOPPING, outcome=Outcome.MOVED, reason=because(Why.MOVED, region="us"), price_usd=1.25),
        phase=Phase.STOPPING,
        why=because(Why.MOVED, region="us"),
        waits={"eu": because(Why.NOT_ENOUGH_FREE, region="eu", free_nodes=0, wanted=1, per_node=8, resource="GPUs")},
        waits_more={"ReportStale": 3},
        cancelled=True,
        rerun=2,
        first_attempt=2,
        placement=PlacementSeen(blob="b", pin="eu", veto=("us",), approved="eu", run_hash="h", declined="d"),
        conditions=(Condition(type="SpecAccepted", status="False", reason=because(Why.SPEC_BROKEN), message="x:1:2", since=NOW),),
        spec=make_spec(env={"A": "12345e7", "B": "y"}, retries=3, on_exit={"3": "succeed"}),
    ),
    "one whose file is gone": make_record(source=None, phase=Phase.CANCELLED),
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_what_is_written_is_read_as_it_was_meant(record: JobRecord) -> None:
    ledger = Branch({record_path(record.key): written(record)}).read()
    assert ledger.records == {record.key: record}
    assert written(ledger.records[record.key]) == written(record)


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_machine_files_are_json_with_sorted_keys_and_a_schema_version(record: JobRecord) -> None:
    content = json.loads(written(record))
    assert content["schema_version"] == 1
    assert list(content) == sorted(content)
    assert written(record).endswith(b"}\n")


def test_equal_values_are_equal_bytes_whatever_the_order_they_were_made_in() -> None:
    reasons = {"eu": because(Why.CORDONED, region="eu"), "us": because(Why.CORDONED, region="us")}
    other = dict(reversed(reasons.items()))
    assert written(make_record(waits=reasons)) == written(make_record(waits=other))


BROKEN: dict[str, bytes] = {
    "nothing": b"",
    "half a file": written(make_record())[:200],
    "no json": b"<<<<<<< HEAD",
    "another schema": written(make_record()).replace(b'"schema_version": 1', b'"schema_version": 2'),
    "a field that nobody knows": written(make_record()).replace(b'"team"', b'"colour": "red",\n "team"'),
    "a phase that there is not": written(make_record()).replace(b'"Pending"', b'"Elsewhere"'),
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
def test_a_record_that_cannot_be_read_is_told_and_the_others_are_read(body: bytes) -> None:
    other = make_record(spec=make_spec("llm-b"))
    ledger = Branch({PATH: body, record_path(other.key): written(other)}).read()
    assert ledger.records == {other.key: other}
    assert list(ledger.corrupt) == [PATH]
    assert ledger.unread == {KEY}


def test_a_record_at_the_path_of_another_job_is_not_believed() -> None:
    record = make_record()
    copied = record_path(JobKey(TEAM, "llm-b"))
    ledger = Branch({PATH: written(record), copied: written(record)}).read()
    assert ledger.records == {KEY: record}
    assert ledger.corrupt == {copied: f"it is the record of {TEAM}/llm-a"}
    assert ledger.unread == {JobKey(TEAM, "llm-b")}


def test_a_link_is_not_read() -> None:
    ledger = Branch({PATH: written(make_record())}, links=(PATH,)).read()
    assert ledger.records == {}


@pytest.mark.parametrize("path", ["hub.json", "rejected.json"])
@pytest.mark.parametrize("body", [b"", b"{", b'{"schema_version": 2}', b"[]"])
def test_without_what_the_hub_must_not_forget_nothing_is_decided(path: str, body: bytes) -> None:
    with pytest.raises(Corrupt, match=rf"{path} on the status branch .* restore it from its last good commit"):
        Branch({path: body}).read()


def test_an_empty_branch_says_nothing() -> None:
    ledger = Branch({}).read()
    assert (ledger.records, ledger.hub, ledger.rejected, ledger.in_force) == ({}, HubFile(), Rejected(), {})


def test_what_the_hub_must_not_forget_is_read_as_it_was_written() -> None:
    hub = HubFile(
        main="a" * 40,
        suspicion=Suspicion(main="b" * 40, kind="gone", gone=5, live=9, since=NOW),
        troubles=(Trouble(subject="region/eu", code="BranchRefused", what="no", since=NOW + timedelta(seconds=1)),),
    )
    problem = RejectedFile(path="jobs/a/b.yaml", line=3, column=1, code="X", what="w", todo="t", since=NOW)
    branch = Branch(
        {"hub.json": written(hub), "rejected.json": written(Rejected(problems=(problem,))), "inforce/policy.yaml": b"p"}
    )
    ledger = branch.read()
    assert (ledger.hub, ledger.rejected.problems) == (hub, (problem,))
    assert ledger.in_force == {"policy.yaml": Branch.oid(b"p")}


def test_a_record_is_read_once_and_stays_the_same_object() -> None:
    branch, cache = Branch({PATH: written(make_record())}), LedgerCache()
    first = branch.read(cache).records[KEY]
    branch.asked.clear()
    assert branch.read(cache).records[KEY] is first
    assert branch.asked == []


def test_the_cache_never_outgrows_the_branch_by_much() -> None:
    cache = LedgerCache()
    for number in range(300):
        Branch({PATH: written(make_record(rerun=number))}).read(cache)
    assert len(cache.records) < 100


def test_a_cache_that_vanishes_changes_nothing() -> None:
    branch, cache = Branch({PATH: written(RECORDS["one that runs"])}), LedgerCache()
    assert branch.read(cache) == branch.read(LedgerCache()) == branch.read(cache)
