"""What is wrong with a region's Flux: its version, its GitRepository and its Kustomization. Pure.

Each trap stops, restarts or forgets jobs that run; where one is known from a report, it is named.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from packaging.version import Version

from reconciler.adapters.kube.engines import Found, Missing
from reconciler.commands.findings import Finding
from reconciler.commands.findings_engines import STANDSTILL, anothers, named, of_missing, of_readiness, same_repository
from reconciler.commands.images import version_of
from reconciler.model.names import region_branch

FLOOR: Final = Version("1.8.5")
_BUG: Final = Version("1.7.0")
_REWRITES: Final = ("targetNamespace", "namePrefix", "nameSuffix", "patches", "images", "components", "commonMetadata")
_LONG_WAITS: Final = "A job runs for days: the commits after it would wait that long."


@dataclass(frozen=True, slots=True)
class Setting:
    """A field of a spec that must have a value, unless it is left out and `default` is that value."""

    name: str
    wanted: Any
    default: Any
    code: str
    why: str


_SETTINGS: Final = (
    Setting(
        "prune", True, False, "PruneOff", "A job is taken away by taking its file away; without pruning it would stay for ever."
    ),
    Setting("wait", False, False, "WaitsForJobs", _LONG_WAITS),
    Setting("force", False, False, "ForceOn", "An object that cannot be changed would be made anew, a running job with it."),
    Setting(
        "deletionPolicy",
        "Orphan",
        "MirrorPrune",
        "DeletionKillsJobs",
        "Deleting the Kustomization would delete all jobs that run.",
    ),
    Setting("suspend", False, False, "EngineSuspended", STANDSTILL),
)


def of_flux(seen: Mapping[str, Found], controller: Found, region: str, repo: str, apply: str) -> Iterable[Finding]:
    """Findings of Flux's objects. `repo`: the repository's URL without credentials; `apply`: the command that sets all up."""
    yield from _of_controller(controller)
    yield from of_missing(seen, apply)
    source, kustomization = seen["GitRepository"], seen["Kustomization"]
    if not isinstance(source, Missing):
        yield from _of_source(source, region, repo)
    if not isinstance(kustomization, Missing):
        yield from _of_kustomization(kustomization)


def _of_controller(controller: Found) -> Iterable[Finding]:
    if isinstance(controller, Missing):
        return  # it may run elsewhere, or under another name; its objects tell whether it works
    version = version_of(controller)
    update = f"update Flux to 2.8.7 or newer (kustomize-controller {FLOOR})"
    if version is not None and _BUG <= version < FLOOR:
        yield Finding(
            "EngineForgetsJobs",
            f"kustomize-controller is {version}",
            "From 1.7.0 to 1.8.4 it forgets objects that it does not patch: a job whose file goes is never removed "
            "(fluxcd/kustomize-controller#1647).",
            update,
        )
    elif version is not None and version < _BUG:
        yield Finding("EngineTooOld", f"kustomize-controller is {version}", f"Only {FLOOR} and newer are tried.", update)
    yield from of_readiness(controller, "app")


def _of_source(source: Mapping[str, Any], region: str, repo: str) -> Iterable[Finding]:
    spec, branch = source.get("spec") or {}, region_branch(region)
    ref = spec.get("ref") or {}
    others = sorted(ref.keys() - {"branch"})
    if ref.get("branch") != branch or others:
        said = ", ".join(f"{name} {value}" for name, value in sorted(ref.items())) or "the default branch"
        yield Finding(
            "WrongBranch",
            f"{named(source)} follows {said}",
            f"{anothers(ref.get('branch'), branch)}The region's manifests are on {branch}.",
            _patch(source, {"ref": {"branch": branch, **dict.fromkeys(others)}}),
        )
    if not same_repository(str(spec.get("url") or ""), repo):
        yield Finding(
            "WrongRepository",
            f"{named(source)} reads {spec.get('url')}",
            f"The hub writes to {repo}.",
            _patch(source, {"url": repo}),
        )
    if spec.get("suspend"):
        yield Finding(
            "EngineSuspended",
            f"{named(source)} is suspended",
            STANDSTILL,
            _patch(source, {"suspend": False}),
        )


def _of_kustomization(found: Mapping[str, Any]) -> Iterable[Finding]:
    spec = found.get("spec") or {}
    for setting in _SETTINGS:
        value = spec.get(setting.name, setting.default)
        if value != setting.wanted:
            what = f"{named(found)} has {setting.name}: {json.dumps(value)}"
            yield Finding(setting.code, what, setting.why, _patch(found, {setting.name: setting.wanted}))
    if str(spec.get("path") or "").removeprefix("./").strip("/") != "manifests":
        yield Finding(
            "WrongPath",
            f"{named(found)} has path: {json.dumps(spec.get('path'))}",
            "The manifests are in ./manifests; other files of the branch are none.",
            _patch(found, {"path": "./manifests"}),
        )
    yield from _unwanted(found, ("healthChecks", "healthCheckExprs"), "WaitsForJobs", _LONG_WAITS)
    yield from _unwanted(
        found, ("postBuild",), "PostBuildOn", "It replaces ${VARIABLE} inside the jobs' own scripts, mostly by nothing."
    )
    yield from _unwanted(found, _REWRITES, "ManifestsRewritten", "What runs would not be what the hub has written and checked.")
    if not spec.get("serviceAccountName"):
        yield Finding(
            "ApplierTooMighty",
            f"{named(found)} has no serviceAccountName",
            "Whoever can write to the branch could then write anything into the cluster.",
            _patch(found, {"serviceAccountName": "gpu-reconciler-applier"}),
        )


def _unwanted(found: Mapping[str, Any], fields: Sequence[str], code: str, why: str) -> Iterable[Finding]:
    there = [name for name in fields if (found.get("spec") or {}).get(name)]
    if there:
        yield Finding(code, f"{named(found)} has {', '.join(there)}", why, _patch(found, dict.fromkeys(there)))


def _patch(found: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    body = json.dumps({"spec": spec}, separators=(",", ":"))
    metadata = found["metadata"]
    return f"kubectl patch {str(found['kind']).lower()} {metadata['name']} -n {metadata['namespace']} --type=merge -p '{body}'"
