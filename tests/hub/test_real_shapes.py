"""The kinds of job that people really run: each is read, placed and rendered, and Kubernetes knows every field of what comes out."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from reconciler.adapters.documents.reader import read_job
from reconciler.hub.drafts import rendering_of
from reconciler.hub.placing import new_attempt
from reconciler.model.identity import run_hash
from reconciler.model.names import JobKey
from reconciler.model.policy import Policy
from reconciler.model.record import Source
from reconciler.model.region import Region
from reconciler.model.report import Amounts, NodeReport, RegionReport, RegionSummary
from reconciler.planning.decisions import Place
from reconciler.planning.lifecycle import Wanted, admit
from reconciler.planning.plan import plan
from reconciler.planning.shapes import facts_of
from reconciler.planning.snapshot import JobView, RegionView, Snapshot
from reconciler.rendering.manifest import render_checked
from tests.rendering.builders import EFA, PLAIN, STAGE_IMAGE, region

SHAPES = sorted((Path(__file__).resolve().parents[1] / "cases" / "shapes").glob("*.yaml"))
NOW = datetime(2026, 5, 1, tzinfo=UTC)
GIB = 1024**3
MODELS = (
    "A100-80GB",
    "H100-80GB",
    "H200-141GB",
    "L4-24GB",
    "L40S-48GB",
    "A10-24GB",
    "V100-32GB",
    "A100-40GB",
    "B200-180GB",
    "A10G-24GB",
    "T4-16GB",
)


def _view(base: dict[str, Any]) -> RegionView:
    """A region with thirty-two free nodes of each model; those of the many network cards have RDMA."""
    declared: Region = region(base)
    whole = Amounts(gpus=8, cpu_milli=192_000, memory_bytes=2048 * GIB, disk_bytes=30_000 * GIB, pods=110)
    nodes = tuple(
        NodeReport(
            name=f"{model.lower()}-{index}",
            gpu_model=model,
            gpu_product=f"NVIDIA-{model}",
            vram_bytes=int(model.rpartition("-")[2].removesuffix("GB")) * 10**9,
            driver="570.86.15",
            capacity_gpus=8,
            allocatable=whole,
            rdma=declared.profile.rdma is not None,
        )
        for model in MODELS
        for index in range(32)
    )
    report = RegionReport(
        region=declared.name,
        incarnation="test",
        sequence=1,
        sent_at=NOW,
        grants_version=0,
        lease_epoch=1,
        summary=RegionSummary(
            cluster_id=declared.name,
            gpu_nodes=len(nodes),
            gpu_busy=0,
            gpu_free=8 * len(nodes),
            gpu_models=MODELS,
            queued_jobs=0,
            avg_cpu_usage=0.0,
            avg_gpu_usage=0.0,
            last_heartbeat=NOW,
        ),
        nodes=nodes,
        workloads=(),
        namespaces=("ml",),
        workload_kinds=("job",),
    )
    return RegionView(declared, facts_of(report), 1.0)


VIEWS = {view.region.name: view for view in (_view(EFA), _view(PLAIN))}


def test_there_are_at_least_thirty() -> None:
    assert len(SHAPES) >= 30


@pytest.mark.parametrize("only", [None, *VIEWS])
@pytest.mark.parametrize("path", SHAPES, ids=lambda path: path.stem)
def test_a_real_kind_of_job_is_read_placed_and_rendered(path: Path, only: str | None) -> None:
    key = JobKey("ml", path.stem)
    spec = read_job(path.read_bytes(), path.name).model_copy(update={"allowed_regions": None if only is None else (only,)})
    record = admit(key, Wanted(spec, Source(path=path.name, blob=""), run_hash("ml", spec)), NOW)
    snapshot = Snapshot(VIEWS, {}, {}, {}, Policy(), (JobView(key, spec, NOW),))
    (decision,) = plan(snapshot, NOW)
    if only == "lab" and spec.network == "rdma":
        assert not isinstance(decision, Place)
        assert decision.refused["lab"].code == "RdmaMissing"
        return
    assert isinstance(decision, Place), decision
    attempt = new_attempt(record, decision.chosen, NOW, proposed=False)
    manifest = render_checked(rendering_of(record, attempt, VIEWS[decision.chosen.region].region, STAGE_IMAGE, {}))
    for one in yaml.safe_load_all(manifest):
        kubernetes_validate.validate(one, "1.36", strict=True)
