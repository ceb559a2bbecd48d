"""Our tables of fields are Kubernetes' own."""

import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from reconciler.rendering import shapes

DEFINITIONS = json.loads(
    (
        Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / "v1.36.0-local-strict" / "_definitions.json"
    ).read_text()
)["$defs"]

TABLES: dict[str, Any] = {
    "PodSpec": shapes.POD,
    "Container": shapes.CONTAINER,
    "Volume": {"name": str, **shapes.SOURCES},
    "EnvVar": shapes.VARIABLE,
    "EnvVarSource": shapes.VARIABLE["valueFrom"],
    "EnvFromSource": shapes.CONTAINER["envFrom"][0],
    "SecretKeySelector": shapes.KEY_OF,
    "ConfigMapKeySelector": shapes.KEY_OF,
    "SecretEnvSource": shapes.ALL_OF,
    "ConfigMapEnvSource": shapes.ALL_OF,
    "ObjectFieldSelector": shapes.VARIABLE["valueFrom"]["fieldRef"],
    "FileKeySelector": shapes.VARIABLE["valueFrom"]["fileKeyRef"],
    "ResourceFieldSelector": shapes.VARIABLE["valueFrom"]["resourceFieldRef"],
    "VolumeMount": shapes.MOUNT,
    "ContainerPort": shapes.CONTAINER["ports"][0],
    "ResourceRequirements": shapes.AMOUNTS,
    "SecurityContext": shapes.CONTEXT,
    "Capabilities": shapes.CONTEXT["capabilities"],
    "PodSecurityContext": shapes.POD_CONTEXT,
    "Toleration": shapes.TOLERATION,
    "EmptyDirVolumeSource": shapes.SOURCES["emptyDir"],
    "PersistentVolumeClaimVolumeSource": shapes.SOURCES["persistentVolumeClaim"],
    "SecretVolumeSource": shapes.SOURCES["secret"],
    "ConfigMapVolumeSource": shapes.SOURCES["configMap"],
    "KeyToPath": shapes.ITEMS[0],
    "Affinity": shapes.POD["affinity"],
    "NodeAffinity": shapes.NODES,
    "NodeSelectorTerm": shapes.TERM,
    "NodeSelectorRequirement": shapes.CONDITIONS[0],
    "PodSchedulingGate": shapes.POD["schedulingGates"][0],
    "LocalObjectReference": shapes.POD["imagePullSecrets"][0],
}

TYPES = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list}


def kind_of(shape: Any) -> type:
    if isinstance(shape, list):
        return list
    if isinstance(shape, dict | shapes.Each):
        return dict
    return str if shape is shapes.QUANTITY else shape


def type_of(schema: dict[str, Any]) -> type:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return str if name.endswith(".Quantity") else dict
    if "type" not in schema:
        return list if "items" in schema else dict
    kinds = [kind for kind in ([schema["type"]] if isinstance(schema["type"], str) else schema["type"]) if kind != "null"]
    return TYPES[kinds[0]]


@pytest.mark.parametrize("name", TABLES)
def test_names_and_types_are_kubernetes_own(name: str) -> None:
    published = DEFINITIONS[f"io.k8s.api.core.v1.{name}"]["properties"]
    ours = TABLES[name]
    assert set(ours) == set(published)
    assert {field: kind_of(shape) for field, shape in ours.items()} == {
        field: type_of(schema) for field, schema in published.items()
    }


def test_paths_are_written_as_people_write_them() -> None:
    assert shapes.dotted(("containers", 0, "env", 2, "name")) == "containers[0].env[2].name"
