"""Checkpoints as the libraries lay them out: object by object, in the order in which they write them.

Bytes are of the real formats as far as anybody looks: archives as `torch.save` makes them, safetensors, DCP's pickled `.metadata`.
"""

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Written = list[tuple[str, bytes]]
"""(name below the prefix, bytes), in the order of writing."""


def archive(size: int = 600) -> bytes:
    """What `torch.save` writes: a zip, nothing compressed, no comment at its end."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as file:
        file.writestr("archive/data.pkl", pickle.dumps({"w": "storage"}, protocol=2))
        file.writestr("archive/data/0", b"\x01" * size)
        file.writestr("archive/version", b"3\n")
    return made.getvalue()


def tensors(size: int = 400) -> bytes:
    """A safetensors file of two tensors."""
    entry = {"dtype": "F32", "shape": [size // 8]}
    header: dict[str, Any] = {
        "__metadata__": {"format": "pt"},
        "a": {**entry, "data_offsets": [0, size // 2]},
        "b": {**entry, "data_offsets": [size // 2, size]},
    }
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + b"\x02" * size


@dataclass(frozen=True)
class StorageInfo:
    """As DCP keeps where a piece of a tensor stands."""

    relative_path: str
    offset: int
    length: int


def metadata(shards: Sequence[str], pieces: int = 400) -> bytes:
    """DCP's `.metadata`: many pieces in few shards, pickled as DCP does."""
    stored = {
        f"model.layers.{at}.weight": StorageInfo(shards[at % len(shards)][:] + "", at * 64, 64)
        for at in range(pieces * len(shards))
    }
    return pickle.dumps({"state_dict_metadata": {}, "storage_data": stored, "storage_meta": "an id"})


def dcp(folder: str, ranks: int = 2) -> Written:
    """PyTorch DCP: every rank its shards; then the coordinator `.metadata`, under another name first."""
    shards = [f"__{rank}_{at}.distcp" for rank in range(ranks) for at in range(2)]
    written = [(f"{folder}/{shard}", archive()) for shard in shards]
    return [*written, (f"{folder}/.metadata", metadata(shards))]


def trainer(step: int, shards: int = 3, ranks: int = 1) -> Written:
    """Hugging Face Trainer: model, optimizer, scheduler, random state, and the trainer's state last."""
    folder = f"checkpoint-{step}"
    names = [f"model-{at:05}-of-{shards:05}.safetensors" for at in range(1, shards + 1)] if shards > 1 else ["model.safetensors"]
    written = [(f"{folder}/config.json", b"{}"), *((f"{folder}/{name}", tensors()) for name in names)]
    if shards > 1:
        index = {"metadata": {"total_size": 1200}, "weight_map": {f"layer.{at}": names[at % shards] for at in range(40)}}
        written.append((f"{folder}/model.safetensors.index.json", json.dumps(index).encode()))
    written += [(f"{folder}/training_args.bin", archive(90)), (f"{folder}/optimizer.pt", archive())]
    written += [(f"{folder}/scheduler.pt", archive(90))]
    written += [(f"{folder}/rng_state{f'_{rank}' if ranks > 1 else ''}.pth", archive(90)) for rank in range(ranks)]
    return [*written, (f"{folder}/trainer_state.json", json.dumps({"epoch": 1.0, "global_step": step}).encode())]


def trainer_fsdp(step: int) -> Written:
    """The same with FSDP's sharded state: two DCP folders in it."""
    folder = f"checkpoint-{step}"
    state = json.dumps({"global_step": step}).encode()
    parts = [*dcp(f"{folder}/pytorch_model_fsdp_0"), *dcp(f"{folder}/optimizer_0")]
    return [*parts, (f"{folder}/scheduler.pt", archive(90)), (f"{folder}/trainer_state.json", state)]


def trainer_deepspeed(step: int) -> Written:
    """The same with DeepSpeed: a folder of all ranks' parts, then `latest`."""
    folder, tag = f"checkpoint-{step}", f"global_step{step}"
    parts = ["mp_rank_00_model_states.pt", *(f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in range(2))]
    written = [(f"{folder}/{tag}/{part}", archive()) for part in parts]
    state = json.dumps({"global_step": step}).encode()
    return [*written, (f"{folder}/latest", tag.encode()), (f"{folder}/trainer_state.json", state)]


def lightning(name: str) -> Written:
    """Lightning: one file."""
    return [(name, archive())]


def lightning_sharded(name: str) -> Written:
    """Lightning's FSDP strategy: a DCP folder, and then `meta.pt`."""
    return [*dcp(name), (f"{name}/meta.pt", archive(90))]


def marked(folder: str) -> Written:
    """A program's own format, with a marker that it writes last."""
    return [(f"{folder}/part-0", b"0" * 40), (f"{folder}/deep/part-1", b"1" * 40), (f"{folder}/_COMPLETE", b"")]
