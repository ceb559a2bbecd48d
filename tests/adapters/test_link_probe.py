"""Transfers over real connections: what they reach, what the kernel says of them, and what is said when they do not come about."""

import socket
import ssl
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from reconciler.adapters.link_probe import Links
from reconciler.adapters.link_probe.buckets import variable
from reconciler.model.region import StoreAddress
from reconciler.ports import Refused, Transient
from tests.adapters import s3_server
from tests.adapters.s3_server import App, answering, losing_answers, s3_error, serving
from tests.adapters.throttle import Throttle, throttled
from tests.waiting import until

KIB, MIB = 1024, 1024**2
SIZE = 512 * KIB
LONG = 30.0
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**KEYS, "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def app() -> App:
    return s3_server.moto_app()


@pytest.fixture
def bucket(app: App) -> Iterator[StoreAddress]:
    """A new bucket behind a server, with a prefix that needs quoting."""
    with serving(app) as url:
        name = f"b-{uuid.uuid4().hex}"
        s3_server.make_bucket(url, name)
        yield StoreAddress(url=f"s3://{name}/some%20where", endpoint=url)


@pytest.fixture
def way(bucket: StoreAddress) -> Iterator[Throttle]:
    assert bucket.endpoint is not None
    with throttled(bucket.endpoint) as made:
        yield made


def links(environment: Mapping[str, str] | None = None) -> Links:
    return Links("eu", environment or {}, time.monotonic)


def by(way: Throttle, bucket: StoreAddress) -> StoreAddress:
    return bucket.model_copy(update={"endpoint": way.url})


def keys_in(bucket: StoreAddress) -> dict[str, int]:
    with s3_server.s3_store(bucket.endpoint or "", bucket.url.split("/")[2]) as store:
        return {listed.key: listed.size for listed in store.list("")}


def folder(path: Path) -> StoreAddress:
    return StoreAddress(url=f"file://{path}")


# ---- what is measured ---------------------------------------------------------------------------------------------


def test_both_ways_move_every_byte_and_leave_only_what_others_read(bucket: StoreAddress) -> None:
    measuring = links()
    measuring.keep("us", bucket, SIZE)
    measuring.keep("us", bucket, SIZE)
    for found in (measuring.read("us", bucket, SIZE, LONG), measuring.write("us", bucket, SIZE, LONG)):
        assert found.moved_bytes == SIZE
        assert found.bytes_per_second > 0
        assert found.tcp is not None
        assert 0 < found.tcp.rtt_ms < 5000
    assert keys_in(bucket) == {"some where/.gpu-reconciler/probe/read": SIZE}


def test_fewer_bytes_than_there_are_may_be_read(bucket: StoreAddress) -> None:
    measuring = links()
    measuring.keep("us", bucket, SIZE)
    assert measuring.read("us", bucket, 1000, LONG).moved_bytes == 1000


def test_the_kernel_tells_of_the_connection_of_the_transfer_itself(bucket: StoreAddress) -> None:
    sent = links().write("us", bucket, 2 * MIB, LONG).tcp
    assert sent is not None
    assert sent.rtt_var_ms is not None
    assert sent.retransmitted is not None
    assert 0 <= sent.retransmitted <= 1
    links().keep("us", bucket, SIZE)
    read = links().read("us", bucket, SIZE, LONG).tcp
    assert read is not None
    assert read.retransmitted is None, "who only asks has sent too little to tell"


@pytest.mark.slow
def test_the_rate_is_that_of_the_way_in_both_directions(bucket: StoreAddress, way: Throttle) -> None:
    measuring, behind = links(), by(way, bucket)
    measuring.keep("us", bucket, MIB)
    for move in (measuring.read, measuring.write):
        way.bytes_per_second = 3e6
        quick = move("us", behind, MIB, LONG)
        way.bytes_per_second = 1e6
        slow = move("us", behind, MIB, LONG)
        assert quick.bytes_per_second <= 3e6 * 1.3
        assert slow.bytes_per_second <= 1e6 * 1.3
        assert slow.bytes_per_second < 0.6 * quick.bytes_per_second


