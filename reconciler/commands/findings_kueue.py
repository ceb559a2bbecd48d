"""What is wrong with a region's queues: Kueue's LocalQueues, the ClusterQueues behind them, and the check for our grants. Pure.

Judges as the agent does: it answers for the one AdmissionCheck of that name and controller, and for no other.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from reconciler.adapters.kube.doctor import ClusterSeen, Kueue
from reconciler.commands.findings import Finding, listed
from reconciler.model.names import GRANT_CHECK, GRANT_CONTROLLER
from reconciler.model.region import Region

_NEVER: Final = "Jobs that are sent to a queue of that name never start there."
_CHECK: Final = f"""\
kubectl apply -f - <<'END'
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {{name: {GRANT_CHECK}}}
spec: {{controllerName: {GRANT_CONTROLLER}}}
END
"""
_FOREIGN: Final = f"""\
# A check's controller cannot be changed, and one in use cannot be deleted: take it out of all ClusterQueues first.
kubectl delete admissioncheck {GRANT_CHECK}
"""


def of_queues(seen: ClusterSeen, region: Region, teams: Sequence[str]) -> Iterable[Finding]:
    """Findings of the queues that the region's file names. With Volcano's gangs they are Volcano's, and not looked at."""
    queues = sorted(set(region.profile.queues.values()))
    if not queues or region.profile.gang == "volcano":
        return
    if seen.kueue is not None:
        for queue in queues:
            yield from _of_queue(seen, seen.kueue, queue, teams, region.name)
    elif "Kueue" not in seen.unread:
        yield Finding(
            "KueueMissing",
            f"regions/{region.name}.yaml names queues ({listed(queues)}), and the cluster serves no kueue.x-k8s.io/v1beta2",
            _NEVER,
            f"install Kueue 0.15 or newer, or take `profile.queues` out of regions/{region.name}.yaml",
        )


def _of_queue(seen: ClusterSeen, kueue: Kueue, queue: str, teams: Sequence[str], region: str) -> Iterable[Finding]:
    there = {
        one["metadata"]["namespace"]: str((one.get("spec") or {}).get("clusterQueue"))
        for one in kueue.local_queues
        if one["metadata"]["name"] == queue
    }
    cluster = {one["metadata"]["name"]: one for one in kueue.cluster_queues}
    # A team without a namespace is a finding of its own.
    teams = [team for team in teams if seen.namespaces is None or team in seen.namespaces]
    without = [team for team in teams if there.get(team) not in cluster]
    if without:
        yield Finding(
            "QueueMissing",
            f"there is no LocalQueue {queue} that leads to a ClusterQueue in {listed(without)}",
            _NEVER,
            f"create LocalQueue {queue} in each of these namespaces, or correct `profile.queues` in regions/{region}.yaml",
        )
    for name in sorted({there[team] for team in teams if team not in without}):
        yield from _of_cluster_queue(cluster[name], kueue.checks)


def _of_cluster_queue(queue: Mapping[str, Any], checks: Sequence[Mapping[str, Any]]) -> Iterable[Finding]:
    strategy = (queue.get("spec") or {}).get("admissionChecksStrategy") or {}
    waits_for = list(strategy.get("admissionChecks") or ())
    name, waits = queue["metadata"]["name"], GRANT_CHECK in [one.get("name") for one in waits_for]
    check = next((one for one in checks if one["metadata"]["name"] == GRANT_CHECK), None)
    controller = (check.get("spec") or {}).get("controllerName") if check is not None else None
    if waits and controller == GRANT_CONTROLLER:
        return
    what = f"ClusterQueue {name} does not wait for AdmissionCheck {GRANT_CHECK}"
    if waits:
        other = f"is {controller}'s and not {GRANT_CONTROLLER}'s" if check is not None else "is not there"
        what = f"AdmissionCheck {GRANT_CHECK}, which ClusterQueue {name} waits for, {other}"
    yield Finding(
        "QueueWithoutGrantCheck",
        what,
        "The agent answers for that check alone. Without it a job's pods are held back by their gates only, and take quota until "
        "then; with a check that nobody answers for, no job starts.",
        (_FOREIGN if check is not None and controller != GRANT_CONTROLLER else "") + _CHECK + _patch(name, waits_for),
    )


def _patch(name: str, waits_for: Sequence[Mapping[str, Any]]) -> str:
    """The list is replaced whole, so the checks of others stay in it."""
    checks = [one for one in waits_for if one.get("name") != GRANT_CHECK]
    spec = {"admissionChecksStrategy": {"admissionChecks": [*checks, {"name": GRANT_CHECK}]}}
    return f"kubectl patch clusterqueue {name} --type=merge -p '{json.dumps({'spec': spec}, separators=(',', ':'))}'"
