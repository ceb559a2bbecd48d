"""Fleets and jobs of any size, the same for the same numbers."""

import random
from datetime import UTC, datetime, timedelta

from reconciler.model.job import JobSpec
from reconciler.model.names import JobKey
from reconciler.model.policy import Policy
from reconciler.model.region import Region
from reconciler.model.report import Amounts, NodeReport, RegionReport, RegionSummary
from reconciler.planning.shapes import facts_of
from reconciler.planning.snapshot import JobView, RegionView, Snapshot

NOW = datetime(2026, 5, 1, tzinfo=UTC)
MODELS = ("A100-80GB", "H100-80GB", "L4")
TEAMS = tuple(f"team-{number}" for number in range(10))
GIB = 1024**3


def report(name: str, nodes: int, *, busy: bool) -> RegionReport:
    """A region of `nodes` nodes with 8 GPUs each; `busy`: some of them in use, no two nodes quite alike."""
    rng = random.Random(name)
    amounts = Amounts(gpus=8, cpu_milli=96_000, memory_bytes=1000 * GIB, disk_bytes=10**13, pods=110)
    reported = tuple(
        NodeReport(
            name=f"n{index}",
            gpu_model=MODELS[index % 3],
            gpu_product=f"NVIDIA-{MODELS[index % 3]}",
            vram_bytes=80 * GIB,
            driver="550.90.07",
            capacity_gpus=8,
            allocatable=amounts,
            used=Amounts(gpus=rng.choice((0, 0, 4, 8)), cpu_milli=rng.randrange(1000), memory_bytes=rng.randrange(GIB))
            if busy
            else Amounts(),
        )
        for index in range(nodes)
    )
    summary = RegionSummary(
        cluster_id=name,
        gpu_nodes=nodes,
        gpu_busy=0,
        gpu_free=8 * nodes,
        gpu_models=MODELS,
        queued_jobs=0,
        avg_cpu_usage=0.1,
        avg_gpu_usage=0.1,
        last_heartbeat=NOW,
    )
    return RegionReport(
        region=name,
        incarnation="bench",
        sequence=1,
        sent_at=NOW,
        grants_version=0,
        lease_epoch=1,
        summary=summary,
        nodes=reported,
        workloads=(),
        namespaces=TEAMS,
        workload_kinds=("job",),
    )


def spec(number: int, most_gpus: int = 8) -> dict[str, object]:
    """A job as its file says it; no two are alike."""
    rng = random.Random(number)
    wanted = rng.choice((["A100-80GB"], ["H100"], ["H100", "A100"], ["L4"]))
    return {
        "job_id": f"job-{number}",
        "gpu": {"count": min(most_gpus, rng.choice((1, 1, 1, 2, 4, 8))), "model": wanted},
        "resources": {"cpu": "4", "memory": "16Gi"},
        "image": f"reg.example.com/team/train:{number}",
        "command": ["train", "--seed", str(number)],
        "env": {"RUN": f"run-{number}", "NCCL_DEBUG": "WARN"},
        "checkpoint_path": f"s3://checkpoints/job-{number}/",
        "priority": rng.choice((25, 50, 75)),
        "expected_runtime_seconds": 3600 + number,
    }


def snapshot(jobs: int, regions: int, nodes: int) -> Snapshot:
    """A fleet with as many jobs waiting."""
    names = [f"r{index}" for index in range(regions)]
    views = {
        name: RegionView(
            Region(name=name, prices={"A100-80GB": 2.0 + index / 100, "H100": 4.0}), facts_of(report(name, nodes, busy=True)), 1.0
        )
        for index, name in enumerate(names)
    }
    pending = tuple(
        JobView(
            JobKey(TEAMS[number % len(TEAMS)], f"job-{number}"),
            found := JobSpec.model_validate(spec(number)),
            NOW + timedelta(seconds=number),
            run_seconds=found.expected_runtime_seconds,
        )
        for number in range(jobs)
    )
    return Snapshot(views, {}, {}, {}, Policy(), pending)
