"""What is wrong with a region's Argo CD: its version, its Application and its AppProject. Pure.

Each trap stops, restarts or forgets jobs that run, or holds up the commits after a bad file.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from packaging.version import Version

from reconciler.adapters.kube.engines import Found, Missing
from reconciler.commands.findings import Finding
from reconciler.commands.findings_engines import STANDSTILL, anothers, named, of_missing, of_readiness, same_repository
from reconciler.commands.images import version_of
from reconciler.model.names import region_branch

FLOOR: Final = Version("3.2.0")
_NEEDED: Final = {
    "ApplyOutOfSyncOnly=true": "Jobs that are there would be applied again at each sync.",
    "RespectIgnoreDifferences=true": "A sync would put back what the agent has changed, and so stop what runs.",
    "PrunePropagationPolicy=background": "A sync would wait until a cancelled job has saved its checkpoint, and others with it.",
}
_HARMFUL: Final = {
    "PruneLast=true": "The sync would wait until every job has ended.",
    "CreateNamespace=true": "The sync would have two steps, and wait between them for jobs.",
    "Replace=true": "Objects would be replaced, running jobs with them.",
    "Force=true": "Objects that cannot be changed would be deleted and made anew, running jobs with them.",
    "PrunePropagationPolicy=foreground": _NEEDED["PrunePropagationPolicy=background"],
}
_KINDS: Final = (("batch", "Job"), ("", "Service"), ("", "ConfigMap"))
_VOLCANO: Final = (("scheduling.volcano.sh", "PodGroup"),)
_HELD_UP: Final = "One bad file would hold up the commits after it, by minutes, or its error would never be tried again."


def of_argocd(seen: Mapping[str, Found], controller: Found, region: str, repo: str, apply: str) -> Iterable[Finding]:
    """Findings of Argo CD's objects. `repo`: the repository's URL without credentials; `apply`: the command that sets all up."""
    yield from _of_controller(controller)
    yield from of_missing(seen, apply)
    application = seen["Application"]
    if not isinstance(application, Missing):
        for finding in (*_of_source(application, region, repo), *_of_policy(application)):
            code, what, why = finding
            yield Finding(code, f"{named(application)} {what}", why, apply)
        yield from _of_finalizers(application)


def of_project(project: Found, places: Sequence[str], apply: str, *, gangs: bool = False) -> Iterable[Finding]:
    """Findings of the AppProject. `places`: the namespaces that manifests go to; `gangs`: PodGroups of Volcano among them."""
    if isinstance(project, Missing):
        return
    spec = project.get("spec") or {}
    allowed = [str(one.get("namespace") or "") for one in spec.get("destinations") or ()]
    outside = [place for place in places if not any(fnmatchcase(place, pattern) for pattern in allowed)]
    if outside:
        yield Finding(
            "ProjectTooNarrow",
            f"{named(project)} does not allow the namespaces {', '.join(outside)}",
            "One manifest for a namespace that is not allowed stops the whole sync.",
            apply,
        )
    listed = [(str(one.get("group") or ""), str(one.get("kind"))) for one in spec.get("namespaceResourceWhitelist") or ()]
    needed = _KINDS + _VOLCANO * gangs
    kinds = [kind for group, kind in needed if listed and not any(_fits(group, kind, rule) for rule in listed)]
    if kinds:
        yield Finding(
            "ProjectTooNarrow",
            f"{named(project)} does not allow {', '.join(kinds)}",
            "One object of a kind that is not allowed stops the whole sync.",
            apply,
        )


def _fits(group: str, kind: str, rule: tuple[str, str]) -> bool:
    return fnmatchcase(group, rule[0]) and fnmatchcase(kind, rule[1])


def _of_controller(controller: Found) -> Iterable[Finding]:
    if isinstance(controller, Missing):
        return  # it may run elsewhere, or under another name; its objects tell whether it works
    version = version_of(controller)
    if version is not None and version < FLOOR:
        yield Finding(
            "EngineTooOld",
            f"Argo CD is {version}",
            "Before 3.2 it knows no `retry.refresh`: a sync that fails goes on with the commit that failed.",
            f"update Argo CD to {FLOOR} or newer",
        )
    yield from of_readiness(controller, "app.kubernetes.io/name")


_Bare = tuple[str, str, str]
"""Code, what is so, why it matters."""


def _of_source(application: Mapping[str, Any], region: str, repo: str) -> Iterable[_Bare]:
    spec = application.get("spec") or {}
    source, branch = spec.get("source") or {}, region_branch(region)
    if source.get("targetRevision") not in {branch, f"refs/heads/{branch}"}:
        followed = source.get("targetRevision")
        yield "WrongBranch", f"follows {followed}", f"{anothers(followed, branch)}The region's manifests are on {branch}."
    if not same_repository(str(source.get("repoURL") or ""), repo):
        yield "WrongRepository", f"reads {source.get('repoURL')}", f"The hub writes to {repo}."
    if str(source.get("path") or "").removeprefix("./").strip("/") != "manifests":
        yield "WrongPath", f"has path: {json.dumps(source.get('path'))}", "The manifests are in manifests/."
    if not (source.get("directory") or {}).get("recurse"):
        yield "WrongPath", "does not look into folders", "Each team's manifests are in a folder of their own; none would be seen."
    if not (spec.get("destination") or {}).get("namespace"):
        yield (
            "DestinationMissing",
            "has no destination.namespace",
            "The project does not allow an empty namespace: nothing is synced.",
        )


def _of_policy(application: Mapping[str, Any]) -> Iterable[_Bare]:
    spec = application.get("spec") or {}
    policy = spec.get("syncPolicy") or {}
    automated = policy.get("automated")
    if automated is None or automated.get("enabled") is False:
        yield "EngineSuspended", "does not sync by itself", STANDSTILL
    elif not automated.get("prune"):
        yield "PruneOff", "does not prune", "A job is taken away by taking its file away; without pruning it would stay for ever."
    if (automated or {}).get("selfHeal"):
        yield "SelfHealOn", "heals itself", "What the agent changes would be put back again and again: jobs would be stopped."
    if not _ignores_jobs(spec.get("ignoreDifferences") or ()):
        yield "DifferencesNotIgnored", "has no ignoreDifferences for /spec of Jobs", _NEEDED["RespectIgnoreDifferences=true"]
    options = [str(option) for option in policy.get("syncOptions") or ()]
    for option, why in _NEEDED.items():
        if option not in options:
            yield "OptionMissing", f"lacks the sync option {option}", why
    for option in options:
        if option in _HARMFUL:
            yield "OptionHarmful", f"has the sync option {option}", _HARMFUL[option]
    yield from _of_retry(policy.get("retry") or {})


def _of_retry(retry: Mapping[str, Any]) -> Iterable[_Bare]:
    backoff = retry.get("backoff") or {}
    limit, factor = retry.get("limit"), backoff.get("factor")
    if limit is None or int(limit) >= 0:
        yield "RetryLimited", f"has retry.limit: {json.dumps(limit)}", _HELD_UP
    elif not retry.get("refresh") or factor is None or int(factor) > 1:
        said = f"refresh: {json.dumps(retry.get('refresh'))}, backoff.factor: {json.dumps(factor)}"
        yield "RetrySlow", f"has retry with {said}", _HELD_UP


def _ignores_jobs(rules: Sequence[Mapping[str, Any]]) -> bool:
    return any(
        _fits("batch", "Job", (str(rule.get("group") or ""), str(rule.get("kind") or "")))
        and "/spec" in (rule.get("jsonPointers") or ())
        for rule in rules
    )


def _of_finalizers(application: Mapping[str, Any]) -> Iterable[Finding]:
    metadata = application["metadata"]
    cascading = [one for one in metadata.get("finalizers") or () if str(one).startswith("resources-finalizer.argocd.argoproj.io")]
    if cascading:
        yield Finding(
            "DeletionKillsJobs",
            f"{named(application)} has the finalizer {cascading[0]}",
            "Deleting the Application would delete all jobs that run.",
            f"kubectl patch application {metadata['name']} -n {metadata['namespace']} --type=merge "
            """-p '{"metadata":{"finalizers":null}}'""",
        )
