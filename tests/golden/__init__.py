"""Golden trees: what a region's branch holds for given attempts, as real files that reviewers read.

Each case is a folder with `in.yaml` and `out/`. `python -m tests.golden` writes the trees anew; the difference is then
reviewed like any other change.
"""

from pathlib import Path
from typing import Any

import yaml

from reconciler.model import identity, names
from reconciler.model.job import JobSpec
from reconciler.model.region import Region
from reconciler.rendering.branch import METADATA_PATH, README_PATH, SENTINEL_PATH
from reconciler.rendering.manifest import Rendering, hydrator_metadata, region_readme, render_job, sentinel

FOLDER = Path(__file__).parent
STAGE_IMAGE = "reg.example.com/platform/reconciler:1.0"


def cases() -> list[Path]:
    """Folders of the cases, by name."""
    return sorted(path.parent for path in FOLDER.glob("*/in.yaml"))


def tree_of(case: Path) -> dict[str, bytes]:
    """The tree that a case gives, path to bytes."""
    said = yaml.safe_load((case / "in.yaml").read_text(encoding="utf-8"))
    region = Region.model_validate(said["region"])
    files = {
        SENTINEL_PATH: sentinel(region.name),
        README_PATH: region_readme(region.name),
        METADATA_PATH: hydrator_metadata(**said["main"]),
    }
    for attempt in said["attempts"]:
        one = _rendering(region, attempt)
        files[names.manifest_path(one.team, one.attempt)] = render_job(one)
    return files


def _rendering(region: Region, attempt: dict[str, Any]) -> Rendering:
    spec = JobSpec.model_validate(attempt["spec"])
    run_hash = identity.run_hash(attempt["team"], spec)
    return Rendering(
        team=attempt["team"],
        spec=spec,
        region=region,
        attempt=names.attempt_name(spec.job_id, run_hash, attempt["number"]),
        number=attempt["number"],
        run_hash=run_hash,
        gpu_products=tuple(attempt.get("gpu_products", ())),
        checkpoint=attempt.get("checkpoint"),
        seeded_from=attempt.get("seeded_from"),
        stage_image=STAGE_IMAGE,
        dataset_uris=tuple(attempt.get("dataset_uris", ())),
    )


def files_of(case: Path) -> dict[str, bytes]:
    """The tree that is written down for a case."""
    out = case / "out"
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}
