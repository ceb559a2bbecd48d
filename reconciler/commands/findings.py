"""What is wrong with a region's cluster, the store and the clocks, judged from what was read. Pure.

Decides what counts as wrong, why that matters, and how it is mended; sync engines and queues have modules of their own. What
could not be read is a finding as well: nobody is told that all is well by a look that saw half of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from reconciler.adapters.kube.doctor import ClusterSeen
from reconciler.adapters.kube.engines import Missing
from reconciler.model.grants import Lease
from reconciler.model.region import REPORT_SECONDS, REPORTS_MISSED, LossTimes, Region

MOST_SECONDS: Final = 10.0
"""Two clocks may differ by this much before anybody is told."""
_KINDS: Final[Mapping[str, str]] = {"jobset": "jobset.x-k8s.io"}
"""Kinds of workload that do not come with Kubernetes, and their API groups."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: what, why it matters, and the command or YAML that mends it."""

    code: str
    what: str
    why: str
    fix: str


@dataclass(frozen=True, slots=True)
class Store:
    """What was found out of the store. `ahead_seconds`: its clock before ours, None where it does not say."""

    address: str
    fault: str | None = None
    """Why leases cannot stand on it."""
    ahead_seconds: float | None = None
    lease: Lease | None = None
    """The region's, where it has one."""


def of_cluster(seen: ClusterSeen, region: Region, teams: Sequence[str], apply: str) -> Iterable[Finding]:
    """Findings of the cluster itself. `apply`: the command that puts all of the region's objects there."""
    yield from _of_namespaces(seen, teams, apply)
    yield from _of_kinds(seen, region)
    yield from _of_rights(seen, apply)
    yield from _of_agent(seen, apply)
    for what, why in sorted(seen.unread.items()):
        yield Finding(
            "NotSeen",
            f"{what} could not be looked at: {why}",
            "What is not seen may be wrong.",
            "run this with an account that may read it, such as a cluster administrator's",
        )


def of_store(store: Store) -> Iterable[Finding]:
    """Findings of the store that hub and agents share."""
    if store.fault is not None:
        yield Finding(
            "StoreUnfit",
            f"{store.address}: {store.fault}",
            "Leases and grants are replaced by conditional writes; without them two agents could both believe that they may run.",
            "name a store that honours If-Match and If-None-Match in `store:` of reconciler.yaml",
        )


def of_times(store: Store, seen: ClusterSeen, region: Region, loss: LossTimes, apply: str) -> Iterable[Finding]:
    """What the region's agent was told of its times, beside what main says. `loss`: the region's own, or the policy's."""
    lease = store.lease
    if lease is not None and lease.incarnation:
        has = f"{lease.self_fence_seconds:g} s + {lease.fence_kill_seconds:g} s"
        want = f"{loss.self_fence_seconds} s + {loss.fence_kill_seconds} s"
        if has != want:
            yield Finding(
                "LossTimesDiffer",
                f"the agent of {region.name} stops everything {has} after its last renewal, and main says {want}",
                "The hub waits for as long as the agent says: a lost region's jobs go on late, or what runs ends sooner.",
                apply,
            )
    if isinstance(seen.agent, Missing):
        return
    words = [str(word) for one in seen.agent["spec"]["template"]["spec"]["containers"] for word in one.get("args") or ()]
    yield from _of_reports(words, region, loss, apply)
    if ("--deadman" in words) != region.deadman:
        has = "with" if "--deadman" in words else "without"
        yield Finding(
            "DeadmanDiffers",
            f"the agent runs {has} --deadman, and regions/{region.name}.yaml says `deadman: {str(region.deadman).lower()}`",
            "With it, Kubernetes itself ends the jobs when the agent is gone; without, they run on until somebody comes.",
            apply,
        )


def _of_reports(words: Sequence[str], region: Region, loss: LossTimes, apply: str) -> Iterable[Finding]:
    """Whether the agent, started with these words, reports so often that one report that is late says nothing."""
    every = _report_seconds(words)
    if every is not None and every > loss.report_seconds:
        yield Finding(
            "ReportsTooSeldom",
            f"the agent of {region.name} reports every {every:g} s, and main calls it Unknown after {loss.unknown_seconds} s",
            f"{REPORTS_MISSED} reports are to be missing before that, so one is due every {loss.report_seconds:g} s or sooner: "
            "else one that is late keeps new jobs away.",
            apply,
        )


