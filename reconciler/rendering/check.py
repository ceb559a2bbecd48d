"""The last look at a manifest before it is pushed: one bad file stops a whole region on Flux, and unknown fields vanish.

Decides by our own closed rules, independently of how the file was made: which objects, which fields, which values. What
only an API server can know (quotas, admission policies) is left to it.

Invariant: a file without problems starts nothing by itself, restarts nothing, deletes nothing, and lives in its team's
namespace under its attempt's name.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from reconciler.model import names
from reconciler.model.pods import MAIN
from reconciler.rendering.branch import SENTINEL_NAMESPACE, sentinel_name
from reconciler.rendering.check_pod import pod_problems
from reconciler.rendering.labels import ENGINE_ANNOTATIONS, VOLCANO_GROUP, is_reserved
from reconciler.rendering.rendering import SET_JOB
from reconciler.rendering.shapes import POD, TEXTS, dotted, misfits

OBJECT_LIMIT_BYTES = 240 * 1024
"""Of one object as JSON. Argo CD keeps a copy in an annotation, and annotations may have 256 KiB."""

_META = {"name": str, "namespace": str, "labels": TEXTS, "annotations": TEXTS}
_HEAD = {"apiVersion": str, "kind": str, "metadata": _META}
_JOB = {
    "backoffLimit": int, "podReplacementPolicy": str, "completionMode": str, "completions": int, "parallelism": int,
    "template": {"metadata": {"labels": TEXTS, "annotations": TEXTS}, "spec": POD},
}  # fmt: skip
_JOB_SET = {
    "suspend": bool, "network": {"enableDNSHostnames": bool}, "failurePolicy": {"maxRestarts": int},
    "replicatedJobs": [{"name": str, "replicas": int, "template": {"spec": _JOB}}],
}  # fmt: skip
_SHAPES: Mapping[str, Any] = {
    "batch/v1 Job": {**_HEAD, "spec": {**_JOB, "suspend": bool}},
    "jobset.x-k8s.io/v1alpha2 JobSet": {**_HEAD, "spec": _JOB_SET},
    "v1 Service": {**_HEAD, "spec": {"clusterIP": str, "publishNotReadyAddresses": bool, "selector": TEXTS}},
    "scheduling.volcano.sh/v1beta1 PodGroup": {**_HEAD, "spec": {"minMember": int, "queue": str}},
    "v1 ConfigMap": {**_HEAD, "immutable": bool, "data": TEXTS},
}
_ALWAYS = {"suspend": True, "backoffLimit": 0, "podReplacementPolicy": "Failed"}
_OF_A_SET = {"network": {"enableDNSHostnames": False}, "failurePolicy": {"maxRestarts": 0}}
_WORKLOADS = ("Job", "JobSet")
_ATTEMPT = re.compile(r"[a-z](?:[a-z0-9-]{0,50}[a-z0-9])?").fullmatch
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?").fullmatch
_DOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*").fullmatch

Object = Mapping[str, Any]


def problems(manifest: bytes) -> list[str]:
    """What is wrong with a file of `manifests/`, `<kind>: <field>: <what>`; empty where nothing is."""
    try:
        found = list(yaml.load_all(manifest, Loader=yaml.CSafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        return [f"not YAML: {error}"]
    return object_problems(found)


def object_problems(found: Sequence[Any]) -> list[str]:
    """The same of objects that are read already."""
    wrong = [f"object {at}: {what}" for at, one in enumerate(found, 1) for what in _not_ours(one)]
    if wrong or not found:
        return wrong or ["the file has no object"]
    return list(_sentinel(found[0])) if found[0]["kind"] == "ConfigMap" and len(found) == 1 else list(_attempt(found))


def _not_ours(one: Any) -> Iterator[str]:
    """Of what kind and shape it must be before anything else can be said of it."""
    if not isinstance(one, Mapping):
        yield "is no map"
        return
    kind = f"{one.get('apiVersion')} {one.get('kind')}"
    shape = _SHAPES.get(kind)
    if shape is None:
        yield f"is of a kind that is not rendered ({kind})"
        return
    wrong = [f"{dotted(path)}: {what}" for path, what in misfits(one, shape)]
    yield from (f"{one['kind']}: {what}" for what in wrong or _missing(one))


def _missing(one: Object) -> Iterator[str]:
    """What must be there, of an object whose fields are of the right types."""
    metadata, spec = one.get("metadata", {}), one.get("spec", {})
    yield from (f"metadata.{field}: is missing" for field in ("name", "namespace", "labels") if field not in metadata)
    if one["kind"] == "JobSet":
        jobs = [
            (job.get("name"), job.get("replicas"), "spec" in job.get("template", {})) for job in spec.get("replicatedJobs", ())
        ]
        if jobs != [(SET_JOB, 1, True)]:
            yield f"spec.replicatedJobs: must be one, `{SET_JOB}`, with one replica and a template"
            return
    if one["kind"] in _WORKLOADS:
        template = _as_job(one).get("spec", {}).get("template", {})
        yield from (f"spec.template.{field}: is missing" for field in ("metadata", "spec") if field not in template)


def _as_job(one: Object) -> Object:
    """A workload as the Job that makes its pods: a JobSet's one Job is suspended with it."""
    if one["kind"] == "Job":
        return one
    spec = one["spec"]
    inner = spec["replicatedJobs"][0]["template"]["spec"]
    return {"kind": "Job", "metadata": one["metadata"], "spec": {"suspend": spec.get("suspend"), **inner}}


