"""A region's books: what its nodes have, what pods hold of it, what is on its way to be free. Recomputed from facts at each look.

Decides how raw nodes and pods become node reports and the summary; where a job fits is for the planner. Pure.

Invariants: a bound pod that is in no terminal phase holds what it requests, whoever owns it and whether or not it is
being deleted; no amount is below zero; a number that cannot be read closes its node and is shown, and never ends the look.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from reconciler.agent.answers import Answers
from reconciler.agent.nodes import (
    UNREADABLE,
    Card,
    NodeRules,
    amounts_of,
    card_of,
    driver_of,
    has_rdma,
    lasting_taints,
    unavailable,
    zone_of,
)
from reconciler.agent.reading import (
    attempt_label,
    is_deleting,
    is_live,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    part,
    phase_of,
)
from reconciler.model.pods import pod_requests
from reconciler.model.report import Amounts, Health, NodeReport, RegionSummary
from reconciler.ports import ClusterState, GpuMeter, KubeObject


@dataclass(frozen=True, slots=True)
class Accounts:
    """The books of one look."""

    nodes: tuple[NodeReport, ...]
    foreign_pods: int
    """Running pods that are not ours."""
    health: tuple[Health, ...]


@dataclass(frozen=True, slots=True)
class _Held:
    """What the pods of one node hold together."""

    used: Amounts
    releasing: int
    reclaimable: int
    unreadable: tuple[str, ...]


Page = tuple[NodeReport, Sequence[Health]]
"""One node's books, and what is wrong with it."""


def account(state: ClusterState, rules: NodeRules, pages: Answers[Page] | None = None) -> Accounts:
    """The books of a region, by one read of its cluster. `pages`: the nodes' books as they were before, by name."""
    by_node: dict[str, list[KubeObject]] = defaultdict(list)
    for pod in state.pods:
        bound = node_of(pod)
        if bound is not None and is_live(pod):
            by_node[bound].append(pod)
    nodes: list[NodeReport] = []
    health = [Health(code="ClusterImpaired", message=words) for words in state.troubles]
    pages = Answers() if pages is None else pages
    for node in sorted(state.nodes, key=name_of):
        name = name_of(node)
        report, faults = pages.of(name, _page, node, by_node.get(name, ()), state.priority_values, rules)
        nodes.append(_measured(report, state.meters.get(name)))
        health.extend(faults)
    pages.keep_only({node.name for node in nodes})
    foreign = sum(1 for pod in state.pods if phase_of(pod) == "Running" and attempt_label(pod) is None)
    return Accounts(tuple(nodes), foreign, tuple(health))


def summarise(region: str, nodes: Iterable[NodeReport], queued_jobs: int, now: datetime) -> RegionSummary:
    """The short form. `gpu_free` counts nodes only where something can be scheduled."""
    nodes = tuple(nodes)
    with_gpus = [node for node in nodes if node.capacity_gpus]
    usable = [node for node in with_gpus if node.unavailable is None]
    return RegionSummary(
        cluster_id=region,
        gpu_nodes=len(with_gpus),
        gpu_busy=sum(node.used.gpus for node in with_gpus),
        gpu_free=sum(max(node.allocatable.gpus - node.used.gpus, 0) for node in usable),
        gpu_models=tuple(sorted({node.gpu_model for node in with_gpus if node.gpu_model})),
        queued_jobs=queued_jobs,
        avg_cpu_usage=_share(sum(node.used.cpu_milli for node in nodes), sum(node.allocatable.cpu_milli for node in nodes)),
        avg_gpu_usage=_share(sum(node.used.gpus for node in nodes), sum(node.allocatable.gpus for node in nodes)),
        last_heartbeat=now,
    )


def _share(used: int, total: int) -> float | None:
    return min(used / total, 1.0) if total else None


def _held(pods: Sequence[KubeObject], priorities: Mapping[str, int], rules: NodeRules) -> _Held:
    all_asked: list[Amounts] = []
    releasing = reclaimable = 0
    unreadable: list[str] = []
    for pod in pods:
        try:
            asked = _asked(pod, rules)
        except UNREADABLE:
            unreadable.append(f"{namespace_of(pod)}/{name_of(pod)}")
            asked = Amounts(pods=1)
        all_asked.append(asked)
        if is_deleting(pod):
            releasing += asked.gpus
        elif _priority(pod, priorities) < 0:
            reclaimable += asked.gpus
    used = Amounts(**{field: sum(getattr(asked, field) for asked in all_asked) for field in Amounts.model_fields})
    return _Held(used, releasing, reclaimable, tuple(unreadable))


