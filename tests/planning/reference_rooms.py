"""The reference's nodes: lists that pods are put onto one at a time."""

from collections.abc import Sequence
from typing import Any

from reconciler.model.attempt import Needs
from reconciler.model.gpu import parse_model
from reconciler.model.quantity import milli, whole
from reconciler.planning.shapes import Kind
from reconciler.planning.snapshot import Holding, RegionView

Node = list[Any]
"""[kind, free: [gpus, cpu, memory, disk, pods], name, GPUs when empty]"""


def whole_nodes(view: RegionView) -> list[Node]:
    """The region's nodes as if they were empty and healthy, or those that are declared."""
    if view.facts is not None and view.facts.nodes:
        return [[node.kind, list(node.whole), node.name, node.whole.gpus] for node in view.facts.nodes]
    nodes: list[Node] = []
    for pool in view.region.node_pools:
        model = str(parse_model(pool.gpu_model)) if pool.gpu_model else None
        vram = whole(pool.gpu_memory) if pool.gpu_memory else None
        kind = Kind(model, pool.gpu_model, vram, pool.driver, pool.rdma, ())
        nodes += [
            [kind, [pool.gpus, milli(pool.cpu), whole(pool.memory), 2**62, 2**31], "", pool.gpus] for _ in range(pool.nodes)
        ]
    return nodes


def free_nodes(view: RegionView, holdings: Sequence[Holding], gone: set[str]) -> list[Node]:
    """What is left on each usable node, with what is held and not seen yet taken out, and what is gone given back."""
    if view.facts is None:
        return []
    nodes: list[Node] = [[node.kind, list(node.free), node.name, node.whole.gpus] for node in view.facts.nodes if node.usable]
    for holding in holdings:
        on = view.facts.pods_on.get(holding.attempt, ()) if holding.attempt in gone else ()
        for name in on:
            for node in nodes:
                if node[2] == name:
                    node[1] = [have + need for have, need in zip(node[1], _asked(holding.needs), strict=True)]
    for holding in holdings:
        missing = holding.nodes - view.facts.pods_seen.get(holding.attempt, 0)
        if holding.attempt not in gone and missing > 0:
            for model in {node[0].gpu_model for node in nodes}:
                if holding.gpu_model in (None, model):
                    take(nodes, holding.needs, missing, [node[0] for node in nodes if node[0].gpu_model == model])
    return nodes


def _asked(needs: Needs) -> list[int]:
    return [needs.gpus, needs.cpu_milli, needs.memory_bytes, needs.disk_bytes, 1]


def _holds(free: list[int], asked: list[int]) -> bool:
    return all(have >= need or need == 0 for have, need in zip(free, asked, strict=True))


def room(nodes: Sequence[Node], needs: Needs, kinds: Sequence[Kind]) -> int:
    """How many pods fit, counted by putting them in."""
    left, count = [[node[0], list(node[1]), *node[2:]] for node in nodes], 0
    while count < 100 and take(left, needs, 1, kinds) == 0:
        count += 1
    return count


def take(nodes: Sequence[Node], needs: Needs, pods: int, kinds: Sequence[Kind]) -> int:
    """Put pods onto nodes one by one, the fullest node of the first kind first; returns how many found none."""
    order = list(dict.fromkeys(kinds))
    for placed in range(pods):
        fitting = [node for node in nodes if node[0] in order and _holds(node[1], _asked(needs))]
        if not fitting:
            return pods - placed
        node = min(fitting, key=lambda node: (order.index(node[0]), node[1]))
        node[1] = [have - need for have, need in zip(node[1], _asked(needs), strict=True)]
    return 0
