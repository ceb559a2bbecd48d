"""What an agent reports of staged copies: how much of each is there, never more than is."""

from contextlib import closing
from pathlib import Path

from reconciler.adapters.file_store import FileStore
from reconciler.agent.stage.transfer.copies import copies
from reconciler.model.report import CacheReport
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
