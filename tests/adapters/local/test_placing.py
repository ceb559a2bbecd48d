"""What becomes of references, paths and host names in a program's texts."""

from pathlib import Path

import pytest

from reconciler.adapters.local.expansion import expanded
from reconciler.adapters.local.placing import place_of, placed
from tests.adapters.local.world import TEAM

EXPANSIONS = {
    "a known name": ("$(A)", "1"),
    "inside a text": ("x-$(A)-$(B)", "x-1-2"),
    "an unknown name stays": ("$(C)", "$(C)"),
    "two dollars are one": ("$$", "$"),
    "escaped": ("$$(A)", "$(A)"),
    "escaped and expanded": ("$$$(A)", "$1"),
    "a dollar alone stays": ("$A $ $", "$A $ $"),
    "never closed": ("$(A", "$(A"),
    "nothing is replaced twice": ("$(LOOP)", "$(A)"),
    "an empty name": ("$()", "$()"),
    "a shell's own": ("${A} $(( 1 ))", "${A} $(( 1 ))"),
}


@pytest.mark.parametrize(("text", "want"), EXPANSIONS.values(), ids=EXPANSIONS.keys())
def test_expansion(text: str, want: str) -> None:
    assert expanded(text, {"A": "1", "B": "2", "LOOP": "$(A)"}) == want


POD = {
    "metadata": {"namespace": TEAM, "labels": {"batch.kubernetes.io/job-name": "train-a1"}},
    "spec": {"subdomain": "train-a1"},
}
PLACES = {
    "a mount": ("/data", "/r/data"),
    "below a mount": ("/data/x/y", "/r/data/x/y"),
    "the nearest mount": ("/data/in/x", "/m/x"),
    "beside a mount": ("/database", "/database"),
    "a URI of a file": ("file:///data/x", "file:///r/data/x"),
    "the value of a flag": ("--out=/data/x", "--out=/r/data/x"),
    "the URI of a flag": ("-o=file:///data", "-o=file:///r/data"),
    "a path inside a script stays": ("cat /data/x", "cat /data/x"),
    "another URI stays": ("s3://bucket/data", "s3://bucket/data"),
    "a peer": ("train-a1-0.train-a1.team-a", "127.0.0.1"),
    "a peer and a port": ("train-a1-0.train-a1.team-a:29500", "127.0.0.1:29500"),
    "a peer by its short name": ("train-a1-12.train-a1", "127.0.0.1"),
    "a peer by its full name": ("tcp://train-a1-0.train-a1.team-a.svc.cluster.local:1", "tcp://127.0.0.1:1"),
    "several peers": ("train-a1-0.train-a1,train-a1-1.train-a1", "127.0.0.1,127.0.0.1"),
    "a name that merely begins like one": ("train-a1-0.train-a1x", "train-a1-0.train-a1x"),
    "a name that merely ends like one": ("my-train-a1-0.train-a1", "my-train-a1-0.train-a1"),
    "another namespace's": ("train-a1-0.train-a1.team-b", "train-a1-0.train-a1.team-b"),
}


@pytest.mark.parametrize(("text", "want"), PLACES.values(), ids=PLACES.keys())
def test_placing(text: str, want: str) -> None:
    place = place_of(POD, {"/data": Path("/r/data"), "/data/in/": Path("/m")})
    assert placed(text, place) == want
