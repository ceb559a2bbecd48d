"""The store in memory keeps the contract of every other store, and shows its record of writes."""

import pytest

from reconciler.ports import Conflict, ObjectStore, Stored
from reconciler.sim.store import MemoryStore, Shelf
from tests.adapters import test_stores as contract

globals().update({name: test for name, test in vars(contract).items() if name.startswith("test_")})


@pytest.fixture
def store() -> ObjectStore:
    return MemoryStore(Shelf())


def test_each_write_is_told_with_its_writer_and_its_sending() -> None:
    told: list[tuple[str, str, bytes, float]] = []

    def note(who: str, key: str, stored: Stored, sent: float) -> None:
        told.append((who, key, stored.body, sent))

    shelf = Shelf(written=note)
    etag = MemoryStore(shelf, "hub").put("a", b"1", expect=None)
    MemoryStore(shelf, "agent").put_sent("a", b"2", etag, 7.0)
    with pytest.raises(Conflict):
        MemoryStore(shelf, "late").put("a", b"3", expect=etag)
    assert told == [("hub", "a", b"1", 0.0), ("agent", "a", b"2", 7.0)]


def test_what_stood_before_is_kept_in_order() -> None:
    shelf = Shelf()
    store, etag = MemoryStore(shelf), None
    for number in range(9):
        etag = store.put("a", str(number).encode(), expect=etag)
    assert [stored.body for stored in shelf.past["a"]] == [b"4", b"5", b"6", b"7", b"8"]
