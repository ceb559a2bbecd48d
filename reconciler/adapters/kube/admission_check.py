"""The AdmissionCheck by which a region's queues wait for our grants, kept active.

Kueue admits nothing through a queue whose check is not called active by its controller. That controller is the agent: it answers
the check on each Workload. Decides nothing else; where there is no Kueue, or no such check, there is nothing to do.

Invariant: no other controller's check is touched, and nothing is written where it is active already.
Source: Kueue, "Admission checks".
"""

from http import HTTPStatus
from typing import Any, Final

from reconciler.adapters.kube.answers import MERGE_PATCH, Request
from reconciler.adapters.kube.connection import Connection
from reconciler.adapters.kube.looking import ADMISSIONS
from reconciler.model.names import GRANT_CHECK, GRANT_CONTROLLER
from reconciler.ports import Clock, Conflict

_PATH: Final = f"{ADMISSIONS}/admissionchecks/{GRANT_CHECK}"
_ACTIVE: Final = "Active"


def keep_active(connection: Connection, clock: Clock) -> str:
    """Call our check active where that is not so. What a person should know, or ''. Raises Transient or Refused."""
    found = connection.ask(Request("GET", _PATH), take=(HTTPStatus.NOT_FOUND,))
    if found.code == HTTPStatus.NOT_FOUND:
        return ""
    check = found.value
    controller = (check.get("spec") or {}).get("controllerName")
    if controller != GRANT_CONTROLLER:
        return (
            f"AdmissionCheck {check['metadata']['name']} is another's ({controller}); give it controllerName {GRANT_CONTROLLER}"
        )
    conditions = (check.get("status") or {}).get("conditions") or ()
    if not any(one.get("type") == _ACTIVE and one.get("status") == "True" for one in conditions):
        _activate(connection, check, [one for one in conditions if one.get("type") != _ACTIVE], clock)
    return ""


def _activate(connection: Connection, check: dict[str, Any], others: list[dict[str, Any]], clock: Clock) -> None:
    active = {
        "type": _ACTIVE,
        "status": "True",
        "reason": "AgentWorks",
        "message": "The region's agent answers for the grants",
        "observedGeneration": check["metadata"].get("generation", 0),
        "lastTransitionTime": clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    # The list is replaced whole, so it must be the one that was read.
    body = {"metadata": {"resourceVersion": check["metadata"]["resourceVersion"]}, "status": {"conditions": [*others, active]}}
    request = Request("PATCH", f"{_PATH}/status", body=body, content=MERGE_PATCH)
    try:
        connection.ask(request, take=(HTTPStatus.NOT_FOUND,))
    except Conflict:
        return  # somebody has just written it: the next look tells
