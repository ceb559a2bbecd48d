"""Jobs, regions, reports and records for the tests: only what a test cares about has to be written in it.

Everything goes through the models' own doors, so nothing is built that the product would refuse.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from reconciler.model.attempt import Attempt, Needs, State
from reconciler.model.fleet import Dataset, Link, Team
from reconciler.model.gpu import parse_model
from reconciler.model.identity import run_hash
from reconciler.model.job import JobSpec
from reconciler.model.names import JobKey, attempt_name
from reconciler.model.policy import Policy
from reconciler.model.reasons import Reason
from reconciler.model.record import JobRecord, Phase, Source
from reconciler.model.region import Region
from reconciler.model.report import Amounts, NodeReport, PodReport, RegionReport, RegionSummary, WorkloadReport
from reconciler.planning.shapes import facts_of
from reconciler.planning.snapshot import Holding, JobView, RegionView, Snapshot

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
GIB = 1024**3
GB = 10**9
WHOLE_LINKS = {"link_share": 1.0, "declared_margin": 0.0}
"""Thresholds by which links give all that is declared of them, so that sums can be done by hand."""
TEAM = "team-a"
TEAMS = ("team-a", "team-b", "team-c")
IMAGE = "reg.example.com:5000/team/train:1.4"

CARDS = {
    "a100": "NVIDIA-A100-SXM4-80GB",
    "a100_40": "NVIDIA-A100-SXM4-40GB",
    "h100": "NVIDIA-H100-80GB-HBM3",
    "l4": "NVIDIA-L4",
}
"""Short names of GPU models for `make_region`, and how nodes spell them."""
VRAM_GIB = {"A100-80GB": 80, "A100-40GB": 40, "H100-80GB": 80, "L4": 24}


def make_spec(job_id: str = "llm-a", *, gpus: int = 8, model: Any = "A100-80GB", **fields: Any) -> JobSpec:
    """A job spec; `gpus` per node of `model` (None for any), and any other field of a job file."""
    gpu = {"count": gpus, **({} if model is None or not gpus else {"model": model}), **fields.pop("gpu", {})}
    return JobSpec.model_validate({"job_id": job_id, "gpu": gpu, "image": IMAGE, **fields})


def make_job(
    job_id: str = "llm-a",
    *,
    team: str = TEAM,
    minutes_ago: float = 60,
    pin: str | None = None,
    veto: Iterable[str] = (),
    avoid: Iterable[str] = (),
    run_seconds: int | None = None,
    **fields: Any,
) -> JobView:
    """A job that waits; `fields` as in `make_spec`."""
    return JobView(
        JobKey(team, job_id),
        make_spec(job_id, **fields),
        NOW - timedelta(minutes=minutes_ago),
        pin=pin,
        veto=frozenset(veto),
        avoid=frozenset(avoid),
        run_seconds=run_seconds,
    )


def make_node(name: str = "n0", *, card: str | None = CARDS["a100"], gpus: int = 8, used: int = 0, **fields: Any) -> NodeReport:
    """A node of `gpus` cards, `used` of them taken; 12 cores, 120 GiB and 1 TB of disk a card, at least 32 cores."""
    model = None if card is None else str(parse_model(card))
    size = max(gpus, 3)
    amounts = {
        "gpus": gpus,
        "cpu_milli": 12_000 * size,
        "memory_bytes": 120 * GIB * size,
        "disk_bytes": 1000 * GB * size,
        "pods": 110,
    }
    said: dict[str, Any] = {
        "name": name,
        "gpu_model": model,
        "gpu_product": card,
        "vram_bytes": VRAM_GIB[model] * GIB if model in VRAM_GIB else None,
        "driver": None if card is None else "550.90.07",
        "capacity_gpus": gpus,
        "allocatable": Amounts(**{**amounts, **fields.pop("allocatable", {})}),
        "used": Amounts(**{"gpus": used, **fields.pop("taken", {})}),
    }
    return NodeReport.model_validate({**said, **fields})


def make_nodes(count: int, prefix: str = "n", **fields: Any) -> tuple[NodeReport, ...]:
    """Equal nodes, numbered from 0."""
    return tuple(make_node(f"{prefix}{index}", **fields) for index in range(count))


def make_report(
    name: str = "eu",
    nodes: Sequence[NodeReport] = (),
    workloads: Sequence[WorkloadReport] = (),
    namespaces: Sequence[str] = TEAMS,
    **fields: Any,
) -> RegionReport:
    """What a region's agent would report."""
    summary = RegionSummary(
        cluster_id=name,
        gpu_nodes=sum(1 for node in nodes if node.capacity_gpus),
        gpu_busy=sum(node.used.gpus for node in nodes),
        gpu_free=sum(node.allocatable.gpus - node.used.gpus for node in nodes if node.unavailable is None),
        gpu_models=tuple(sorted({node.gpu_model for node in nodes if node.gpu_model})),
        queued_jobs=0,
        avg_cpu_usage=None,
        avg_gpu_usage=None,
        last_heartbeat=NOW,
    )
    said: dict[str, Any] = {
        "incarnation": "one",
        "sequence": 1,
        "sent_at": NOW,
        "grants_version": 0,
        "lease_epoch": 1,
        "workload_kinds": ("job",),
    }
    parts = {"region": name, "summary": summary, "nodes": nodes, "workloads": workloads, "namespaces": namespaces}
    return RegionReport.model_validate({**said, **parts, **fields})


