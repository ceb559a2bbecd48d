"""Which node a pod gets, and what is said where it gets none."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from reconciler.adapters.local import NodeSpec
from reconciler.adapters.local.nodes import cordon, lose_node, return_node
from reconciler.adapters.local.scheduler import free_room
from reconciler.ports import KubeObject
from tests.adapters.local.world import World, conditions, make_job, make_pod, phases, runs

A100 = NodeSpec("a", gpus=8, product="NVIDIA-A100-SXM4-80GB", vram_mib=81920, driver="570.86.15", labels={"zone": "z1"})
L4 = NodeSpec("l", gpus=4, product="NVIDIA-L4", driver="550.54.15", labels={"zone": "z2", "age": "7"})
TAINTED = NodeSpec("t", gpus=8, product="NVIDIA-A100-SXM4-80GB", taints=[{"key": "team", "value": "b", "effect": "NoSchedule"}])
SICK = NodeSpec("s", gpus=8, unhealthy_gpus=3, product="NVIDIA-A100-SXM4-80GB")


def on(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": [{"matchExpressions": [term]} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def where(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


PRODUCT = "nvidia.com/gpu.product"


@dataclass(frozen=True)
class Case:
    pod: dict[str, Any]
    want: str
    """The node, or the scheduler's words."""
    nodes: tuple[NodeSpec, ...] = (A100, L4)
    before: tuple[dict[str, Any], ...] = field(default=())


AFFINITY = "node(s) didn't match Pod's node affinity/selector"

