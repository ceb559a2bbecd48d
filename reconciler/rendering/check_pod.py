"""The last look at a rendered pod: the gate, names that must differ, references that must lead somewhere, amounts that agree.

Works on a pod whose fields have been compared with the tables of shapes.py.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reconciler.model.names import GATE
from reconciler.model.pods import MAIN, pod_requests
from reconciler.model.quantity import milli
from reconciler.rendering.shapes import SOURCES

_ABSENT = frozenset(
    {
        "activeDeadlineSeconds", "ephemeralContainers", "hostname", "hostnameOverride", "nodeName", "resources",
        "schedulingGroup", "setHostnameAsFQDN",
    }
)  # fmt: skip
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?").fullmatch
_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*").fullmatch
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}").fullmatch
_RESOURCE = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?").fullmatch
_OVERCOMMITTED = frozenset({"cpu", "memory", "ephemeral-storage"})

Found = Iterator[str]


def pod_problems(pod: Mapping[str, Any]) -> Found:
    """What is wrong with a pod of ours, by field."""
    if pod.get("schedulingGates") != [{"name": GATE}]:
        yield f"schedulingGates: must be the gate `{GATE}` and nothing else"
    if pod.get("restartPolicy") != "Never":
        yield "restartPolicy: must be Never"
    if pod.get("automountServiceAccountToken") is not False:
        yield "automountServiceAccountToken: must be false"
    yield from (f"{field}: must be absent" for field in sorted(_ABSENT & pod.keys()))
    containers, initial = pod.get("containers", []), pod.get("initContainers", [])
    yield from _named([*initial, *containers], "containers", "name")
    if MAIN not in (container.get("name") for container in containers):
        yield f"containers: there is none called `{MAIN}`"
    yield from _volumes(pod.get("volumes", []))
    known = {volume.get("name") for volume in pod.get("volumes", [])}
    for container in (*initial, *containers):
        yield from (f"container `{container.get('name')}`: {what}" for what in _container(container, known))
    yield from _amounts(pod)


def _named(entries: Iterable[Mapping[str, Any]], field: str, key: str) -> Found:
    """Entries of a list that Kubernetes tells apart by a key."""
    found = [entry.get(key) for entry in entries]
    if None in found:
        yield f"{field}: an entry has no {key}"
    yield from (f"{field}: `{name}` is there twice" for name, count in Counter(found).items() if count > 1)
    if key == "name" and field != "env":
        yield from (f"{field}: `{name}` is no name" for name in found if isinstance(name, str) and not _LABEL(name))


def _volumes(volumes: list[Mapping[str, Any]]) -> Found:
    yield from _named(volumes, "volumes", "name")
    for volume in volumes:
        sources = SOURCES.keys() & volume.keys()
        if len(sources) != 1:
            yield f"volumes: `{volume.get('name')}` has {len(sources)} sources, not one"
        for item in (volume.get("secret") or {}).get("items", ()):
            if not _is_key(item.get("key")):
                yield f"volumes: `{volume.get('name')}`: `{item.get('key')}` is no key of a secret"


def _is_key(text: object) -> bool:
    return isinstance(text, str) and _KEY(text) is not None and text != "." and not text.startswith("..")


def _container(container: Mapping[str, Any], known: set[Any]) -> Found:
    if not container.get("image"):
        yield "image: is missing"
    if container.get("name") == MAIN and container.get("restartPolicy") is not None:
        yield "restartPolicy: the program is not restarted in place"
    yield from _named(container.get("volumeMounts", []), "volumeMounts", "mountPath")
    for mount in container.get("volumeMounts", []):
        if mount.get("name") not in known:
            yield f"volumeMounts: there is no volume `{mount.get('name')}`"
        if mount.get("mountPath") == "/" or ".." in str(mount.get("mountPath")).split("/"):
            yield f"volumeMounts: nothing can be mounted at `{mount.get('mountPath')}`"
    yield from _environment(container.get("env", []))
    context = container.get("securityContext", {})
    if context.get("privileged") and context.get("allowPrivilegeEscalation") is False:
        yield "securityContext: `privileged` and `allowPrivilegeEscalation: false` contradict each other"


def _environment(env: list[Mapping[str, Any]]) -> Found:
    yield from _named(env, "env", "name")
    for variable in env:
        name, source = variable.get("name"), variable.get("valueFrom")
        if isinstance(name, str) and not _VARIABLE(name):
            yield f"env: `{name}` is no name of a variable"
        if source is not None and ("value" in variable or len(source) != 1):
            yield f"env: `{name}` has more than one source, or none"
        key = (source or {}).get("secretKeyRef", {}).get("key", "ok")
        if not _is_key(key):
            yield f"env: `{name}`: `{key}` is no key of a secret"


def _amounts(pod: Mapping[str, Any]) -> Found:
    try:
        pod_requests(pod)
        for container in (*pod.get("initContainers", ()), *pod.get("containers", ())):
            asked = container.get("resources", {})
            yield from (f"container `{container.get('name')}`: {what}" for what in _limits(asked))
    except (ArithmeticError, ValueError):
        yield "resources: there is an amount that is no quantity"


def _limits(asked: Mapping[str, Any]) -> Found:
    requests, limits = asked.get("requests", {}), asked.get("limits", {})
    for name, amount in (requests | limits).items():
        if not _RESOURCE(name):
            yield f"resources: `{name}` is no resource"
        if milli(amount) < 0:
            yield f"resources: {name} is negative"
    for name, amount in requests.items():
        limit = limits.get(name)
        if limit is not None and milli(limit) < milli(amount):
            yield f"resources: the limit of {name} is below its request"
        if name not in _OVERCOMMITTED:
            if limit is None or milli(limit) != milli(amount):
                yield f"resources: {name} must have a limit equal to its request"
            if not name.startswith("hugepages-") and milli(amount) % 1000:
                yield f"resources: {name} must be a whole number"
