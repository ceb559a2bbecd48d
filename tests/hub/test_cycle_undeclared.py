"""Regions whose files go, change their names or break, and credentials that end: what runs there is never free to run elsewhere."""

from pathlib import Path

import pytest

from reconciler.model.attempt import State
from reconciler.model.grants import lease_key, report_key
from reconciler.model.record import Phase
from reconciler.model.region_state import RegionState
from reconciler.ports import Refused
from tests.hub.rig import Rig, two_regions
from tests.hub.silence import lease, pass_time, state
from tests.hub.words import FILES, region_file, running, succeeded

STEP = 10.0


@pytest.fixture
def local(tmp_path: Path) -> Rig:
    return two_regions(tmp_path)


GONE = {
    "removed": {"regions/eu.yaml": None},
    "renamed": {"regions/eu.yaml": None, "regions/eu-2.yaml": region_file("eu-2", 1.0)},
    "moved to a file of another name than it says": {"regions/eu.yaml": None, "regions/eu-2.yaml": region_file("eu", 1.0)},
}


@pytest.mark.parametrize("change", GONE.values(), ids=GONE.keys())
def test_what_runs_in_a_region_without_a_file_goes_on_and_nothing_new_goes_there(
    local: Rig, change: dict[str, str | None]
) -> None:
    first = local.placed()
    local.put(change)
    local.job("next")
    local.settle()
    assert (local.attempt(), local.granted("eu")) == (first, [first.name])
    assert local.attempt("next").region == "us"
    found = local.hub_file().regions["eu"]
    assert (found.state, found.reason.numbers["attempts"]) == (RegionState.UNDECLARED, 1)
    assert "`reconciler forget eu`" in found.reason.text
    assert "RegionUndeclared" in [one.code for one in local.hub_file().troubles if one.subject == "eu"]
    assert "| eu | Undeclared | " in local.page()
    assert local.page().count("is declared no more") == 1


def test_it_is_spoken_of_until_its_last_attempt_has_ended_and_its_branch_may_stay(local: Rig) -> None:
    name = local.placed().name
    local.put({"regions/eu.yaml": None})
    local.settle()
    local.tell("eu", succeeded(name))
    local.settle()
    assert local.record().phase is Phase.SUCCEEDED
    assert "eu" not in local.hub_file().regions
    pass_time(local, 400, step=STEP)
    assert "eu" not in local.hub_file().regions
    assert not lease(local).revoked
    assert local.granted("eu") == []
    assert "region/eu" in local.tips()


@pytest.mark.parametrize("change", [*GONE.values(), {}], ids=[*GONE.keys(), "left"])
@pytest.mark.parametrize("restarts", [False, True], ids=["the same hub", "another hub"])
def test_a_file_that_goes_shortens_no_wait(tmp_path: Path, change: dict[str, str | None], restarts: bool) -> None:
    own = FILES["regions/eu.yaml"] + "loss: {margin_seconds: 300}\n"
    rig = two_regions(tmp_path, {**FILES, "regions/eu.yaml": own})
    first = rig.placed()
    if change:
        rig.put({path: body and body + "loss: {margin_seconds: 300}\n" * ("name: eu\n" in body) for path, body in change.items()})
    rig.settle()
    if restarts:
        rig.restart()
    pass_time(rig, 480, step=20)
    assert (lease(rig).revoked, rig.attempt()) == (False, first)
    pass_time(rig, 140, step=20)
    assert lease(rig).revoked


def test_a_job_that_a_broken_lease_keeps_from_starting_says_so(local: Rig) -> None:
    """The region is heard of, and nobody can tell under which lease it stands."""
    broken, key = b"{", lease_key("eu")
    local.store.inner.put(key, broken, expect=local.store.inner.etag(key))
    local.restart()
    local.job()
    pass_time(local, 60, heard=("eu", "us"))
    why = local.record().why
    assert (local.record().phase, local.granted("eu")) == (Phase.STARTING, [])
    assert why is not None
    assert (
        why.text
        == "eu cannot be told yet that it may run: regions/eu/lease.json in the store cannot be read; look at it, then delete it"
    )
    local.store.inner.delete(key)
    local.write_lease("eu")
    pass_time(local, 20, heard=("eu", "us"))
    assert (local.record().why, local.granted("eu")) == (None, [local.attempt().name])


