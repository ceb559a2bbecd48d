"""What a region's cluster needs before its first job, as YAML: namespaces, the agent with its rights, the sync engine's objects.

Decides which objects stand in which file and what their names are; how each is set, and why, stands in the templates. The rights
of the agent are deploy/agent/rbac.yaml, word for word. What is right for the cluster is not judged here.

Invariants: no secret is written, only named; the text of a region is the same each time, so applying it again changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal

from jinja2 import Environment

from reconciler.model import names
from reconciler.model.region import REPORT_SECONDS, LossTimes, Profile, StoreAddress
from reconciler.rendering import templates
from reconciler.rendering.branch import SENTINEL_NAMESPACE, sentinel_name

Engine = Literal["flux", "argocd"]

AGENT: Final = "agent"
"""The agent's service account, as deploy/agent/rbac.yaml names it."""
APPLIER: Final = "gpu-reconciler-applier"
"""The account that Flux applies the branch by."""
GIT_SECRET: Final = "gpu-reconciler-git"  # noqa: S105 - the name of a Secret
STORE_SECRET: Final = "gpu-reconciler-store"  # noqa: S105 - the name of a Secret
RECEIVER_SECRET: Final = "gpu-reconciler-receiver"  # noqa: S105 - the name of a Secret
_ROLE: Final = "gpu-reconciler-agent"
_IN_CLUSTER: Final = "https://kubernetes.default.svc"
_LABELS: Final = {"app.kubernetes.io/name": "gpu-reconciler", "app.kubernetes.io/component": "agent"}
_PORT: Final = 8080
_NAMESPACES, _DEPLOYMENT, _RECEIVER = "engine/namespaces.yaml.j2", "agent/deployment.yaml.j2", "engine/receiver.yaml.j2"
_ENGINES: Final[Mapping[Engine, str]] = {"flux": "engine/flux.yaml.j2", "argocd": "engine/argocd.yaml.j2"}


@dataclass(frozen=True, slots=True)
class EngineNames:
    """What the engine's objects are called, and where they are. The agent finds them by these names."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """What decides a region's objects."""

    region: str
    engine: Engine
    engine_names: EngineNames
    repo: str
    """As the engine is to read it; without credentials."""
    store: StoreAddress
    image: str
    teams: tuple[str, ...]
    """Their namespaces; further namespaces for jobs likewise."""
    profile: Profile = field(default_factory=Profile)
    workloads: tuple[str, ...] = ("job",)
    """Kinds of workload that are applied."""
    private: bool = True
    """The repository is read with a Secret."""
    receiver: bool = False
    """Also what lets a hub announce pushes from outside (Flux)."""
    loss: LossTimes = field(default_factory=LossTimes)
    deadman: bool = False


def bootstrap_files(wanted: Bootstrap) -> Mapping[str, str]:
    """Name of the file → its text, in the order in which they are to be applied; together they are one YAML stream."""
    values = _values(wanted)
    found = {"1-namespaces.yaml": _fill(_NAMESPACES, values)}
    found["2-agent.yaml"] = f"{agent_rights()}---\n{_fill(_DEPLOYMENT, values)}"
    engine = _fill(_ENGINES[wanted.engine], values)
    receiver = _fill(_RECEIVER, values) if wanted.receiver and wanted.engine == "flux" else ""
    found[f"3-{wanted.engine}.yaml"] = engine + receiver
    return found


def agent_rights() -> str:
    """deploy/agent/rbac.yaml: the package's own copy, else the checkout's."""
    packaged = files("reconciler").joinpath("_packaged", "deploy")
    place = packaged if packaged.is_dir() else Path(__file__).resolve().parents[2] / "deploy"
    return place.joinpath("agent", "rbac.yaml").read_text(encoding="utf-8")


def _values(wanted: Bootstrap) -> dict[str, Any]:
    names_ = wanted.engine_names
    return {
        "region": wanted.region,
        "repo": wanted.repo,
        "branch": names.region_branch(wanted.region),
        "ref": f"refs/heads/{names.region_branch(wanted.region)}",
        "teams": wanted.teams,
        "places": (SENTINEL_NAMESPACE, *wanted.teams),
        "namespace": names_.namespace,
        "source": names_.name,
        "kustomization": names_.name,
        "application": names_.name,
        "own_namespace": SENTINEL_NAMESPACE,
        "sentinel": sentinel_name(wanted.region),
        "applier": APPLIER,
        "agent": AGENT,
        "agent_role": _ROLE,
        "server": _IN_CLUSTER,
        "git_secret": GIT_SECRET if wanted.private else None,
        "store_secret": STORE_SECRET,
        "receiver_secret": RECEIVER_SECRET,
        "labels": _LABELS,
        "image": wanted.image,
        "args": _arguments(wanted),
        "volcano": wanted.profile.gang == "volcano",
        "jobset": "jobset" in wanted.workloads,
        "env": _environment(wanted.store),
    }


def _arguments(wanted: Bootstrap) -> list[str]:
    listen = f"0.0.0.0:{_PORT}"  # the kubelet's probes come from outside of the pod
    said = ["agent", wanted.region, "--engine", wanted.engine, "--store", wanted.store.url, "--listen", listen]
    said += ["--self-fence", str(wanted.loss.self_fence_seconds), "--fence-kill", str(wanted.loss.fence_kill_seconds)]
    if wanted.loss.report_seconds < REPORT_SECONDS:
        said += ["--report", f"{wanted.loss.report_seconds:g}"]
    if wanted.deadman:
        said.append("--deadman")
    if wanted.profile.gpu_resource != Profile().gpu_resource:
        said += ["--gpu-resource", wanted.profile.gpu_resource]
    if wanted.profile.gpu_label != Profile().gpu_label:
        said += ["--gpu-label", wanted.profile.gpu_label]
    return said


def _environment(store: StoreAddress) -> list[dict[str, str]]:
    said = {"HOME": "/tmp"}  # noqa: S108 - the only folder of the container that can be written
    if store.endpoint is not None:
        said["RECONCILER_STORE_ENDPOINT"] = store.endpoint
    if store.location is not None:
        said["AWS_DEFAULT_REGION"] = store.location
    return [{"name": name, "value": value} for name, value in said.items()]


@lru_cache(maxsize=1)
def _environment_of_templates() -> Environment:
    place = templates.folder()
    wanted = (_NAMESPACES, _DEPLOYMENT, _RECEIVER, *_ENGINES.values())
    return templates.environment({name: place.joinpath(*name.split("/")).read_text(encoding="utf-8") for name in wanted})


def _fill(name: str, values: Mapping[str, Any]) -> str:
    return _environment_of_templates().get_template(name).render(values)
