"""Labels and annotations of what we render, and which of them a person may set.

Invariant: nobody's label wakes another controller (a queue, a sync engine, a tracking label): the keys of ours, of the
sync engines, of the schedulers and of Kubernetes itself are kept out of what people write.
"""

import re

from reconciler.model import names
from reconciler.rendering.rendering import Rendering

ANNOTATION_RUN_HASH = f"{names.PREFIX}/run-hash"
ANNOTATION_OWNER = f"{names.PREFIX}/owner"
ANNOTATION_CODE = f"{names.PREFIX}/code"

ENGINE_ANNOTATIONS = {
    "kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent",
    "argocd.argoproj.io/ignore-healthcheck": "true",
}
"""Create once, never touch again; and a job's result is not the health of an application."""

VOLCANO_GROUP = "scheduling.k8s.io/group-name"
"""Of a pod: the Volcano PodGroup that it is of."""

_PASSWORD = re.compile(r"//[^/@]*:[^/@]*@")
_OTHERS = ("kubernetes.io", "k8s.io", "x-k8s.io", "fluxcd.io", "argoproj.io", "volcano.sh", names.PREFIX)
_COMMON = "app.kubernetes.io"
_COMMON_BUT_TAKEN = frozenset({"managed-by", "instance"})  # `instance` is how Argo CD may track what it applied


def is_reserved(key: str) -> bool:
    """Whether a label or annotation key belongs to us or to another controller."""
    domain, slash, name = key.rpartition("/")
    if not slash:
        return False
    if domain == _COMMON:
        return name in _COMMON_BUT_TAKEN
    return any(domain == other or domain.endswith("." + other) for other in _OTHERS)


def our_labels(team: str, job_id: str, attempt: str) -> dict[str, str]:
    """The labels by which agent, people and accounts find the objects of an attempt."""
    return {
        names.LABEL_MANAGED: names.MANAGED_BY,
        names.LABEL_ATTEMPT: attempt,
        names.LABEL_JOB: names.label_value(job_id),
        names.LABEL_TEAM: team,
    }


def labels(rendering: Rendering) -> dict[str, str]:
    """Labels of every object and pod of an attempt: ours, then those of the spec that are free to be set."""
    theirs = sorted(rendering.spec.labels.items())
    ours = our_labels(rendering.team, rendering.spec.job_id, rendering.attempt)
    return ours | {key: value for key, value in theirs if not is_reserved(key)}


def annotations(rendering: Rendering) -> dict[str, str]:
    """Annotations of every object of an attempt."""
    spec = rendering.spec
    said = {names.ANNOTATION_JOB_ID: spec.job_id, ANNOTATION_RUN_HASH: rendering.run_hash}
    if spec.owner is not None:
        said[ANNOTATION_OWNER] = spec.owner
    if spec.code is not None:
        said[ANNOTATION_CODE] = f"{_PASSWORD.sub('//', spec.code.git)}@{spec.code.ref}"
    if spec.queue is not None and spec.queue in rendering.profile.queues and rendering.profile.gang != "volcano":
        said[names.ANNOTATION_QUEUE] = rendering.profile.queues[spec.queue]
    return said | ENGINE_ANNOTATIONS


def pod_annotations(rendering: Rendering) -> dict[str, str]:
    """Annotations of the pods: the full job id, and what the region's spelling asks for."""
    asked = rendering.spelling.annotations
    ours = {names.ANNOTATION_JOB_ID: rendering.spec.job_id}
    if rendering.has_volcano_gang:
        ours[VOLCANO_GROUP] = rendering.attempt
    return ours | {
        key: asked[key] for key in sorted(asked) if key not in ENGINE_ANNOTATIONS and not key.startswith(names.PREFIX + "/")
    }