def test_a_region_whose_first_agent_has_not_come_is_awaited_and_never_given_up(local: Rig) -> None:
    local.put({"regions/ap.yaml": region_file("ap", 1.0)})
    pass_time(local, 60, heard=("eu", "us"), step=20)
    told = local.hub_file().regions["ap"]
    assert (told.state, told.next_at) == (RegionState.AWAITED, None)
    assert told.reason.text.startswith("ap is declared, and no agent of it has reported yet: nothing goes there; ")
    local.restart()
    pass_time(local, 400, heard=("eu", "us"), step=20)
    assert local.hub_file().regions == {"ap": told}
    assert local.store.inner.get(lease_key("ap")) is None
    local.tell("ap")
    pass_time(local, 40, heard=("ap", "eu", "us"), step=20)
    assert local.hub_file().regions == {}


def test_a_file_that_is_put_back_is_as_if_it_had_never_gone(local: Rig) -> None:
    first = local.placed()
    local.put({"regions/eu.yaml": None})
    local.settle()
    local.put({"regions/eu.yaml": FILES["regions/eu.yaml"]})
    local.settle()
    assert (state(local), local.attempt()) == (RegionState.READY, first)


def test_a_region_without_a_file_and_without_a_branch_is_watched_for_what_runs_there(local: Rig) -> None:
    first = local.placed()
    local.put({"regions/eu.yaml": None})
    local.move("region/eu", None)
    local.tell("eu", running(first.name))
    pass_time(local, 20, heard=("eu", "us"))
    assert (local.attempt(), state(local)) == (first, RegionState.UNDECLARED)
    pass_time(local, 60)
    assert state(local) is RegionState.UNKNOWN


def test_a_broken_file_leaves_the_region_as_it_was_declared(local: Rig) -> None:
    first = local.placed()
    local.put({"regions/eu.yaml": "name: eu\nnode_pools: none\n"})
    local.job("next")
    local.settle()
    assert (local.attempt(), state(local)) == (first, RegionState.READY)
    assert local.attempt("next").region == "eu"
    assert [one["path"] for one in local.rejected()] == ["regions/eu.yaml"]


def test_a_silent_region_without_attempts_and_file_is_no_sign_of_a_blind_hub(local: Rig) -> None:
    """Of three regions two fall silent, one of them declared no more and empty: the other is given up all the same."""
    local.put({"regions/ap.yaml": region_file("ap", 5.0)})
    local.tell("ap")
    local.placed()
    local.put({"regions/ap.yaml": None})
    pass_time(local, 340, step=STEP)
    assert lease(local).revoked


# ---- credentials --------------------------------------------------------------------------------------------------


def test_a_hub_whose_credentials_for_the_store_end_counts_nothing(local: Rig) -> None:
    first = local.placed()
    pass_time(local, 200, step=STEP)
    refused = Refused("the store says AccessDenied; renew the credentials")
    asked = [f"regions/{name}/{what}.json" for name in ("eu", "us") for what in ("report", "lease", "grants")]
    local.store.fails = dict.fromkeys(["hub/lease.json", *asked], refused)
    for _ in range(30):
        local.clock.seconds += STEP
        with pytest.raises(Refused):
            local.hub.cycle()
    local.store.fails = {}
    pass_time(local, 280, step=STEP)
    assert (local.attempt(), lease(local).revoked) == (first, False)
    pass_time(local, 60, step=STEP)
    assert lease(local).revoked


def test_a_report_that_the_hub_may_not_read_is_no_silence(local: Rig) -> None:
    first = local.placed()
    local.store.fails[report_key("eu")] = Refused("the store says AccessDenied; mend the policy")
    pass_time(local, 400, step=STEP)
    assert (state(local), local.attempt()) == (RegionState.READY, first)
    assert not lease(local).revoked
    assert "AccessDenied" in local.page()
    local.store.fails.clear()
    pass_time(local, 280, step=STEP)
    assert not lease(local).revoked, "its clock began when it was seen again"


def test_a_lease_that_the_hub_may_not_read_is_never_revoked(local: Rig) -> None:
    first = local.placed()
    local.store.fails["regions/eu/lease.json"] = Refused("the store says AccessDenied; mend the policy")
    pass_time(local, 400, step=STEP)
    assert local.attempt() == first
    assert "its lease cannot be looked at" in local.hub_file().regions["eu"].reason.text
    local.store.fails.clear()
    assert not lease(local).revoked


def test_an_agent_whose_credentials_end_is_a_silent_region_and_no_more_than_that(local: Rig) -> None:
    """It cannot report and cannot renew; it stops what runs at its own time, before the hub starts anything elsewhere."""
    local.placed()
    pass_time(local, 290, step=STEP)
    assert [(one.region, one.state) for one in local.record().attempts] == [("eu", State.RUNNING)]
    pass_time(local, 60, step=STEP)
    assert [(one.region, one.state) for one in local.record().attempts] == [("eu", State.STOPPED), ("us", State.GRANTED)]
