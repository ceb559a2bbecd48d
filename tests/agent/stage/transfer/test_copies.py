"""What an agent reports of staged copies: how much of each is there, never more than is."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconciler.adapters.file_store import FileStore
from reconciler.agent.stage.transfer import copies as module
from reconciler.agent.stage.transfer.copies import copies
from reconciler.agent.stage.transfer.listing import sizes_digest
from reconciler.model.report import CacheReport
from reconciler.model.staged import StagedCopy
from reconciler.ports import Listed, Refused, Transient
from tests.adapters.s3_server import s3_store
from tests.agent.stage.transfer.ends import Ends, staged

URL = "file:///region/"


def line(subject: str, objects: int, total: int) -> CacheReport:
    return CacheReport(
        subject=subject,
        uri=f"file:///region/staged/{subject}/",
        objects=objects,
        objects_total=total,
        size_bytes=10 * objects,
        size_bytes_total=10 * total,
    )


def test_each_copy_is_reported_with_what_is_there(tmp_path: Path) -> None:
    source, region = Ends("file", "", tmp_path / "source"), Ends("file", "", tmp_path / "region")
    (tmp_path / "region").mkdir()
    source.write("ds", {f"deep/{number:03}": b"0123456789" for number in range(100)})
    store = FileStore(tmp_path / "region")
    assert copies(store, URL) == ()
    for subject in ("ds@1", "ds@10", "other@1", "swapped@1", "unmarked@2"):
        with closing(source.end("ds")) as one, closing(region.end(f"staged/{subject}")) as other:
            staged(one, other)
            if subject == "unmarked@2":
                other.marker.delete()
    for number in range(43):
        region.remove("staged/ds@10", f"deep/{number:03}")
    region.remove("staged/swapped@1", "deep/000")
    region.write("staged/swapped@1", {"else": b"9876543210"})
    store.put("staged/gone@1.json", b"no marker", expect=None)
    store.put("staged/being@1.staging/w-1", b"half", expect=None)
    store.put("elsewhere/x", b"1", expect=None)
    assert copies(store, URL) == (
        line("ds@1", 100, 100),
        line("ds@10", 57, 100),
        line("gone@1", 0, 0),
        line("other@1", 100, 100),
        line("swapped@1", 0, 100),
        line("unmarked@2", 100, 0),
    )


def marked(store: FileStore, subject: str, *keys: str, there: int) -> None:
    sizes = [(key, 1) for key in keys]
    marker = StagedCopy(
        source="s3://x/",
        objects=len(keys),
        size_bytes=len(keys),
        listing_digest=sizes_digest(sizes),
        source_digest="0",
        finished_at=datetime(2026, 5, 1, tzinfo=UTC),
    )
    for key in keys[:there]:
        store.put(f"staged/{subject}/{key}", b"1", expect=None)
    store.put(f"staged/{subject}.json", marker.model_dump_json().encode(), expect=None)


def test_of_a_very_large_copy_number_and_bytes_must_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileStore(tmp_path)
    monkeypatch.setattr(module, "COMPARED", 3)
    marked(store, "large@1", "a", "b", "c", "d", there=4)
    marked(store, "less@1", "a", "b", "c", "d", "e", there=4)
    marked(store, "small@1", "a", "b", "c", there=3)
    found = {one.subject: (one.objects, one.objects_total) for one in copies(store, URL)}
    assert found == {"large@1": (4, 4), "less@1": (4, 5), "small@1": (3, 3)}
    store.delete("staged/large@1/a")
    store.put("staged/large@1/x", b"1", expect=None)
    store.delete("staged/small@1/a")
    store.put("staged/small@1/x", b"1", expect=None)
    found = {one.subject: (one.objects, one.objects_total) for one in copies(store, URL)}
    assert found == {"large@1": (4, 4), "less@1": (4, 5), "small@1": (0, 3)}, "which of many is another is not seen"


def test_a_store_that_lists_out_of_order_is_not_believed(tmp_path: Path) -> None:
    class Unordered(FileStore):
        def list(self, prefix: str) -> Iterator[Listed]:
            yield from sorted(super().list(prefix), key=lambda one: one.key[-1])

    store = Unordered(tmp_path)
    for subject in ("ds@1", "ds@2"):
        marked(store, subject, "a", "b", there=2)
    with pytest.raises(Refused, match="does not list in order of key"):
        copies(store, URL)


def test_whoever_looks_on_can_end_it(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    marked(store, "ds@1", "a", "b", there=2)

    def look() -> None:
        raise Transient("too long")

    with pytest.raises(Transient, match="too long"):
        copies(store, URL, look)


def test_of_a_copy_that_a_cache_thinned_out_only_what_is_gone_is_sent_again(
    source: Ends, tmp_path: Path, s3_url: str
) -> None:  # OS-5
    region = Ends("s3", s3_url, tmp_path, account="two")
    source.write("ds", {f"deep/{number:03}": b"0123456789" for number in range(100)})
    with s3_store(s3_url, region.bucket) as store, closing(source.end("ds")) as one, closing(region.end("staged/ds@1")) as other:
        staged(one, other)
        for number in range(30):
            region.remove("staged/ds@1", f"deep/{number:03}")
        (seen,) = copies(store, "s3://x")
        assert (seen.objects, seen.objects_total, seen.size_bytes) == (70, 100, 700)
        assert staged(one, other).sent_bytes == 300
        (seen,) = copies(store, "s3://x")
        assert (seen.objects, seen.objects_total, seen.size_bytes) == (100, 100, 1000)
