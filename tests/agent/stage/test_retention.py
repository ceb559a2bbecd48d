"""What may be deleted: never the newest complete checkpoint, nothing newer, nothing half written; and seeding deletes nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.adapters.file_store import FileStore
from reconciler.agent.stage.checkpoints.layouts import Checkpoint
from reconciler.agent.stage.checkpoints.newest import newest_complete
from reconciler.agent.stage.checkpoints.retention import Pruned, prune, removable
from reconciler.agent.stage.checkpoints.seeding import seed
from tests.agent.stage import layouts
from tests.agent.stage.layouts import Written
from tests.agent.stores import FailingStore

PREFIX = "ckpt/llm-a/a1"


def put(store: FailingStore, *checkpoints: Written) -> None:
    for written in checkpoints:
        for name, body in written:
            store.put(f"{PREFIX}/{name}", body, expect=store.etag(f"{PREFIX}/{name}"))


def there(store: FailingStore) -> set[str]:
    return {key.removeprefix(f"{PREFIX}/").partition("/")[0] for key in store.objects}


def test_the_older_ones_go() -> None:
    store = FailingStore()
    put(store, *(layouts.trainer(step) for step in (100, 200, 300, 1000)))
    size = sum(len(body) for step in (100, 200) for _, body in layouts.trainer(step))
    assert prune(store, PREFIX, 2) == Pruned(
        ("checkpoint-1000", "checkpoint-300"), {}, ("checkpoint-200", "checkpoint-100"), size
    )
    assert there(store) == {"checkpoint-1000", "checkpoint-300"}
    assert prune(store, PREFIX, 2).removed == ()


def test_what_is_half_written_or_unknown_stays() -> None:
    store = FailingStore()
    put(store, layouts.dcp("step-1")[:-1], layouts.dcp("step-2"), layouts.dcp("step-3"), layouts.dcp("step-4")[:-1])
    put(store, [("latest", b"step-3"), ("notes/a", b"x")])
    assert prune(store, PREFIX, 1).removed == ("step-2",)
    assert there(store) == {"step-1", "step-3", "step-4", "latest", "notes"}


def test_one_that_is_cut_short_never_stands_for_a_good_one() -> None:
    store = FailingStore()
    cut = [("epoch=3-step=30.ckpt", layouts.archive()[:-9])]
    put(store, layouts.lightning("epoch=1-step=10.ckpt"), layouts.lightning("epoch=2-step=20.ckpt"), cut)
    pruned = prune(store, PREFIX, 1)
    assert (pruned.kept, pruned.removed) == (("epoch=2-step=20.ckpt",), ("epoch=1-step=10.ckpt",))
    assert list(pruned.damaged) == ["epoch=3-step=30.ckpt"]
    assert there(store) == {"epoch=2-step=20.ckpt", "epoch=3-step=30.ckpt"}


@pytest.mark.parametrize("keep", [0, -1])
def test_to_keep_none_is_no_choice(keep: int) -> None:
    store = FailingStore()
    put(store, layouts.marked("step-1"))
    with pytest.raises(ValueError, match="always kept"):
        prune(store, PREFIX, keep)
    assert there(store) == {"step-1"}


class Dying(FailingStore):
    """Dies at a deletion."""

    left = 0

    def delete(self, key: str) -> None:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        super().delete(key)


MADE = {
    "PyTorch DCP": layouts.dcp,
    "a marker that is not the first by name": lambda name: [
        (f"{name}/{part}", b"x") for part in ("A", "B", "C", "D", "_COMPLETE")
    ],
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE.keys())
@pytest.mark.parametrize("done", range(5))
def test_stopped_at_any_instant_what_is_half_deleted_is_complete_nowhere(done: int, made: Callable[[str], Written]) -> None:
    store = Dying()
    put(store, made("step-1"), made("step-2"))
    store.left = done
    with pytest.raises(KeyboardInterrupt):
        prune(store, PREFIX, 1)
    assert len([name for name, _ in made("step-1") if f"{PREFIX}/{name}" in store.objects]) == 5 - done
    found = newest_complete(store, PREFIX)
    assert found is not None
    assert found.name == "step-2"
    if done:
        assert newest_complete(store, PREFIX, {"step-2"}) is None


names = st.lists(st.sampled_from([f"step-{at}" for at in range(20)] + ["last.ckpt", "best.ckpt"]), unique=True)


@given(names, st.integers(1, 5))
def test_the_newest_complete_never_goes(found: list[str], keep: int) -> None:
    complete = [Checkpoint(name, {f"{name}/_COMPLETE": 0}) for name in found]
    going = removable(complete, keep)
    assert len(complete) - len(going) == min(len(complete), keep)
    staying = [one for one in complete if one not in going]
    assert all(old.age < new.age for old in going for new in staying)


def test_seeding_deletes_nothing(tmp_path: Path) -> None:
    """Ten attempts, each seeded from the one before, each with checkpoints of its own: all that was ever complete is still there."""
    store = FileStore(tmp_path)
    expected: set[str] = set()
    for attempt in range(1, 11):
        seed(store, f"ckpt/a{attempt - 1}", store, f"ckpt/a{attempt}")
        for step in (attempt * 10, attempt * 10 + 5):
            for name, body in layouts.dcp(f"step-{step}"):
                store.put(f"ckpt/a{attempt}/{name}", body, expect=None)
                expected.add(f"ckpt/a{attempt}/{name}")
    assert {item.key for item in store.list("ckpt/")} >= expected
    found = newest_complete(store, "ckpt/a10")
    assert found is not None
    assert found.name == "step-105"
