"""Which checkpoints are complete: the layouts of real libraries, cut at every moment of their writing, on a folder and on S3."""

import pickle
import random
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.agent.stage.checkpoints.names import age_of
from reconciler.agent.stage.checkpoints.newest import newest_complete
from reconciler.agent.stage.checkpoints.seeding import Seeded, seed
from reconciler.agent.stage.checkpoints.wholeness import damage
from tests.agent.stage import layouts
from tests.agent.stage.layouts import Written
from tests.agent.stage.memory import MemoryEnds
from tests.agent.stage.transfer.ends import Ends

OLD, NEW = "ckpt/llm-a/a1", "ckpt/llm-a/a2"


@dataclass(frozen=True)
class Layout:
    """A checkpoint and a newer one of the same layout."""

    older: Written
    newer: Written

    @property
    def names(self) -> tuple[str, str]:
        older, newer = (written[-1][0].partition("/")[0] for written in (self.older, self.newer))
        return older, newer


LAYOUTS = {
    "a marker": Layout(layouts.marked("step-9"), layouts.marked("step-10")),
    "PyTorch DCP": Layout(layouts.dcp("step-9"), layouts.dcp("step-10")),
    "PyTorch DCP of 12 ranks": Layout(layouts.dcp("step-9", 12), layouts.dcp("step-10", 12)),
    "Trainer, one file": Layout(layouts.trainer(900, shards=1), layouts.trainer(1000, shards=1)),
    "Trainer, several shards": Layout(layouts.trainer(900), layouts.trainer(1000)),
    "Trainer with FSDP": Layout(layouts.trainer_fsdp(900), layouts.trainer_fsdp(1000)),
    "Trainer with DeepSpeed": Layout(layouts.trainer_deepspeed(900), layouts.trainer_deepspeed(1000)),
    "Lightning": Layout(layouts.lightning("epoch=9-step=90.ckpt"), layouts.lightning("epoch=10-step=100.ckpt")),
    "Lightning, sharded": Layout(
        layouts.lightning_sharded("epoch=9-step=90.ckpt"), layouts.lightning_sharded("epoch=10-step=100.ckpt")
    ),
    "Lightning's last, beside the best": Layout(layouts.lightning("epoch=9-step=90.ckpt"), layouts.lightning("last.ckpt")),
}
each_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())


