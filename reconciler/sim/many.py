"""Many histories, several at a time: each process plays some of the seeds."""

import gc
import multiprocessing
from collections.abc import Iterator
from typing import Final

from reconciler.sim.histories import violation

_CHUNK: Final = 8


def played(seeds: range, workers: int, *, shrink: bool) -> Iterator[tuple[int, list[str]]]:
    """How many seeds were played, and the stories of those that broke something; in no order."""
    chunks = [(tuple(seeds[start : start + _CHUNK]), shrink) for start in range(0, len(seeds), _CHUNK)]
    if workers <= 1:
        yield from map(_chunk, chunks)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(_chunk, chunks)


def _chunk(asked: tuple[tuple[int, ...], bool]) -> tuple[int, list[str]]:
    seeds, shrink = asked
    gc.disable()  # a world is thrown away whole, and until then nothing of it is garbage
    gc.freeze()  # nor is anything that was there before: looking through all of it took a fifth of the time
    found = []
    for seed in seeds:
        told = violation(seed, shrink=shrink)
        if told is not None:
            found.append(str(told))
        gc.collect()
    gc.unfreeze()
    gc.enable()
    return len(seeds), found