CASES = {
    "the smaller rest of GPUs wins, so that whole nodes stay whole": Case(make_pod("p", gpus=2), "l"),
    "too big for one, right for the other": Case(make_pod("p", gpus=5), "a"),
    "too big for any": Case(make_pod("p", gpus=9), "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."),
    "cards that are in use": Case(
        make_pod("p", gpus=5), "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.", before=(make_pod("q", gpus=5),)
    ),
    "sick cards are not given": Case(make_pod("p", gpus=6), "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", (SICK,)),
    "the healthy ones are": Case(make_pod("p", gpus=5), "s", (SICK,)),
    "not enough of two things": Case(
        make_pod("p", cpu="65", memory="513Gi"), "0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient memory."
    ),
    "thousandths of a core count": Case(
        make_pod("p", cpu="500m"),
        "0/1 nodes are available: 1 Insufficient cpu.",
        (NodeSpec("n", cpu="1"),),
        (make_pod("q", cpu="501m"),),
    ),
    "no slot for another pod": Case(
        make_pod("p"), "0/1 nodes are available: 1 Too many pods.", (NodeSpec("n", pods=1),), (make_pod("q"),)
    ),
    "another extended resource": Case(
        make_pod("p", container={"resources": {"limits": {"rdma/hca": "1"}}}),
        "r",
        (A100, NodeSpec("r", extended={"rdma/hca": 1})),
    ),
    "init steps and sidecars are counted as Kubernetes counts them": Case(
        make_pod(
            "p",
            gpus=2,
            cpu="4",
            overhead={"cpu": "250m"},
            initContainers=[
                {
                    "name": "side",
                    "image": "x",
                    "restartPolicy": "Always",
                    "resources": {"requests": {"cpu": "500m", "nvidia.com/gpu": "1"}},
                },
                {"name": "warm", "image": "x", "resources": {"requests": {"cpu": "6", "nvidia.com/gpu": "4"}}},
            ],
        ),
        "0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient nvidia.com/gpu.",
        (NodeSpec("few", gpus=4, cpu="8"), NodeSpec("slow", gpus=8, cpu="6700m")),
    ),
    "node selector": Case(make_pod("p", nodeSelector={"zone": "z1"}), "a"),
    "node selector that nothing has": Case(make_pod("p", nodeSelector={"zone": "z9"}), f"0/2 nodes are available: 2 {AFFINITY}."),
    "In": Case(make_pod("p", affinity=on(where(PRODUCT, "In", "NVIDIA-L4"))), "l"),
    "NotIn": Case(make_pod("p", affinity=on(where(PRODUCT, "NotIn", "NVIDIA-L4"))), "a"),
    "NotIn takes a node without the label": Case(make_pod("p", affinity=on(where("age", "NotIn", "7"))), "a"),
    "Exists": Case(make_pod("p", affinity=on(where("age", "Exists"))), "l"),
    "DoesNotExist": Case(make_pod("p", affinity=on(where("age", "DoesNotExist"))), "a"),
    "Gt": Case(make_pod("p", affinity=on(where("age", "Gt", "6"))), "l"),
    "Lt": Case(make_pod("p", affinity=on(where("age", "Lt", "7"))), f"0/2 nodes are available: 2 {AFFINITY}."),
    "more than something that is no number": Case(
        make_pod("p", affinity=on(where("zone", "Gt", "1"))), f"0/2 nodes are available: 2 {AFFINITY}."
    ),
    "more than nothing": Case(make_pod("p", affinity=on(where("age", "Gt"))), f"0/2 nodes are available: 2 {AFFINITY}."),
    "terms are alternatives": Case(make_pod("p", gpus=1, affinity=on(where("zone", "In", "z9"), where("zone", "In", "z1"))), "a"),
    "an unknown operator takes no node": Case(
        make_pod("p", affinity=on(where("zone", "Like", "z1"))), f"0/2 nodes are available: 2 {AFFINITY}."
    ),
    "a taint": Case(make_pod("p"), "0/1 nodes are available: 1 node(s) had untolerated taint {team: b}.", (TAINTED,)),
    "tolerated by value": Case(
        make_pod("p", tolerations=[{"key": "team", "value": "b", "effect": "NoSchedule"}]), "t", (TAINTED,)
    ),
    "tolerated by key": Case(make_pod("p", tolerations=[{"key": "team", "operator": "Exists"}]), "t", (TAINTED,)),
    "tolerates everything": Case(make_pod("p", tolerations=[{"operator": "Exists"}]), "t", (TAINTED,)),
    "another value is not tolerated": Case(
        make_pod("p", tolerations=[{"key": "team", "value": "c"}]),
        "0/1 nodes are available: 1 node(s) had untolerated taint {team: b}.",
        (TAINTED,),
    ),
    "another effect is not tolerated": Case(
        make_pod("p", tolerations=[{"key": "team", "value": "b", "effect": "NoExecute"}]),
        "0/1 nodes are available: 1 node(s) had untolerated taint {team: b}.",
        (TAINTED,),
    ),
    "several causes": Case(
        make_pod("p", gpus=8, nodeSelector={"zone": "z2"}),
        f"0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 1 {AFFINITY}, 1 node(s) had untolerated taint {{team: b}}.",
        (A100, L4, TAINTED),
    ),
    "no node at all": Case(make_pod("p"), "no nodes available to schedule pods", ()),
}


def outcome(pod: KubeObject) -> str:
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    (scheduled,) = [one for one in pod["status"]["conditions"] if one["type"] == "PodScheduled"]
    assert (scheduled["status"], scheduled["reason"]) == ("False", "Unschedulable")
    return str(scheduled["message"])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_where_a_pod_goes(case: Case) -> None:
    world = World(case.nodes)
    for pod in (*case.before, case.pod):
        world.create(pod)
    assert outcome(world.get("Pod", "p")) == case.want


def test_cordoned_and_lost_nodes_get_nothing_and_get_it_again() -> None:
    world = World((A100, L4))
    with world.cluster.changes() as (objects, now):
        cordon(objects, "l")
        lose_node(objects, "a", now)
    world.create(make_pod("p", gpus=1))
    taint = "node(s) had untolerated taint {node.kubernetes.io/unreachable: }"
    assert outcome(world.get("Pod", "p")) == f"0/2 nodes are available: 1 {taint}, 1 node(s) were unschedulable."
    with world.cluster.changes() as (objects, now):
        return_node(objects, "a", now)
    world.settle()
    assert outcome(world.get("Pod", "p")) == "a"
    with world.cluster.changes() as (objects, _):
        cordon(objects, "l", on=False)
    world.create(make_pod("q", gpus=1))
    assert outcome(world.get("Pod", "q")) == "l"


