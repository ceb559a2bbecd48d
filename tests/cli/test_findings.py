"""What doctor judges: nothing of what bootstrap prints is wrong, and each trap has its finding. Pure, so without a cluster."""

import copy
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import yaml

from reconciler.adapters.kube.doctor import ClusterSeen, Kueue, Right, rights_of
from reconciler.adapters.kube.engines import Found, Missing
from reconciler.commands.doctor import wanted
from reconciler.commands.engine_errors import of_errors
from reconciler.commands.findings import Finding, Store, of_clocks, of_cluster, of_store, of_times
from reconciler.commands.findings_argocd import of_argocd, of_project
from reconciler.commands.findings_engines import anothers
from reconciler.commands.findings_flux import of_flux
from reconciler.commands.findings_kueue import of_queues
from reconciler.commands.images import version_of
from reconciler.model.grants import Lease
from reconciler.model.names import PREFIX
from reconciler.model.region import LossTimes, Region, StoreAddress
from reconciler.rendering.bootstrap import Bootstrap, Engine, EngineNames, agent_rights, bootstrap_files

REPO = "https://git.example.com/ml/jobs.git"
NAMES: dict[Engine, EngineNames] = {
    "flux": EngineNames("flux-system", "gpu-reconciler"),
    "argocd": EngineNames("argocd", "gpu-reconciler"),
}
Object = dict[str, Any]


def printed(engine: Engine, **changes: Any) -> dict[str, Object]:
    """The objects that bootstrap prints, by kind; of the last of each."""
    asked = Bootstrap("eu", engine, NAMES[engine], REPO, StoreAddress(url="s3://b/p"), "r:1", ("red", "blue"), **changes)
    return {one["kind"]: one for text in bootstrap_files(asked).values() for one in yaml.safe_load_all(text) if one}


def controller(image: str, ready: int = 1) -> Object:
    pod = {"containers": [{"image": image}]}
    metadata = {"name": "kustomize-controller", "namespace": "flux-system"}
    return {"metadata": metadata, "spec": {"template": {"spec": pod}}, "status": {"readyReplicas": ready}}


def codes(found: Iterable[Finding]) -> list[str]:
    listed = list(found)
    assert all(one.what and one.why.endswith(".") and one.fix for one in listed)
    return [one.code for one in listed]


# ---- Flux ---------------------------------------------------------------------------------------------------------

GOOD = controller("ghcr.io/fluxcd/kustomize-controller:v1.9.6")


def flux(objects: dict[str, Found], image: Found = GOOD) -> list[str]:
    return codes(of_flux(objects, image, "eu", REPO, "apply"))


def test_what_bootstrap_prints_for_flux_is_well() -> None:
    assert flux(dict(printed("flux"))) == []


Change = Callable[[Object], object]
FLUX: dict[str, tuple[str, Change, list[str]]] = {
    "another branch": ("GitRepository", lambda spec: spec["ref"].update(branch="main"), ["WrongBranch"]),
    "no branch": ("GitRepository", lambda spec: spec.pop("ref"), ["WrongBranch"]),
    "a tag beside the branch": ("GitRepository", lambda spec: spec["ref"].update(tag="v1"), ["WrongBranch"]),
    "another repository": ("GitRepository", lambda spec: spec.update(url="https://x.example.com/y"), ["WrongRepository"]),
    "the same repository, spelled in another way": (
        "GitRepository",
        lambda spec: spec.update(url="https://git.example.com/ml/jobs/"),
        [],
    ),
    "a suspended source": ("GitRepository", lambda spec: spec.update(suspend=True), ["EngineSuspended"]),
    "a suspended Kustomization": ("Kustomization", lambda spec: spec.update(suspend=True), ["EngineSuspended"]),
    "no pruning": ("Kustomization", lambda spec: spec.update(prune=False), ["PruneOff"]),
    "pruning that is not said": ("Kustomization", lambda spec: spec.pop("prune"), ["PruneOff"]),
    "wait that is not said": ("Kustomization", lambda spec: spec.pop("wait"), []),
    "wait": ("Kustomization", lambda spec: spec.update(wait=True), ["WaitsForJobs"]),
    "health checks": ("Kustomization", lambda spec: spec.update(healthChecks=[{"kind": "Job"}]), ["WaitsForJobs"]),
    "force": ("Kustomization", lambda spec: spec.update(force=True), ["ForceOn"]),
    "a deletion that kills": ("Kustomization", lambda spec: spec.pop("deletionPolicy"), ["DeletionKillsJobs"]),
    "variables": ("Kustomization", lambda spec: spec.update(postBuild={"substitute": {}, "x": 1}), ["PostBuildOn"]),
    "another path": ("Kustomization", lambda spec: spec.update(path="./"), ["WrongPath"]),
    "patches": ("Kustomization", lambda spec: spec.update(patches=[{}]), ["ManifestsRewritten"]),
    "no account": ("Kustomization", lambda spec: spec.pop("serviceAccountName"), ["ApplierTooMighty"]),
}


