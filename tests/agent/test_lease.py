"""The lease: taken, renewed, lost, revoked, taken anew; on a real store, and on one that loses answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.file_store import FileStore
from reconciler.agent.lease import (
    Holding,
    LeaseBroken,
    LeaseHeld,
    Taking,
    fence_at,
    inherited_from,
    is_valid,
    next_epoch,
    renew,
    unread,
)
from reconciler.agent.record import Record, Renewal
from reconciler.model.grants import Lease, lease_key
from reconciler.ports import Conflict, ObjectStore, Transient
from tests.agent.stores import FailingStore

KEY = lease_key("eu")
FENCE = 240.0


def at(now: float, *, incarnation: str = "i1", valid: bool = True, **more: Any) -> Taking:
    return Taking("eu", incarnation, now, valid=valid, **more)


def stored(store: ObjectStore) -> Lease:
    found = store.get(KEY)
    assert found is not None
    return Lease.model_validate_json(found.body)


def revoke(store: ObjectStore) -> None:
    """As the hub does it: by the ETag that it saw, with the next epoch."""
    found = store.get(KEY)
    assert found is not None
    lease = Lease.model_validate_json(found.body)
    revoked = lease.model_copy(update={"revoked": True, "epoch": lease.epoch + 1})
    store.put(KEY, revoked.model_dump_json().encode(), expect=found.etag)


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path)


def test_the_first_lease_has_epoch_1_and_each_renewal_another_body(store: FileStore) -> None:
    first = renew(store, Holding(), at(10.0))
    assert (first.epoch, first.sent_at, stored(store).renewal) == (1, 10.0, 1)
    second = renew(store, first, at(30.0))
    assert (second.epoch, second.sent_at, stored(store).renewal) == (1, 30.0, 2)
    assert second.etag != first.etag


def test_it_is_good_from_when_its_request_was_sent() -> None:
    holding = Holding(1, sent_at=10.0)
    assert is_valid(holding, 10.0 + FENCE - 0.01, FENCE)
    assert not is_valid(holding, 10.0 + FENCE, FENCE)
    assert not is_valid(Holding(1), 0.0, FENCE)
    assert not is_valid(Holding(1, sent_at=10.0, offered=2), 11.0, FENCE)


def test_a_renewal_whose_answer_is_lost_extends_nothing_and_blocks_nothing() -> None:
    store = FailingStore()
    holding = renew(store, Holding(), at(0.0))
    store.lose_answers = True
    with pytest.raises(Transient):
        renew(store, holding, at(20.0))
    store.lose_answers = False
    assert stored(store).renewal == 2
    after = renew(store, unread(holding), at(21.0))
    assert (after.sent_at, stored(store).renewal) == (21.0, 3)


def test_another_incarnation_writes_and_the_epoch_stays(store: FileStore) -> None:
    renew(store, Holding(), at(0.0))
    after = renew(store, Holding(1), at(5.0, incarnation="i2"))
    assert (after.epoch, after.offered, stored(store).incarnation, stored(store).renewal) == (1, None, "i2", 2)


Contest = tuple[Sequence[str] | None, int, str]
CONTESTS: dict[str, Contest] = {
    "a successor keeps the lease": (("i1", "i2"), 1, "i2"),
    "a copy's agent that is within its trial loses it": (("i1",), 1, "i1"),
    "within its trial to the last": (("i1",), 2, "i1"),
    "a copy's agent that is beyond its trial keeps it": (("i1",), 3, "i2"),
    "whoever it may be, keeps it": (None, 1, "i2"),
}


@pytest.mark.parametrize("case", CONTESTS)
def test_nobody_takes_the_lease_back_but_from_a_copy_that_has_started_nothing(store: FileStore, case: str) -> None:
    known, times, has_it = CONTESTS[case]
    mine = renew(store, Holding(), at(0.0))
    other = Holding(1)
    for number in range(times):
        other = renew(store, other, at(5.0 + number, incarnation="i2"))
    if has_it == "i1":
        after = renew(store, mine, at(20.0, known=lambda: known))
        assert (after.epoch, after.rival, is_valid(after, 21.0, FENCE)) == (1, "i2", True)
    else:
        with pytest.raises(LeaseHeld) as held:
            renew(store, mine, at(20.0, known=lambda: known))
        assert (held.value.until, is_valid(held.value.holding, 21.0, FENCE)) == (320.0, False)
    assert stored(store).incarnation == has_it


@pytest.mark.parametrize(("counted", "valid_after"), [(5, 1), (4, 1), (3, 3), (None, 1)])
def test_who_finds_more_renewals_than_its_record_tells_of_is_on_trial(
    store: FileStore, counted: int | None, valid_after: int
) -> None:
    holding = Holding()
    for number in range(5):
        holding = renew(store, holding, at(float(number)))
    heir, renewals = Holding(1), 0
    while not is_valid(heir, 10.0 + renewals, FENCE):
        heir = renew(store, heir, at(10.0 + renewals, incarnation="i2", known=lambda: ("i1", "i2"), counted=counted))
        renewals += 1
    assert renewals == valid_after


def test_a_stranger_to_the_record_is_waited_for_and_then_followed_by_the_next_epoch_once_all_has_stopped(
    store: FileStore,
) -> None:
    renew(store, Holding(), at(0.0, incarnation="stranger"))
    with pytest.raises(LeaseHeld) as held:
        renew(store, Holding(1), at(1.0, known=lambda: ("i0", "i1")))
    told = renew(store, unread(held.value.holding), at(301.0, known=lambda: ("i0", "i1")))
    assert (told.offered, stored(store).incarnation) == (2, "stranger")
    taken = renew(store, told, at(302.0, known=lambda: ("i0", "i1"), cleared=2))
    assert (taken.epoch, is_valid(taken, 302.0, FENCE), stored(store).incarnation) == (2, True, "i1")


def test_a_revoked_lease_is_not_renewed_until_everything_has_stopped(store: FileStore) -> None:
    holding = renew(store, Holding(), at(0.0))
    revoke(store)
    told = renew(store, holding, at(20.0))
    assert (told.epoch, told.offered, stored(store).revoked) == (1, 2, True)
    assert not is_valid(told, 20.0, FENCE)
    assert renew(store, told, at(40.0, cleared=1)).offered == 2
    taken = renew(store, told, at(60.0, cleared=2))
    assert (taken.epoch, taken.offered, taken.sent_at) == (2, None, 60.0)
    assert (stored(store).epoch, stored(store).revoked) == (2, False)


def test_revoked_again_before_it_is_taken_is_another_epoch(store: FileStore) -> None:
    holding = renew(store, Holding(), at(0.0))
    revoke(store)
    told = renew(store, holding, at(20.0))
    revoke(store)
    again = renew(store, told, at(40.0, cleared=2))
    assert (again.epoch, again.offered, stored(store).revoked) == (1, 3, True)


def test_a_revocation_that_comes_between_read_and_write_wins() -> None:
    class Late(FailingStore):
        """The hub revokes just before the agent's first write arrives."""

        revoked = False

        def put(self, key: str, body: bytes, *, expect: str | None) -> str:
            if self.objects and not self.revoked:
                self.revoked = True
                revoke(self)
            return super().put(key, body, expect=expect)

    store = Late()
    holding = renew(store, Holding(), at(0.0))
    after = renew(store, holding, at(20.0))
    assert (after.offered, stored(store).revoked) == (2, True)


