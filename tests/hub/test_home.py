"""The object store that a ledger belongs to: no hub goes on over another one unless a person has moved there."""

from pathlib import Path

import pytest

from reconciler.adapters.file_store import FileStore
from reconciler.hub.results import Ended
from reconciler.model.attempt import State
from reconciler.model.grants import HUB_STORE_KEY, StoreIdentity, grants_key, lease_key
from reconciler.model.region_state import RegionState
from reconciler.ports import Refused, Transient
from tests.hub.doors import FaultyStore
from tests.hub.rig import Rig, two_regions
from tests.hub.rules import Rules
from tests.hub.silence import lease, pass_time, state


@pytest.fixture
def local(tmp_path: Path) -> Rig:
    rig = two_regions(tmp_path)
    rig.placed()
    return rig


def other_store(rig: Rig, identity: bytes | None = None) -> None:
    """The hub is started anew over an empty store, into which a person has put `identity`."""
    folder = rig.folder / "other"
    folder.mkdir()
    rig.store = FaultyStore(FileStore(folder))
    rig._rules = Rules(rig, rig.store.inner)
    if identity is not None:
        rig.store.inner.put(HUB_STORE_KEY, identity, expect=None)
    rig.git, rig.hub = rig.another_hub()


def identity(rig: Rig) -> bytes:
    found = rig.store.inner.get(HUB_STORE_KEY)
    assert found is not None
    return found.body


def takes_over(rig: Rig) -> None:
    """The new store knows no term: the first cycle learns the ledger's."""
    with pytest.raises(Transient, match="of term"):
        rig.hub.cycle()


def refusal(rig: Rig) -> str:
    """What the hub says, which does nothing else."""
    before = rig.tips()
    for _ in range(3):
        with pytest.raises((Refused, Transient)) as caught:
            rig.hub.cycle()
    assert rig.tips() == before
    assert all(rig.store.inner.get(grants_key(name)) is None for name in ("eu", "us"))
    return str(caught.value)


def test_the_ledger_notes_the_id_of_the_first_store(local: Rig) -> None:
    noted = local.hub_file().store
    assert noted
    assert StoreIdentity.model_validate_json(identity(local)).id == noted
    local.restart()
    local.settle()
    assert local.hub_file().store == noted


@pytest.mark.parametrize("found", [None, b'{"id":"another"}'], ids=["an empty store", "another ledger's store"])
def test_a_hub_over_another_store_decides_nothing_and_says_so(local: Rig, found: bytes | None) -> None:
    noted = local.hub_file().store
    other_store(local, found)
    said = refusal(local)
    assert f"the ledger belongs to the object store with the id {noted}" in said
    assert ("this one has none" if found is None else "this one's is another") in said
    assert HUB_STORE_KEY in said


def test_an_id_that_cannot_be_read_is_told(local: Rig) -> None:
    other_store(local, b"{")
    assert f"{HUB_STORE_KEY} in the store cannot be read" in refusal(local)


def test_a_hub_that_leads_over_the_old_store_ends_once_the_id_was_moved(local: Rig) -> None:
    old_store, old_hub, body = local.store, local.hub, identity(local)
    old_store.inner.delete(HUB_STORE_KEY)
    other_store(local, body)
    takes_over(local)
    local.settle()
    tips = local.tips()
    for _ in range(3):
        local.clock.seconds += 20
        with pytest.raises((Refused, Transient)):
            old_hub.cycle()
    assert local.tips() == tips


def test_where_something_ran_a_new_store_proves_nothing_by_time(local: Rig) -> None:
    """Its agent may go on over the old store, and nobody here would hear of it."""
    first = local.attempt()
    pass_time(local, 60, heard=("us",))
    assert local.hub_file().regions["eu"].state is RegionState.UNKNOWN
    other_store(local, identity(local))
    local.write_lease("us")
    local.tell("us", lease_epoch=1)
    takes_over(local)
    local.cycle(Ended.PUBLISHED, Ended.QUIET)
    pass_time(local, 600, step=20)
    assert local.store.inner.get(lease_key("eu")) is None
    assert (state(local), local.attempt()) == (RegionState.LOST, first)
    local.write_lease("eu")
    local.tell_running("eu", lease_epoch=1)
    pass_time(local, 40, heard=("eu", "us"), step=20)
    assert (state(local), local.attempt()) == (RegionState.READY, first)
    assert (lease(local).revoked, local.granted("eu"), local.attempt().state) == (False, [first.name], State.RUNNING)
