"""Whether a pod may stand on a node, by everything but room: labels, affinity, taints; pure.

Decides as the default scheduler's filters do, with their words. Room is `scheduler`'s. Unknown operators refuse a node
rather than take it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reconciler.ports import KubeObject

_WHOLE = re.compile(r"-?[0-9]{1,18}")
UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def unfit(pod: KubeObject, node: KubeObject) -> str | None:
    """Why the pod may not stand there, in the scheduler's words; None where it may."""
    spec = pod["spec"]
    tolerations = spec.get("tolerations") or ()
    if node["spec"].get("unschedulable") and not tolerated(UNSCHEDULABLE_TAINT, tolerations):
        return "node(s) were unschedulable"
    for taint in node["spec"].get("taints") or ():
        if taint["effect"] in ("NoSchedule", "NoExecute") and not tolerated(taint, tolerations):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    labels = node["metadata"].get("labels") or {}
    selected = all(labels.get(key) == value for key, value in (spec.get("nodeSelector") or {}).items())
    if not selected or not _has_affinity(spec.get("affinity") or {}, labels, node["metadata"]["name"]):
        return "node(s) didn't match Pod's node affinity/selector"
    return None


def tolerated(taint: Mapping[str, Any], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    """Whether one of the tolerations takes the taint."""
    return toleration_of(taint, tolerations) is not None


def toleration_of(taint: Mapping[str, Any], tolerations: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The first toleration that takes the taint."""
    for toleration in tolerations:
        if toleration.get("effect") not in (None, "", taint["effect"]):
            continue
        operator = toleration.get("operator") or "Equal"
        if toleration.get("key"):
            if toleration["key"] != taint["key"]:
                continue
            if operator == "Equal" and (toleration.get("value") or "") != (taint.get("value") or ""):
                continue
        elif operator != "Exists":
            continue
        return toleration
    return None


def _has_affinity(affinity: Mapping[str, Any], labels: Mapping[str, str], name: str) -> bool:
    required = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(_term_matches(term, labels, name) for term in required.get("nodeSelectorTerms") or ())


def _term_matches(term: Mapping[str, Any], labels: Mapping[str, str], name: str) -> bool:
    expressions: Sequence[Mapping[str, Any]] = term.get("matchExpressions") or ()
    fields: Sequence[Mapping[str, Any]] = term.get("matchFields") or ()
    if not expressions and not fields:
        return False  # an empty term matches nothing
    by_label = all(_matches(one, labels) for one in expressions)
    return by_label and all(_matches(one, {"metadata.name": name}) for one in fields)


def _matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    have = labels.get(expression["key"])
    values: Sequence[str] = expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return have in values
        case "NotIn":
            return have not in values
        case "Exists":
            return have is not None
        case "DoesNotExist":
            return have is None
        case "Gt":
            return _difference(have, values) > 0
        case "Lt":
            return _difference(have, values) < 0
    return False


def _difference(have: str | None, values: Sequence[str]) -> int:
    """How much the label is above the one value; 0, so neither, where the two are not whole numbers."""
    texts = [have or "", *values]
    if len(texts) != 2 or not all(_WHOLE.fullmatch(text) for text in texts):
        return 0
    return int(texts[0]) - int(texts[1])
