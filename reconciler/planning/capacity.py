"""Where there is room: free capacity of a region by node shape, never by totals.

What counts as used: whatever the report says is bound (terminating pods included), and whatever the ledger has granted and
the report does not show yet. A pass works on a copy, takes from it, and throws it away.

Nodes alike in kind form a pool; nodes of a pool that have the same amounts free form one line of it. Faults of others that
this rules out: free cards counted over nodes (skypilot-org/skypilot#3499), the same card spent twice (karmada-io/karmada#6783).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from reconciler.model.attempt import Needs
from reconciler.model.gpu import parse_model
from reconciler.model.quantity import milli, whole
from reconciler.model.region import Region
from reconciler.model.report import NodeReport, RegionReport
from reconciler.planning.snapshot import Holding, RegionView


class Kind(NamedTuple):
    """What a node is, as far as a job can ask for it."""

    gpu_model: str | None
    gpu_product: str | None
    vram_bytes: int | None
    driver: str | None
    rdma: bool
    taints: tuple[str, ...]


class Free(NamedTuple):
    """What a node has free (or has at all)."""

    gpus: int
    cpu_milli: int
    memory_bytes: int
    disk_bytes: int
    pods: int

    def times(self, needs: Needs) -> int:
        """How many pods of those needs fit into this."""
        count = self.pods
        if needs.gpus:
            count = min(count, self.gpus // needs.gpus)
        if needs.cpu_milli:
            count = min(count, self.cpu_milli // needs.cpu_milli)
        if needs.memory_bytes:
            count = min(count, self.memory_bytes // needs.memory_bytes)
        if needs.disk_bytes:
            count = min(count, self.disk_bytes // needs.disk_bytes)
        return max(count, 0)

    def less(self, needs: Needs, times: int = 1) -> "Free":
        """What is left after that many pods; negative `times` gives back."""
        return Free(
            self.gpus - needs.gpus * times,
            self.cpu_milli - needs.cpu_milli * times,
            self.memory_bytes - needs.memory_bytes * times,
            self.disk_bytes - needs.disk_bytes * times,
            self.pods - times,
        )


Pool = dict[Free, int]
"""Free amounts → how many nodes have just that."""


class Capacity:
    """Free room of one region: the scratch copy of one pass."""

    __slots__ = ("free_gpus", "pools", "total_gpus")

    def __init__(self, pools: dict[Kind, Pool], total_gpus: int) -> None:
        self.pools = pools
        self.total_gpus = total_gpus
        self.free_gpus = sum(max(free.gpus, 0) * count for pool in pools.values() for free, count in pool.items())

    def fits(self, needs: Needs, wanted: int, kinds: Iterable[Kind]) -> int:
        """Pods of those needs that fit, counted up to `wanted`."""
        found = 0
        if needs.gpus > self.free_gpus:
            return 0
        for kind in kinds:
            for free, count in self.pools.get(kind, {}).items():
                if needs.gpus > free.gpus:
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


def kind_of(node: NodeReport) -> Kind:
    """What a reported node is."""
    return Kind(node.gpu_model, node.gpu_product, node.vram_bytes, node.driver, node.rdma, tuple(sorted(node.taints)))


def free_on(node: NodeReport) -> Free:
    """What a reported node has free."""
    have, used = node.allocatable, node.used
    return Free(
        have.gpus - used.gpus,
        have.cpu_milli - used.cpu_milli,
        have.memory_bytes - used.memory_bytes,
        have.disk_bytes - used.disk_bytes,
        have.pods - used.pods,
    )


def reported(report: RegionReport, freed: Mapping[str, Free] | None = None) -> Capacity:
    """Free room as a report states it: usable nodes only. `freed` adds to nodes by name, for looking ahead."""
    pools: dict[Kind, Pool] = {}
    total = 0
    for node in report.nodes:
        if node.unavailable is not None:
            continue
        free = free_on(node)
        extra = (freed or {}).get(node.name)
        if extra is not None:
            free = Free(*(have + more for have, more in zip(free, extra, strict=True)))
        pool = pools.setdefault(kind_of(node), {})
        pool[free] = pool.get(free, 0) + 1
        total += node.allocatable.gpus
    return Capacity(pools, total)


def unseen(report: RegionReport, holdings: Iterable[Holding]) -> list[tuple[Holding, int]]:
    """Holdings and how many of their pods the report does not show on a node yet."""
    bound = {
        workload.attempt: sum(1 for pod in workload.pods if pod.node is not None or pod.phase in ("Succeeded", "Failed"))
        for workload in report.workloads
    }
    missing = ((holding, holding.nodes - bound.get(holding.attempt, 0)) for holding in holdings)
    return [(holding, count) for holding, count in missing if count > 0]


def now_free(view: RegionView) -> Capacity:
    """Free room of a region at present; empty where it has never reported."""
    if view.report is None:
        return Capacity({}, 0)
    capacity = reported(view.report)
    for holding, count in unseen(view.report, view.holdings):
        same = [kind for kind in capacity.pools if holding.gpu_model is None or kind.gpu_model == holding.gpu_model]
        capacity.take(holding.needs, count, same)
    return capacity


def whole_nodes(view: RegionView) -> dict[Kind, Pool]:
    """The region's nodes as if empty and healthy: what could ever fit. Declared pools stand in until it reports."""
    pools: dict[Kind, Pool] = {}
    if view.report is not None and view.report.nodes:
        for node in view.report.nodes:
            have = node.allocatable
            gpus = max(node.capacity_gpus, have.gpus)
            pool = pools.setdefault(kind_of(node), {})
            line = Free(gpus, have.cpu_milli, have.memory_bytes, have.disk_bytes, have.pods)
            pool[line] = pool.get(line, 0) + 1
        return pools
    return _declared(view.region)


def _declared(region: Region) -> dict[Kind, Pool]:
    """Nodes that the region's file promises. Disk and pod slots are not declared, so they rule nothing out."""
    pools: dict[Kind, Pool] = {}
    for pool in region.node_pools:
        model = str(parse_model(pool.gpu_model)) if pool.gpu_model else None
        vram = whole(pool.gpu_memory) if pool.gpu_memory else None
        kind = Kind(model, pool.gpu_model, vram, pool.driver, pool.rdma, ())
        line = Free(pool.gpus, milli(pool.cpu), whole(pool.memory), 2**62, 2**31)
        lines = pools.setdefault(kind, {})
        lines[line] = lines.get(line, 0) + pool.nodes
    return pools
