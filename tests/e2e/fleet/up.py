"""The whole of it on one machine: three regions, each a real control plane with its sync engine and nodes that run programs, an S3
server, a forge, the hub and the agents as processes; and a witness of what really runs.

The jobs repository is the project's example. What is local about it stays so: programs are processes of this machine, so the regions'
own stores are folders; the store where hub and agents meet is the S3 server.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from reconciler.app import STAGE_IMAGE
from reconciler.commands.init import make_repository
from reconciler.model.names import LABEL_ATTEMPT
from tests.e2e.argo import start_argo
from tests.e2e.control_plane import ControlPlane, free_ports, region
from tests.e2e.flux import start_flux
from tests.e2e.gitea import Repository, serving
from tests.e2e.kubelet import Machines, machines, nodes_of
from tests.e2e.person import Person
from tests.e2e.programs import CHECKOUT, Program
from tests.e2e.s3 import S3Server, s3_server
from tests.e2e.witness import Witness, witnessing
from tests.e2e.world import token_kubeconfig

ENGINES = {"ap-south": "argocd", "eu-west": "flux", "us-east": "flux"}
IMAGES = ("registry.example.com/ml/*", STAGE_IMAGE)
"""What can be pulled in the regions."""
WEBHOOK_SECRET = "of-the-end-to-end-tests"
AGENT_FLAGS = ("--look", "2")

Way = Callable[[str, int], int]
"""Who asks whom (`hub-store`, `hub-git`, `<region>-store`, `<region>-git`), and where that listens → the port by which it is reached."""


@dataclass(frozen=True)
class Layout:
    """How a fleet differs from the plain one: the ways between its parts, what its regions' files say, how its agents are run."""

    way: Way = lambda _who, port: port
    region_fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Region → what its file says besides."""
    agent_flags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Region → options of its agent besides the usual ones."""
    examples: bool = True
    """Whether it begins with the example's jobs."""

    def by(self, who: str, url: str) -> str:
        """An address on loopback, by somebody's own way."""
        parts = urlsplit(url)
        assert parts.port is not None
        return url.replace(f":{parts.port}/", f":{self.way(who, parts.port)}/")


PLAIN = Layout()


@dataclass(frozen=True)
class Remote:
    """The jobs repository on its forge: `url` with a person's credentials, `hub_url` with the hub's, `public_url` with none."""

    url: str
    hub_url: str
    public_url: str


@contextmanager
def on_gitea(folder: Path, tree: Path, listen: str) -> Iterator[Remote]:
    """A repository on a Gitea, with what stands in a working tree pushed, and a webhook to the hub."""
    with serving(folder / "gitea") as gitea:
        gitea.do("ops", "POST", "/user/repos", {"name": "jobs", "private": False})
        repository = Repository(gitea, "ops", "jobs", folder)
        gitea.person("hub")
        gitea.do("ops", "PUT", f"{repository.api}/collaborators/hub", {"permission": "write"})
        token = gitea.token("hub", "write:repository", "write:issue", "read:user")
        remote = Remote(repository.url("ops"), repository.url("hub", token), f"{gitea.url}/ops/jobs.git")
        person = Person(tree)
        person.git("remote", "add", "origin", remote.url)
        person.git("push", "--quiet", "origin", "HEAD:main")
        config = {"url": f"http://{listen}/webhooks/gitea", "content_type": "json", "secret": WEBHOOK_SECRET}
        said = {"type": "gitea", "active": True, "events": ["push"], "config": config}
        gitea.do("ops", "POST", f"{repository.api}/hooks", said)
        yield remote


