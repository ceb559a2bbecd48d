"""`ports.SyncEngine` by Flux: its source-controller and kustomize-controller, by their objects in the region's cluster.

Decides which objects are asked and how Flux is told to look again; what they say is flux_status.py's to read.
Invariant: nothing of an object is written but one annotation, which asks for what the controller would do by itself later.
"""

from dataclasses import dataclass
from typing import Final

from reconciler.adapters.kube.connection import Connection
from reconciler.adapters.kube.engines import Place, annotate, look_at
from reconciler.adapters.kube.flux_status import state_of
from reconciler.ports import Clock, SyncState

_REQUESTED: Final = "reconcile.fluxcd.io/requestedAt"


@dataclass(frozen=True, slots=True)
class FluxSettings:
    """Flux's objects for this region."""

    namespace: str = "flux-system"
    source: str = "gpu-reconciler"
    """Name of the GitRepository."""
    kustomization: str = "gpu-reconciler"


_DEFAULTS: Final = FluxSettings()


def source_place(settings: FluxSettings) -> Place:
    """The region's GitRepository."""
    root = "/apis/source.toolkit.fluxcd.io/v1"
    return Place("GitRepository", root, "gitrepositories", settings.namespace, settings.source)


def kustomization_place(settings: FluxSettings) -> Place:
    """The region's Kustomization."""
    root = "/apis/kustomize.toolkit.fluxcd.io/v1"
    return Place("Kustomization", root, "kustomizations", settings.namespace, settings.kustomization)


class Flux:
    """One region's Flux. Safe to share between threads; holds the connection, and nothing of what it has read."""

    def __init__(self, connection: Connection, clock: Clock, settings: FluxSettings = _DEFAULTS) -> None:
        """Nothing is sent yet."""
        self._connection = connection
        self._clock = clock
        self._source = source_place(settings)
        self._kustomization = kustomization_place(settings)

    def state(self) -> SyncState:
        """The commit applied last, its workloads, and what Flux could not do. Raises Transient or Refused."""
        source = look_at(self._connection, self._source)
        return state_of((self._source, source), (self._kustomization, look_at(self._connection, self._kustomization)))

    def nudge(self, commit: str) -> None:
        """Let the source be fetched now; its new artifact starts the rest. Raises Transient or Refused."""
        # The controller acts on a value that it has not seen: the same commit may have to be asked for twice.
        asked = f"{self._clock.now().isoformat()} {commit}"
        annotate(self._connection, self._source, {_REQUESTED: asked})
