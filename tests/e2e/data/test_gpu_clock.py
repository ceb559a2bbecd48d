"""How long a GPU is held before the program's first line: with its data brought first, and without."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.data.fleet import BARE, FAR, fleet
from tests.e2e.data.rig import MB, told

RATE = 10 * MB
OBJECTS = (50 * MB,) * 4
MOST_GPU_SECONDS = 2.0
AT_LEAST_SOONER = 0.8

FROM_A_FOLDER = """\
import time
print("first line at", time.time(), flush=True)
import pathlib, sys
found = sum(file.stat().st_size for file in pathlib.Path(sys.argv[1]).rglob("*.bin"))
assert found == int(sys.argv[2]), found
"""
WHERE_IT_IS = """\
import os, sys, time, urllib.parse
import boto3
uri = urllib.parse.urlsplit(os.environ["DATASET_URI"])
bucket = boto3.resource("s3").Bucket(uri.netloc)
objects = bucket.objects.filter(Prefix=uri.path.lstrip("/"))
found = sum(len(some) for one in objects for some in one.get()["Body"].iter_chunks(2**20))
print("first line at", time.time(), flush=True)
assert found == int(sys.argv[2]), found
"""
"""Its first line comes when it has read all of its data, so that waiting for them counts here as well."""

SHAPES = {"its data in a folder": (FROM_A_FOLDER, {"mount_path": "/data"}), "its data read where they are": (WHERE_IT_IS, {})}


def job(region: str, program: str, use: dict[str, str]) -> dict[str, Any]:
    return {
        "gpu": {"count": 1, "model": "A100-80GB"},
        "image": "registry.example.com/ml/train:1.4",
        "command": ["python3", "-c", program, "/data", str(sum(OBJECTS))],
        "dataset": {"name": "photos", **use},
        "secrets": [{"name": "store", "env": key} for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")],
        "allowed_regions": [region],
        "max_runtime_seconds": 600,
        "expected_runtime_seconds": 5,
    }


@pytest.mark.parametrize(("shape", "program", "use"), [(name, *how) for name, how in SHAPES.items()], ids=SHAPES)
def test_no_gpu_is_held_while_data_moves(tmp_path: Path, shape: str, program: str, use: dict[str, str]) -> None:
    with fleet(tmp_path, OBJECTS, RATE) as up:
        alone = up.ran("alone", job(BARE, program, use), 180.0)
        staged = up.ran("staged", job(FAR, program, use), 180.0)
    assert (len(alone.attempt.stages), len(staged.attempt.stages)) == (0, 1)
    what = f"a GPU is held before the first line, {sum(OBJECTS) / MB:g} MB over {RATE / MB:g} MB/s, {shape}"
    sooner = 1 - staged.gpu_seconds / alone.gpu_seconds
    told(f"{what}, without staging", f"{alone.gpu_seconds:.2f} s ({alone.parts()})")
    told(f"{what}, with staging", f"{staged.gpu_seconds:.2f} s, {sooner:.1%} sooner ({staged.parts()})")
    assert alone.gpu_seconds >= sum(OBJECTS) / RATE
    assert sooner >= AT_LEAST_SOONER
    # A folder is filled after the grant, from the region's own store: that is no wait for the link, but grows with the data.
    assert staged.gpu_seconds - staged.fetching_seconds <= MOST_GPU_SECONDS
