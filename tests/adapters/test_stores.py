"""The contract of `ObjectStore`, run against each store that we have: a folder, and a real S3 server over HTTP.

`RECONCILER_TEST_S3_URL` names another S3 server to run it against; its credentials are `test`, `test`.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.dataset_listing import measure
from reconciler.adapters.file_store import FileStore
from reconciler.ports import Conflict, Listed, ObjectStore, Refused
from tests.adapters.s3_server import make_bucket, moto_app, s3_store, serving


@pytest.fixture(scope="module")
def s3_url() -> Iterator[str]:
    with ExitStack() as stack:
        yield os.environ.get("RECONCILER_TEST_S3_URL") or stack.enter_context(serving(moto_app()))


@pytest.fixture(params=["file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    if request.param == "file":
        yield FileStore(tmp_path)
        return
    url, bucket = request.getfixturevalue("s3_url"), f"b-{uuid.uuid4().hex}"
    make_bucket(url, bucket)
    with s3_store(url, bucket, "fleet") as store:
        yield store


def keys(store: ObjectStore, prefix: str = "") -> list[str]:
    return [listed.key for listed in store.list(prefix)]


# ---- reading and writing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="no bytes"),
        pytest.param(b'{"seq": 1}', id="a small object"),
        pytest.param(bytes(range(256)), id="every byte"),
        pytest.param(b"0123456789" * 200_000, id="two million bytes"),
    ],
)
def test_what_is_written_is_read_back_under_one_etag(store: ObjectStore, body: bytes) -> None:
    etag = store.put("regions/eu/report.json", body, expect=None)
    stored = store.get("regions/eu/report.json")
    assert stored is not None
    assert (stored.body, stored.etag) == (body, etag)
    assert store.etag("regions/eu/report.json") == etag


def test_what_was_never_written_is_none(store: ObjectStore) -> None:
    assert store.get("regions/eu/lease.json") is None
    assert store.etag("regions/eu/lease.json") is None


def test_a_folder_of_objects_is_no_object(store: ObjectStore) -> None:
    store.put("regions/eu/lease.json", b"1", expect=None)
    assert store.get("regions/eu") is None
    assert store.etag("regions/eu") is None
    assert store.get("regions/eu/lease.json/more") is None


def test_a_second_creation_conflicts_and_changes_nothing(store: ObjectStore) -> None:
    etag = store.put("hub/lease.json", b"first", expect=None)
    for body in (b"second", b"first"):
        with pytest.raises(Conflict, match=r"hub/lease\.json"):
            store.put("hub/lease.json", body, expect=None)
    stored = store.get("hub/lease.json")
    assert stored is not None
    assert (stored.body, stored.etag) == (b"first", etag)


def test_a_chain_of_replacements_each_needs_the_etag_before_it(store: ObjectStore) -> None:
    etags = [store.put("lease.json", b"0", expect=None)]
    for number in range(1, 5):
        etags.append(store.put("lease.json", str(number).encode(), expect=etags[-1]))
        for old in etags[:-1]:
            with pytest.raises(Conflict):
                store.put("lease.json", b"late", expect=old)
    assert len(set(etags)) == 5
    stored = store.get("lease.json")
    assert stored is not None
    assert (stored.body, stored.etag) == (b"4", etags[-1])


def test_replacing_what_is_gone_conflicts_and_brings_nothing_back(store: ObjectStore) -> None:
    etag = store.put("lease.json", b"1", expect=None)
    store.delete("lease.json")
    for key in ("lease.json", "never/was/here.json"):
        with pytest.raises(Conflict):
            store.put(key, b"2", expect=etag)
        assert store.get(key) is None
    assert keys(store) == []


@pytest.mark.parametrize("etag", ["", "*", '""', '"*"', "abc", '"00000000000000000000000000000000"', '"é"'])
def test_an_etag_that_no_object_has_never_replaces(store: ObjectStore, etag: str) -> None:
    store.put("lease.json", b"1", expect=None)
    with pytest.raises(Conflict):
        store.put("lease.json", b"2", expect=etag)
    stored = store.get("lease.json")
    assert stored is not None
    assert stored.body == b"1"


def test_equal_bytes_may_have_equal_etags_so_bodies_carry_a_number(store: ObjectStore) -> None:
    first = store.put("lease.json", b"same", expect=None)
    assert store.put("lease.json", b"same", expect=first) == first


# ---- keys ---------------------------------------------------------------------------------------------------------

GOOD_KEYS = {
    "one letter": "a",
    "a hidden file": ".hidden",
    "dots that lead nowhere": "a/..b/c../...",
    "spaces inside and around": "a / b /c ",
    "characters that URLs give a meaning": "a+b&c=d?e#f%2Fg%g;h:i@j",
    "quotes and angles": "a'b\"c<d>e`f",
    "a backslash": "a\\..\\b",
    "other scripts and an emoji": "数据/données/😀.bin",
    "two ways to write one letter": "caf\u00e9/cafe\u0301",
    "upper case": "Fleet/EU.JSON",
    "a part of 255 bytes": f"long/{'x' * 255}",
    "many parts": "/".join("abcdefghij") + "/k",
}


@pytest.mark.parametrize("case", GOOD_KEYS)
def test_any_key_of_plain_parts_names_its_own_object(store: ObjectStore, case: str) -> None:
    key = GOOD_KEYS[case]
    etag = store.put(key, b"body", expect=None)
    assert store.etag(key) == etag
    assert list(store.list("")) == [Listed(key, 4)]
    assert list(store.list(key)) == [Listed(key, 4)]
    store.copy(key, "copied")
    copied = store.get("copied")
    assert copied is not None
    assert copied.body == b"body"
    store.delete(key)
    assert keys(store) == ["copied"]


def test_case_is_kept_and_tells_objects_apart(store: ObjectStore) -> None:
    for key in ("Ds/A", "Ds/a", "ds/A"):
        store.put(key, key.encode(), expect=None)
    assert keys(store) == ["Ds/A", "Ds/a", "ds/A"]
    stored = store.get("Ds/a")
    assert stored is not None
    assert stored.body == b"Ds/a"


BAD_KEYS = {
    "nothing": "",
    "the root": "/",
    "an absolute path": "/etc/passwd",
    "a folder": "a/",
    "an empty part": "a//b",
    "the folder itself": ".",
    "a step up": "..",
    "a step out": "../outside",
    "a step up and down again": "a/../b",
    "a step out at the end": "a/..",
    "a step to the same place": "a/./b",
    "a NUL": "a\0b",
    "half a character": "a\ud800b",
    "longer than S3 takes": "x/" * 512 + "y",
}


@pytest.mark.parametrize("case", BAD_KEYS)
def test_a_key_that_could_lead_elsewhere_is_refused_by_every_call(store: ObjectStore, case: str) -> None:
    bad = BAD_KEYS[case]
    store.put("good", b"1", expect=None)
    calls: dict[str, Any] = {
        "get": lambda: store.get(bad),
        "etag": lambda: store.etag(bad),
        "create": lambda: store.put(bad, b"2", expect=None),
        "replace": lambda: store.put(bad, b"2", expect="x"),
        "copy from": lambda: store.copy(bad, "target"),
        "copy to": lambda: store.copy("good", bad),
        "delete": lambda: store.delete(bad),
    }
    for name, call in calls.items():
        with pytest.raises(Refused, match="key"):
            pytest.fail(f"{name} gave {call()!r}")
    assert keys(store) == ["good"]


@pytest.mark.parametrize("prefix", ["/", "/a", "a//", "../", "a/../b", "a\0/b"])
def test_a_listing_that_could_lead_elsewhere_is_refused(store: ObjectStore, prefix: str) -> None:
    with pytest.raises(Refused, match="key"):
        list(store.list(prefix))


# ---- listing, copying, removing -----------------------------------------------------------------------------------


def test_a_listing_goes_by_prefix_and_in_order_of_utf8(store: ObjectStore) -> None:
    # `-` and `.` sort before `/`, `0` after it; the last two sort the other way round in UTF-16.
    ordered = ["a", "b-c", "b.c", "b/c-d/e", "b/c/d", "b0", "z", "é", "\uffee/x", "😀"]
    for key in reversed(ordered):
        store.put(key, key.encode(), expect=None)
    assert list(store.list("")) == [Listed(key, len(key.encode())) for key in ordered]
    assert keys(store, "b") == ["b-c", "b.c", "b/c-d/e", "b/c/d", "b0"]
    assert keys(store, "b/") == ["b/c-d/e", "b/c/d"]
    assert keys(store, "b/c/") == ["b/c/d"]
    assert keys(store, "b/c") == ["b/c-d/e", "b/c/d"]
    assert keys(store, "none/at/all") == []
    assert keys(store, "a/") == []


def test_a_copy_is_a_version_of_its_own(store: ObjectStore) -> None:
    store.put("ckpt/a1/step-100", b"weights", expect=None)
    old = store.put("ckpt/a2/step-100", b"something else", expect=None)
    store.copy("ckpt/a1/step-100", "ckpt/a2/step-100")
    with pytest.raises(Conflict):
        store.put("ckpt/a2/step-100", b"late", expect=old)
    new = store.etag("ckpt/a2/step-100")
    store.put("ckpt/a2/step-100", b"further", expect=new)
    source = store.get("ckpt/a1/step-100")
    assert source is not None
    assert source.body == b"weights"


def test_copying_what_is_not_there_is_refused(store: ObjectStore) -> None:
    with pytest.raises(Refused, match="list the source again"):
        store.copy("ckpt/none", "ckpt/target")
    assert keys(store) == []


def test_removing_is_done_once_and_harmless_again(store: ObjectStore) -> None:
    store.put("ckpt/a", b"1", expect=None)
    store.put("ckpt/ab", b"2", expect=None)
    for _ in range(2):
        store.delete("ckpt/a")
        assert keys(store) == ["ckpt/ab"]
    store.delete("never/was/here")
    store.delete("ckpt")
    assert keys(store) == ["ckpt/ab"]
    store.put("ckpt/a", b"again", expect=None)


# ---- datasets -----------------------------------------------------------------------------------------------------


@pytest.mark.slow  # over a thousand objects: more than one page of a listing
def test_a_dataset_is_all_that_is_below_its_folder_and_nothing_else(store: ObjectStore) -> None:
    for number in range(1203):
        store.put(f"ds/imagenet/part-{number // 100}/{number:05}", b"0123456789", expect=None)
    for number in range(7):
        store.put(f"ds/imagenet-21k/{number}", b"0" * 1000, expect=None)
    assert measure(store, "ds/imagenet") == (1203, 12_030)
    assert measure(store, "ds/imagenet/") == (1203, 12_030)
    assert measure(store, "ds") == (1210, 19_030)
    assert measure(store, "") == (1210, 19_030)
    assert measure(store, "ds/image") == (0, 0)
    assert measure(store, "ds/imagenet/part-0/00000") == (0, 0)


def test_an_empty_object_counts_as_an_object(store: ObjectStore) -> None:
    store.put("ds/x/_SUCCESS", b"", expect=None)
    assert measure(store, "ds/x") == (1, 0)