@pytest.mark.parametrize(("kind", "change", "expected"), FLUX.values(), ids=FLUX.keys())
def test_traps_of_flux(kind: str, change: Change, expected: list[str]) -> None:
    objects = copy.deepcopy(printed("flux"))
    change(objects[kind]["spec"])
    assert flux(dict(objects)) == expected


VERSIONS = {
    "the newest": ("reg/kustomize-controller:v1.9.6", []),
    "the first that is mended": ("reg/kustomize-controller:v1.8.5@sha256:" + "0" * 64, []),
    "the last with the fault": ("reg:5000/kustomize-controller:v1.8.4", ["EngineForgetsJobs"]),
    "the first with the fault": ("kustomize-controller:v1.7.0", ["EngineForgetsJobs"]),
    "one before the fault": ("kustomize-controller:v1.6.3", ["EngineTooOld"]),
    "a digest only": ("reg:5000/kustomize-controller@sha256:" + "0" * 64, []),
    "a name for a tag": ("kustomize-controller:latest", []),
}


@pytest.mark.parametrize(("image", "expected"), VERSIONS.values(), ids=VERSIONS.keys())
def test_versions_of_flux(image: str, expected: list[str]) -> None:
    assert flux(dict(printed("flux")), controller(image)) == expected


def test_an_engine_that_is_down_or_somewhere_else() -> None:
    assert flux(dict(printed("flux")), controller("x:v1.9.6", ready=0)) == ["EngineDown"]
    assert flux(dict(printed("flux")), Missing("it is not here")) == []
    assert version_of({}) is None


def test_objects_that_are_missing_are_not_judged_twice() -> None:
    gone = Missing("Kustomization x is not in namespace y; apply it")
    assert flux({**printed("flux"), "Kustomization": gone}) == ["EngineObjectMissing"]
    assert codes(of_errors("flux", {**printed("flux"), "Kustomization": gone})) == []
    assert flux({**printed("flux"), "Kustomization": Missing("")}) == [], "what was not seen is told elsewhere"


def test_what_the_engine_says_of_itself_is_told() -> None:
    failing = {"type": "Ready", "status": "False", "reason": "BuildFailed", "message": "no"}
    objects: dict[str, Found] = dict(printed("flux"))
    objects["Kustomization"] = {**objects["Kustomization"], "status": {"conditions": [failing]}}  # type: ignore[dict-item]
    assert codes(of_errors("flux", objects)) == ["EngineRefuses"]


def test_what_a_full_quota_needs_is_room() -> None:
    words = (
        'Job/red/x dry-run failed (Forbidden): jobs.batch "x" is forbidden: exceeded quota: small, requested: count/jobs.batch=1'
    )
    failing = {"type": "Ready", "status": "False", "reason": "ReconciliationFailed", "message": words}
    objects: dict[str, Found] = dict(printed("flux"))
    objects["Kustomization"] = {**objects["Kustomization"], "status": {"conditions": [failing]}}  # type: ignore[dict-item]
    (found,) = of_errors("flux", objects)
    assert "exceeded quota: small" in found.what
    assert found.fix.startswith("raise the quota")


# ---- Argo CD ------------------------------------------------------------------------------------------------------


ARGO_GOOD = controller("reg/argocd:v3.6.1")


def argocd(objects: dict[str, Found], image: Found = ARGO_GOOD) -> list[str]:
    project = objects["AppProject"]
    found = of_project(project, ("gpu-reconciler", "red", "blue"), "apply")
    return [*codes(of_argocd(objects, image, "eu", REPO, "apply")), *codes(found)]