def test_a_pod_that_is_being_deleted_still_holds_its_cards() -> None:
    world = World()
    world.create(make_job(gpus=8, annotations=runs(stop=5)))
    world.release()
    world.suspend(True)
    world.create(make_pod("next", gpus=8))
    world.advance(4)
    assert outcome(world.get("Pod", "next")) == "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    world.advance(1)
    assert outcome(world.get("Pod", "next")) == "n1"


def test_an_ended_pod_holds_nothing() -> None:
    world = World()
    world.create(make_job(gpus=8, annotations=runs(5)))
    world.release()
    world.advance(5)
    assert phases(world.pods()) == ["Succeeded"]
    with world.cluster.changes() as (objects, _):
        assert free_room(objects)["n1"]["nvidia.com/gpu"] == 8


def test_the_higher_priority_goes_first_then_the_older() -> None:
    world = World(priorities={"high": 1000}, nodes=())
    for name, spec in (("old", {"gpus": 0}), ("young", {"gpus": 8}), ("urgent", {"gpus": 8, "priorityClassName": "high"})):
        world.create(make_pod(name, **spec))
        world.advance(1)
    with world.cluster.changes() as (objects, now):
        made = objects.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}}, now)
        ready = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-05-01T10:00:00Z"}]
        amounts = {"cpu": "8", "memory": "8Gi", "pods": "10", "nvidia.com/gpu": "8"}
        objects.replace(made, status={"capacity": amounts, "allocatable": amounts, "conditions": ready})
    world.settle()
    assert [outcome(world.get("Pod", name)) for name in ("old", "urgent")] == ["n", "n"]
    assert outcome(world.get("Pod", "young")) == "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    assert world.cluster.read().priority_values == {"high": 1000}


def test_another_scheduler_has_its_pods_to_itself() -> None:
    world = World()
    world.create(make_pod("p", schedulerName="volcano"))
    assert "conditions" not in world.get("Pod", "p")["status"]


def test_how_a_node_is_shown() -> None:
    (node,) = World((SICK,)).cluster.read().nodes
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "8"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "5"
    labels = World((A100,)).cluster.read().nodes[0]["metadata"]["labels"]
    assert labels == {
        "kubernetes.io/hostname": "a",
        "zone": "z1",
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
        "nvidia.com/gpu.memory": "81920",
        "nvidia.com/cuda.driver-version.full": "570.86.15",
    }


def test_a_lost_node_freezes_its_pods_and_kubernetes_gives_up_on_them_after_five_minutes() -> None:
    world = World()
    world.create(make_job(annotations=runs(60, stop=1)))
    world.release()
    with world.cluster.changes() as (objects, now):
        lose_node(objects, "n1", now)
    world.advance(299)
    assert phases(world.pods()) == ["Running"]
    assert "deletionTimestamp" not in world.pod()["metadata"]
    assert "Ready=False ()" in conditions(world.pod())
    world.advance(1)
    assert "deletionTimestamp" in world.pod()["metadata"]
    world.advance(600)
    assert world.job()["status"]["terminating"] == 1
    assert conditions(world.job()) == ["Suspended=False (JobResumed)"]
    with world.cluster.changes() as (objects, now):
        return_node(objects, "n1", now)
    world.settle()
    assert world.pods() == []
    assert conditions(world.job())[-1] == "Complete=True (CompletionsReached)"


def test_a_node_that_is_not_declared_any_more_stays_until_it_is_empty(tmp_path: Any) -> None:
    world = World((A100, L4), folder=tmp_path)
    world.create(make_pod("p", gpus=8))
    world.cluster.close()
    again = World((), folder=tmp_path)
    (left,) = again.cluster.read().nodes
    assert (left["metadata"]["name"], left["spec"]["unschedulable"]) == ("a", True)
    again.cluster.close()
