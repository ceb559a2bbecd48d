"""What only a store across a network can get wrong: answers that are lost, cut, refused, or not those of an S3 store."""

import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest
from botocore.config import Config

from reconciler.adapters.dataset_listing import measure
from reconciler.adapters.s3_store import S3Store
from reconciler.ports import Conflict, ObjectStore, Refused, Transient
from tests.adapters import s3_server
from tests.adapters.s3_server import App, Fault, Requests, answering, client_factory, s3_error, s3_store, serving

Behind = Callable[..., S3Store]


@pytest.fixture(scope="module")
def app() -> App:
    return s3_server.moto_app()


@pytest.fixture
def behind(app: App) -> Iterator[Behind]:
    """Makes a store on one and the same bucket, with the faults given, the first of them the nearest to the caller."""
    bucket = f"b-{uuid.uuid4().hex}"
    with ExitStack() as stack:

        def store(*faults: Fault, prefix: str = "fleet") -> S3Store:
            faulty = app
            for fault in reversed(faults):
                faulty = fault(faulty)
            url = stack.enter_context(serving(faulty))
            return stack.enter_context(s3_store(url, bucket, prefix))

        with serving(app) as url:
            s3_server.make_bucket(url, bucket)
        yield store


# ---- prefixes -----------------------------------------------------------------------------------------------------


def test_a_store_sees_nothing_outside_its_prefix(behind: Behind) -> None:
    eu, europe, all_of_it = behind(prefix="/a/eu/"), behind(prefix="a/europe"), behind(prefix="")
    eu.put("x", b"1", expect=None)
    europe.put("x", b"2", expect=None)
    assert [listed.key for listed in eu.list("")] == ["x"]
    assert [listed.key for listed in all_of_it.list("")] == ["a/eu/x", "a/europe/x"]
    eu.copy("x", "y")
    eu.delete("x")
    assert [listed.key for listed in all_of_it.list("")] == ["a/eu/y", "a/europe/x"]


def test_markers_of_folders_are_listed_but_are_no_part_of_a_dataset(behind: Behind) -> None:
    store = behind(prefix="fleet")
    with serving(s3_server.moto_app()) as url, closing(client_factory(url)(Config())) as client:
        for key in ("fleet/", "fleet/ds/", "fleet/ds/part/", "fleet/ds/odd/"):
            client.put_object(Bucket=store._bucket, Key=key, Body=b"odd" if "odd" in key else b"")
    store.put("ds/part/1", b"12345", expect=None)
    assert [listed.key for listed in store.list("")] == ["ds/", "ds/odd/", "ds/part/", "ds/part/1"]
    assert measure(store, "ds") == (2, 8)


# ---- answers that do not come -------------------------------------------------------------------------------------


def test_a_write_whose_answer_is_lost_is_not_sent_again_and_its_outcome_is_unknown(behind: Behind) -> None:
    requests, plain = Requests(), behind()
    etag = plain.put("lease.json", b"1", expect=None)
    losing = behind(requests, s3_server.losing_answers("PUT"))
    for key, expect in (("new.json", None), ("lease.json", etag)):
        requests.methods.clear()
        with pytest.raises(Transient, match=key):
            losing.put(key, b"2", expect=expect)
        assert requests.methods == ["PUT"]
        # It was done; so the next try conflicts, and a reader finds its own bytes.
        with pytest.raises(Conflict):
            plain.put(key, b"2", expect=expect)
        stored = plain.get(key)
        assert stored is not None
        assert stored.body == b"2"


@pytest.mark.parametrize("status", ["500 Internal Server Error", "503 Slow Down", "502 Bad Gateway", "429 Too Many Requests"])
def test_a_write_that_a_busy_store_refuses_is_not_sent_again(behind: Behind, status: str) -> None:
    requests = Requests()
    busy = behind(requests, answering(status, s3_error("SlowDown"), methods=("PUT",)))
    with pytest.raises(Transient):
        busy.put("lease.json", b"1", expect=None)
    assert requests.methods == ["PUT"]


