"""Pods' statuses, as they are written and read; pure.

Decides what of a new status goes to the API server: only what is new, and of the conditions only a kubelet's own.
"""

from collections.abc import Mapping
from typing import Any

from reconciler.ports import KubeObject

OURS = ("Initialized", "ContainersReady", "Ready")
"""The conditions that a kubelet writes; the scheduler and the controllers write others."""


def changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """What of a status is to be written, as a strategic merge patch; conditions of others are left to them."""
    change = {key: value for key, value in new.items() if key != "conditions" and old.get(key) != value}
    before = {one["type"]: one for one in old.get("conditions") or ()}
    conditions = []
    for one in new.get("conditions") or ():
        whole = {"reason": None, "message": None, **one}
        was = before.get(one["type"], {})
        if one["type"] in OURS and any(was.get(key) != value for key, value in whole.items()):
            conditions.append(whole)
    return change | ({"conditions": conditions} if conditions else {})


def running_of(status: KubeObject) -> list[str]:
    """The names of the containers that run."""
    statuses = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    return [one["name"] for one in statuses if "running" in one["state"]]


def states_of(status: Mapping[str, Any]) -> str:
    """How the containers are, in one line for the log."""
    return " ".join(
        f"{one['name']}={next(iter(one['state']))}{one['state'].get('terminated', {}).get('exitCode', '')}"
        for one in status.get("containerStatuses") or ()
    )


def names_of(pod: KubeObject) -> list[str]:
    """The names of all containers of a pod."""
    return [one["name"] for one in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])]