def _asked(pod: KubeObject, rules: NodeRules) -> Amounts:
    requests = {name: max(amount, 0) for name, amount in pod_requests(part(pod, "spec")).items()}
    return Amounts(
        gpus=requests.get(rules.gpu_resource, 0),
        cpu_milli=requests.get("cpu", 0),
        memory_bytes=requests.get("memory", 0),
        disk_bytes=requests.get("ephemeral-storage", 0),
        pods=1,
    )


def _priority(pod: KubeObject, priorities: Mapping[str, int]) -> int:
    spec = part(pod, "spec")
    own = spec.get("priority")  # admission writes it; without that, the class as it is now
    return own if isinstance(own, int) else priorities.get(str(spec.get("priorityClassName")), 0)


@dataclass(frozen=True, slots=True)
class _Offered:
    """What a node has to give."""

    capacity: Amounts
    allocatable: Amounts
    rdma: bool
    fault: str | None = None


def _offered(node: KubeObject, rules: NodeRules) -> _Offered:
    status = part(node, "status")
    try:
        resources = part(status, "allocatable")
        allocatable = amounts_of(resources, rules.gpu_resource)
        return _Offered(amounts_of(part(status, "capacity"), rules.gpu_resource), allocatable, has_rdma(resources))
    except UNREADABLE as error:
        return _Offered(Amounts(), Amounts(), rdma=False, fault=f"its resources are no quantities ({error})")


def _page(node: KubeObject, pods: Sequence[KubeObject], priorities: Mapping[str, int], rules: NodeRules) -> Page:
    return _node(node, _held(pods, priorities, rules), rules)


def _node(node: KubeObject, held: _Held, rules: NodeRules) -> Page:
    card, offered = card_of(node, rules), _offered(node, rules)
    if card.partial:
        held = replace(held, used=_without_gpus(held.used), releasing=0, reclaimable=0)
    capacity = _without_gpus(offered.capacity) if card.partial else offered.capacity
    allocatable = _without_gpus(offered.allocatable) if card.partial else offered.allocatable
    total = max(capacity.gpus, allocatable.gpus)
    closed = unavailable(node)
    if closed is None and (offered.fault or held.unreadable):
        closed = f"Unreadable: {offered.fault or f'what pod {held.unreadable[0]} requests is no quantity'}"
    report = NodeReport(
        name=name_of(node),
        gpu_model=card.model,
        gpu_product=card.product,
        vram_bytes=card.vram_bytes,
        driver=driver_of(node),
        capacity_gpus=total,
        allocatable=allocatable,
        used=held.used,
        releasing_gpus=held.releasing,
        reclaimable_gpus=held.reclaimable,
        unavailable=closed,
        taints=lasting_taints(node),
        rdma=offered.rdma,
        zone=zone_of(node),
        rack=labels_of(node).get(rules.rack_label),
    )
    return report, _faults(report, card, offered, held)


def _measured(report: NodeReport, meter: GpuMeter | None) -> NodeReport:
    if meter is None:
        return report
    return report.model_copy(update={"vram_free_bytes": meter.vram_free_bytes, "gpu_busy": meter.busy})


def _without_gpus(amounts: Amounts) -> Amounts:
    return amounts.model_copy(update={"gpus": 0})


def _faults(report: NodeReport, card: Card, offered: _Offered, held: _Held) -> list[Health]:
    found: list[tuple[str, str]] = []
    if offered.fault:
        found.append(("NodeUnreadable", offered.fault))
    if held.unreadable:
        found.append(("PodUnreadable", f"what these pods request is no quantity: {', '.join(held.unreadable)}"))
    if card.partial and offered.capacity.gpus:
        found.append(("PartialGpus", f"{offered.capacity.gpus} parts of {card.product} are not counted as GPUs"))
    sick = report.capacity_gpus - report.allocatable.gpus
    if sick and offered.fault is None:
        found.append(("SickGpus", f"{sick} of {report.capacity_gpus} GPUs are not healthy"))
    return [Health(code=code, message=f"node {report.name}: {words}") for code, words in found]