def _nodes_of(cards: Mapping[str, int]) -> tuple[NodeReport, ...]:
    """Nodes of 8 cards each, and one of the rest."""
    nodes: list[NodeReport] = []
    for short, total in cards.items():
        sizes = [8] * (total // 8) + ([total % 8] if total % 8 else [])
        nodes += [make_node(f"{short}-{index}", card=CARDS[short], gpus=size) for index, size in enumerate(sizes)]
    return tuple(nodes)


def make_region(
    name: str = "eu",
    *nodes: NodeReport,
    shows: Sequence[WorkloadReport] = (),
    namespaces: Sequence[str] = TEAMS,
    holdings: Sequence[Holding] = (),
    age: float | None = 1.0,
    closed: Reason | None = None,
    **fields: Any,
) -> RegionView:
    """A region and its report. `h100=16`: two nodes of 8 cards; `age=None`: it has never reported; `shows`: attempts; the rest as in its file."""
    cards = {short: fields.pop(short) for short in CARDS if short in fields}
    region = Region.model_validate({"name": name, **fields})
    facts = None if age is None else facts_of(make_report(name, nodes or _nodes_of(cards), shows, namespaces))
    return RegionView(region, facts, age, tuple(holdings), closed)


def make_link(source: str, target: str, gbit: float | None = 10.0, usd: float | None = 0.0, **fields: Any) -> Link:
    """A directed link; `gbit` and `usd` (per GB) None where they are not known."""
    return Link.model_validate({"source": source, "target": target, "gbit_per_second": gbit, "usd_per_gb": usd, **fields})


def make_dataset(name: str = "corpus-a", *regions: str, size_gb: float | None = 500.0, **fields: Any) -> Dataset:
    """A dataset with a copy in each of `regions` (eu when none is given)."""
    copies = [{"region": region, "uri": f"s3://data-{region}/{name}/"} for region in regions or ("eu",)]
    sized = {} if size_gb is None else {"size_gb": size_gb}
    return Dataset.model_validate({"name": name, "uri": copies[0]["uri"], "replicas": copies, **sized, **fields})


def make_snapshot(
    *regions: RegionView,
    jobs: Sequence[JobView] = (),
    links: Iterable[Link] = (),
    datasets: Iterable[Dataset] = (),
    teams: Iterable[Team] = (),
    policy: Policy | None = None,
    used: Mapping[str, int] | None = None,
    **network: Any,
) -> Snapshot:
    """Everything that a pass decides from; `network`: what else of links, copies and images. Without a `policy` links give all
    that is declared of them."""
    return Snapshot(
        regions={view.region.name: view for view in regions},
        links={(link.source, link.target): link for link in links},
        datasets={dataset.name: dataset for dataset in datasets},
        teams={team.name: team for team in teams},
        policy=policy or Policy.model_validate({"thresholds": WHOLE_LINKS}),
        pending=tuple(jobs),
        used_gpus=used or {},
        **network,
    )


def make_holding(
    attempt: str = "old-a1",
    *,
    gpus: int = 8,
    nodes: int = 1,
    model: str | None = "A100-80GB",
    ends_in: timedelta | None = None,
    cpu_milli: int = 0,
) -> Holding:
    """GPUs that an attempt holds; `ends_in` None where nobody knows."""
    needs = Needs(gpus=gpus, cpu_milli=cpu_milli)
    return Holding(attempt, nodes, needs, model, None if ends_in is None else NOW + ends_in)


def make_pod(
    name: str = "main-0", *, phase: str = "Running", node: str | None = "n0", started: datetime | None = None, **fields: Any
) -> PodReport:
    """One pod of an attempt."""
    return PodReport.model_validate({"name": name, "phase": phase, "node": node, "started_at": started, **fields})


def make_workload(attempt: str = "llm-a-000000-a1", *pods: PodReport, state: str = "Released", **fields: Any) -> WorkloadReport:
    """What a region says of one attempt: not stopped, unless it has ended or was never released."""
    said: dict[str, Any] = {
        "attempt": attempt,
        "namespace": TEAM,
        "uid": "u1",
        "state": state,
        "stopped": state != "Released",
        "pods": pods,
    }
    return WorkloadReport.model_validate({**said, **fields})


def make_attempt(
    number: int = 1, state: State = State.RUNNING, *, spec: JobSpec | None = None, region: str = "eu", **fields: Any
) -> Attempt:
    """An attempt, decided an hour ago; times follow from its state (Granted: a minute ago)."""
    job = spec or make_spec()
    of_run = run_hash(TEAM, job)
    early = NOW - timedelta(hours=1)
    granted = state not in (State.PROPOSED, State.PLACED, State.STAGING)
    started = state in (State.RUNNING, State.STOPPING, State.SUCCEEDED, State.FAILED, State.STOPPED)
    ended = state in (State.SUCCEEDED, State.FAILED, State.STOPPED)
    said: dict[str, Any] = {
        "number": number,
        "name": attempt_name(job.job_id, of_run, number),
        "region": region,
        "state": state,
        "run_hash": of_run,
        "nodes": job.nodes,
        "needs": Needs(gpus=job.gpu.count),
        "gpu_model": "A100-80GB",
        "decided_at": early,
        "placed_at": None if state is State.PROPOSED else early,
        "granted_at": (NOW - timedelta(minutes=1) if state is State.GRANTED else early) if granted else None,
        "started_at": early + timedelta(minutes=1) if started else None,
        "stopping_at": NOW if state is State.STOPPING else None,
        "ended_at": NOW if ended else None,
    }
    return Attempt.model_validate({**said, **fields})


def make_record(*attempts: Attempt, spec: JobSpec | None = None, phase: Phase = Phase.PENDING, **fields: Any) -> JobRecord:
    """A job's record with those attempts."""
    job = spec or make_spec()
    said: dict[str, Any] = {
        "team": TEAM,
        "job_id": job.job_id,
        "phase": phase,
        "spec": job,
        "source": Source(path=f"jobs/{TEAM}/{job.job_id}.yaml", blob="b1"),
        "run_hash": run_hash(TEAM, job),
        "rerun": job.rerun,
        "submitted_at": NOW - timedelta(hours=2),
        "attempts": attempts,
    }
    return JobRecord.model_validate({**said, **fields})
