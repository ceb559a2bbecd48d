"""Two clusters under one region's name: the second one waits until whoever had the lease has stopped everything."""

from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.adapters.file_store import FileStore
from reconciler.agent.lease import Holding, LeaseHeld, Taking, renew, unread
from reconciler.agent.record import Broken, Record, decode, encode, joined, joining
from reconciler.model.grants import Lease, lease_key


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    store = FileStore(tmp_path)
    _renewed(store, 7)
    return store


def _renewed(store: FileStore, renewal: int) -> None:
    body = Lease(region="eu", epoch=3, incarnation="other", renewal=renewal).model_dump_json().encode()
    store.put(lease_key("eu"), body, expect=store.etag(lease_key("eu")))


def _taking(now: float) -> Taking:
    return Taking("eu", "me", now, valid=False, is_new_here=True, takeover_seconds=300.0)


def _held(store: FileStore, holding: Holding, now: float) -> Holding:
    with pytest.raises(LeaseHeld, match="another agent's"):
        renew(store, holding, _taking(now))
    try:
        renew(store, holding, _taking(now))
    except LeaseHeld as held:
        return unread(held.holding)
    raise AssertionError


def test_a_lease_that_is_being_renewed_is_never_taken(store: FileStore) -> None:
    holding = Holding()
    for minute in range(10):
        holding = _held(store, holding, minute * 200.0)
        _renewed(store, 8 + minute)


def test_one_that_has_not_changed_for_long_enough_is_taken_under_the_next_epoch(store: FileStore) -> None:
    holding = _held(store, Holding(), 0.0)
    holding = _held(store, holding, 299.0)
    taken = renew(store, holding, _taking(300.0))
    assert (taken.epoch, taken.sent_at) == (4, 300.0)


def test_an_agent_whose_cluster_has_something_of_ours_goes_on_at_once(store: FileStore) -> None:
    taken = renew(store, Holding(), Taking("eu", "me", 0.0, valid=False, is_new_here=False))
    assert taken.epoch == 3


def test_the_lease_of_an_agent_of_this_cluster_is_no_other_clusters(store: FileStore) -> None:
    taken = renew(store, Holding(), replace(_taking(0.0), known=lambda: ("other", "me")))
    assert taken.epoch == 3


def test_what_stands_before_there_is_a_record_is_no_record() -> None:
    body = joining(["us-1", "us-2"])
    assert joined(body) == ("us-1", "us-2")
    assert joined(encode(Record())) is None
    assert [joined(other) for other in (b"", b"{", b"[]", b'{"form":1,"joining":3}', b'{"joining":["x"]}')] == [None] * 5
    with pytest.raises(Broken):
        decode(body)