@dataclass
class RegionUp:
    """One region that is up."""

    name: str
    engine: str
    plane: ControlPlane
    nodes: Machines
    agent: Program
    standby: Program
    """Another replica of the agent; not started unless a test does."""
    processes: Any
    """The engine's."""

    def kubectl(self, *arguments: str, **more: Any) -> str:
        """As an administrator."""
        return self.plane.kubectl(*arguments, **more)

    def ours(self, kinds: str = "jobs") -> list[str]:
        """Our objects of these kinds in the teams' namespaces, as `namespace/kind/name`, sorted."""
        said = self.kubectl("get", kinds, "-A", "-l", f"{LABEL_ATTEMPT}", "-o", "json")
        found = [(each["metadata"]["namespace"], each["kind"], each["metadata"]["name"]) for each in json.loads(said)["items"]]
        return sorted("/".join(each) for each in found)

    def job(self, namespace: str, name: str) -> dict[str, Any] | None:
        """A Job as the API server has it; None where it is not."""
        said = self.kubectl("get", "job", name, "-n", namespace, "-o", "json", "--ignore-not-found")
        found: dict[str, Any] | None = json.loads(said) if said.strip() else None
        return found

    def pods(self, namespace: str, attempt: str) -> list[dict[str, Any]]:
        """An attempt's pods."""
        said = self.kubectl("get", "pods", "-n", namespace, "-l", f"{LABEL_ATTEMPT}={attempt}", "-o", "json")
        return list(json.loads(said)["items"])

    @contextmanager
    def without_engine_object(self) -> Iterator[None]:
        """Without what tells the engine of this region, for the time of a `with` block."""
        kind, namespace = ("kustomization", "flux-system") if self.engine == "flux" else ("application", "argocd")
        found = json.loads(self.kubectl("get", kind, "gpu-reconciler", "-n", namespace, "-o", "json"))
        self.kubectl("delete", kind, "gpu-reconciler", "-n", namespace)
        try:
            yield
        finally:
            kept = {"name": "gpu-reconciler", "namespace": namespace, "labels": found["metadata"].get("labels") or {}}
            self.kubectl("create", "-f", "-", stdin={**found, "metadata": kept, "status": {}})

    def reconcile(self) -> None:
        """Ask the engine to look at everything again, as a person does."""
        if self.engine == "flux":
            for kind, name in (("gitrepository", "gpu-reconciler"), ("kustomization", "gpu-reconciler")):
                stamp = f"reconcile.fluxcd.io/requestedAt={os.urandom(6).hex()}"
                self.kubectl("annotate", "--overwrite", "-n", "flux-system", f"{kind}/{name}", stamp)
        else:
            hard = "argocd.argoproj.io/refresh=hard"
            self.kubectl("annotate", "--overwrite", "-n", "argocd", "application/gpu-reconciler", hard)


@dataclass
class Fleet:
    """Everything that runs."""

    folder: Path
    store: S3Server
    remote: Remote
    person: Person
    hub: Program
    witness: Witness
    listen: str
    regions: dict[str, RegionUp] = field(default_factory=dict)
    layout: Layout = PLAIN

    def another_hub(self, name: str) -> Program:
        """A second hub with a folder of its own; not started."""
        (port,) = free_ports(1)
        return _hub(name, self.folder, self.store, self.remote, f"127.0.0.1:{port}", self.layout)

    def lease(self, region: str) -> bytes:
        """A region's lease, as it lies in the store."""
        return (self.store.folder / "hub/fleet/regions" / region / "lease.json").read_bytes()

    def check(self) -> None:
        """AssertionError if a program of ours ended by itself, or something ran that must not have."""
        for program in (self.hub, *(each.agent for each in self.regions.values())):
            program.check()
        assert self.witness.faults() == []

    def touch_branch(self, region: str) -> None:
        """A person's commit on a region's branch that changes no manifest."""
        self.person.fetched(f"region/{region}")
        tip = f"origin/region/{region}"
        commit = self.person.git("commit-tree", f"{tip}^{{tree}}", "-p", tip, "-m", "Nothing")
        self.person.git("push", "--quiet", "origin", f"{commit}:refs/heads/region/{region}")


def write_repository(folder: Path, root: Path, store: S3Server, layout: Layout) -> None:
    """The example, with each region's engine and the store of this fleet. The changes are not committed."""
    make_repository(folder, root)
    for name, engine in ENGINES.items():
        _edit(folder / "regions" / f"{name}.yaml", {"sync_engine": engine, **layout.region_fields.get(name, {})})
    if not layout.examples:
        shutil.rmtree(folder / "jobs")
    endpoint = layout.by("hub-store", f"{store.endpoint}/").rstrip("/")
    address = {"url": "s3://hub/fleet", "endpoint": endpoint, "location": "us-east-1"}
    _edit(folder / "reconciler.yaml", {"store": address, "intervals": {"poll_seconds": 0.5, "push_seconds": 0.5}})


def _edit(path: Path, changes: Mapping[str, Any]) -> None:
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}, sort_keys=False))