def _attempt(found: Sequence[Object]) -> Iterator[str]:
    kinds = [one["kind"] for one in found]
    if kinds[0] not in _WORKLOADS or len(set(kinds)) < len(kinds) or set(_WORKLOADS) <= set(kinds):
        yield f"a file holds one JobSet or one Job, then at most one Service, ConfigMap and PodGroup, not {', '.join(kinds)}"
        return
    job = _as_job(found[0])
    for field, value in _OF_A_SET.items() if kinds[0] == "JobSet" else ():
        if found[0]["spec"].get(field) != value:
            yield f"JobSet: spec.{field}: must be {json.dumps(value)}"
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    if not _ATTEMPT(name):
        limit = names.ATTEMPT_LIMIT
        yield f"Job: metadata.name: `{name}` is no attempt's name: a DNS label of at most {limit} letters that starts with one"
    for one in found:
        yield from (f"{one['kind']}: {what}" for what in _metadata(one["metadata"], name, namespace))
        if len(json.dumps(one)) > OBJECT_LIMIT_BYTES:
            yield f"{one['kind']}: is larger than {OBJECT_LIMIT_BYTES // 1024} KiB; put large texts into the image or the store"
    yield from (f"Job: {what}" for what in _job(job))
    if ("Service" in kinds) != ("completionMode" in job["spec"]):
        yield "a Job of several nodes has a Service, by which they find each other; any other has none"
    grouped = job["spec"]["template"]["metadata"].get("annotations", {}).get(VOLCANO_GROUP)
    if grouped != (name if "PodGroup" in kinds else None):
        yield f"Job: spec.template.metadata.annotations.{VOLCANO_GROUP}: names the PodGroup, where there is one"
    for one in found[1:]:
        yield from _companion(one, job)


def _metadata(metadata: Object, name: str, namespace: str) -> Iterator[str]:
    if metadata["name"] != name:
        yield f"metadata.name: `{metadata['name']}` is not the attempt's name"
    if metadata["namespace"] != namespace:
        yield f"metadata.namespace: `{metadata['namespace']}` is not the Job's"
    yield from _labels(metadata["labels"], "metadata.labels", name, namespace)
    annotations = metadata.get("annotations", {})
    yield from _keys(annotations, "metadata.annotations")
    for key, value in ENGINE_ANNOTATIONS.items():
        if annotations.get(key) != value:
            yield f"metadata.annotations.{key}: must be `{value}`"
    for key in annotations:
        if key not in ENGINE_ANNOTATIONS and not key.startswith(names.PREFIX + "/"):
            yield f"metadata.annotations.{key}: is not one of ours; engines act on annotations"