@pytest.fixture(params=["file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Ends:
    return Ends(request.param, "" if request.param == "file" else request.getfixturevalue("s3_url"), tmp_path)


def put(store: Ends | MemoryEnds, written: Written, prefix: str = OLD) -> None:
    store.write(prefix, dict(written))


def chosen(store: MemoryEnds) -> str | None:
    found = newest_complete(store.end(OLD))
    return found.name if found is not None else None


def seeded_in(store: Ends | MemoryEnds) -> Seeded:
    with closing(store.end(OLD)) as source, closing(store.end(NEW)) as target:
        return seed(source, target, SystemClock(), lambda _: None)


@each_layout
def test_one_that_is_written_to_its_end_is_chosen_and_copied_whole(store: Ends, layout: Layout) -> None:
    put(store, layout.older)
    put(store, layout.newer)
    seeded = seeded_in(store)
    assert (seeded.checkpoint, seeded.passed_over) == (layout.names[1], {})
    assert store.read(NEW) == dict(layout.newer)
    assert seeded_in(store).copied_objects == 0


@each_layout
def test_one_whose_writer_died_between_any_two_objects_is_not_chosen(layout: Layout) -> None:
    for written in range(len(layout.newer)):
        store = MemoryEnds()
        put(store, [*layout.older, *layout.newer[:written]])
        assert chosen(store) == layout.names[0], layout.newer[:written]


@each_layout
def test_one_whose_writer_died_within_any_object_is_not_seeded(layout: Layout) -> None:
    for written, (name, body) in enumerate(layout.newer):
        for cut in {0, len(body) // 2, len(body) - 1} - {len(body), -1}:
            store = MemoryEnds()
            put(store, [*layout.older, *layout.newer[:written], (name, body[:cut])])
            seeded = seeded_in(store)
            assert seeded.checkpoint == layout.names[0], (name, cut)
            assert store.read(NEW) == dict(layout.older), "programs take the newest by name, half or not"


LEFT_OUT_UNSEEN = (
    "config.json",
    "training_args.bin",
    "optimizer.pt",
    "scheduler.pt",
    "rng_state.pth",
    "_optim_states.pt",
    "_model_states.pt",
)
"""Of a Trainer's checkpoint, what may be missing by its settings (`save_only_model`), so that nothing can be told from it."""


@each_layout
def test_one_that_a_tool_brought_in_any_order_is_not_chosen_while_a_part_is_missing(layout: Layout) -> None:
    is_marked = layout.newer[-1][0].endswith("/_COMPLETE")  # the program's own word, which must be written last
    for name, _ in [] if is_marked else layout.newer:
        store = MemoryEnds()
        put(store, [*layout.older, *(one for one in layout.newer if one[0] != name)])
        assert chosen(store) == layout.names[1 if name.endswith(LEFT_OUT_UNSEEN) else 0], name


@each_layout
def test_objects_beside_it_change_nothing(layout: Layout) -> None:
    store = MemoryEnds()
    put(store, [*layout.older, *layout.newer, (f"{layout.names[1]}/eval.log", b"x"), ("notes.txt", b"x"), ("latest", b"step-7")])
    assert chosen(store) == layout.names[1]


def test_no_pickle_is_ever_loaded(tmp_path: Path) -> None:
    trap = tmp_path / "trap"

    class Trap:
        def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
            return Path.touch, (trap,)

    pickle.loads(pickle.dumps(Trap()))  # noqa: S301 - it bites
    trap.unlink()
    store = MemoryEnds()
    put(store, [("step-1/__0_0.distcp", pickle.dumps(Trap())), ("step-1/.metadata", pickle.dumps([Trap(), "__0_0.distcp"]))])
    put(store, [("last.ckpt", pickle.dumps(Trap()))])
    assert seeded_in(store).checkpoint == "last.ckpt"
    store.remove(OLD, "last.ckpt")
    assert chosen(store) == "step-1"
    assert not trap.exists()


INCOMPLETE = {
    "Trainer's state alone, and nothing of the model": [("checkpoint-7/trainer_state.json", b'{"global_step": 7}')],
    "optimizer and state, and nothing of the model": [
        (name, body) for name, body in layouts.trainer(7, shards=1) if not name.endswith("model.safetensors")
    ],
    "a state that is no JSON": [("checkpoint-7/model.safetensors", b"x"), ("checkpoint-7/trainer_state.json", b'{"global_st')],
    "a state that is JSON of another kind": [
        ("checkpoint-7/model.safetensors", b"x"),
        ("checkpoint-7/trainer_state.json", b"[7]"),
    ],
    "an index that is no JSON": [*layouts.trainer(7, shards=1), ("checkpoint-7/model.safetensors.index.json", b"{")],
    "an index of nothing": [*layouts.trainer(7, shards=1), ("checkpoint-7/model.safetensors.index.json", b'{"weight_map": {}}')],
    "Trainer's folder before its renaming": [
        (name.replace("checkpoint", "tmp-checkpoint"), body) for name, body in layouts.trainer(7)
    ],
    "a temporary DCP metadata": [*layouts.dcp("step-7")[:-1], ("step-7/.metadata.tmp", layouts.metadata(["__0_0.distcp"]))],
    "a file before its renaming": [("last.ckpt-x7f3q", layouts.archive()), ("epoch=1.ckpt.part", layouts.archive())],
    "an empty file": [("last.ckpt", b"")],
    "a file that is no checkpoint": [("model.pt", layouts.archive()), (".ckpt", b"x")],
    "a checkpoint deeper down": [
        (f"lightning_logs/version_0/checkpoints/{name}", body) for name, body in layouts.lightning("last.ckpt")
    ],
}


@pytest.mark.parametrize("written", INCOMPLETE.values(), ids=INCOMPLETE.keys())
def test_what_is_none(written: Written) -> None:
    store = MemoryEnds()
    put(store, written)
    assert chosen(store) is None


ORDER = (
    "best.ckpt",
    "epoch=0.ckpt",
    "epoch=2-val_loss=0.91.ckpt",
    "epoch=2-val_loss=0.91-v1.ckpt",
    "epoch=1-step=9.ckpt",
    "step-10",
    "checkpoint-0011",
    "iter_0000012",
    "global_step13",
    "epoch=3-step=14-val_loss=0.99.ckpt",
    "loss-0.5-at-15",
    "last.ckpt",
    "last-v1.ckpt",
    "last-v10.ckpt",
)
"""Each newer than the one before."""


def test_the_order_of_names() -> None:
    shuffled = random.Random(7).sample(ORDER, len(ORDER))
    assert sorted(shuffled, key=age_of) == list(ORDER)


WHOLE = {
    "an archive": ("optimizer.pt", layouts.archive()),
    "safetensors": ("model.safetensors", layouts.tensors()),
    "a pickle of an older torch, of which nothing can be told": ("optimizer.pt", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.half"),
    "an empty file that may be empty": ("merges.txt", b""),
    "an archive with the longest comment": ("last.ckpt", layouts.archive()[:-2] + b"\xff\xff" + bytes(65535)),
    "an archive larger than what is read of its end": ("last.ckpt", layouts.archive(200_000)),
    "a file shorter than any archive": ("training_args.bin", b"PK"),
}
CUT = {
    "an archive that has lost its last byte": (
        "last.ckpt",
        layouts.archive()[:-1],
        "the directory at the end of the archive is missing",
    ),
    "an archive with something behind it": (
        "last.ckpt",
        layouts.archive() + b"x",
        "the directory at the end of the archive is missing",
    ),
    "an empty archive": ("rng_state_0.pth", b"", "it is empty"),
    "an empty shard": ("__0_0.distcp", b"", "it is empty"),
    "safetensors without a header": ("model.safetensors", layouts.tensors()[:5], "it ends before its header"),
    "safetensors within the header": ("model.safetensors", layouts.tensors()[:40], "it ends within its header"),
    "safetensors within a tensor": ("model.safetensors", layouts.tensors(400)[:-1], "bytes of"),
    "safetensors of zeros, as a crash leaves them": ("model.safetensors", bytes(300), "its header cannot be read"),
    "safetensors of whose header only the length is there": ("model.safetensors", bytes(8), "its header cannot be read"),
    "safetensors whose header is no JSON": ("model.safetensors", b"\x09" + bytes(7) + b'{"a": xyz' + bytes(9), "cannot be read"),
}


def damaged(name: str, body: bytes) -> str | None:
    def read(offset: int, size: int) -> bytes:
        assert 0 <= offset <= offset + size <= len(body), "a store refuses a range that is not there"
        return body[offset : offset + size]

    return damage(name, len(body), read)


@pytest.mark.parametrize(("name", "body"), WHOLE.values(), ids=WHOLE.keys())
def test_nothing_is_said_against_a_whole_file(name: str, body: bytes) -> None:
    assert damaged(name, body) is None


@pytest.mark.parametrize(("name", "body", "said"), CUT.values(), ids=CUT.keys())
def test_a_file_that_was_cut_short_is_known(name: str, body: bytes, said: str) -> None:
    assert said in (damaged(name, body) or "")


def test_one_that_is_cut_short_gives_way_to_the_one_before_and_says_so(store: Ends) -> None:
    older, newer = layouts.trainer(900), layouts.trainer(1000)
    name, body = newer[2]
    put(store, [*older, *newer, (name, body[:-7])])
    before = store.read(OLD)
    seeded = seeded_in(store)
    assert seeded.checkpoint == "checkpoint-900"
    assert list(seeded.passed_over) == ["checkpoint-1000"]
    assert f"{name}: it has" in seeded.passed_over["checkpoint-1000"]
    assert store.read(NEW) == dict(older)
    assert store.read(OLD) == before
