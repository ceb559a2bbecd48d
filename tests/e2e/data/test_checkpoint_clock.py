"""How long a GPU is held before a job goes on whose checkpoints lie in another region's store, over a slow link."""

from pathlib import Path
from typing import Any

from reconciler.model.pods import MAIN
from tests.e2e.data.fleet import FAR, NEAR, fleet
from tests.e2e.data.rig import MB, told

RATE = 10 * MB
SIZES = (25 * MB,) * 4
MOST_GPU_SECONDS = sum(SIZES) / RATE / 2
"""Half of what it takes to bring the checkpoint over the link once; a pod that copies it by itself sends it twice."""

TRAINS = """\
import os, sys, time, urllib.parse
import boto3
uri = urllib.parse.urlsplit(os.environ["CHECKPOINT_PATH"])
bucket = boto3.resource("s3", endpoint_url=os.environ["NEAR"]).Bucket(uri.netloc)
prefix = uri.path.lstrip("/")
there = sorted(one.key.removeprefix(prefix) for one in bucket.objects.filter(Prefix=prefix + "step-1/"))
print("first line at", time.time(), flush=True)
parts = {f"step-1/{number}.bin": size for number, size in enumerate(map(int, sys.argv[1:]))}
if there:
    assert there == sorted([*parts, "step-1/_COMPLETE"]), there
    sys.exit(0)
for name, size in parts.items():
    bucket.put_object(Key=prefix + name, Body=os.urandom(size))
bucket.put_object(Key=prefix + "step-1/_COMPLETE", Body=b"")
sys.exit(1)
"""
"""Writes a checkpoint and fails; where there is one to go on from, it looks that all of it is there."""


def test_no_gpu_is_held_while_a_checkpoint_moves(tmp_path: Path) -> None:
    job: dict[str, Any] = {
        "gpu": {"count": 1, "model": "A100-80GB"},
        "image": "registry.example.com/ml/train:1.4",
        "command": ["python3", "-c", TRAINS, *map(str, SIZES)],
        "checkpoint_path": f"s3://{NEAR}/checkpoints/train/",
        "secrets": [{"name": "store", "env": key} for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")],
        "allowed_regions": [FAR],
        "retries": 1,
        "max_runtime_seconds": 600,
    }
    with fleet(tmp_path, (1,), RATE) as up:
        second = up.ran("train", {**job, "env": {"NEAR": up.link}}, 240.0)
    (seeding,) = [run for run in second.runs if run.container != MAIN]
    what = f"a GPU is held before a job goes on from {sum(SIZES) / MB:g} MB in a store behind {RATE / MB:g} MB/s"
    told(what, f"{second.gpu_seconds:.2f} s ({second.parts()})")
    assert (second.attempt.number, len(second.attempt.stages)) == (2, 1)
    assert any("0 objects" in line for line in seeding.lines), seeding.lines
    assert second.gpu_seconds <= MOST_GPU_SECONDS
