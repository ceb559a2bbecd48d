"""What would be decided if a working tree were main: the hub's own decisions over an imagined world. Pure; nothing is published.

Decides what stands in for what cannot be seen: a region without a report is as its file declares it, and empty. All else is
decide.py's, so that the answer is the hub's. Invariant: same world and same time give the same answer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from reconciler.hub.decide import Memory
from reconciler.hub.drafts import Drafts, decide_with
from reconciler.hub.intents import MainSeen, suspicion_of
from reconciler.hub.ledger import HubFile, Ledger, Rejected, Suspicion
from reconciler.hub.regions import RegionSeen
from reconciler.hub.review import PlacementFile
from reconciler.hub.sources import Sources
from reconciler.hub.world import World
from reconciler.model.gpu import parse_model
from reconciler.model.names import JobKey
from reconciler.model.placement import Placement
from reconciler.model.quantity import milli, whole
from reconciler.model.record import JobRecord
from reconciler.model.region import NodePool, Region
from reconciler.model.report import RegionSummary
from reconciler.planning.shapes import Free, Kind, NodeFacts, ReportFacts

STAGE_IMAGE = "stage:1"
"""Of manifests that nobody sees."""
UNCOMMITTED = "0" * 40
"""In the place of main's commit."""
NO_LEDGER = Ledger({}, {}, HubFile(), Rejected(), {}, {})
"""As before a hub's first cycle."""
_DISK, _PODS = 2**62, 2**31  # neither is declared, so neither rules anything out
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Imagined:
    """A job as it would be after the hub's next cycle."""

    before: JobRecord | None
    after: JobRecord
    decided: Placement | None
    """What would be decided for it in that cycle; None where it is decided already, or waits."""
    proposed: bool
    """Whether a person would have to approve that."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The answer."""

    jobs: Mapping[JobKey, Imagined]
    events: tuple[str, ...]
    """What would happen, a line each."""
    doubt: Suspicion | None
    """Why the hub would take the working tree for an accident, and stop nothing."""


def imagined_world(
    sources: Sources,
    ledger: Ledger,
    regions: Mapping[str, RegionSeen],
    ages: Mapping[str, float | None],
    placements: Mapping[JobKey, PlacementFile | None],
    now: datetime,
) -> World:
    """The world in which main is the working tree. `regions`: live reports; a region without one is imagined empty."""
    fleet = sources.fleet
    teams = frozenset(fleet.teams) | {key.team for key in sources.jobs}
    empty = {name: declared_empty(region, teams) for name, region in fleet.regions.items() if name not in regions}
    return World(
        sources=sources,
        ledger=ledger,
        suspicion=suspicion_of(ledger, sources, MainSeen(UNCOMMITTED, rewound=False), now),
        regions={**empty, **regions},
        ages=dict.fromkeys(empty, 0.0) | dict(ages),
        withdrawn_at={},
        placements=placements,
        declined=frozenset(),
        refused={},
        inputs="",
    )


def what_if(world: World, now: datetime) -> WhatIf:
    """The hub's decisions in that world."""
    outcome = decide_with(Drafts(STAGE_IMAGE), world, now, Memory())
    jobs = {
        key: Imagined(
            before=world.ledger.records.get(key),
            after=record,
            decided=outcome.placements.get(key) or outcome.proposals.get(key),
            proposed=key in outcome.proposals,
        )
        for key, record in sorted(outcome.records.items())
    }
    return WhatIf(jobs, outcome.events, world.suspicion)


def declared_empty(region: Region, namespaces: Iterable[str]) -> RegionSeen:
    """A region as its file declares it, with nothing running and nothing broken."""
    nodes = tuple(node for pool in region.node_pools for node in _nodes(pool))
    gpus = sum(node.whole.gpus for node in nodes)
    summary = RegionSummary(
        cluster_id=region.name,
        gpu_nodes=sum(node.whole.gpus > 0 for node in nodes),
        gpu_busy=0,
        gpu_free=gpus,
        gpu_models=tuple(sorted({node.kind.gpu_model for node in nodes if node.kind.gpu_model is not None})),
        queued_jobs=0,
        avg_cpu_usage=0.0 if nodes else None,
        avg_gpu_usage=0.0 if gpus else None,
        last_heartbeat=_BEGINNING,
    )
    return RegionSeen(
        incarnation="",
        sequence=0,
        grants_version=0,
        lease_epoch=0,
        facts=ReportFacts(nodes, frozenset(namespaces), {}, {}),
        workloads={},
        summary=summary,
        synced_commit=None,
        sync_errors={},
        health={},
        matter=0,
    )


def _nodes(pool: NodePool) -> Iterable[NodeFacts]:
    model = str(parse_model(pool.gpu_model)) if pool.gpu_model else None
    vram = whole(pool.gpu_memory) if pool.gpu_memory else None
    kind = Kind(model, pool.gpu_model, vram, pool.driver, pool.rdma, ())
    each = Free(pool.gpus, milli(pool.cpu), whole(pool.memory), _DISK, _PODS)
    return (NodeFacts(f"{pool.name}-{number}", kind, each, each, usable=True) for number in range(pool.nodes))
