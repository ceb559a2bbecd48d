"""Where there is room: free capacity of a region by node shape, never by totals.

What counts as used: whatever the report says is bound (terminating pods included), and whatever the ledger has granted and
the report does not show yet. A pass works on a copy, takes from it, and throws it away.

Nodes alike in kind form a pool; nodes of a pool that have the same amounts free form one line of it. Faults of others that
this rules out: free cards counted over nodes (skypilot-org/skypilot#3499), the same card spent twice (karmada-io/karmada#6783).
"""

from collections.abc import Collection, Iterable, Mapping

from reconciler.model.attempt import Needs
from reconciler.model.gpu import parse_model
from reconciler.model.quantity import milli, whole
from reconciler.model.region import Region
from reconciler.planning.shapes import Free, Kind, ReportFacts
from reconciler.planning.snapshot import Holding, RegionView

Pool = dict[Free, int]
"""Free amounts → how many nodes have just that."""


class Capacity:
    """Free room of one region. A pass copies it before it takes from it."""

    __slots__ = ("free_gpus", "pools", "total_gpus")

    def __init__(self, pools: dict[Kind, Pool], total_gpus: int) -> None:
        self.pools = pools
        self.total_gpus = total_gpus
        self.free_gpus = sum(max(free.gpus, 0) * count for pool in pools.values() for free, count in pool.items())

    def copy(self) -> "Capacity":
        """An independent copy."""
        return Capacity({kind: dict(pool) for kind, pool in self.pools.items()}, self.total_gpus)

    def fits(self, needs: Needs, wanted: int, kinds: Iterable[Kind]) -> int:
        """Pods of those needs that fit, counted up to `wanted`."""
        found = 0
        if needs.gpus > self.free_gpus:
            return 0
        for kind in kinds:
            for free, count in self.pools.get(kind, {}).items():
                if needs.gpus and needs.gpus > free.gpus:  # below zero where cards fell sick in use
                    continue
                found += free.times(needs) * count
                if found >= wanted:
                    return wanted
        return found

    def take(self, needs: Needs, nodes: int, kinds: Iterable[Kind]) -> int:
        """Set room aside for `nodes` pods, fullest nodes first; returns how many found none."""
        left = nodes
        for kind in kinds:
            pool = self.pools.get(kind)
            while left and pool:
                fitting = [free for free in pool if free.times(needs) > 0]
                if not fitting:
                    break
                left -= self._take_from(pool, min(fitting), needs, left)
        return left

    def _take_from(self, pool: Pool, free: Free, needs: Needs, left: int) -> int:
        """Fill nodes of one line as far as needed; returns the pods placed."""
        each = free.times(needs)
        full = min(left // each, pool[free])
        if full:
            _move(pool, free, free.less(needs, each), full)
            taken = full * each
        else:
            _move(pool, free, free.less(needs, left), 1)
            taken = left
        self.free_gpus -= taken * needs.gpus
        return taken

    def largest_block(self, kinds: Iterable[Kind]) -> int:
        """The most GPUs that are free on one node."""
        return max((free.gpus for kind in kinds for free in self.pools.get(kind, ())), default=0)

    def free_of(self, kinds: Iterable[Kind]) -> int:
        """GPUs free on nodes of these kinds."""
        return sum(max(free.gpus, 0) * count for kind in kinds for free, count in self.pools.get(kind, {}).items())


def _move(pool: Pool, source: Free, target: Free, nodes: int) -> None:
    pool[source] -= nodes
    if not pool[source]:
        del pool[source]
    pool[target] = pool.get(target, 0) + nodes


def reported(facts: ReportFacts, freed: Mapping[str, Free] | None = None) -> Capacity:
    """Free room as a report states it: usable nodes only. `freed` adds to nodes by name, for looking ahead."""
    pools: dict[Kind, Pool] = {}
    total = 0
    for node in facts.nodes:
        if not node.usable:
            continue
        extra = freed.get(node.name) if freed else None
        free = node.free if extra is None else Free(*(have + more for have, more in zip(node.free, extra, strict=True)))
        pool = pools.setdefault(node.kind, {})
        pool[free] = pool.get(free, 0) + 1
        total += node.whole.gpus
    return Capacity(pools, total)


def unseen(facts: ReportFacts, holdings: Iterable[Holding]) -> list[tuple[Holding, int]]:
    """Holdings and how many of their pods the report does not show on a node yet."""
    missing = ((holding, holding.nodes - facts.pods_seen.get(holding.attempt, 0)) for holding in holdings)
    return [(holding, count) for holding, count in missing if count > 0]


def now_free(view: RegionView, freed: Mapping[str, Free] | None = None, over: Collection[str] = ()) -> Capacity:
    """Free room of a region at present; empty where it has never reported.

    For looking ahead: `freed` as in `reported`, `over` are the attempts that will have ended by then.
    """
    if view.facts is None:
        return Capacity({}, 0)
    capacity = reported(view.facts, freed)
    for holding, count in unseen(view.facts, view.holdings):
        if holding.attempt in over:
            continue
        # Where nobody knows on which model it will turn up, its room is set aside on each.
        models = {kind.gpu_model for kind in capacity.pools} if holding.gpu_model is None else {holding.gpu_model}
        for model in models:
            capacity.take(holding.needs, count, [kind for kind in capacity.pools if kind.gpu_model == model])
    return capacity


def whole_nodes(view: RegionView) -> dict[Kind, Pool]:
    """The region's nodes as if empty and healthy: what could ever fit. Declared pools stand in until it reports."""
    if view.facts is None or not view.facts.nodes:
        return _declared(view.region)
    pools: dict[Kind, Pool] = {}
    for node in view.facts.nodes:
        pool = pools.setdefault(node.kind, {})
        pool[node.whole] = pool.get(node.whole, 0) + 1
    return pools


def _declared(region: Region) -> dict[Kind, Pool]:
    """Nodes that the region's file promises. Disk and pod slots are not declared, so they rule nothing out."""
    pools: dict[Kind, Pool] = {}
    for pool in region.node_pools:
        if not pool.nodes:
            continue
        model = str(parse_model(pool.gpu_model)) if pool.gpu_model else None
        vram = whole(pool.gpu_memory) if pool.gpu_memory else None
        kind = Kind(model, pool.gpu_model, vram, pool.driver, pool.rdma, ())
        line = Free(pool.gpus, milli(pool.cpu), whole(pool.memory), 2**62, 2**31)
        lines = pools.setdefault(kind, {})
        lines[line] = lines.get(line, 0) + pool.nodes
    return pools
