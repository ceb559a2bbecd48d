"""`reconciler agent`: a region's agent, until it is told to end. What runs in the region runs on.

With a sync engine named it serves a Kubernetes cluster, from a pod there or by a kubeconfig. Without, it is a whole region on
this machine, whose programs survive the command: started again in the same folder, it takes them over.
"""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import structlog

from reconciler.agent.nodes import NodeRules
from reconciler.agent.settings import Settings, Times, timed
from reconciler.app import set_up_log
from reconciler.app_region import LocalRegion, RegionOptions
from reconciler.commands.ends import BadInput
from reconciler.commands.listening import listening_on
from reconciler.commands.repository import MAIN, chosen

if TYPE_CHECKING:
    from types import FrameType

    from reconciler.app_cluster import EngineName

LOOK_SECONDS = 1.0
"""On this machine, where a look costs nothing."""
CLUSTER_LOOK_SECONDS = 10.0
"""Of a cluster, whose watches tell of changes."""


@dataclass(frozen=True, slots=True)
class Local:
    """What the command line says of a region on this machine."""

    repo: str | None
    folder: Path | None
    images: Sequence[str]
    times: Times
    """What is not said is as the region's file has it."""
    probes: bool
    """Whether its links are measured."""


@dataclass(frozen=True, slots=True)
class InCluster:
    """What it says of a cluster."""

    engine: "EngineName"
    kubeconfig: Path | None
    context: str | None
    listen: str | None
    nodes: NodeRules
    times: Times
    probes: bool
    """Whether its links are measured."""


class Region(Protocol):
    """A region that runs until it is stopped."""

    def stop(self) -> None: ...

    def run(self) -> None: ...


def agent(region: str, store: str | None, look_seconds: float | None, local: Local) -> None:
    """Run a local region in the foreground. Raises Refused and Transient where repository or store cannot be used."""
    if local.folder is None:
        raise BadInput("no folder is given for a region on this machine", "give --folder DIR, or --engine for a cluster")
    look = LOOK_SECONDS if look_seconds is None else look_seconds
    set_up_log()
    settings = Settings(look_seconds=look, poll_seconds=min(look, 1.0))
    options = RegionOptions(
        region,
        chosen(local.repo),
        local.folder,
        store,
        MAIN,
        tuple(local.images) or ("*",),
        poll_seconds=max(look, 0.5),
        agent=settings,
        times=local.times,
        probes=local.probes,
    )
    found = LocalRegion(options)
    with _told_to_end(found):
        found.run()


def agent_in_cluster(region: str, store: str | None, look_seconds: float | None, where: InCluster) -> None:
    """Run a cluster's agent in the foreground. Raises Refused where cluster or store cannot be used at all."""
    from reconciler.adapters.health_pages import health_pages
    from reconciler.app_cluster import ClusterOptions, ClusterRegion

    if store is None:
        raise BadInput("no store is named", "give --store s3://bucket/prefix: the one that the hub uses")
    set_up_log()
    look = CLUSTER_LOOK_SECONDS if look_seconds is None else look_seconds
    settings = timed(Settings(look_seconds=look, nodes=where.nodes), where.times)
    found = ClusterRegion(ClusterOptions(region, where.engine, store, where.kubeconfig, where.context, settings, where.probes))
    pages = health_pages({"/healthz": found.health, "/readyz": found.readiness})
    log = structlog.get_logger("agent").bind(region=region)
    with _told_to_end(found), listening_on(where.listen, pages, log):
        found.run()


@contextmanager
def _told_to_end(region: Region) -> Iterator[None]:
    """SIGTERM and SIGINT end it well."""

    def end(_number: int, _frame: "FrameType | None") -> None:
        region.stop()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