def test_each_transfer_has_a_connection_of_its_own(bucket: StoreAddress, way: Throttle) -> None:
    measuring, behind = links(), by(way, bucket)
    measuring.keep("us", bucket, SIZE)
    for count in (1, 2, 3):
        measuring.read("us", behind, SIZE, LONG)
        assert way.connections == count


@pytest.mark.slow
def test_what_has_moved_when_the_time_is_over_counts(bucket: StoreAddress, way: Throttle) -> None:
    measuring, behind = links(), by(way, bucket)
    measuring.keep("us", bucket, 8 * MIB)
    way.bytes_per_second = 1e6
    for move in (measuring.read, measuring.write):
        found = move("us", behind, 8 * MIB, 1.0)
        assert 256 * KIB <= found.moved_bytes < 8 * MIB
        assert 0 < found.bytes_per_second < 4e6


def test_a_folder_is_copied_and_no_connection_is_told_of(tmp_path: Path) -> None:
    measuring, there = links(), folder(tmp_path / "st%20ore")
    measuring.keep("us", there, SIZE)
    for found in (measuring.read("us", there, SIZE, LONG), measuring.write("us", there, SIZE, LONG)):
        assert (found.moved_bytes, found.tcp) == (SIZE, None)
        assert found.bytes_per_second > 0
    kept = [path for path in (tmp_path / "st ore").rglob("*") if path.is_file()]
    assert [(path.name, path.stat().st_size) for path in kept] == [("read", SIZE)]


def test_an_object_of_another_size_is_put_anew(bucket: StoreAddress, tmp_path: Path) -> None:
    for address in (bucket, folder(tmp_path)):
        links().keep("us", address, KIB)
        links().keep("us", address, SIZE)
        assert links().read("us", address, SIZE, LONG).moved_bytes == SIZE


# ---- whose credentials --------------------------------------------------------------------------------------------


def test_a_store_is_opened_by_its_own_credentials_and_endpoint(bucket: StoreAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name)
    nowhere = bucket.model_copy(update={"endpoint": None})
    with pytest.raises(Refused, match="credentials"):
        links().write("us-east", bucket, SIZE, LONG)
    own = {variable("us-east", name): value for name, value in KEYS.items()}
    own |= {"RECONCILER_STORE_US_EAST_AWS_ENDPOINT_URL_S3": bucket.endpoint or ""}
    assert "RECONCILER_STORE_US_EAST_AWS_SECRET_ACCESS_KEY" in own
    assert links(own).write("us-east", nowhere, SIZE, LONG).moved_bytes == SIZE


def test_half_a_pair_of_keys_is_refused(bucket: StoreAddress) -> None:
    with pytest.raises(Refused, match="RECONCILER_STORE_US_AWS_SECRET_ACCESS_KEY go together"):
        links({variable("us", "AWS_ACCESS_KEY_ID"): "a"}).read("us", bucket, SIZE, LONG)


# ---- what goes wrong, in words ------------------------------------------------------------------------------------


def test_nothing_to_read_is_told_with_who_puts_it_there(bucket: StoreAddress, tmp_path: Path) -> None:
    for address in (bucket, folder(tmp_path)):
        with pytest.raises(Transient, match=r"the agent of that region puts it there, unless it runs with --no-probe"):
            links().read("us", address, SIZE, LONG)