@contextmanager
def region_up(fleet_folder: Path, name: str, remote: Remote, store: S3Server, layout: Layout) -> Iterator[RegionUp]:
    """One region: control plane, nodes as declared, the bootstrap as it is printed, its engine; the agent is not started yet."""
    folder, engine = fleet_folder / name, ENGINES[name]
    with ExitStack() as stack:
        plane = stack.enter_context(region(folder / "plane", name))
        declared = nodes_of(fleet_folder / "person" / "regions" / f"{name}.yaml")
        environment = {"PYTHONPATH": str(CHECKOUT)}  # so that `reconciler stage` is this checkout's
        nodes = stack.enter_context(machines(plane, declared, images=IMAGES, environment=environment))
        start = start_flux if engine == "flux" else start_argo
        running = stack.enter_context(start(plane, folder / "engine"))
        home = folder / "home"
        home.mkdir()
        printed = _bootstrap(name, layout.by(f"{name}-git", remote.public_url), home)
        documents = [each for each in yaml.safe_load_all(printed) if each and each["kind"] != "Deployment"]
        plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))
        kubeconfig = token_kubeconfig(plane)
        agent, standby = _replicas(fleet_folder, name, kubeconfig, store, layout)
        try:
            yield RegionUp(name, engine, plane, nodes, agent, standby, running.processes)
        finally:
            for replica in (agent, standby):
                replica.stop()


def _replicas(folder: Path, name: str, kubeconfig: Path, store: S3Server, layout: Layout) -> tuple[Program, Program]:
    """Both replicas of a region's agent; neither is started."""
    place = ["--engine", ENGINES[name], "--kubeconfig", str(kubeconfig), "--store", "s3://hub/fleet"]
    command = ["agent", name, *place, *AGENT_FLAGS, *layout.agent_flags.get(name, ())]
    access = store.environment_by(layout.way(f"{name}-store", store.port))
    one, other = (Program(f"{which}-{name}", command, folder / "logs", access) for which in ("agent", "standby"))
    return one, other


def _bootstrap(region_name: str, repo: str, home: Path) -> str:
    command = [sys.executable, "-m", "reconciler.cli", "bootstrap", region_name, "--repo", repo, "--public"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "HOME": str(home)})
    assert done.returncode == 0, done.stderr
    return done.stdout


def _hub(name: str, folder: Path, store: S3Server, remote: Remote, listen: str, layout: Layout) -> Program:
    environment = {**store.environment_by(layout.way("hub-store", store.port)), "RECONCILER_WEBHOOK_SECRETS": WEBHOOK_SECRET}
    place = ["--repo", layout.by("hub-git", remote.hub_url), "--folder", str(folder / f"{name}-clone"), "--listen", listen]
    return Program(name, ["hub", *place], folder / "logs", environment)


@contextmanager
def fleet_up(folder: Path, layout: Layout = PLAIN) -> Iterator[Fleet]:
    """The fleet, up and reporting; the hub has begun with the example's jobs."""
    with ExitStack() as stack:
        store = stack.enter_context(s3_server(folder / "s3"))
        store.make_bucket("hub")
        tree = folder / "person"
        write_repository(tree, folder / "stores", store, layout)
        person = Person(tree)
        person.commit("Name the engines and the store")
        (port,) = free_ports(1)
        listen = f"127.0.0.1:{port}"
        remote = stack.enter_context(on_gitea(folder, tree, listen))
        hub = _hub("hub", folder, store, remote, listen, layout)
        stack.callback(hub.stop)
        regions = _regions_up(stack, folder, remote, store, layout)
        witness = stack.enter_context(witnessing({name: each.plane.kubeconfig for name, each in regions.items()}))
        for each in regions.values():
            each.agent.start()
        for each in regions.values():
            each.agent.until_said('"leads"')
        fleet = Fleet(folder, store, remote, person, hub, witness, listen, regions, layout)
        hub.start()
        hub.until_said("listening")
        yield fleet


def _regions_up(stack: ExitStack, folder: Path, remote: Remote, store: S3Server, layout: Layout) -> dict[str, RegionUp]:
    """All regions side by side."""
    ups = {name: region_up(folder, name, remote, store, layout) for name in ENGINES}
    # These threads live until the end: a control plane's programs die with the thread that started them.
    threads = stack.enter_context(ThreadPoolExecutor(len(ups)))
    started = {name: threads.submit(up.__enter__) for name, up in ups.items()}
    wait(started.values())
    for name, up in ups.items():
        if started[name].exception() is None:
            stack.push(up)
    return {name: each.result() for name, each in started.items()}
