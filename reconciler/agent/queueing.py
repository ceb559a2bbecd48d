"""Regions with Kueue: what a workload's place in its queue says, and how our grant works there. Pure.

There `suspend` is Kueue's: it puts it back within 40 ms. So the agent sets the queue's label when the attempt is granted,
releases by the AdmissionCheck `reconciler-grant` (Ready), and stops by the Workload's `active: false`. The pods' gate stays ours,
so a queue without that check starts nothing either. A Workload that waits holds quota; hence the label waits for the grant.

Sources: Kueue, "Admission checks", `kueue.x-k8s.io/v1beta2` Workload.
"""

from collections.abc import Mapping
from typing import Any

from reconciler.agent.reading import condition, is_true, labels_of, part, parts
from reconciler.model.names import ANNOTATION_OUT, ANNOTATION_QUEUE, GRANT_CHECK, QUEUE_LABEL
from reconciler.ports import KubeObject


def queue_of(item: KubeObject) -> str | None:
    """The queue that its manifest names; None where none."""
    return part(part(item, "metadata"), "annotations").get(ANNOTATION_QUEUE) or None


def is_enqueued(item: KubeObject) -> bool:
    """Whether it carries a queue's label: from then on Kueue says whether it is suspended."""
    return bool(labels_of(item).get(QUEUE_LABEL))


def is_admissible(admission: KubeObject | None) -> bool:
    """Whether Kueue may admit it, or has."""
    return admission is not None and part(admission, "spec").get("active") is not False


def waits_for_grant(admission: KubeObject | None) -> bool:
    """Whether it has its quota, and waits for our check alone or among others."""
    return (
        is_admissible(admission)
        and admission is not None
        and is_true(admission, "QuotaReserved")
        and _ours(admission) == "Pending"
    )


def _ours(admission: KubeObject) -> str | None:
    checks = parts(part(admission, "status"), "admissionChecks")
    return next((str(check.get("state")) for check in checks if check.get("name") == GRANT_CHECK), None)


def checks_with_ours_ready(admission: KubeObject) -> tuple[dict[str, Any], ...]:
    """All its checks as they were read, but ours Ready: a merge patch replaces the whole list."""
    checks = parts(part(admission, "status"), "admissionChecks")
    return tuple(
        {**check, "state": "Ready", "message": "granted"} if check.get("name") == GRANT_CHECK else dict(check) for check in checks
    )


def was_taken_out(admission: KubeObject) -> bool:
    """Whether it is out of its queue, and the agent took it out; what others took out stays out."""
    return not is_admissible(admission) and ANNOTATION_OUT in part(part(admission, "metadata"), "annotations")


def why_it_waits(admission: KubeObject | None) -> str:
    """What keeps a workload in its queue from starting, in Kueue's words where it has some; '' where nothing does."""
    if admission is None:
        return "Kueue has made no Workload of it; see whether it runs, and works in this namespace"
    if is_true(admission, "Finished"):
        return _words(condition(admission, "Finished"))
    for kind in ("QuotaReserved", "Admitted"):
        said = condition(admission, kind)
        if said.get("status") == "False":
            return _words(said)
    for check in parts(part(admission, "status"), "admissionChecks"):
        if check.get("name") != GRANT_CHECK and check.get("state") != "Ready":
            return f"AdmissionCheck {check.get('name')} is {check.get('state')}: {check.get('message')}".removesuffix(": ")
    return ""


def _words(said: Mapping[str, Any]) -> str:
    return str(said.get("message") or said.get("reason") or "")
