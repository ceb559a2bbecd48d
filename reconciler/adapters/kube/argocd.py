"""`ports.SyncEngine` by Argo CD: its application controller, by the region's Application in the region's cluster.

Decides which object is asked and how Argo CD is told to look again; what it says is argocd_status.py's to read.
Invariant: nothing of the Application is written but one annotation, which the controller takes off when it has looked.
"""

from dataclasses import dataclass
from typing import Final

from reconciler.adapters.kube.argocd_status import state_of
from reconciler.adapters.kube.connection import Connection
from reconciler.adapters.kube.engines import Place, annotate, look_at
from reconciler.ports import SyncState

_REFRESH: Final = "argocd.argoproj.io/refresh"


@dataclass(frozen=True, slots=True)
class ArgoCdSettings:
    """Argo CD's object for this region."""

    namespace: str = "argocd"
    application: str = "gpu-reconciler"


_DEFAULTS: Final = ArgoCdSettings()


def application_place(settings: ArgoCdSettings) -> Place:
    """The region's Application."""
    return Place("Application", "/apis/argoproj.io/v1alpha1", "applications", settings.namespace, settings.application)


class ArgoCd:
    """One region's Argo CD. Safe to share between threads; holds the connection, and nothing of what it has read."""

    def __init__(self, connection: Connection, settings: ArgoCdSettings = _DEFAULTS) -> None:
        """Nothing is sent yet."""
        self._connection = connection
        self._application = application_place(settings)

    def state(self) -> SyncState:
        """The commit applied last, its workloads, and what Argo CD could not do. Raises Transient or Refused."""
        return state_of(self._application, look_at(self._connection, self._application))

    def nudge(self, commit: str) -> None:  # noqa: ARG002 - it asks the remote for its newest commit, whichever that is
        """Let the branch be looked at now. Raises Transient or Refused."""
        annotate(self._connection, self._application, {_REFRESH: "normal"})
