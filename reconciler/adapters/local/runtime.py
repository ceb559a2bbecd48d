"""What the kubelet asks of whatever runs containers: real processes, or a simulation by passed-in time.

Decides the words between the two. A container is named by its pod's uid and its own name; a uid is never given twice,
so neither is a container. All moments are those of `moments`.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from reconciler.ports import KubeObject

DEVICES = "local.reconciler/devices"
"""Annotation of a pod: indices of its GPUs on its node, such as `0,1`."""
UNKNOWN = "ContainerStatusUnknown"
"""Reason for the end of a container that nothing is known of."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A container that could not be started yet, in the kubelet's words."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Running:
    """A container that was started and has not ended."""

    started: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A container that has ended, with all that it had started. `code` is 128+n after signal n."""

    code: int
    reason: str
    message: str
    started: int
    finished: int


State = Waiting | Running | Ended

Texts = Mapping[str, str]
ConfigMaps = Callable[[str, str], Texts | None]
"""The texts of the ConfigMap (namespace, name), None where there is none."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One container to start: its pod, its part of the pod's spec, and where ConfigMaps are to be had."""

    pod: KubeObject
    container: KubeObject
    is_init: bool
    config_maps: ConfigMaps

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return str(self.pod["metadata"]["uid"])

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self.container["name"])


class Runtime(Protocol):
    """Starts containers once, says how they are, and ends them."""

    def start(self, launch: Launch, now: int) -> Waiting | None:
        """Start it, or say what it waits for. Asked again for a container that was started, it starts nothing."""

    def poll(self, uid: str, container: str, now: int) -> Running | Ended | None:
        """How it is; None for one that was never started here. `Ended` stays so until `forget`."""

    def terminate(self, uid: str, container: str, now: int) -> None:
        """Ask it to end (SIGTERM); repeats do nothing."""

    def kill(self, uid: str, container: str, now: int) -> None:
        """End it and all that it started (SIGKILL); to be repeated until it has ended."""

    def pods(self) -> Collection[str]:
        """The uids of all pods that anything is kept of."""

    def forget(self, uid: str, now: int) -> None:
        """Kill what is left of a pod and drop what is kept of it; to be repeated until `pods` has it no more."""

    def tell(self, pod: KubeObject) -> None:
        """Bring the files that tell a pod of itself (volumes of kind downwardAPI) up to date."""

    def due(self, uids: Collection[str], now: int) -> int | None:
        """When to poll the containers of these pods again; None where none of them runs."""

    def log_tail(self, uid: str, container: str, limit: int) -> str:
        """The last `limit` bytes that the container wrote."""
