"""Links measured to a real S3 server, through a way whose bandwidth the test sets."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.adapters.link_probe import READ, Links
from reconciler.adapters.link_probe.buckets import variable
from reconciler.model.region import StoreAddress
from reconciler.ports import Refused, Transient
from tests.adapters.throttle import throttled
from tests.e2e.s3 import ACCESS, S3Server, s3_server

MIB = 1024**2
NAME = "probed"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as up:
        up.make_bucket(NAME)
        yield up


def links(server: S3Server) -> Links:
    keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")
    return Links("eu", {variable("us", name): server.environment[name] for name in keys}, time.monotonic)


def address(endpoint: str) -> StoreAddress:
    return StoreAddress(url=f"s3://{NAME}/data", endpoint=endpoint)


def left(server: S3Server) -> list[Path]:
    """The objects; what the server keeps for itself is beside them."""
    return sorted(path.relative_to(server.folder / NAME) for path in (server.folder / NAME / "data").rglob("*") if path.is_file())


@pytest.mark.parametrize("size", [MIB, 8 * MIB, 64 * MIB])
def test_every_size_both_ways(server: S3Server, size: int) -> None:
    measuring, there = links(server), address(server.endpoint)
    measuring.keep("us", there, 64 * MIB)
    for found in (measuring.read("us", there, size, 60.0), measuring.write("us", there, size, 60.0)):
        assert found.moved_bytes == size
        assert found.tcp is not None
        assert found.tcp.rtt_ms > 0
    assert left(server) == [Path("data") / READ]


def test_a_way_that_falls_to_a_third_is_measured_as_one(server: S3Server) -> None:
    measuring = links(server)
    measuring.keep("us", address(server.endpoint), 64 * MIB)
    with throttled(server.endpoint) as way:
        for move in (measuring.read, measuring.write):
            rates = []
            for rate in (3e6, 1e6):
                way.bytes_per_second = rate
                rates.append(move("us", address(way.url), 2 * MIB, 60.0).bytes_per_second)
            assert rates[1] < 0.6 * rates[0]
            assert rates[0] < 2 * 3e6


def test_what_is_cut_off_leaves_no_object(server: S3Server) -> None:
    measuring = links(server)
    with throttled(server.endpoint) as way:
        way.bytes_per_second = 1e6
        assert 0 < measuring.write("us", address(way.url), 8 * MIB, 1.5).moved_bytes < 8 * MIB
    assert [path for path in left(server) if path.name != "read"] == []


class _Ends:
    """Takes so many bytes from one connection to the server, ends its sending there in good order, and hands the answer back."""

    def __init__(self, port: int, most: int) -> None:
        self.door = socket.create_server(("127.0.0.1", 0))
        self.answer = b""
        self._port, self._most = port, most
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def _carry(self) -> None:
        near, _ = self.door.accept()
        with near, socket.create_connection(("127.0.0.1", self._port)) as far:
            while self._most > 0 and (some := near.recv(min(self._most, 65536))):
                far.sendall(some)
                self._most -= len(some)
            far.shutdown(socket.SHUT_WR)
            while some := far.recv(65536):
                self.answer += some

    def over(self) -> bytes:
        self._thread.join(30)
        self.door.close()
        return self.answer


@pytest.mark.parametrize("most", [2000, 100_000, 3 * MIB])
def test_a_store_that_takes_the_end_of_a_connection_for_the_end_of_the_object_is_told_better(server: S3Server, most: int) -> None:
    ends = _Ends(server.port, most)
    with pytest.raises(Transient):
        links(server).write("us", address(f"http://127.0.0.1:{ends.door.getsockname()[1]}"), 8 * MIB, 20.0)
    assert ends.over().split()[1] in (b"400", b"500")
    assert [path for path in left(server) if path.name != "read"] == []


def test_whoever_has_no_right_there_is_told(server: S3Server) -> None:
    wrong = {variable("us", "AWS_ACCESS_KEY_ID"): ACCESS, variable("us", "AWS_SECRET_ACCESS_KEY"): "x" * 20}
    with pytest.raises(Refused, match=r"HTTP 403 SignatureDoesNotMatch .*let the agent's credentials"):
        Links("eu", wrong | {variable("us", "AWS_REGION"): "us-east-1"}, time.monotonic).read(
            "us", address(server.endpoint), MIB, 30.0
        )
