"""Stores that keep their promises pass the probe, and real servers that break them are refused by name."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from reconciler.adapters.file_store import FileStore
from reconciler.adapters.s3_store import S3Store
from reconciler.adapters.store_probe import probe
from reconciler.ports import Refused, Transient
from tests.adapters import s3_server
from tests.adapters.s3_server import App, Fault, honest, ignoring, renaming_status, s3_error, s3_store, serving


@pytest.fixture(scope="module")
def app() -> App:
    return s3_server.moto_app()


@pytest.fixture
def behind(app: App) -> Iterator[Callable[[Fault], S3Store]]:
    bucket = f"b-{uuid.uuid4().hex}"
    with ExitStack() as stack:
        s3_server.make_bucket(stack.enter_context(serving(app)), bucket)
        yield lambda fault: stack.enter_context(s3_store(stack.enter_context(serving(fault(app))), bucket))


def test_a_folder_passes_and_is_left_clean(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    store.put("regions/eu/lease.json", b"1", expect=None)
    probe(store, "hub-1")
    assert [listed.key for listed in store.list("")] == ["regions/eu/lease.json"]


PASS: dict[str, Fault] = {
    "an honest store": honest,
    "a store that says 409 where others say 412": renaming_status(412, "409 Conflict"),
}


@pytest.mark.parametrize("case", PASS)
def test_a_store_that_keeps_its_promises_passes_and_is_left_clean(behind: Callable[[Fault], S3Store], case: str) -> None:
    store = behind(PASS[case])
    for token in ("hub-1", "hub-2", "hub-1"):
        probe(store, token)
    assert list(behind(honest).list("")) == []


def old_bytes(app: App) -> App:
    """A cache on the way, that goes on giving out the first answer to a GET."""
    first: dict[str, tuple[tuple[object, ...], bytes]] = {}

    def cached(environ: dict[str, object], start: Callable[..., object]) -> list[bytes]:
        path = str(environ["PATH_INFO"])
        if environ["REQUEST_METHOD"] != "GET":
            return list(app(environ, start))
        if path not in first:
            told: list[tuple[object, ...]] = []
            body = b"".join(app(environ, lambda *answer: told.append(answer)))
            first[path] = (told[0], body)
        answer, body = first[path]
        start(*answer)
        return [body]

    return cached


def weak_etags(method: str, headers: dict[str, str]) -> dict[str, str]:
    """What a compressing proxy makes of an ETag."""
    return {name: f"W/{value}" if name == "ETag" and method != "PUT" else value for name, value in headers.items()}


def one_etag(method: str, headers: dict[str, str]) -> dict[str, str]:
    return {name: '"1"' if name == "ETag" else value for name, value in headers.items()}


BROKEN: dict[str, tuple[Fault, list[str]]] = {
    "ignores If-None-Match": (ignoring("If-None-Match"), [r"ignores `If-None-Match: \*` \(`probe/t\.json` was created twice"]),
    "ignores If-Match": (
        ignoring("If-Match"),
        ["ETag that it never had", "ETag of before", "came back after it was removed"],
    ),
    "ignores both": (
        ignoring("If-Match", "If-None-Match"),
        ["created twice", "ETag that it never had", "ETag of before", "came back after it was removed"],
    ),
    "has a cache on the way": (old_bytes, ["a read does not see the write before it"]),
    "has weak ETags when read": (s3_server.changing_headers(weak_etags), ["ETags of one version differ"]),
    "has one ETag for everything": (s3_server.changing_headers(one_etag), ["refuses a write under the ETag that it gave itself"]),
    "has one ETag for everything and does not look at it": (
        lambda app: s3_server.changing_headers(one_etag)(ignoring("If-Match")(app)),
        ["gives other bytes the same ETag", "ETag that it never had"],
    ),
    "says that all is there": (
        s3_server.answering("409 Conflict", s3_error("OperationAborted"), methods=("PUT",)),
        ["says that `probe/t.json` exists already"],
    ),
    "knows no conditional writes": (
        s3_server.answering("501 Not Implemented", s3_error("NotImplemented"), methods=("PUT",)),
        ["honours If-Match and If-None-Match"],
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_store_that_breaks_a_promise_is_refused_by_name_and_left_clean(behind: Callable[[Fault], S3Store], case: str) -> None:
    fault, says = BROKEN[case]
    with pytest.raises(Refused) as told:
        probe(behind(fault), "t")
    for text in says:
        told.match(text)
    assert "use an object store that honours" in str(told.value)
    assert list(behind(honest).list("")) == []


def test_only_what_is_broken_is_named(behind: Callable[[Fault], S3Store]) -> None:
    with pytest.raises(Refused) as told:
        probe(behind(ignoring("If-None-Match")), "t")
    assert "`If-Match`" not in str(told.value)


def test_a_store_that_does_not_answer_is_not_a_broken_one(behind: Callable[[Fault], S3Store]) -> None:
    with pytest.raises(Transient):
        probe(behind(s3_server.losing_answers("PUT")), "t")
    probe(behind(honest), "another")


def test_a_store_that_may_only_be_read_is_refused_for_that(behind: Callable[[Fault], S3Store]) -> None:
    denied = s3_server.answering("403 Forbidden", s3_error("AccessDenied"), methods=("PUT", "DELETE"))
    with pytest.raises(Refused, match=r"^put s3://"):
        probe(behind(denied), "t")
