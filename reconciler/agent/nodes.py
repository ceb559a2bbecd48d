"""One node as its labels, taints and conditions describe it: GPU model, VRAM, driver, and why nothing can be scheduled there.

What its pods hold is added by accounts.py. Pure. Invariant: slices and shares of cards are never called whole cards.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from reconciler.agent.reading import condition, is_deleting, labels_of, part, parts
from reconciler.model.gpu import GpuModel, parse_model
from reconciler.model.quantity import milli, whole
from reconciler.model.report import Amounts
from reconciler.ports import KubeObject

MIB: Final = 1 << 20
_GB: Final = 10**9

_SOLD_SIZES: Final = (4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 128, 141, 180, 192, 256, 288)
"""GB that cards are sold with. They report a little less (an L4 of 24 GB has 23034 MiB), so the next size up is meant."""

_SICK_OR_LEAVING: Final = re.compile(
    r"node(\.cloudprovider)?\.kubernetes\.io/|ToBeDeletedByClusterAutoscaler$|karpenter\.sh/disrupt"
)
"""Taints that say so of the node; no job tolerates those to run there, and they pass."""
_RDMA: Final = re.compile(r"rdma/|.*/(rdma|efa)(-|$)")
_ZONES: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_BLOCKING: Final = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class NodeRules:
    """How this region's nodes spell what they are. `gpu_label` names the model; its siblings (`….memory`) are found by it."""

    gpu_resource: str = "nvidia.com/gpu"
    gpu_label: str = "nvidia.com/gpu.product"
    rack_label: str = "topology.kubernetes.io/rack"


class Card(NamedTuple):
    """The GPUs of a node. `partial`: what its device plugin counts are slices or shares of cards."""

    model: str | None
    product: str | None
    vram_bytes: int | None
    partial: bool


UNREADABLE: Final = (ArithmeticError, ValueError, TypeError, AttributeError)
"""What reading a quantity raises that is none, whatever stands in its place."""

NO_CARD: Final = Card(None, None, None, partial=False)


def card_of(node: KubeObject, rules: NodeRules) -> Card:
    """What the node's labels say of its GPUs; NO_CARD where it has none."""
    labels = labels_of(node)
    product = labels.get(rules.gpu_label)
    if not product:
        return NO_CARD
    family = rules.gpu_label.rpartition(".")[0]
    mib = _number(labels.get(f"{family}.memory"))
    model = parse_model(product)
    shared = product.upper().endswith("-SHARED") or _number(labels.get(f"{family}.replicas")) > 1
    if model.vram_gb is None and mib and model.slice is None:  # a slice's label tells the slice's own memory
        model = model._replace(vram_gb=_sold_size(mib))
    if shared:
        model = model._replace(slice=f"{model.slice}.shared" if model.slice else "shared")
    return Card(str(model), product, _vram(model, mib), partial=model.slice is not None)


def _vram(model: GpuModel, mib: int) -> int | None:
    if mib:
        return mib * MIB
    return model.vram_gb * _GB if model.vram_gb and model.slice is None else None


def _sold_size(mib: int) -> int:
    return next((size for size in _SOLD_SIZES if size * 1024 >= mib), -(-mib // 1024))


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0


def driver_of(node: KubeObject) -> str | None:
    """The version of its GPU driver."""
    labels = labels_of(node)
    full = labels.get("nvidia.com/cuda.driver-version.full")
    words = [labels.get(f"nvidia.com/cuda.driver.{name}") for name in ("major", "minor", "rev")]
    return full or ".".join(word for word in words if word) or None


def _blocking_taints(node: KubeObject) -> list[str]:
    taints = parts(part(node, "spec"), "taints")
    return sorted({str(taint.get("key")) for taint in taints if taint.get("effect") in _BLOCKING})


def lasting_taints(node: KubeObject) -> tuple[str, ...]:
    """Keys of the taints that the node's owner gave it, sorted: it is there for the pods that tolerate them.

    Those of a sick or leaving node are not among them: they pass, and what could ever run there must not seem impossible.
    """
    return tuple(key for key in _blocking_taints(node) if not _SICK_OR_LEAVING.match(key))


def unavailable(node: KubeObject) -> str | None:
    """Why nothing can be scheduled there; None where it can, if need be with a toleration."""
    ready = condition(node, "Ready")
    if ready.get("status") != "True":
        said = ready.get("message") or ready.get("reason") or "no kubelet has said that it is ready"
        return f"NotReady: {said}"
    if is_deleting(node):
        return "Deleted"
    if part(node, "spec").get("unschedulable"):
        return "Cordoned"
    passing = [key for key in _blocking_taints(node) if _SICK_OR_LEAVING.match(key)]
    return f"Tainted: {', '.join(passing)}" if passing else None


def has_rdma(resources: Mapping[str, str | int]) -> bool:
    """Whether there is an RDMA device among them. Raises like `amounts_of`."""
    return any(_RDMA.match(name) and whole(amount) > 0 for name, amount in resources.items())


def zone_of(node: KubeObject) -> str | None:
    """Its availability zone."""
    labels = labels_of(node)
    return next((labels[name] for name in _ZONES if labels.get(name)), None)


def amounts_of(resources: Mapping[str, str | int], gpu_resource: str) -> Amounts:
    """Resources as they stand in a node's status. Raises one of UNREADABLE for what is no quantity."""
    return Amounts(
        gpus=max(whole(resources.get(gpu_resource, 0)), 0),
        cpu_milli=max(milli(resources.get("cpu", 0)), 0),
        memory_bytes=max(whole(resources.get("memory", 0)), 0),
        disk_bytes=max(whole(resources.get("ephemeral-storage", 0)), 0),
        pods=max(whole(resources.get("pods", 0)), 0),
    )
