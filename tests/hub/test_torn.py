"""A push that a dying remote has torn: half of its branches moved. What is missing follows as soon as that is seen."""

from pathlib import Path

import pytest

from reconciler.hub.results import Ended
from reconciler.model.record import Phase
from reconciler.ports import RefUpdate, Transient
from tests.hub.rig import Rig


@pytest.mark.parametrize("moved", ["region/eu", "placements", "status"])
def test_the_rest_of_a_torn_push_follows(tmp_path: Path, moved: str) -> None:
    rig = Rig(tmp_path)
    rig.tell("eu")
    rig.tell("us")
    rig.settle()
    whole = rig.git.push

    def torn(updates: list[RefUpdate]) -> None:
        rig.git.push = whole  # type: ignore[method-assign]
        whole([update for update in updates if update.branch == moved])
        raise Transient("the remote end hung up unexpectedly")

    rig.git.push = torn  # type: ignore[method-assign, assignment]
    rig.job()
    with pytest.raises(Transient):
        rig.hub.cycle()
    rig.settle()
    assert rig.record().phase is Phase.STARTING
    assert rig.manifests("eu") == [rig.attempt().name] == rig.granted("eu")
    assert rig.unusable() == ()


def test_a_push_that_was_not_done_at_all_is_decided_anew(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.tell("eu")
    rig.tell("us")
    rig.settle()

    def lost(_: object) -> None:
        del rig.git.push  # type: ignore[attr-defined]
        raise Transient("no answer")

    rig.git.push = lost  # type: ignore[method-assign, assignment]
    rig.job()
    with pytest.raises(Transient):
        rig.hub.cycle()
    rig.cycle(Ended.PUBLISHED)
    rig.settle()
    assert rig.granted("eu") == [rig.attempt().name]