def test_what_bootstrap_prints_for_argo_cd_is_well() -> None:
    assert argocd(dict(printed("argocd"))) == []


def _policy(name: str, value: Any) -> Change:
    return lambda spec: spec["syncPolicy"].update({name: value})


OPTIONS = ["ApplyOutOfSyncOnly=true", "RespectIgnoreDifferences=true", "PrunePropagationPolicy=background"]
ARGO: dict[str, tuple[Change, list[str]]] = {
    "another branch": (lambda spec: spec["source"].update(targetRevision="main"), ["WrongBranch"]),
    "the branch by its short name": (lambda spec: spec["source"].update(targetRevision="region/eu"), []),
    "another repository": (lambda spec: spec["source"].update(repoURL="https://x.example.com/y"), ["WrongRepository"]),
    "another path": (lambda spec: spec["source"].update(path="."), ["WrongPath"]),
    "no look into folders": (lambda spec: spec["source"].pop("directory"), ["WrongPath"]),
    "no namespace": (lambda spec: spec["destination"].pop("namespace"), ["DestinationMissing"]),
    "no sync by itself": (_policy("automated", None), ["EngineSuspended"]),
    "sync switched off": (_policy("automated", {"enabled": False, "prune": True}), ["EngineSuspended"]),
    "no pruning": (_policy("automated", {"prune": False}), ["PruneOff"]),
    "self-heal": (_policy("automated", {"prune": True, "selfHeal": True}), ["SelfHealOn"]),
    "differences that count": (lambda spec: spec.pop("ignoreDifferences"), ["DifferencesNotIgnored"]),
    "differences of a part that are ignored": (
        lambda spec: spec["ignoreDifferences"][0].update(jsonPointers=["/spec/suspend"]),
        ["DifferencesNotIgnored"],
    ),
    "differences of all kinds that are ignored": (lambda spec: spec["ignoreDifferences"][0].update(group="*", kind="*"), []),
    "an option that is missing": (_policy("syncOptions", OPTIONS[1:]), ["OptionMissing"]),
    "an option that harms": (_policy("syncOptions", [*OPTIONS, "PruneLast=true"]), ["OptionHarmful"]),
    "no retry": (_policy("retry", None), ["RetryLimited"]),
    "few tries": (_policy("retry", {"limit": 5}), ["RetryLimited"]),
    "tries of the old commit": (_policy("retry", {"limit": -1, "backoff": {"factor": 1}}), ["RetrySlow"]),
    "tries ever more apart": (_policy("retry", {"limit": -1, "refresh": True, "backoff": {"factor": 2}}), ["RetrySlow"]),
}


@pytest.mark.parametrize(("change", "expected"), ARGO.values(), ids=ARGO.keys())
def test_traps_of_argo_cd(change: Change, expected: list[str]) -> None:
    objects = copy.deepcopy(printed("argocd"))
    change(objects["Application"]["spec"])
    assert argocd(dict(objects)) == expected


def test_a_finalizer_that_kills_jobs() -> None:
    objects = copy.deepcopy(printed("argocd"))
    objects["Application"]["metadata"]["finalizers"] = ["resources-finalizer.argocd.argoproj.io/background"]
    assert argocd(dict(objects)) == ["DeletionKillsJobs"]


PROJECTS: dict[str, tuple[Change, list[str]]] = {
    "a team that is not allowed": (lambda spec: spec["destinations"].pop(), ["ProjectTooNarrow"]),
    "patterns": (lambda spec: spec.update(destinations=[{"namespace": "*"}]), []),
    "no kinds are named": (lambda spec: spec.pop("namespaceResourceWhitelist"), []),
    "a kind that is not allowed": (lambda spec: spec["namespaceResourceWhitelist"].pop(0), ["ProjectTooNarrow"]),
    "all kinds": (lambda spec: spec.update(namespaceResourceWhitelist=[{"group": "*", "kind": "*"}]), []),
}


@pytest.mark.parametrize(("change", "expected"), PROJECTS.values(), ids=PROJECTS.keys())
def test_projects(change: Change, expected: list[str]) -> None:
    objects = copy.deepcopy(printed("argocd"))
    change(objects["AppProject"]["spec"])
    assert argocd(dict(objects)) == expected


