"""A push of the hub is told to the receivers of the regions whose branches it moved, and to no others."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.adapters.receivers import ReceiverCalls
from reconciler.hub.loop import HubLoop
from tests.adapters.test_receivers import REPO, SECRET, VARIABLE, Receiver, listening
from tests.hub.rig import two_regions
from tests.hub.words import region_file
from tests.waiting import until


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with listening() as found:
        yield found


def test_the_engine_of_a_region_whose_branch_moved_is_told(tmp_path: Path, receiver: Receiver) -> None:
    rig = two_regions(tmp_path)
    address = f"receiver: {{url: '{receiver.url}', secret_env: {VARIABLE}}}\n"
    rig.put({"regions/eu.yaml": region_file("eu", 1.0) + address})
    rig.settle()
    loop = HubLoop(rig.hub, rig.clock, lambda: None, receivers=ReceiverCalls(REPO, {VARIABLE: SECRET}))
    rig.job("here", allowed_regions=["eu"])
    loop.turn()
    until(lambda: receiver.taken)
    assert [said["commit"] for said in receiver.taken] == [rig.tips()["region/eu"]]
    rig.job("there", allowed_regions=["us"])
    loop.turn()
    loop.turn()
    assert (len(receiver.taken), loop.health.trouble) == (1, "")


def test_a_receiver_that_refuses_is_a_trouble_of_the_hub_and_holds_nothing_up(tmp_path: Path, receiver: Receiver) -> None:
    rig = two_regions(tmp_path)
    address = f"receiver: {{url: '{receiver.url}', secret_env: {VARIABLE}}}\n"
    rig.put({"regions/eu.yaml": region_file("eu", 1.0) + address})
    rig.settle()
    calls = ReceiverCalls(REPO, {VARIABLE: "another"})
    loop = HubLoop(rig.hub, rig.clock, lambda: None, receivers=calls)
    rig.job("here", allowed_regions=["eu"])
    loop.turn()
    until(calls.troubles)
    assert rig.granted("eu") == [rig.attempt("here").name]
    rig.job("more", allowed_regions=["eu"], gpus=1)
    loop.turn()
    assert "the receiver of eu did not take the news" in loop.health.trouble