def _labels(labels: Object, where: str, name: str, namespace: str) -> Iterator[str]:
    ours = {names.LABEL_MANAGED: names.MANAGED_BY, names.LABEL_ATTEMPT: name, names.LABEL_TEAM: namespace}
    for key, value in ours.items():
        if labels.get(key) != value:
            yield f"{where}.{key}: must be `{value}`"
    if not labels.get(names.LABEL_JOB):
        yield f"{where}.{names.LABEL_JOB}: is missing"
    yield from _keys(labels, where)
    for key, value in labels.items():
        if value and not _NAME(value):
            yield f"{where}.{key}: `{value}` is no value of a label"
        if is_reserved(key) and key not in ours and key != names.LABEL_JOB:
            yield f"{where}.{key}: belongs to another controller"


def _keys(entries: Object, where: str) -> Iterator[str]:
    for key in entries:
        domain, slash, name = key.rpartition("/")
        if not _NAME(name) or (slash and (len(domain) > 253 or not _DOMAIN(domain))):
            yield f"{where}: `{key}` is no key"


def _job(job: Object) -> Iterator[str]:
    spec = job["spec"]
    for field, value in _ALWAYS.items():
        if field not in spec or spec[field] != value:
            yield f"spec.{field}: must be {json.dumps(value)}"
    nodes = spec.get("completions")
    indexed = (spec.get("completionMode"), spec.get("parallelism"), nodes)
    if indexed != (None, None, None) and (indexed[0] != "Indexed" or nodes is None or nodes < 2 or indexed[1] != nodes):
        yield "spec: completionMode Indexed, and completions equal to parallelism and above 1, go together"
    template = spec["template"]
    labels = template["metadata"].get("labels", {})
    yield from _labels(labels, "spec.template.metadata.labels", job["metadata"]["name"], job["metadata"]["namespace"])
    annotations = template["metadata"].get("annotations", {})
    yield from _keys(annotations, "spec.template.metadata.annotations")
    subdomain = job["metadata"]["name"] if nodes is not None else None
    if template["spec"].get("subdomain") != subdomain:
        yield "spec.template.spec.subdomain: is the attempt's name where there are several nodes, and absent else"
    yield from (f"spec.template.spec.{what}" for what in pod_problems(template["spec"]))
    told = [
        variable.get("value")
        for container in template["spec"].get("containers", ())
        if container.get("name") == MAIN
        for variable in container.get("env", ())
        if variable.get("name") == "ATTEMPT"
    ]
    if told != [job["metadata"]["name"]]:
        yield "spec.template.spec.containers: the program is not told its attempt's name in ATTEMPT"


def _companion(one: Object, job: Object) -> Iterator[str]:
    if one["kind"] == "ConfigMap":
        if one.get("immutable") is not True or not one.get("data"):
            yield "ConfigMap: must be immutable and hold something"
        yield from (f"ConfigMap: {what}" for what in _keys(one.get("data", {}), "data"))
        return
    if one["kind"] == "PodGroup":
        if one.get("spec", {}).get("minMember") != job["spec"].get("completions", 1):
            yield "PodGroup: spec.minMember: is the number of the Job's pods"
        return
    wanted = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {names.LABEL_ATTEMPT: job["metadata"]["name"]}}
    if one.get("spec") != wanted:
        yield "Service: spec: must be headless, publish addresses that are not ready, and select the attempt's pods alone"


def _sentinel(one: Object) -> Iterator[str]:
    region = one.get("data", {}).get("region")
    expected = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": sentinel_name(str(region)),
            "namespace": SENTINEL_NAMESPACE,
            "labels": {names.LABEL_MANAGED: names.MANAGED_BY},
        },
        "data": {"region": region},
    }
    if one != expected or not isinstance(region, str):
        yield "a ConfigMap by itself is the sentinel of a region and nothing else"
