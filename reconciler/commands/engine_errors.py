"""What a sync engine says by itself that it could not do, as findings; judged from its objects as the agent judges them. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from reconciler.adapters.kube import argocd_status, flux_status
from reconciler.adapters.kube.argocd import ArgoCdSettings, application_place
from reconciler.adapters.kube.engines import Found, Missing, is_of_quota
from reconciler.adapters.kube.flux import FluxSettings, kustomization_place, source_place
from reconciler.commands.findings import Finding
from reconciler.ports import SyncState
from reconciler.rendering.bootstrap import Engine

_OF_OTHERS: Final = "mend what the words name; the hub takes a manifest that is refused out of the branch by itself"
_OF_QUOTA: Final = (
    "raise the quota that the words name, or take it away (`kubectl get resourcequotas -A`): no job is kept out of a "
    "region for a full quota, so the manifest stays until there is room, or until the job's start time-out"
)


def of_errors(engine: Engine, seen: Mapping[str, Found]) -> Iterable[Finding]:
    """One finding for each thing that the engine could not do; missing and suspended objects are found elsewhere."""
    for where, words in sorted(_state(engine, seen).errors.items()):
        found = next((one for kind, one in seen.items() if where.startswith(f"{kind}/")), None)
        if isinstance(found, Missing) or (found is not None and (found.get("spec") or {}).get("suspend")):
            continue
        yield Finding(
            "EngineRefuses",
            f"{where}: {words}",
            "What is not applied does not run; Flux applies nothing else either until then.",
            _OF_QUOTA if is_of_quota(words) else _OF_OTHERS,
        )


def _state(engine: Engine, seen: Mapping[str, Found]) -> SyncState:
    if engine == "argocd":
        return argocd_status.state_of(application_place(ArgoCdSettings()), seen["Application"])
    names = FluxSettings()
    source, kustomization = source_place(names), kustomization_place(names)
    return flux_status.state_of((source, seen["GitRepository"]), (kustomization, seen["Kustomization"]))
