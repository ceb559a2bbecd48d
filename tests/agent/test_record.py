"""What the agent must not forget, written and read back; and its making anew."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.agent.reading import Key
from reconciler.agent.record import (
    FULL,
    LARGEST,
    Broken,
    Entry,
    Record,
    Renewal,
    decode,
    encode,
    parse_indexes,
    written_indexes,
)
from reconciler.agent.recovery import recovered
from reconciler.agent.seen import Standing, gather, standing
from tests.agent.objects import ATTEMPT, KEY, make_grant, make_grants, make_job, make_state, running_pod

names = st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
entries = st.builds(
    Entry, st.text(max_size=40), st.integers(0, 99), st.integers(0, 4096), st.frozensets(st.integers(0, 4095), max_size=20)
)
renewals = st.builds(Renewal, st.datetimes(timezones=st.just(UTC)), st.floats(0, 1e9), st.text(max_size=36))
records = st.builds(
    Record,
    epoch=st.integers(0, 1000),
    fenced=st.booleans(),
    renewal=st.none() | renewals,
    seen=st.tuples(st.integers(0, 99), st.integers(0, 10**6)),
    attempts=st.dictionaries(st.builds(Key, names, names), entries, max_size=5),
)
ANY = Record(2, True, Renewal(datetime(2026, 5, 1, tzinfo=UTC), 5.5, "b"), (3, 41), {KEY: Entry("u", 2, 4, frozenset({0, 1, 3}))})


@given(records)
def test_a_record_is_read_back_as_it_was_written(record: Record) -> None:
    assert decode(encode(record)) == record


def test_equal_records_are_equal_bytes_whatever_the_order() -> None:
    other = Key("a", "b")
    one = Record(attempts={KEY: Entry("u", 1, 1), other: Entry("v", 1, 1)})
    two = Record(attempts={other: Entry("v", 1, 1), KEY: Entry("u", 1, 1)})
    assert encode(one) == encode(two)


def without(name: str) -> bytes:
    said = json.loads(encode(ANY))
    del said[name]
    return json.dumps(said).encode()


def with_(name: str, value: Any) -> bytes:
    return json.dumps({**json.loads(encode(ANY)), name: value}).encode()


BROKEN = {
    "nothing": b"",
    "cut in the middle": encode(ANY)[: len(encode(ANY)) * 6 // 10],
    "an empty map": b"{}",
    "a list": b"[]",
    "not UTF-8": b"\xff\xfe",
    "a form of the future": with_("form", 2),
    "no attempts": without("attempts"),
    "no epoch": without("epoch"),
    "an epoch that is true": with_("epoch", True),
    "an epoch below zero": with_("epoch", -1),
    "an attempt without namespace": with_("attempts", {"/a": ["u", 1, 1, ""]}),
    "an attempt with too little": with_("attempts", {"t/a": ["u", 1]}),
    "a uid that is a number": with_("attempts", {"t/a": [7, 1, 1, ""]}),
    "indexes that are none": with_("attempts", {"t/a": ["u", 1, 1, "0-x"]}),
    "attempts as a list": with_("attempts", ["t/a"]),
    "a renewal without time zone": with_("renewal", ["2026-05-01T00:00:00", 1.0, ""]),
    "a renewal in parts": with_("renewal", ["2026-05-01T00:00:00Z"]),
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN.keys())
def test_what_cannot_be_read_whole_is_not_read_at_all(body: bytes) -> None:
    with pytest.raises(Broken):
        decode(body)


@given(st.frozensets(st.integers(0, 5000)))
def test_indexes_are_read_back(indexes: frozenset[int]) -> None:
    assert parse_indexes(written_indexes(indexes)) == indexes


def test_indexes_are_written_short() -> None:
    assert written_indexes([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"
    assert written_indexes(range(4096)) == "0-4095"
    assert written_indexes([]) == ""


def test_what_may_be_released_fits_into_a_config_map_when_all_of_it_has_ended_well() -> None:
    usual = {Key("team-a", f"llama-70b-sft-{number:06x}-a1"): Entry(f"{number:0>36}", 2, 16) for number in range(7000)}
    assert len(encode(Record(9, False, ANY.renewal, (99, 10**9), usual))) <= FULL
    done = {key: replace(entry, done=frozenset(range(16))) for key, entry in usual.items()}
    assert len(encode(Record(9, False, ANY.renewal, (99, 10**9), done))) <= LARGEST


RECOVERED = {
    "held: it may have run, so it is not released": (make_job(), (), Standing.REPLACED),
    "not there: it may have run and been deleted": (None, (), Standing.LOST),
    "running: it goes on": (make_job(suspend=False, generation=2), (running_pod(),), Standing.RELEASED),
    "un-suspended, without pods yet": (make_job(suspend=False, generation=2), (), Standing.RELEASED),
    "closed": (make_job(closed=True, generation=3), (), Standing.CLOSED),
    "finished": (make_job(suspend=False, conditions={"Complete": "CompletionsReached"}), (), Standing.FINISHED),
}


@pytest.mark.parametrize(("job", "pods", "want"), RECOVERED.values(), ids=RECOVERED.keys())
def test_after_a_lost_record_nothing_that_was_granted_is_released(job: Any, pods: Any, want: Standing) -> None:
    state, grants = make_state(jobs=[job] if job else [], pods=pods), make_grants(make_grant(nodes=3))
    record = recovered(gather(state, Record(), grants), epoch=4)
    (seen,) = gather(state, decode(encode(record)), grants)
    assert (standing(seen), record.epoch, record.attempts[KEY].nodes) == (want, 4, 3)


def test_what_is_not_granted_can_be_released_later() -> None:
    record = recovered(gather(make_state(jobs=[make_job()]), Record(), make_grants()), epoch=1)
    (seen,) = gather(make_state(jobs=[make_job()]), record, make_grants(ATTEMPT))
    assert standing(seen) is Standing.HELD
