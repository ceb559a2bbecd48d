"""For every reason that a pass can give, a world that calls for it."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from reconciler.model.fleet import Team
from reconciler.model.reasons import Why
from reconciler.planning.decisions import Decision, Impossible, Place, Wait
from reconciler.planning.image_facts import ImageFacts
from reconciler.planning.snapshot import Snapshot
from tests.builders import (
    IMAGE,
    TEAM,
    make_dataset,
    make_holding,
    make_job,
    make_link,
    make_node,
    make_pod,
    make_region,
    make_snapshot,
    make_workload,
)

Numbers = Mapping[str, Any]
GLOBAL = "*"
"""The decision's own reason, and not that of one region."""

RDMA = {"rdma": {"resources": {"rdma/hca": "1"}}}
ROOMY = make_node("n0")


def world(*regions: Any, teams: Any = (), links: Any = (), datasets: Any = (), **job: Any) -> Snapshot:
    return make_snapshot(
        *(regions or [make_region("eu", a100=8)]), jobs=[make_job(**job)], teams=teams, links=links, datasets=datasets
    )


def busy(minutes: int = 40) -> Any:
    """eu, full until in so many minutes."""
    held = make_workload("old-a1", make_pod(node="n0"))
    return make_region("eu", make_node("n0", used=8), shows=[held], holdings=[make_holding(ends_in=timedelta(minutes=minutes))])


CORPUS = make_dataset("corpus-a", "eu", size_gb=500)
SLOW, DEAR = make_link("eu", "us", gbit=1, usd=0.02), make_link("eu", "us", gbit=10, usd=0.02)
US = make_region("us", a100=8)
READS = {"dataset": {"name": "corpus-a"}}

