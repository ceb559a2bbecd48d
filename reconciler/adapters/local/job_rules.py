"""What a Job's spec must be to be taken, what is filled in, and what of it may change later.

Decides as a kube-apiserver does for the Jobs that we render. Fields that would need controllers a local region has not
(time to live, failure policies, back-off) are refused, since a Job without them is another Job.
"""

from collections.abc import Mapping
from typing import Any

from reconciler.adapters.local.denial import Subject, invalid, not_offered
from reconciler.adapters.local.pod_rules import checked_pod_spec
from reconciler.adapters.local.shapes import JOB, check_shape
from reconciler.ports import KubeObject

NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")
UID_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")

_NOT_OFFERED = {
    "ttlSecondsAfterFinished": "a deleted Job looks missing to a sync engine and would be made again",
    "podFailurePolicy": "pods fail their Job at the first failure",
    "successPolicy": "a Job is complete when all of it is",
    "backoffLimitPerIndex": "backoffLimit is 0",
    "maxFailedIndexes": "backoffLimit is 0",
    "managedBy": "there is one Job controller",
    "manualSelector": "selectors are generated",
}
_LEAST = {"parallelism": 0, "completions": 0, "backoffLimit": 0, "activeDeadlineSeconds": 1}
_IMMUTABLE = ("completions", "completionMode", "podReplacementPolicy", "backoffLimit", "selector")
_WHILE_SUSPENDED = ("nodeSelector", "tolerations", "affinity", "schedulingGates")


def checked_job_spec(subject: Subject, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec with defaults, without selector and generated labels (they need the uid). Raises Denied."""
    if spec.get("selector") is not None:
        raise not_offered(subject, "spec.selector", "selectors are generated")
    return _checked(subject, spec)


def _checked(subject: Subject, spec: Mapping[str, Any]) -> dict[str, Any]:
    check_shape(subject, "spec", spec, JOB)
    for field, why in _NOT_OFFERED.items():
        if spec.get(field) is not None:
            raise not_offered(subject, f"spec.{field}", why)
    for field, least in _LEAST.items():
        if spec.get(field) is not None and spec[field] < least:
            raise invalid(subject, f"spec.{field}", f"Invalid value: {spec[field]}: must be greater than or equal to {least}")
    mode = spec.get("completionMode") or "NonIndexed"
    if mode not in ("NonIndexed", "Indexed"):
        raise invalid(subject, "spec.completionMode", f'Unsupported value: "{mode}": supported values: "NonIndexed", "Indexed"')
    if spec.get("backoffLimit") != 0:
        raise not_offered(subject, "spec.backoffLimit", "only 0, a retry is a new attempt")
    if spec.get("podReplacementPolicy") != "Failed":
        raise not_offered(subject, "spec.podReplacementPolicy", "only Failed, so that two pods never run in one place")
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    if completions is None and (mode == "Indexed" or parallelism is not None):
        raise invalid(subject, "spec.completions", "Required value: say how many pods must end well")
    template = spec["template"]
    return {
        **spec,
        "parallelism": 1 if parallelism is None else parallelism,
        "completions": 1 if completions is None else completions,
        "completionMode": mode,
        "suspend": bool(spec.get("suspend")),
        "template": {
            "metadata": dict(template.get("metadata") or {}),
            "spec": checked_pod_spec(subject, "spec.template.spec", template["spec"]),
        },
    }


def with_generated(spec: Mapping[str, Any], name: str, uid: str) -> dict[str, Any]:
    """The spec with the selector and the template labels that the API server generates for a Job."""
    template = spec["template"]
    generated = dict.fromkeys(NAME_LABELS, name) | dict.fromkeys(UID_LABELS, uid)
    metadata = {**template["metadata"], "labels": {**(template["metadata"].get("labels") or {}), **generated}}
    return {**spec, "selector": {"matchLabels": {UID_LABELS[0]: uid}}, "template": {**template, "metadata": metadata}}


def changed_job_spec(subject: Subject, old: KubeObject, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The new spec of a stored Job. Raises Denied where a field may not change (any more)."""
    for field in _IMMUTABLE:
        if spec.get(field) != old["spec"].get(field):
            raise invalid(subject, f"spec.{field}", f"Invalid value: {spec.get(field)!r}: field is immutable")
    checked = _checked(subject, spec)
    before, after = old["spec"]["template"], checked["template"]
    if before == after:
        return checked
    not_started = old["spec"]["suspend"] and "startTime" not in old.get("status", {})
    if not not_started or _fixed(before) != _fixed(after):
        raise invalid(subject, "spec.template", "Invalid value: the pod template: field is immutable")
    return checked


def _fixed(template: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    metadata = {key: value for key, value in template["metadata"].items() if key not in ("labels", "annotations")}
    return metadata, {key: value for key, value in template["spec"].items() if key not in _WHILE_SUSPENDED}