def _report_seconds(words: Sequence[str]) -> float | None:
    """How often an agent that is started with these words reports; None where that cannot be read."""
    said = [after for word, after in pairwise((*words, "")) if word == "--report"]
    said += [word.partition("=")[2] for word in words if word.startswith("--report=")]
    try:
        return float(said[-1]) if said else REPORT_SECONDS
    except ValueError:
        return None


def of_clocks(seen: ClusterSeen, store: Store) -> Iterable[Finding]:
    """Clocks that differ: the cluster's from this machine's, and from the store's."""
    pairs = [("the API server", seen.ahead_seconds, "this machine")]
    if store.ahead_seconds is not None:
        pairs.append(("the API server", seen.ahead_seconds - store.ahead_seconds, "the store"))
    for one, ahead, other in pairs:
        if abs(ahead) > MOST_SECONDS:
            words = "ahead of" if ahead > 0 else "behind"
            yield Finding(
                "ClocksDiffer",
                f"the clock of {one} is {abs(ahead):.0f} s {words} that of {other}",
                "Where clocks differ by minutes, signed requests and certificates are refused; shown times are off.",
                "let NTP set the clock of the one that is wrong (`chronyc tracking` tells)",
            )


def _of_namespaces(seen: ClusterSeen, teams: Sequence[str], apply: str) -> Iterable[Finding]:
    if seen.namespaces is None:
        return
    gone = [team for team in teams if team not in seen.namespaces]
    if gone:
        yield Finding(
            "NamespacesMissing",
            f"there is no namespace for {listed(gone)}",
            "No job of such a team is placed here.",
            apply,
        )


def _of_kinds(seen: ClusterSeen, region: Region) -> Iterable[Finding]:
    groups: dict[str, str | None] = {kind: _KINDS.get(kind) for kind in region.workloads}
    if region.profile.gang == "volcano":
        groups["volcano"] = "scheduling.volcano.sh"
    for kind, group in groups.items():
        if group is not None and seen.groups is not None and group not in seen.groups:
            yield Finding(
                "KindMissing",
                f"regions/{region.name}.yaml names {kind}, and the cluster serves no {group}",
                "The sync engine would refuse every job of that kind.",
                f"install {kind}, or take it out of the region's file",
            )


def _of_rights(seen: ClusterSeen, apply: str) -> Iterable[Finding]:
    for user, rights in seen.missing.items():
        if rights:
            yield Finding(
                "RightsMissing",
                f"{user} may not {listed([str(right) for right in rights])}",
                "What it may not do stays undone: jobs are not started, not stopped, or not seen.",
                apply,
            )


def _of_agent(seen: ClusterSeen, apply: str) -> Iterable[Finding]:
    if isinstance(seen.agent, Missing):
        if seen.agent.words:
            yield Finding("AgentMissing", "there is no Deployment of the agent", "Nothing is started here without it.", apply)
        return
    name, namespace = seen.agent["metadata"]["name"], seen.agent["metadata"]["namespace"]
    if not (seen.agent.get("status") or {}).get("readyReplicas"):
        yield Finding(
            "AgentNotReady",
            f"no pod of Deployment {name} in {namespace} is ready",
            "Nothing is started, stopped or reported here, and the region's jobs are not given to others.",
            f"kubectl describe pods -n {namespace} -l app.kubernetes.io/component=agent",
        )
    elif int((seen.agent.get("spec") or {}).get("replicas") or 1) < 2:
        yield Finding(
            "AgentAlone",
            f"Deployment {name} in {namespace} has one replica of the agent",
            "Where its node dies, minutes go by until it is made anew; nothing is started, stopped or reported here meanwhile.",
            f"kubectl scale deployment {name} -n {namespace} --replicas=2",
        )


def listed(words: Sequence[str], most: int = 6) -> str:
    """The first of them, and how many more there are."""
    shown = ", ".join(words[:most])
    return shown if len(words) <= most else f"{shown} and {len(words) - most} more"
