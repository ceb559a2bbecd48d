"""What is found alike of every sync engine: objects that are missing, and a controller that is down. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.adapters.kube.engines import Found, Missing
from reconciler.commands.findings import Finding

STANDSTILL = "Nothing new comes in, and nothing that ended goes."


def of_missing(seen: Mapping[str, Found], apply: str) -> Iterable[Finding]:
    """Objects of the engine that are not there. `apply`: the command that sets all up."""
    for found in seen.values():
        if isinstance(found, Missing) and found.words:
            yield Finding("EngineObjectMissing", found.words, "Nothing is applied here without it.", apply)


def of_readiness(controller: Mapping[str, Any], label: str) -> Iterable[Finding]:
    """A controller without a pod that is ready. `label`: the key of its pods' label whose value is its name."""
    if (controller.get("status") or {}).get("readyReplicas"):
        return
    name, namespace = controller["metadata"]["name"], controller["metadata"]["namespace"]
    yield Finding(
        "EngineDown",
        f"no pod of {name} in {namespace} is ready",
        STANDSTILL,
        f"kubectl describe pods -n {namespace} -l {label}={name}",
    )


def named(found: Mapping[str, Any]) -> str:
    """An object, as findings name it."""
    return f"{found['kind']} {found['metadata']['name']} in {found['metadata']['namespace']}"


def same_repository(one: str, other: str) -> bool:
    """Whether two URLs mean one repository, as far as their spelling tells."""
    return _plain(one) == _plain(other)


def _plain(url: str) -> str:
    return url.rstrip("/").removesuffix(".git").lower()


def anothers(branch: object, own: str) -> str:
    """A warning where an engine follows another region's branch, to be put before what would point it elsewhere; '' where not."""
    followed = str(branch or "").removeprefix("refs/heads/")
    if followed == own or not followed.startswith("region/"):
        return ""
    return f"This may be the cluster of region {followed.removeprefix('region/')}: look at --kubeconfig and --context first. "
