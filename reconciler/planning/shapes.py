"""A report in the small form that planning works on: tuples of numbers, with equal kinds of node shared.

A fleet of 50,000 nodes stays in memory between cycles; this form takes a tenth of the report's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from reconciler.model.attempt import Needs
from reconciler.model.report import Amounts, NodeReport, RegionReport


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


class NodeFacts(NamedTuple):
    """One node. `whole` is what it has when empty and healthy, `free` what is left of its allocatable now."""

    name: str
    kind: Kind
    whole: Free
    free: Free
    usable: bool


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """What planning reads of a report."""

    nodes: tuple[NodeFacts, ...]
    namespaces: frozenset[str]
    pods_seen: Mapping[str, int]
    """Pods of each attempt that are, or were, on a node."""
    pods_on: Mapping[str, tuple[str, ...]]
    """Nodes of each attempt's pods that have not ended."""


def facts_of(report: RegionReport) -> ReportFacts:
    """The small form of a report."""
    kinds: dict[Kind, Kind] = {}
    amounts: dict[Free, Free] = {}
    ended = ("Succeeded", "Failed")
    return ReportFacts(
        nodes=tuple(_node(node, kinds, amounts) for node in report.nodes),
        namespaces=frozenset(report.namespaces),
        pods_seen={
            workload.attempt: sum(1 for pod in workload.pods if pod.node is not None or pod.phase in ended)
            for workload in report.workloads
        },
        pods_on={
            workload.attempt: tuple(pod.node for pod in workload.pods if pod.node is not None and pod.phase not in ended)
            for workload in report.workloads
        },
    )


def _node(node: NodeReport, kinds: dict[Kind, Kind], amounts: dict[Free, Free]) -> NodeFacts:
    """One node; `kinds` and `amounts` keep one of each value that many nodes have in common."""
    kind = Kind(node.gpu_model, node.gpu_product, node.vram_bytes, node.driver, node.rdma, tuple(sorted(node.taints)))
    whole = _free(node.allocatable)._replace(gpus=max(node.capacity_gpus, node.allocatable.gpus))
    free = Free(*(have - used for have, used in zip(_free(node.allocatable), _free(node.used), strict=True)))
    whole, free = amounts.setdefault(whole, whole), amounts.setdefault(free, free)
    return NodeFacts(node.name, kinds.setdefault(kind, kind), whole, free, node.unavailable is None)


def _free(amounts: Amounts) -> Free:
    return Free(amounts.gpus, amounts.cpu_milli, amounts.memory_bytes, amounts.disk_bytes, amounts.pods)
