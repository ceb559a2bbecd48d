"""A copy is byte-equal and marked, whatever the keys, from and to every kind of store; or it is refused in plain words."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.file_store import FileStore
from reconciler.adapters.s3_store import S3Store
from reconciler.agent.stage.transfer.evict import evict
from reconciler.agent.stage.transfer.presence import complete
from reconciler.bulk_port import Found, Part, UploadLost
from reconciler.model.staged import read_marker
from reconciler.ports import Refused, Transient
from tests.adapters.s3_server import Requests, client_factory, make_bucket, moto_app, serving
from tests.agent.stage.transfer.ends import PART, QUICK, Ends, Flaky, s3_end, staged

BIG = bytes(range(256)) * (2 * PART // 256) + b"the end"
OBJECTS = {
    "plain": b"1",
    "with space/and+plus": b"2",
    "per%20cent": b"3",
    "ünï/côdé ☃": b"4",
    "empty": b"",
    "question?mark#hash&amp;": b"5",
    "deep/er/and/deeper": b"6",
    "big": BIG,
}


def put_all(ends: Ends, name: str = "ds") -> None:
    ends.write(name, OBJECTS)
    ends.write(f"{name}-21k", {"other": b"not of it"})


def test_all_of_it_is_copied_and_nothing_else(source: Ends, target: Ends) -> None:
    put_all(source)
    with closing(source.end("ds")) as one, closing(target.end("staged/ds@1")) as other:
        done = staged(one, other)
        assert (done.objects, done.size) == (len(OBJECTS), sum(map(len, OBJECTS.values())))
        assert done.sent_bytes == done.size
        marker = read_marker(other.marker.read() or b"")
        assert marker is not None
        assert (marker.source, marker.objects, marker.size_bytes) == (one.uri, done.objects, done.size)
        assert other.note.read() is None
        assert list(other.uploads()) == []
        assert target.read("staged/ds@1") == OBJECTS
        before = other.marker.read()
        assert staged(one, other).sent_bytes == 0
        assert other.marker.read() == before


def test_what_is_missing_or_other_is_sent_again_and_no_more(source: Ends, target: Ends) -> None:
    put_all(source)
    with closing(source.end("ds")) as one, closing(target.end("ds")) as other:
        staged(one, other)
        target.remove("ds", "plain")
        target.write("ds", {"per%20cent": b"X", "deep/er/and/deeper": b"67"})
        assert staged(one, other).sent_bytes == 3
    assert target.read("ds") == OBJECTS


def test_a_source_without_anything_is_refused(source: Ends, target: Ends) -> None:
    put_all(source)
    with closing(source.end("d")) as one, closing(target.end("ds")) as other, pytest.raises(Refused, match="nothing below"):
        staged(one, other)


def test_strays_are_refused_in_a_copy_of_ours_and_left_elsewhere(source: Ends, target: Ends) -> None:
    put_all(source)
    target.write("ds", {"somebody/else's": b"x"})
    with closing(source.end("ds")) as one, closing(target.end("ds")) as other:
        with pytest.raises(Refused, match=r"somebody/else's.*stage evict"):
            staged(one, other)
        staged(one, other, replace(QUICK, marker=False))
        assert other.marker.read() is None
    assert target.read("ds") == {**OBJECTS, "somebody/else's": b"x"}


@pytest.mark.slow
def test_a_store_that_often_does_not_answer_is_asked_again(source: Ends, target: Ends) -> None:
    put_all(source)
    with closing(source.end("ds")) as one, closing(target.end("ds")) as other:
        staged(Flaky(one, 4), Flaky(other, 3), replace(QUICK, patience_seconds=60))  # type: ignore[arg-type]
    assert target.read("ds") == OBJECTS


@pytest.mark.slow
def test_patience_ends(source: Ends, target: Ends) -> None:
    put_all(source)
    with closing(source.end("ds")) as one, closing(target.end("ds")) as other, pytest.raises(Transient, match="no answer"):
        staged(Flaky(one, 1), other)  # type: ignore[arg-type]


def test_a_source_that_changes_is_refused(source: Ends, target: Ends) -> None:
    put_all(source)
    with closing(source.end("ds")) as one, closing(target.end("ds")) as other:
        listed = list(one.list())
        source.write("ds", {"plain": b"other bytes"})
        changed = _Listing(one, listed)
        with pytest.raises(Refused, match="'plain' changed while it was being copied"):
            staged(changed, other)  # type: ignore[arg-type]
        assert other.marker.read() is None


def test_what_comes_to_the_source_meanwhile_is_no_silent_part_of_it(source: Ends, target: Ends) -> None:
    put_all(source)
    with closing(source.end("ds")) as one, closing(target.end("ds")) as other:
        growing = _Listing(one, [found for found in one.list() if found.key != "plain"], once=True)
        with pytest.raises(Refused, match="changed while it was being copied"):
            staged(growing, other)  # type: ignore[arg-type]
        assert other.marker.read() is None


class _Listing:
    """A source that was listed earlier; `once`: only the first time."""

    def __init__(self, store: object, listed: list[object], *, once: bool = False) -> None:
        self._store, self._listed, self._once = store, listed, once
        self.uri = store.uri  # type: ignore[attr-defined]

    def list(self) -> object:
        if self._once and self._listed is None:
            return self._store.list()  # type: ignore[attr-defined]
        listed, self._listed = self._listed, None if self._once else self._listed  # type: ignore[assignment]
        return iter(listed)

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


def test_a_copy_inside_its_source_is_refused(source: Ends) -> None:
    put_all(source)
    with closing(source.end("ds")) as one, closing(source.end("ds/staged")) as other, pytest.raises(Refused, match="lie one in"):
        staged(one, other)


def test_a_program_may_have_written_nothing(source: Ends, target: Ends) -> None:
    with closing(source.end("a1")) as one, closing(target.end("llm/a1")) as other:
        done = staged(one, other, replace(QUICK, may_be_empty=True))
        assert (done.objects, done.size) == (0, 0)
        marker = read_marker(other.marker.read() or b"")
        assert marker is not None
        assert marker.objects == 0
        with pytest.raises(Refused, match="nothing below"):
            staged(one, other)


def test_an_upload_that_somebody_else_has_ended_is_lost(target: Ends) -> None:
    origin, body = Found("big", 12, "etag"), b"x" * 12
    with closing(target.end("ds")) as end:
        upload = end.begin(origin, {})
        part = end.put_part(upload, Part(1, 0, 12), body, lambda _: None)
        end.abort(upload)
        with pytest.raises(UploadLost):
            end.put_part(upload, Part(1, 0, 12), body, lambda _: None)
        with pytest.raises(UploadLost):
            end.finish(upload, origin, [part])


def test_two_workers_at_once_end_in_one_copy(source: Ends, target: Ends) -> None:
    put_all(source)
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        ends = [stack.enter_context(closing(end)) for end in (source.end("ds"), target.end("ds"), target.end("ds"))]
        for done in pool.map(lambda other: staged(ends[0], other), ends[1:]):
            assert done.objects == len(OBJECTS)
        assert read_marker(ends[1].marker.read() or b"") is not None
    assert target.read("ds") == OBJECTS


def test_two_stores_may_name_their_folders_alike(s3_url: str) -> None:
    with ExitStack() as stack:
        url = stack.enter_context(serving(moto_app()))
        make_bucket(s3_url, "namesake")
        one, other = (stack.enter_context(s3_end(at, "namesake", "ds")) for at in (s3_url, url))
        one.put_folder("x/")
        with pytest.raises(Refused, match="there is nothing below"):
            staged(one, other)


# ---- presence and eviction ----------------------------------------------------------------------------------------


def test_complete_is_what_the_marker_and_the_listing_say(source: Ends, tmp_path: Path) -> None:
    source.write("ds", {f"{number:03}": b"0123456789" for number in range(100)})
    ends = Ends("file", "", tmp_path / "region")
    (tmp_path / "region").mkdir()
    store = FileStore(tmp_path / "region")
    with closing(source.end("ds")) as one, closing(ends.end("staged/ds@1")) as other:
        assert not complete(store, "staged/ds@1").is_complete
        staged(one, other)
        seen = complete(store, "staged/ds@1/")
        assert (seen.is_complete, seen.objects, seen.objects_total, seen.size_bytes) == (True, 100, 100, 1000)
        for number in range(30):
            other.delete(f"{number:03}")
        seen = complete(store, "staged/ds@1")
        assert (seen.is_complete, seen.objects, seen.objects_total) == (False, 70, 100)
        assert (seen.size_bytes, seen.size_bytes_total) == (700, 1000)
        ends.write("staged/ds@1", {f"x{number}": b"0123456789" for number in range(30)})
        assert not complete(store, "staged/ds@1").is_complete, "as many objects and bytes, but others"
        other.marker.delete()
        assert complete(store, "staged/ds@1").objects_total == 0


def test_a_marker_that_is_none_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "region").mkdir()
    store = FileStore(tmp_path / "region")
    store.put("staged/ds@1.json", b'{"objects": 0}', expect=None)
    assert not complete(store, "staged/ds@1").is_complete


@pytest.mark.parametrize("beside", [None, b'{"of": "somebody"}'], ids=["nothing beside it", "a file of somebody's beside it"])
def test_what_is_no_copy_of_ours_is_not_removed(target: Ends, beside: bytes | None) -> None:
    target.write("data/mine", {"a": b"1", "deep/b": b"2"})
    if beside is not None:
        target.write("data", {"mine.json": beside})
    with closing(target.end("data/mine")) as end, pytest.raises(Refused, match="is no staged copy"):
        evict(end, end, QUICK, SystemClock())
    assert target.read("data/mine") == {"a": b"1", "deep/b": b"2"}
    assert (target.read("data").get("mine.json") if beside is not None else None) == beside


def test_nor_is_it_a_fault_where_nothing_is(target: Ends) -> None:
    with closing(target.end("data/none")) as end:
        assert evict(end, end, QUICK, SystemClock()) == (0, 0)


def test_evicting_removes_the_marker_and_all_that_is_there(source: Ends, target: Ends) -> None:
    put_all(source)
    target.write("ds-21k", {"other": b"stays"})
    with closing(source.end("ds")) as one, closing(target.end("ds")) as other:
        staged(one, other)
        objects, size = evict(other, other, QUICK, SystemClock())
        assert (objects, size) == (len(OBJECTS), sum(map(len, OBJECTS.values())))
        assert other.marker.read() is None
        assert list(other.list()) == []
        assert evict(other, other, QUICK, SystemClock()) == (0, 0)
    assert target.read("ds-21k") == {"other": b"stays"}


# ---- what only S3 can do ------------------------------------------------------------------------------------------


def test_odd_keys_and_empty_folders_go_from_bucket_to_bucket(s3_url: str) -> None:
    odd = {"/lead": b"1", "a//b": b"2", "dot/./x": b"3", "end/": b"", "full/": b"4", "tab\there": b"5", "plain": b"6"}
    one, other = Ends("s3", s3_url, Path()), Ends("s3", s3_url, Path(), account="two")
    one.write("ds", odd)
    with closing(one.end("ds")) as source, closing(other.end("ds")) as target:
        assert staged(source, target).objects == 6
    assert other.read("ds") == odd


@pytest.mark.parametrize(("key", "why"), [("a//b", "empty part"), ("up/../x", "`..`"), ("/lead", "empty part")])
def test_a_key_that_can_be_no_file_is_refused_by_name(s3_url: str, tmp_path: Path, key: str, why: str) -> None:
    one = Ends("s3", s3_url, Path())
    one.write("ds", {key: b"1"})
    other = Ends("file", "", tmp_path)
    with closing(one.end("ds")) as source, closing(other.end("ds")) as target, pytest.raises(Refused, match=why):
        staged(source, target)


def test_within_one_store_the_bytes_are_not_sent() -> None:
    counted = Requests()
    with serving(counted(moto_app())) as url:
        make_bucket(url, "both-ends")
        ends = Ends("s3", url, Path())
        put_all(ends)
        options = replace(QUICK, copied_part_bytes=PART)
        with closing(ends.end("ds")) as one, closing(ends.end("copy")) as other:
            assert other.copies_from(one)
            assert staged(one, other, options).sent_bytes == 0
        assert ends.read("copy") == OBJECTS


def test_a_store_that_does_not_copy_is_sent_the_bytes(s3_url: str) -> None:
    ends = Ends("s3", s3_url, Path())
    put_all(ends)
    with ExitStack() as stack:
        url = stack.enter_context(serving(_not_copying(moto_app())))
        one, other = (stack.enter_context(s3_end(url, ends.bucket, name)) for name in ("ds", "copy"))
        assert other.copies_from(one)
        assert staged(one, other).sent_bytes == sum(map(len, OBJECTS.values()))
    assert ends.read("copy") == OBJECTS


def _not_copying(app: object) -> object:
    def answer(environ: dict[str, object], start: object) -> object:
        if "HTTP_X_AMZ_COPY_SOURCE" not in environ:
            return app(environ, start)  # type: ignore[operator]
        body = b"<Error><Code>NotImplemented</Code><Message>no</Message></Error>"
        start("501 Not Implemented", [("Content-Length", str(len(body)))])  # type: ignore[operator]
        return [body]

    return answer


def test_a_copy_of_a_region_is_told_complete_by_its_store(s3_url: str) -> None:
    ends = Ends("s3", s3_url, Path())
    other = Ends("s3", s3_url, Path())
    put_all(ends)
    with closing(ends.end("ds")) as one, closing(other.end("region/staged/ds@1")) as two:
        staged(one, two)
    with closing(S3Store(other.bucket, "region", client_factory=client_factory(s3_url))) as store:
        assert complete(store, "staged/ds@1").is_complete
