"""The environment of the program: what we tell it, what the region adds, what the spec says.

Decides names, order and precedence. Ours win (they are the attempt's fence), then the spec's, then the region's. Ours
stand first, so that `$(NODE_RANK)` in a value of the spec is replaced by Kubernetes; a map has no order, so a variable
of the spec that refers to another stands after it.

Values of the spec are kept byte for byte: `$(NAME)` and `$$` in them mean what they mean in any Kubernetes pod. In
values of ours a `$` is doubled, so that the program reads the URI itself.
"""

import re
from typing import Any

from reconciler.model.job import JobSpec
from reconciler.model.pods import literal
from reconciler.rendering.rendering import Rendering

Variable = dict[str, Any]

DEFAULT_PORT = "29500"
INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
_PORT = "MASTER_PORT"
_REFERENCE = re.compile(r"\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")


def processes_per_node(spec: JobSpec) -> int:
    """How many processes a launcher starts on a node: one for each GPU, one where there is none."""
    return max(1, spec.gpu.count)


def main_address(rendering: Rendering) -> str:
    """Where the first node is found by the others: its stable host name, or itself when it is alone."""
    return f"{rendering.job_name}-0.{rendering.attempt}.{rendering.team}" if rendering.has_peers else "localhost"


def _told(rendering: Rendering) -> list[Variable]:
    spec = rendering.spec
    said = {
        "JOB_ID": spec.job_id,
        "ATTEMPT": rendering.attempt,
        "ATTEMPT_NUMBER": str(rendering.number),
        "REGION": rendering.region.name,
    }
    if rendering.checkpoint is not None:
        said["CHECKPOINT_PATH"] = rendering.checkpoint
    said |= _numbered("DATASET_URI", rendering.read_uris)
    said |= _numbered("OUTPUT_URI", rendering.output_uris)
    return [{"name": name, "value": literal(value)} for name, value in said.items()]


def _numbered(name: str, values: tuple[str, ...]) -> dict[str, str]:
    first = {name: values[0]} if values else {}
    return first | {f"{name}_{number}": value for number, value in enumerate(values, 1)}


def _rendezvous(rendering: Rendering) -> list[Variable]:
    spec = rendering.spec
    if not rendering.has_peers and spec.launcher == "none":
        return []
    rank: Variable = {"name": "NODE_RANK", "value": "0"}
    if rendering.has_peers:
        rank = {"name": "NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX_ANNOTATION}']"}}}
    said = {
        "NNODES": str(spec.nodes),
        "GPUS_PER_NODE": str(spec.gpu.count),
        "MASTER_ADDR": main_address(rendering),
    }
    if _PORT not in spec.env:
        said[_PORT] = DEFAULT_PORT
    if spec.launcher != "none":  # without a launcher it would make libraries wait for processes that nobody starts
        said["WORLD_SIZE"] = str(spec.nodes * processes_per_node(spec))
    return [rank, *({"name": name, "value": value} for name, value in said.items())]


def _own(rendering: Rendering) -> list[Variable]:
    return [*_told(rendering), *_rendezvous(rendering)]


def reserved_names(spec: JobSpec) -> frozenset[str]:
    """Variables that we set for this job, so that nothing else may."""
    names = {"JOB_ID", "ATTEMPT", "ATTEMPT_NUMBER", "REGION"}
    if spec.checkpoint_path is not None:
        names.add("CHECKPOINT_PATH")
    names |= _numbered("DATASET_URI", ("",) * len(spec.datasets)).keys()
    names |= _numbered("OUTPUT_URI", ("",) * len(spec.outputs)).keys()
    if spec.nodes > 1 or spec.launcher != "none":
        names |= {"NNODES", "NODE_RANK", "GPUS_PER_NODE", "MASTER_ADDR"}
    if spec.launcher != "none":
        names.add("WORLD_SIZE")
    return frozenset(names)


def secret_variables(rendering: Rendering) -> list[Variable]:
    """Variables whose values are secrets of the region, by reference."""
    called = rendering.profile.secrets
    return [
        {
            "name": secret.env,
            "valueFrom": {"secretKeyRef": {"name": called.get(secret.name, secret.name), "key": secret.key or secret.env}},
        }
        for secret in rendering.spec.secrets
        if secret.env is not None
    ]


def _in_order(env: dict[str, str]) -> list[Variable]:
    """Sorted by name, but each after those it refers to; in a circle nobody is first."""
    placed: dict[str, str] = {}
    waiting: set[str] = set()

    def place(name: str) -> None:
        if name in placed or name in waiting:
            return
        waiting.add(name)
        for other in sorted(set(_REFERENCE.findall(env[name])) & env.keys()):
            place(other)
        waiting.discard(name)
        placed[name] = env[name]

    for name in sorted(env):
        place(name)
    return [{"name": name, "value": value} for name, value in placed.items()]


def variables(rendering: Rendering) -> list[Variable]:
    """All variables of the main container, each name once."""
    spec, regional = rendering.spec, rendering.spelling.env
    own = _own(rendering)
    taken = {variable["name"] for variable in own}
    theirs = [*_in_order(spec.env), *secret_variables(rendering)]
    theirs = [variable for variable in theirs if variable["name"] not in taken]
    taken |= {variable["name"] for variable in theirs}
    added = [{"name": name, "value": regional[name]} for name in sorted(regional) if name not in taken]
    return [*own, *added, *theirs]
