"""The manifest of an attempt: one YAML file that the sync engine of its region applies once and prunes once.

Decides which objects stand in it; the pod is pod.py's, the layout is the templates'. It prints what was decided. Only what
would break the pod, or reach beyond it without the region's leave, is not printed at all.

Invariant: equal renderings give equal bytes.
"""

from collections.abc import Mapping
from typing import Any

from reconciler.model import names
from reconciler.rendering import templates
from reconciler.rendering.branch import SENTINEL_NAMESPACE, hydrator_metadata, region_readme, sentinel
from reconciler.rendering.check import object_problems, problems
from reconciler.rendering.labels import annotations, labels, pod_annotations
from reconciler.rendering.overlay import overlay_problems, partial_problems, reserved_problems
from reconciler.rendering.pod import pod_spec
from reconciler.rendering.rendering import SET_JOB, Rendering, Unrenderable
from reconciler.rendering.volumes import file_key

__all__ = [
    "SENTINEL_NAMESPACE",
    "Rendering",
    "Unrenderable",
    "hydrator_metadata",
    "overlay_problems",
    "problems",
    "region_readme",
    "render_job",
    "reserved_problems",
    "sentinel",
]


_NAME_LIMIT = 63
"""Letters of a pod's name, which is its host name as well."""


def render_job(rendering: Rendering) -> bytes:
    """The attempt's file: Job or JobSet, on several nodes their headless Service, the ConfigMap of the spec's files; its gang.

    Raises Unrenderable where the region lacks what the spec names, or does not take the spec's overlay.
    """
    _refuse(rendering)
    return _printed(rendering, _values(rendering))


def render_checked(rendering: Rendering) -> bytes:
    """The same, held against the closed rules of check.py before it is printed. Raises Unrenderable with all that is wrong.

    The objects are checked, not the text: reading the text again would take five times as long as making it.
    """
    _refuse(rendering)
    values = _values(rendering)
    wrong = object_problems(objects(rendering, values))
    if wrong:
        raise Unrenderable("; ".join(wrong))
    return _printed(rendering, values)


def objects(rendering: Rendering, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The objects that the templates print of these values; a test holds the two against each other."""
    named = {"name": values["name"], "namespace": values["namespace"], "labels": values["labels"]}
    spec: dict[str, Any] = {"backoffLimit": 0, "podReplacementPolicy": "Failed"}
    if values["nodes"] > 1:
        spec |= {"completionMode": "Indexed", "completions": values["nodes"], "parallelism": values["nodes"]}
    template = {"metadata": {"labels": values["labels"], "annotations": values["pod_annotations"]}, "spec": values["pod"]}
    found = [_workload(rendering, spec | {"template": template}) | {"metadata": named | {"annotations": values["annotations"]}}]
    companion = {"metadata": named | {"annotations": values["annotations"]}}
    if rendering.has_peers:
        service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": values["selector"]}
        found.append({"apiVersion": "v1", "kind": "Service"} | companion | {"spec": service})
    if rendering.spec.files:
        found.append({"apiVersion": "v1", "kind": "ConfigMap"} | companion | {"immutable": True, "data": values["files"]})
    if rendering.has_volcano_gang:
        found.append({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"} | companion | {"spec": values["gang"]})
    return found


def _workload(rendering: Rendering, job: dict[str, Any]) -> dict[str, Any]:
    """What runs, without its metadata. `job`: the Job's spec."""
    if not rendering.is_set:
        return {"apiVersion": "batch/v1", "kind": "Job", "spec": {"suspend": True} | job}
    spec = {
        "suspend": True,
        # The Service is ours, as it is for a Job.
        "network": {"enableDNSHostnames": False},
        "failurePolicy": {"maxRestarts": 0},
        "replicatedJobs": [{"name": SET_JOB, "replicas": 1, "template": {"spec": job}}],
    }
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": spec}


def _printed(rendering: Rendering, values: Mapping[str, Any]) -> bytes:
    text = templates.fill(templates.JOB_SET if rendering.is_set else templates.JOB, values)
    if rendering.has_peers:
        text += templates.fill(templates.SERVICE, values)
    if rendering.spec.files:
        text += templates.fill(templates.CONFIG_MAP, values)
    if rendering.has_volcano_gang:
        text += templates.fill(templates.POD_GROUP, values)
    return text.encode()


def _refuse(rendering: Rendering) -> None:
    if rendering.is_set:
        _refuse_long_name(rendering)
    wrong = [f"pod_overlay: {what}" for what in overlay_problems(rendering.spec, rendering.region)]
    for partial in rendering.regional_pods:
        wrong += [f"the profile of {rendering.region.name}: pod: {what}" for what in partial_problems(partial)]
    if wrong:
        raise Unrenderable("; ".join(wrong))


def _refuse_long_name(rendering: Rendering) -> None:
    """Of a job's first attempt already what would be too long for its thousandth."""
    tail = f"-123456-a9999-{SET_JOB}-0-{rendering.spec.nodes - 1}-12345"
    room = _NAME_LIMIT - len(tail)
    if len(names.stem_of(rendering.attempt) or rendering.attempt) > room:
        raise Unrenderable(
            f"its pods' names would have more than {_NAME_LIMIT} letters: a JobSet of {rendering.spec.nodes} nodes "
            f"needs a job_id of at most {room}, or `workload: job`"
        )


def _values(rendering: Rendering) -> dict[str, Any]:
    spec = rendering.spec
    return {
        "name": rendering.attempt,
        "namespace": rendering.team,
        "labels": labels(rendering),
        "annotations": annotations(rendering),
        "pod_annotations": pod_annotations(rendering),
        "nodes": spec.nodes,
        "set_job": SET_JOB,
        "pod": pod_spec(rendering),
        "selector": {names.LABEL_ATTEMPT: rendering.attempt},
        "files": {file_key(index): file.content for index, file in enumerate(spec.files)},
        "gang": _gang(rendering),
    }


def _gang(rendering: Rendering) -> dict[str, Any]:
    """All pods at once, in the queue that the region has for the spec's."""
    queue = rendering.profile.queues.get(rendering.spec.queue or "")
    return {"minMember": rendering.spec.nodes} | ({"queue": queue} if queue is not None else {})