ANSWERS = {
    "a store that lets nobody in": (
        "403 Forbidden",
        s3_error("AccessDenied"),
        Refused,
        "AccessDenied.*let the agent's credentials",
    ),
    "a store of elsewhere": ("301 Moved Permanently", s3_error("PermanentRedirect"), Refused, "`location`"),
    "a busy store": ("503 Slow Down", s3_error("SlowDown"), Transient, "SlowDown"),
    "no store": ("418 Teapot", b"<h1>short and stout</h1>", Refused, "HTTP 418 .*correct the address"),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_what_a_store_answers_is_told(app: App, bucket: StoreAddress, case: str) -> None:
    status, body, error, words = ANSWERS[case]
    links().keep("us", bucket, 8 * MIB)
    with serving(answering(status, body, methods=("GET", "PUT"))(app)) as url:
        behind = bucket.model_copy(update={"endpoint": url})
        for move in (links().read, links().write):
            with pytest.raises(error, match=words) as told:
                move("us", behind, SIZE, LONG)
            assert "X-Amz" not in str(told.value), "the signed address is a secret for a while"


def test_a_server_that_is_not_there_is_told(bucket: StoreAddress) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for move in (links().read, links().write):
        with pytest.raises(Transient, match="refused"):
            move("us", bucket.model_copy(update={"endpoint": f"http://127.0.0.1:{port}"}), SIZE, LONG)


def test_a_way_on_which_nothing_moves_is_given_up_in_time(bucket: StoreAddress, way: Throttle) -> None:
    way.bytes_per_second = 0
    for move in (links().read, links().write):
        with pytest.raises(Transient):
            move("us", by(way, bucket), 8 * MIB, 0.5)


def test_a_connection_that_breaks_is_no_slow_link(app: App, bucket: StoreAddress) -> None:
    links().keep("us", bucket, SIZE)
    for fault in (losing_answers("GET", "PUT"), s3_server.cutting_bodies(0.5)):
        with serving(fault(app)) as url, pytest.raises(Transient):
            links().read("us", bucket.model_copy(update={"endpoint": url}), SIZE, LONG)
    with serving(losing_answers("PUT")(app)) as url, pytest.raises(Transient):
        links().write("us", bucket.model_copy(update={"endpoint": url}), SIZE, LONG)


@pytest.mark.slow
def test_a_store_that_says_no_before_it_has_all_is_heard(bucket: StoreAddress) -> None:
    """It closes the door on the rest; why stands in its answer."""

    def door() -> None:
        near, _ = listening.accept()
        near.recv(4096)
        near.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        near.shutdown(socket.SHUT_WR)
        until(lambda: not near.recv(65536))
        near.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=door, daemon=True).start()
        there = bucket.model_copy(update={"endpoint": f"http://127.0.0.1:{listening.getsockname()[1]}"})
        with pytest.raises(Refused, match="HTTP 403"):
            links().write("us", there, 8 * MIB, LONG)


def test_a_folder_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".gpu-reconciler").write_text("a file in the way")
    for ask in (links().write, links().read):
        with pytest.raises(Refused, match="let the agent read and write there"):
            ask("us", folder(tmp_path), SIZE, LONG)


def test_other_kinds_of_store_are_refused() -> None:
    with pytest.raises(Refused, match="file:///folder or s3://bucket/prefix"):
        links().read("us", StoreAddress(url="gs://bucket/"), SIZE, LONG)


@pytest.mark.slow
def test_by_tls_only_to_whom_the_authorities_vouch_for(app: App, bucket: StoreAddress, tmp_path: Path) -> None:
    certificate, key = tmp_path / "crt", tmp_path / "key"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2"]
    subprocess.run([*make, "-subj", "/CN=store", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    links().keep("us", bucket, SIZE)
    with serving(app, context) as url:
        behind = bucket.model_copy(update={"endpoint": url})
        with pytest.raises(Refused, match="AWS_CA_BUNDLE"):
            links().read("us", behind, SIZE, LONG)
        trusting = links({"AWS_CA_BUNDLE": str(certificate)})
        with throttled(url) as way:
            way.bytes_per_second = 1e6
            for move in (trusting.read, trusting.write):
                found = move("us", by(way, bucket), SIZE, LONG)
                assert found.moved_bytes == SIZE
                assert 0.2e6 < found.bytes_per_second < 2e6
                assert found.tcp is not None