def test_versions_of_argo_cd() -> None:
    assert argocd(dict(printed("argocd")), controller("reg/argocd:v3.1.9")) == ["EngineTooOld"]


# ---- cluster, store, clocks ---------------------------------------------------------------------------------------

AGENT = printed("flux")["Deployment"] | {"status": {"readyReplicas": 2}}


def seen(**changes: Any) -> ClusterSeen:
    said: dict[str, Any] = {
        "objects": {},
        "controller": GOOD,
        "agent": AGENT,
        "namespaces": frozenset({"red", "blue"}),
        "groups": frozenset({"apps"}),
        "missing": {},
        "ahead_seconds": 0.0,
    }
    return ClusterSeen(**{**said, **changes})


CLUSTERS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "all well": ({}, []),
    "a team without a namespace": ({"namespaces": frozenset({"red"})}, ["NamespacesMissing"]),
    "namespaces that were not seen": ({"namespaces": None, "unread": {"namespaces": "no right"}}, ["NotSeen"]),
    "rights that are missing": ({"missing": {"agent": (Right("patch", "", "pods"),)}}, ["RightsMissing"]),
    "no agent": ({"agent": Missing("it is not there")}, ["AgentMissing"]),
    "an agent that is not ready": ({"agent": {**AGENT, "status": {}}}, ["AgentNotReady"]),
    "an agent that is alone": ({"agent": {**AGENT, "spec": {"replicas": 1}}}, ["AgentAlone"]),
}


@pytest.mark.parametrize(("changes", "expected"), CLUSTERS.values(), ids=CLUSTERS.keys())
def test_clusters(changes: dict[str, Any], expected: list[str]) -> None:
    assert codes(of_cluster(seen(**changes), Region(name="eu"), ("blue", "red"), "apply")) == expected


LEASE = Lease(region="eu", epoch=3, incarnation="a", renewal=9)
SHORT = LossTimes(self_fence_seconds=60, fence_kill_seconds=5, grace_seconds=60)
TIMES: dict[str, tuple[Lease | None, LossTimes, list[str]]] = {
    "as main says": (LEASE, LossTimes(), []),
    "no lease yet": (None, SHORT, []),
    "one that a hub has made": (LEASE.model_copy(update={"incarnation": "", "revoked": True}), SHORT, []),
    "another fence": (LEASE, SHORT, ["LossTimesDiffer"]),
    "another grace": (LEASE.model_copy(update={"fence_kill_seconds": 20.0}), LossTimes(), ["LossTimesDiffer"]),
}


@pytest.mark.parametrize(("lease", "loss", "expected"), TIMES.values(), ids=TIMES.keys())
def test_times(lease: Lease | None, loss: LossTimes, expected: list[str]) -> None:
    assert codes(of_times(Store("s3://b", lease=lease), seen(), Region(name="eu"), loss, "apply")) == expected


@pytest.mark.parametrize("wanted_there", [False, True])
@pytest.mark.parametrize("is_there", [False, True])
def test_deadmen(*, wanted_there: bool, is_there: bool) -> None:
    agent = copy.deepcopy(AGENT)
    if is_there:
        agent["spec"]["template"]["spec"]["containers"][0]["args"].append("--deadman")
    found = list(of_times(Store("s3://b"), seen(agent=agent), Region(name="eu", deadman=wanted_there), LossTimes(), "apply"))
    assert codes(found) == ([] if wanted_there is is_there else ["DeadmanDiffers"])
    assert all(one.fix == "apply" for one in found)


REPORTS: dict[str, tuple[tuple[str, ...], int, list[str]]] = {
    "the default, and what is usual": ((), 30, []),
    "the default, and less": ((), 29, ["ReportsTooSeldom"]),
    "as often as it must": (("--report", "3.3"), 10, []),
    "more often": (("--report=1",), 30, []),
    "too seldom": (("--report", "3.4"), 10, ["ReportsTooSeldom"]),
    "too seldom, said in one word": (("--report=60",), 30, ["ReportsTooSeldom"]),
    "seldom, and that is expected": (("--report", "60"), 180, []),
    "what is said last counts": (("--report", "60", "--report", "5"), 30, []),
    "of what cannot be read nothing is said": (("--report", "$(EVERY)"), 30, []),
}


