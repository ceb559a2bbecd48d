"""What may be deleted: never the newest complete checkpoint, nothing newer, nothing half written; and seeding deletes nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.adapters.clock import SystemClock
from reconciler.agent.stage.checkpoints.layouts import Checkpoint
from reconciler.agent.stage.checkpoints.newest import newest_complete
from reconciler.agent.stage.checkpoints.retention import Pruned, prune, removable
from reconciler.agent.stage.checkpoints.seeding import seed
from reconciler.bulk_port import Found
from reconciler.ports import Transient
from tests.agent.stage import layouts
from tests.agent.stage.layouts import Written
from tests.agent.stage.memory import MemoryEnds
from tests.agent.stage.transfer.ends import Ends

PREFIX = "ckpt/llm-a/a1"


def put(store: MemoryEnds, *checkpoints: Written) -> None:
    for written in checkpoints:
        store.write(PREFIX, dict(written))


def pruned(store: MemoryEnds, keep: int) -> Pruned:
    return prune(store.end(PREFIX), keep)


def there(store: MemoryEnds) -> set[str]:
    return {key.removeprefix(f"{PREFIX}/").partition("/")[0] for key in store.objects}


def test_the_older_ones_go() -> None:
    store = MemoryEnds()
    put(store, *(layouts.trainer(step) for step in (100, 200, 300, 1000)))
    size = sum(len(body) for step in (100, 200) for _, body in layouts.trainer(step))
    assert pruned(store, 2) == Pruned(("checkpoint-1000", "checkpoint-300"), {}, ("checkpoint-200", "checkpoint-100"), size)
    assert there(store) == {"checkpoint-1000", "checkpoint-300"}
    assert pruned(store, 2).removed == ()


def test_what_is_half_written_or_unknown_stays() -> None:
    store = MemoryEnds()
    put(store, layouts.dcp("step-1")[:-1], layouts.dcp("step-2"), layouts.dcp("step-3"), layouts.dcp("step-4")[:-1])
    put(store, [("latest", b"step-3"), ("notes/a", b"x")])
    assert pruned(store, 1).removed == ("step-2",)
    assert there(store) == {"step-1", "step-3", "step-4", "latest", "notes"}


def test_one_that_is_cut_short_never_stands_for_a_good_one() -> None:
    store = MemoryEnds()
    cut = [("epoch=3-step=30.ckpt", layouts.archive()[:-9])]
    put(store, layouts.lightning("epoch=1-step=10.ckpt"), layouts.lightning("epoch=2-step=20.ckpt"), cut)
    done = pruned(store, 1)
    assert (done.kept, done.removed) == (("epoch=2-step=20.ckpt",), ("epoch=1-step=10.ckpt",))
    assert list(done.damaged) == ["epoch=3-step=30.ckpt"]
    assert there(store) == {"epoch=2-step=20.ckpt", "epoch=3-step=30.ckpt"}


@pytest.mark.parametrize("keep", [0, -1])
def test_to_keep_none_is_no_choice(keep: int) -> None:
    store = MemoryEnds()
    put(store, layouts.marked("step-1"))
    with pytest.raises(ValueError, match="always kept"):
        pruned(store, keep)
    assert there(store) == {"step-1"}


MADE = {
    "PyTorch DCP": layouts.dcp,
    "a marker that is not the first by name": lambda name: [
        (f"{name}/{part}", b"x") for part in ("A", "B", "C", "D", "_COMPLETE")
    ],
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE.keys())
@pytest.mark.parametrize("done", range(5))
def test_stopped_at_any_instant_what_is_half_deleted_is_complete_nowhere(done: int, made: Callable[[str], Written]) -> None:
    store = MemoryEnds()
    put(store, made("step-1"), made("step-2"))
    left = [done]

    def die(call: str, key: str) -> None:
        if call == "delete" and left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= call == "delete"

    store.before = die
    with pytest.raises(KeyboardInterrupt):
        pruned(store, 1)
    assert len([name for name, _ in made("step-1") if f"{PREFIX}/{name}" in store.objects]) == 5 - done
    found = newest_complete(store.end(PREFIX))
    assert found is not None
    assert found.name == "step-2"
    if done:
        assert newest_complete(store.end(PREFIX), {"step-2"}) is None


names = st.lists(st.sampled_from([f"step-{at}" for at in range(20)] + ["last.ckpt", "best.ckpt"]), unique=True)


@given(names, st.integers(1, 5))
def test_the_newest_complete_never_goes(found: list[str], keep: int) -> None:
    complete = [Checkpoint(name, {f"{name}/_COMPLETE": Found(f"{name}/_COMPLETE", 0, "e")}) for name in found]
    going = removable(complete, keep)
    assert len(complete) - len(going) == min(len(complete), keep)
    staying = [one for one in complete if one not in going]
    assert all(old.age < new.age for old in going for new in staying)


def test_nothing_goes_when_what_is_kept_changes_meanwhile() -> None:
    store = MemoryEnds()
    put(store, layouts.dcp("step-1"), layouts.dcp("step-2"))
    lists = []

    def lose(call: str, key: str) -> None:
        lists.append(call)
        if lists.count("list") == 2:
            store.remove(PREFIX, "step-2/__0_0.distcp")

    store.before = lose
    with pytest.raises(Transient, match="nothing was removed, do it again"):
        pruned(store, 1)
    assert {name for name, _ in layouts.dcp("step-1")} <= store.read(PREFIX).keys()


def test_large_objects_are_not_read_whole() -> None:
    store = MemoryEnds()
    large = layouts.archive(3_000_000), layouts.tensors(4_000_000)
    put(store, layouts.lightning("epoch=1-step=10.ckpt"))
    put(store, [("checkpoint-20/_COMPLETE", b""), ("epoch=3-step=30.ckpt", large[0])])
    put(store, [*layouts.trainer(40, shards=1), ("checkpoint-40/model.safetensors", large[1])])
    assert pruned(store, 3).removed == ("epoch=1-step=10.ckpt",)
    assert store.read_bytes < 100_000


def test_seeding_deletes_nothing(tmp_path: Path) -> None:
    """Ten attempts, each seeded from the one before, each with checkpoints of its own: all that was ever complete is still there."""
    ends = Ends("file", "", tmp_path)
    expected: set[str] = set()
    for attempt in range(1, 11):
        seed(ends.end(f"ckpt/a{attempt - 1}"), ends.end(f"ckpt/a{attempt}"), SystemClock(), lambda _: None)
        for step in (attempt * 10, attempt * 10 + 5):
            ends.write(f"ckpt/a{attempt}", dict(layouts.dcp(f"step-{step}")))
            expected |= {f"a{attempt}/{name}" for name, _ in layouts.dcp(f"step-{step}")}
    assert ends.read("ckpt").keys() >= expected
    found = newest_complete(ends.end("ckpt/a10"))
    assert found is not None
    assert found.name == "step-105"