def test_a_lease_that_somebody_removed_is_made_again_under_the_same_epoch_while_it_is_good(store: FileStore) -> None:
    holding = renew(store, Holding(3), at(0.0, valid=False, cleared=4))
    store.delete(KEY)
    after = renew(store, unread(holding), at(20.0, valid=True))
    assert (after.epoch, after.offered, after.lease and after.lease.renewal) == (4, None, 2)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"region": "eu"', b'{"region":"us","epoch":1,"incarnation":"x","renewal":1}'])
def test_what_is_no_lease_of_ours_is_left_alone(store: FileStore, body: bytes) -> None:
    store.put(KEY, body, expect=None)
    with pytest.raises(LeaseBroken):
        renew(store, Holding(1), at(0.0))
    found = store.get(KEY)
    assert found is not None
    assert found.body == body


def test_two_conflicts_in_a_row_are_left_for_the_next_step() -> None:
    class Busy(FailingStore):
        def put(self, key: str, body: bytes, *, expect: str | None) -> str:
            super().put(key, body, expect=expect)  # somebody was quicker
            return super().put(key, body, expect=expect)

    with pytest.raises(Conflict):
        renew(Busy(), Holding(), at(0.0))


def lease(epoch: int, *, revoked: bool = False) -> Lease:
    return Lease(region="eu", epoch=epoch, incarnation="x", renewal=1, revoked=revoked)