def test_a_read_is_sent_again(behind: Behind) -> None:
    requests, plain = Requests(), behind()
    etag = plain.put("lease.json", b"1", expect=None)
    busy = behind(requests, answering("503 Slow Down", s3_error("SlowDown"), methods=("GET", "HEAD"), times=1))
    assert busy.etag("lease.json") == etag
    assert requests.methods == ["HEAD", "HEAD"]


def test_a_body_cut_short_is_never_given_out(behind: Behind) -> None:
    behind().put("report.json", b'{"nodes": []}' * 1000, expect=None)
    cut = behind(s3_server.cutting_bodies(0.6))
    with pytest.raises(Transient, match=r"report\.json"):
        cut.get("report.json")
    with pytest.raises(Transient):
        list(cut.list(""))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_store_that_is_not_there_is_transient() -> None:
    with s3_store(f"http://127.0.0.1:{free_port()}", "bucket") as store, pytest.raises(Transient, match="connect"):
        store.put("lease.json", b"1", expect=None)


def test_a_store_that_never_answers_is_transient() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        make = client_factory(f"http://127.0.0.1:{silent.getsockname()[1]}")
        quick = Config(read_timeout=0.2, retries={"total_max_attempts": 1})
        with closing(S3Store("bucket", client_factory=lambda config: make(config.merge(quick)))) as store:
            for call in (lambda: store.put("lease.json", b"1", expect=None), lambda: store.get("lease.json")):
                with pytest.raises(Transient, match=r"(?i)timeout"):
                    call()


def test_no_call_waits_for_minutes_but_the_copy(behind: Behind) -> None:
    configs = {name: getattr(behind(), f"_{name}").meta.config for name in ("deciding", "reading", "copying")}
    for config in configs.values():
        assert config.connect_timeout <= 5
        assert config.signature_version == "s3v4"
        assert config.request_checksum_calculation == "when_required"
    assert configs["deciding"].read_timeout <= 10
    assert configs["reading"].read_timeout <= 10
    assert configs["copying"].read_timeout >= 300


# ---- answers that say no ------------------------------------------------------------------------------------------

