"""The agent's record in a real ConfigMap: compare-and-swap between writers."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from reconciler.adapters.kube import KubeCluster
from reconciler.ports import Conflict, Refused
from tests.e2e.control_plane import ControlPlane
from tests.e2e.world import agents_cluster

RECORD = ("configmap", "agent-record", "-n", "gpu-reconciler")


@pytest.fixture
def cluster(plane: ControlPlane) -> Iterator[KubeCluster]:
    plane.kubectl("delete", *RECORD, "--ignore-not-found")
    yield agents_cluster(plane)
    plane.kubectl("delete", *RECORD, "--ignore-not-found")


def test_a_record_is_created_once_and_replaced_by_its_version(cluster: KubeCluster) -> None:
    assert cluster.read_record() is None
    first = cluster.write_record(b"\x00one\xff", expect=None)
    with pytest.raises(Conflict, match="already exists"):
        cluster.write_record(b"two", expect=None)
    found = cluster.read_record()
    assert found is not None
    assert (found.body, found.etag) == (b"\x00one\xff", first)
    second = cluster.write_record(b"", expect=first)
    with pytest.raises(Conflict, match="has been modified"):
        cluster.write_record(b"late", expect=first)
    found = cluster.read_record()
    assert found is not None
    assert (found.body, found.etag) == (b"", second)


def test_a_record_that_was_deleted_is_not_replaced(cluster: KubeCluster, plane: ControlPlane) -> None:
    version = cluster.write_record(b"one", expect=None)
    plane.kubectl("delete", *RECORD)
    with pytest.raises(Conflict):
        cluster.write_record(b"two", expect=version)
    cluster.write_record(b"three", expect=None)
    with pytest.raises(Conflict):
        cluster.write_record(b"four", expect=version)


def test_of_writers_at_the_same_version_one_wins(cluster: KubeCluster, plane: ControlPlane) -> None:
    writers = [agents_cluster(plane) for _ in range(6)]
    version: str | None = None
    for turn in range(15):

        def write(number: int, expect: str | None = version, turn: int = turn) -> tuple[str, bytes] | None:
            body = f"{turn} by {number}".encode()
            try:
                return writers[number].write_record(body, expect=expect), body
            except Conflict:
                return None

        with ThreadPoolExecutor(len(writers)) as pool:
            won = [one for one in pool.map(write, range(len(writers))) if one is not None]
        found = cluster.read_record()
        assert found is not None
        assert won == [(found.etag, found.body)]
        version = found.etag


def test_what_is_too_large_is_refused(cluster: KubeCluster) -> None:
    version = cluster.write_record(b"x" * 700_000, expect=None)
    with pytest.raises(Refused, match=r"413|422"):
        cluster.write_record(b"x" * 1_200_000, expect=version)