DECISIONS: dict[Why, tuple[Snapshot, type[Decision], str, Numbers]] = {
    # A region cannot take the job as things are declared.
    Why.REGION_NOT_ALLOWED: (world(US, allowed_regions=["eu"]), Impossible, "us", {"region": "us"}),
    Why.REGION_DENIED: (world(US, denied_regions=["us"]), Impossible, "us", {"region": "us"}),
    Why.NO_SUCH_REGION: (world(US, allowed_regions=["mars"]), Impossible, "mars", {"region": "mars", "known": "us"}),
    Why.TEAM_MAY_NOT_USE_REGION: (
        world(US, teams=[Team(name=TEAM, regions=("eu",))]),
        Impossible,
        "us",
        {"team": TEAM, "region": "us"},
    ),
    Why.NOT_COMPLIANT: (
        world(make_region("eu", a100=8, compliance=["iso"]), compliance=["iso", "hipaa", "gdpr"]),
        Impossible,
        "eu",
        {"region": "eu", "tag": "gdpr", "whose": "job"},
    ),
    Why.WORKLOAD_KIND_MISSING: (
        world(make_region("eu", a100=8, workloads=[])),
        Impossible,
        "eu",
        {"region": "eu", "kind": "job"},
    ),
    Why.DEADMAN_NOT_POSSIBLE: (
        world(make_region("eu", a100=8, deadman=True, workloads=["jobset"]), workload="jobset"),
        Impossible,
        "eu",
        {"region": "eu", "kind": "jobset"},
    ),
    Why.GRACE_TOO_LONG: (
        world(make_region("eu", a100=8, deadman=True), grace_seconds=151),
        Impossible,
        "eu",
        {"region": "eu", "most": 150, "wanted": 151},
    ),
    Why.NAMESPACE_MISSING: (
        world(make_region("eu", a100=8, namespaces=["team-b"])),
        Wait,
        "eu",
        {"region": "eu", "team": TEAM},
    ),
    Why.RDMA_MISSING: (world(make_region("eu", ROOMY, profile=RDMA), network="rdma"), Impossible, "eu", {"region": "eu"}),
    Why.QUEUE_MISSING: (world(queue="research"), Impossible, "eu", {"region": "eu", "queue": "research"}),
    Why.TOLERATION_UNKNOWN: (world(tolerations=["spot"]), Impossible, "eu", {"region": "eu", "toleration": "spot"}),
    Why.GPU_MODEL_MISMATCH: (
        world(make_region("eu", l4=8, a100=8), model=["H100", "B200"]),
        Impossible,
        "eu",
        {"region": "eu", "wanted": "H100 or B200", "have": "A100-80GB, L4"},
    ),
    Why.VRAM_TOO_SMALL: (
        world(make_region("eu", l4=8, a100_40=8), model=None, gpu={"memory": "48Gi"}),
        Impossible,
        "eu",
        {"region": "eu", "have_gib": 40.0, "wanted_gib": 48.0},
    ),
    Why.VRAM_UNKNOWN: (
        world(make_region("eu", make_node(vram_bytes=None)), gpu={"memory": "1Gi"}),
        Impossible,
        "eu",
        {"region": "eu", "model": "A100-80GB"},
    ),
    Why.DRIVER_MISMATCH: (
        world(make_region("eu", ROOMY, make_node("n1", driver="535.1"), make_node("n2", driver=None)), gpu={"driver": ">=560"}),
        Impossible,
        "eu",
        {"region": "eu", "have": "535.1, 550.90.07, unknown", "wanted": ">=560"},
    ),
    Why.NODE_TOO_SMALL: (
        world(make_region("eu", a100=8), gpus=9),
        Impossible,
        "eu",
        {"region": "eu", "largest": 8, "resource": "GPUs", "wanted": 9},
    ),
    Why.REGION_TOO_SMALL: (world(nodes=2), Impossible, "eu", {"region": "eu", "have": 1, "wanted": 2}),
    Why.DATA_UNREACHABLE: (
        world(US, datasets=[CORPUS], **READS),
        Impossible,
        "us",
        {"dataset": "corpus-a", "region": "us", "cause": "there is no link from eu"},
    ),
    Why.DATA_MAY_NOT_LEAVE: (
        world(US, datasets=[make_dataset(residency=["gdpr"])], links=[DEAR], **READS),
        Impossible,
        "us",
        {"dataset": "corpus-a", "tag": "gdpr", "region": "us"},
    ),
    Why.OUTPUT_NOT_COMPLIANT: (
        world(
            make_region("eu", a100=8, compliance=["gdpr"]),
            make_region("us", object_store={"url": "s3://store-us/reconciler"}),
            compliance=["gdpr"],
            checkpoint_path="s3://store-us/checkpoints/llm-a/",
        ),
        Impossible,
        "eu",
        {
            "what": "checkpoint_path",
            "uri": "s3://store-us/checkpoints/llm-a/",
            "store": "us",
            "tag": "gdpr",
            "whose": "job",
        },
    ),
    Why.OVERLAY_NOT_ALLOWED: (
        world(pod_overlay={"dnsConfig": {"searches": ["x"]}}),
        Impossible,
        "eu",
        {"region": "eu", "field": "dnsConfig.searches"},
    ),
    Why.START_REFUSED: (
        world(
            make_region("eu", ROOMY, overlay_allowed=["containers"]),
            pod_overlay={"containers": [{"resources": {"requests": {"cpu": "lots"}}}]},
        ),
        Impossible,
        "eu",
        {"message": "its pod_overlay and the profile of eu make no pod: `lots` is no quantity"},
    ),
    Why.IMAGE_MISSING: (
        replace(world(US), images={IMAGE: ImageFacts(missing="it has none")}),
        Impossible,
        GLOBAL,
        {"image": IMAGE, "words": "it has none"},
    ),
    Why.IMAGE_FORBIDDEN: (
        replace(world(US), images={IMAGE: ImageFacts(forbidden="not for you")}),
        Impossible,
        "us",
        {"image": IMAGE, "words": "not for you"},
    ),
    Why.VETOED: (world(US, veto=["us"]), Impossible, "us", {"region": "us"}),
    Why.PINNED_ELSEWHERE: (world(make_region("eu"), US, pin="eu"), Wait, "us", {"pin": "eu"}),
    # Not now.
    Why.IMAGE_UNASKED: (replace(world(US), images={}, asks_images=True), Wait, GLOBAL, {"image": IMAGE}),
    Why.CORDONED: (world(make_region("eu", a100=8, cordoned=True)), Wait, "eu", {"region": "eu"}),
    Why.DRAINING: (
        world(make_region("eu", a100=8, drain_by="2026-05-01T13:00:00Z")),
        Wait,
        "eu",
        {"region": "eu", "by": "2026-05-01T13:00:00Z"},
    ),
    Why.NO_REPORT: (world(make_region("eu", age=None)), Wait, "eu", {"region": "eu"}),
    Why.REPORT_STALE: (
        world(make_region("eu", a100=8, age=30.6)),
        Wait,
        "eu",
        {"region": "eu", "age_seconds": 31, "limit_seconds": 30},
    ),
    Why.NOT_ENOUGH_FREE: (
        world(make_region("eu", ROOMY, make_node("n1", used=1)), nodes=2),
        Wait,
        "eu",
        {"region": "eu", "free_nodes": 1, "wanted": 2, "per_node": 8, "resource": "GPUs"},
    ),
    Why.FRAGMENTED: (
        world(make_region("eu", make_node("n0", used=3), make_node("n1", used=4)), gpus=8),
        Wait,
        "eu",
        {"region": "eu", "free": 9, "largest": 5, "per_node": 8},
    ),
    # The job as a whole.
    Why.CHOSEN: (world(make_region("eu", a100=8), US), Place, GLOBAL, {"region": "eu", "score": 0.8}),
    Why.ONLY_CHOICE: (world(), Place, GLOBAL, {"region": "eu"}),
    Why.PINNED: (world(make_region("eu", a100=8), US, pin="us"), Place, GLOBAL, {"region": "us"}),
    Why.NO_REGION_LEFT: (
        world(make_region("eu", a100=8), US, denied_regions=["eu"], veto=["us"]),
        Impossible,
        GLOBAL,
        {"refusals": "eu is among the job's denied_regions; a person ruled out us for this job"},
    ),
    Why.NO_REGIONS: (make_snapshot(jobs=[make_job()]), Impossible, GLOBAL, {}),
    Why.NO_REGION_HAS_MODEL: (
        world(make_region("eu", a100=8, l4=8), model="H1OO"),
        Impossible,
        GLOBAL,
        {"wanted": "H1OO", "have": "A100-80GB, L4", "hint": ""},
    ),
    Why.NO_NODE_LARGE_ENOUGH: (
        world(make_region("eu", a100=4), US, gpus=16),
        Impossible,
        GLOBAL,
        {"largest": 8, "resource": "GPUs", "wanted": 16},
    ),
    Why.NO_CAPACITY: (world(make_region("eu", make_node(used=8))), Wait, GLOBAL, {}),
    Why.WAIT_NOT_COPY: (
        world(busy(), US, links=[SLOW], datasets=[CORPUS], **READS),
        Wait,
        GLOBAL,
        {
            "region": "eu",
            "free_at": "2026-05-01T12:40:00Z",
            "other": "us",
            "gib": 465.7,
            "cause": "takes until 2026-05-01T13:06:40Z",
        },
    ),
    Why.DEADLINE_OUT_OF_REACH: (
        world(busy(), US, links=[SLOW], datasets=[CORPUS], deadline="2026-05-01T12:39:59Z", **READS),
        Wait,
        GLOBAL,
        {
            "region": "eu",
            "free_at": "2026-05-01T12:40:00Z",
            "other": "us",
            "copied_at": "2026-05-01T13:06:40Z",
            "deadline": "2026-05-01T12:39:59Z",
        },
    ),
}