ANSWERS: dict[str, tuple[str, str, type[Exception], str]] = {
    "a lost condition": ("412 Precondition Failed", "PreconditionFailed", Conflict, "412"),
    "a conflict of two writers": ("409 Conflict", "ConditionalRequestConflict", Conflict, "409"),
    "no object to replace": ("404 Not Found", "NoSuchKey", Conflict, "404"),
    "no bucket": ("404 Not Found", "NoSuchBucket", Refused, "create the bucket"),
    "no right": ("403 Forbidden", "AccessDenied", Refused, "s3:PutObject"),
    "an unknown key id": ("403 Forbidden", "InvalidAccessKeyId", Refused, "correct or renew the credentials"),
    "a wrong secret": ("403 Forbidden", "SignatureDoesNotMatch", Refused, "correct or renew the credentials"),
    "an old token": ("400 Bad Request", "ExpiredToken", Refused, "correct or renew the credentials"),
    "a wrong clock": ("403 Forbidden", "RequestTimeTooSkewed", Refused, "clock"),
    "another region": ("301 Moved Permanently", "PermanentRedirect", Refused, "region"),
    "no conditional writes": ("501 Not Implemented", "NotImplemented", Refused, "honours If-Match"),
    "something about the request": ("400 Bad Request", "InvalidArgument", Refused, "settings of the object store"),
    "too slow a sender": ("400 Bad Request", "RequestTimeout", Transient, "RequestTimeout"),
    "an internal error": ("500 Internal Server Error", "InternalError", Transient, "500"),
    "too many requests": ("503 Service Unavailable", "SlowDown", Transient, "SlowDown"),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_each_answer_to_a_write_says_what_the_writer_can_do(behind: Behind, case: str) -> None:
    status, code, error, says = ANSWERS[case]
    store = behind(answering(status, s3_error(code), methods=("PUT",)))
    with pytest.raises(error, match=rf"(?s)lease\.json.*{says}"):
        store.put("lease.json", b"2", expect='"0123"')


CALLS: dict[str, Callable[[ObjectStore], object]] = {
    "get": lambda store: store.get("a"),
    "etag": lambda store: store.etag("a"),
    "create": lambda store: store.put("a", b"1", expect=None),
    "replace": lambda store: store.put("a", b"1", expect="x"),
    "list": lambda store: list(store.list("")),
    "copy": lambda store: store.copy("a", "b"),
    "delete": lambda store: store.delete("a"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_missing_bucket_is_never_an_empty_one(app: App, call: str) -> None:
    with serving(app) as url, s3_store(url, "never-made") as store, pytest.raises(Refused, match="create the bucket"):
        CALLS[call](store)


@pytest.mark.parametrize("call", CALLS)
def test_missing_rights_are_named(behind: Behind, call: str) -> None:
    store = behind(answering("403 Forbidden", s3_error("AccessDenied"), methods=("GET", "HEAD", "PUT", "DELETE")))
    with pytest.raises(Refused, match="s3:ListBucket"):
        CALLS[call](store)


@pytest.mark.parametrize("call", ["get", "etag", "list"])
def test_a_web_page_that_says_not_found_is_no_missing_object(behind: Behind, call: str) -> None:
    store = behind(answering("404 Not Found", b"<html>no such page</html>", methods=("GET", "HEAD")))
    with pytest.raises(Refused, match="correct the endpoint"):
        CALLS[call](store)


@pytest.mark.parametrize("page", [b"maintenance", b"<html><p>maintenance</html>", b"<html><p>maintenance</p></html>", b""])
def test_a_web_page_is_no_empty_listing(behind: Behind, page: bytes) -> None:
    store = behind(answering("200 OK", page, methods=("GET",)))
    with pytest.raises(Transient):
        list(store.list(""))


@pytest.mark.parametrize("call", ["get", "etag", "create"])
def test_an_answer_without_an_etag_is_refused(behind: Behind, call: str) -> None:
    if call != "create":
        behind().put("a", b"1", expect=None)

    def without(method: str, headers: dict[str, str]) -> dict[str, str]:
        return {name: value for name, value in headers.items() if name.lower() != "etag"}

    with pytest.raises(Refused, match="without an ETag"):
        CALLS[call](behind(s3_server.changing_headers(without)))


def test_a_listing_that_cannot_go_on_is_not_taken_for_the_whole(behind: Behind) -> None:
    plain = behind()
    for number in range(3):
        plain.put(f"ds/{number}", b"1", expect=None)
    # A store that knows only the first version of the call: it names no token to go on with.
    old = behind(s3_server.changing_query("list-type=2", "max-keys=2"))
    with pytest.raises(Refused, match="ListObjectsV2"):
        list(old.list("ds/"))


def test_an_object_that_is_too_large_to_copy_says_so(behind: Behind) -> None:
    behind().put("ckpt/a", b"1", expect=None)

    def large(method: str, headers: dict[str, str]) -> dict[str, str]:
        return {**headers, "Content-Length": str(6 * 1024**3)} if method == "HEAD" else headers

    too_large = answering("400 Bad Request", s3_error("InvalidRequest", "larger than the maximum"), methods=("PUT",))
    with pytest.raises(Refused, match=r"6442450944 bytes are more than the 5368709120"):
        behind(too_large, s3_server.changing_headers(large)).copy("ckpt/a", "ckpt/b")
    with pytest.raises(Refused, match="InvalidRequest"):
        behind(too_large).copy("ckpt/a", "ckpt/b")


def test_a_certificate_of_an_unknown_authority_is_refused(app: App) -> None:
    with serving(app, ssl_context="adhoc") as url, s3_store(url, "bucket") as store:
        for call in ("create", "get"):
            with pytest.raises(Refused, match="AWS_CA_BUNDLE"):
                CALLS[call](store)