@dataclass(frozen=True)
class Case:
    """The lease in the store, and the agent's own epoch (0: it knows of none)."""

    found: Lease | None
    own: int
    want: tuple[int, bool]
    valid: bool = False
    granted: int = 0


EPOCHS = {
    "a new region": Case(None, 0, (1, True)),
    "neither lease nor record, but the hub has seen an epoch": Case(None, 0, (6, True), granted=5),
    "a restart": Case(lease(3), 3, (3, True)),
    "a lost record: the lease tells": Case(lease(3), 0, (3, True)),
    "another replica has gone on": Case(lease(4), 3, (4, False)),
    "revoked": Case(lease(4, revoked=True), 3, (4, False)),
    "revoked, and no record": Case(lease(4, revoked=True), 0, (4, False)),
    "revoked without a new epoch": Case(lease(3, revoked=True), 3, (4, False)),
    "gone while it was good: nobody can have revoked it": Case(None, 3, (3, True), valid=True),
    "gone, and a revocation may be gone with it": Case(None, 3, (4, False)),
    "set back while it was good": Case(lease(2), 3, (3, True), valid=True),
    "set back, and a revocation may be gone with it": Case(lease(2), 3, (4, False)),
}


@pytest.mark.parametrize("case", EPOCHS.values(), ids=EPOCHS.keys())
def test_which_epoch_may_be_taken(case: Case) -> None:
    assert next_epoch(case.found, case.own, valid=case.valid, granted_epoch=case.granted) == case.want


WALL = datetime(2026, 5, 1, 10, 0, tzinfo=UTC)
INHERITED = {
    "within one boot the monotonic clock tells": (Renewal(WALL - timedelta(hours=9), 90.0, "boot"), "boot", 90.0),
    "a monotonic time from the future is another boot's": (Renewal(WALL - timedelta(seconds=30), 500.0, "boot"), "boot", 70.0),
    "after a boot the wall clock tells": (Renewal(WALL - timedelta(seconds=30), 90.0, "old"), "boot", 70.0),
    "a boot that is not known is no boot in common": (Renewal(WALL - timedelta(seconds=30), 90.0, ""), "", 70.0),
    "a clock that is a little ahead": (Renewal(WALL + timedelta(seconds=5), 90.0, "old"), "boot", 100.0),
    "a clock that cannot be right": (Renewal(WALL + timedelta(minutes=11), 90.0, "old"), "boot", None),
    "nothing": (None, "boot", None),
}


@pytest.mark.parametrize(("renewal", "boot", "want"), INHERITED.values(), ids=INHERITED.keys())
def test_when_the_last_agent_renewed(renewal: Renewal | None, boot: str, want: float | None) -> None:
    assert inherited_from(renewal, boot, 100.0, WALL) == want


def test_when_everything_is_stopped() -> None:
    never = float("-inf")
    assert fence_at(Holding(1, sent_at=50.0), Record(fenced=True), 90.0, FENCE) == 290.0
    assert fence_at(Holding(1), Record(), 90.0, FENCE) == 330.0
    assert fence_at(Holding(1), Record(), None, FENCE) == never
    assert fence_at(Holding(1), Record(fenced=True), 90.0, FENCE) == never