@pytest.mark.parametrize(("words", "unknown", "expected"), REPORTS.values(), ids=REPORTS.keys())
def test_reports(words: tuple[str, ...], unknown: int, expected: list[str]) -> None:
    agent = copy.deepcopy(AGENT)
    agent["spec"]["template"]["spec"]["containers"][0]["args"] += words
    loss = LossTimes(unknown_seconds=unknown, grace_seconds=200)
    assert codes(of_times(Store("s3://b"), seen(agent=agent), Region(name="eu"), loss, "apply")) == expected


def test_the_agent_of_a_low_unknown_as_it_is_printed_reports_often_enough() -> None:
    loss = LossTimes(unknown_seconds=5)
    agent = printed("flux", loss=loss)["Deployment"]
    assert codes(of_times(Store("s3://b"), seen(agent=agent), Region(name="eu"), loss, "apply")) == []


def test_times_of_an_agent_that_is_not_there() -> None:
    region = Region(name="eu", deadman=True)
    assert codes(of_times(Store("s3://b"), seen(agent=Missing("it is not there")), region, LossTimes(), "apply")) == []


def named(name: str, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": spec}


def queue(namespace: str, name: str = "gpu", behind: str = "big") -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterQueue": behind}}


def waiting(*checks: str) -> Object:
    return named("big", admissionChecksStrategy={"admissionChecks": [{"name": one} for one in checks]})


CHECK = named("reconciler-grant", controllerName=f"{PREFIX}/agent")
BOTH = (queue("blue"), queue("red"))
QUEUES: dict[str, tuple[Kueue | None, list[str], str]] = {
    "a check": (Kueue((CHECK,), (waiting("reconciler-grant"),), BOTH), [], ""),
    "a check beside those of others": (Kueue((CHECK,), (waiting("x", "reconciler-grant"),), BOTH), [], ""),
    "no check": (Kueue((), (named("big"),), BOTH), ["QueueWithoutGrantCheck"], "ClusterQueue big does not wait for"),
    "no such queue": (
        Kueue((CHECK,), (waiting("reconciler-grant"),), ()),
        ["QueueMissing"],
        "in blue, red",
    ),
    "a check that is not there": (Kueue((), (waiting("reconciler-grant"),), BOTH), ["QueueWithoutGrantCheck"], "is not there"),
    "a check of that name that is somebody else's": (
        Kueue((named("reconciler-grant", controllerName="x/y"),), (waiting("reconciler-grant"),), BOTH),
        ["QueueWithoutGrantCheck"],
        f"is x/y's and not {PREFIX}/agent's",
    ),
    "a check of our prefix with another controller": (
        Kueue((named("reconciler-grant", controllerName=f"{PREFIX}/other"),), (waiting("reconciler-grant"),), BOTH),
        ["QueueWithoutGrantCheck"],
        f"is {PREFIX}/other's",
    ),
    "a check of our controller with another name": (
        Kueue((named("grants", controllerName=f"{PREFIX}/agent"),), (waiting("grants"),), BOTH),
        ["QueueWithoutGrantCheck"],
        "does not wait for AdmissionCheck reconciler-grant",
    ),
    "a team without the queue": (
        Kueue((CHECK,), (waiting("reconciler-grant"),), (queue("red"),)),
        ["QueueMissing"],
        "there is no LocalQueue gpu that leads to a ClusterQueue in blue",
    ),
    "a queue that leads nowhere": (
        Kueue((CHECK,), (waiting("reconciler-grant"),), (queue("blue", behind="gone"), queue("red"))),
        ["QueueMissing"],
        "in blue",
    ),
    "a queue of that name in the namespace of nobody's team": (
        Kueue((CHECK,), (waiting("reconciler-grant"),), (*BOTH, queue("others", behind="gone"))),
        [],
        "",
    ),
    "no Kueue": (None, ["KueueMissing"], "names queues (gpu), and the cluster serves no kueue.x-k8s.io/v1beta2"),
}


@pytest.mark.parametrize(("kueue", "expected", "words"), QUEUES.values(), ids=QUEUES.keys())
def test_queues(kueue: Kueue | None, expected: list[str], words: str) -> None:
    region = Region.model_validate({"name": "eu", "profile": {"queues": {"research": "gpu", "other": "gpu"}}})
    found = list(of_queues(seen(kueue=kueue), region, ("blue", "red")))
    assert codes(found) == expected
    assert all(words in one.what for one in found)


def test_queues_that_are_not_named_not_seen_or_volcanos_are_not_judged() -> None:
    bare = Kueue((), (), ())
    assert codes(of_queues(seen(kueue=bare), Region(name="eu"), ("red",))) == [], "no job goes to its queues"
    volcano = Region.model_validate({"name": "eu", "profile": {"queues": {"research": "gpu"}, "gang": "volcano"}})
    assert codes(of_queues(seen(kueue=bare), volcano, ("red",))) == []
    assert codes(of_queues(seen(kueue=None), volcano, ("red",))) == []
    named_here = Region.model_validate({"name": "eu", "profile": {"queues": {"research": "gpu"}}})
    assert codes(of_queues(seen(kueue=None, unread={"Kueue": "no right"}), named_here, ("red",))) == []
    assert codes(of_queues(seen(kueue=bare), named_here, ("green",))) == [], "its namespace is a finding of its own"


def test_the_checks_of_others_stay_in_the_queue_and_a_check_of_anothers_is_made_anew() -> None:
    region = Region.model_validate({"name": "eu", "profile": {"queues": {"research": "gpu"}}})
    (found,) = of_queues(seen(kueue=Kueue((CHECK,), (waiting("provisioning"),), BOTH)), region, ("red",))
    assert '"admissionChecks":[{"name":"provisioning"},{"name":"reconciler-grant"}]' in found.fix
    assert "delete" not in found.fix
    foreign = named("reconciler-grant", controllerName="x/y")
    (found,) = of_queues(seen(kueue=Kueue((foreign,), (waiting("reconciler-grant"),), BOTH)), region, ("red",))
    assert "kubectl delete admissioncheck reconciler-grant\nkubectl apply" in found.fix


def test_a_kind_that_the_cluster_does_not_serve() -> None:
    region = Region.model_validate({"name": "eu", "profile": {"gang": "volcano"}})
    assert codes(of_cluster(seen(), region, (), "apply")) == ["KindMissing"]
    assert codes(of_cluster(seen(groups=frozenset({"scheduling.volcano.sh"})), region, (), "apply")) == []


def test_gangs_are_objects_as_well() -> None:
    project = printed("argocd")["AppProject"]
    assert codes(of_project(project, (), "apply", gangs=True)) == ["ProjectTooNarrow"]
    applier = wanted("flux", ("red",), gangs=True).accounts[1]
    assert Right("create", "scheduling.volcano.sh", "podgroups", "red") in applier.needs


def test_clocks_and_stores() -> None:
    assert codes(of_clocks(seen(), Store("s3://b", None, 3.0))) == []
    assert codes(of_clocks(seen(ahead_seconds=-40.0), Store("s3://b", None, -38.0))) == ["ClocksDiffer"]
    (found,) = of_clocks(seen(), Store("s3://b", None, 100.0))
    assert found.what == "the clock of the API server is 100 s behind that of the store"
    assert codes(of_store(Store("s3://b"))) == []
    assert codes(of_store(Store("s3://b", "it ignores If-Match"))) == ["StoreUnfit"]


def test_the_rights_that_are_asked_for_are_those_that_are_deployed() -> None:
    agent, applier = wanted("flux", ("red",)).accounts
    assert set(rights_of(agent_rights())) <= set(agent.needs)
    assert Right("patch", "", "pods") in agent.needs
    assert Right("patch", "source.toolkit.fluxcd.io", "gitrepositories", "flux-system", "gpu-reconciler") in agent.needs
    assert {right.namespace for right in applier.needs} == {"red"}
    assert str(Right("get", "", "pods/log")) == "get pods/log everywhere"


@pytest.mark.parametrize(
    ("followed", "warned"),
    [("region/us", True), ("refs/heads/region/us", True), ("region/eu", False), ("main", False), (None, False)],
)
def test_an_engine_of_another_region_is_not_just_pointed_elsewhere(followed: str | None, warned: bool) -> None:
    words = anothers(followed, "region/eu")
    assert ("the cluster of region us" in words) is warned
