"""Reading the grants: never backwards, and never "nothing" where something could not be read."""

from pathlib import Path

import pytest

from reconciler.adapters.file_store import FileStore
from reconciler.agent.granting import Known, is_new, read_grants
from reconciler.model.grants import Grants, grants_key
from tests.agent.objects import ATTEMPT, make_grants

KEY = grants_key("eu")
GOOD = make_grants(ATTEMPT, version=7)


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path)


def write(store: FileStore, body: Grants | bytes) -> None:
    store.put(KEY, body if isinstance(body, bytes) else body.model_dump_json().encode(), expect=store.etag(KEY))


def look(store: FileStore, known: Known, seen: tuple[int, int] = (0, 0)) -> Known:
    return read_grants(store, "eu", known, seen)


def text(grants: Grants, old: str, new: str) -> bytes:
    return grants.model_dump_json().replace(old, new).encode()


def test_good_grants_are_read_once_and_then_only_asked_for(store: FileStore) -> None:
    write(store, GOOD)
    known = look(store, Known())
    assert (known.grants, known.problem, known.looked) == (GOOD, None, True)
    assert look(store, known) is known
    assert not is_new(store, "eu", known)


def test_a_store_without_grants_has_been_looked_at(store: FileStore) -> None:
    known = look(store, Known())
    assert (known.grants, known.looked, known.problem) == (None, True, None)


BAD = {
    "nothing": (b"", "GrantsBroken"),
    "cut at 60 %": (GOOD.model_dump_json().encode()[: len(GOOD.model_dump_json()) * 6 // 10], "GrantsBroken"),
    "an empty map": (b"{}", "GrantsBroken"),
    "a list": (b"[]", "GrantsBroken"),
    "not UTF-8": (b"\xff\xfe{}", "GrantsBroken"),
    "another schema": (text(make_grants(version=8), '"schema_version":1', '"schema_version":9'), "GrantsBroken"),
    "a field nobody knows": (text(make_grants(version=8), '"epoch"', '"pause":true,"epoch"'), "GrantsBroken"),
    "another region's": (make_grants(version=8, region="us").model_dump_json().encode(), "GrantsBroken"),
    "an attempt twice": (make_grants(ATTEMPT, ATTEMPT, version=8).model_dump_json().encode(), "GrantsBroken"),
    "an older version": (make_grants(version=6).model_dump_json().encode(), "GrantsWentBack"),
    "an older term with a higher version": (make_grants(version=99, term=1).model_dump_json().encode(), "GrantsWentBack"),
    "the same version with other grants": (make_grants(version=7, term=2).model_dump_json().encode(), "GrantsContradict"),
}


@pytest.mark.parametrize(("body", "code"), BAD.values(), ids=BAD.keys())
def test_what_is_not_to_be_believed_changes_nothing(store: FileStore, body: bytes, code: str) -> None:
    good = GOOD.model_copy(update={"term": 2})
    write(store, good)
    known = look(store, Known())
    write(store, body)
    after = look(store, known)
    assert after.grants == good
    assert after.problem is not None
    assert after.problem.code == code
    assert look(store, after) is after
    write(store, make_grants(version=8, term=2))
    mended = look(store, after)
    assert (mended.problem, mended.grants and mended.grants.version) == (None, 8)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"schema_version":1'])
def test_broken_from_the_start_is_not_the_same_as_none(store: FileStore, body: bytes) -> None:
    write(store, body)
    known = look(store, Known())
    assert known.grants is None
    assert known.etag is not None
    assert known.problem is not None


def test_what_was_acted_upon_before_a_restart_is_the_floor(store: FileStore) -> None:
    write(store, GOOD)
    assert look(store, Known(), (1, 7)).grants == GOOD
    back = look(store, Known(), (1, 8))
    assert back.grants is None
    assert back.problem is not None
    assert back.problem.code == "GrantsWentBack"


def test_a_higher_term_may_begin_its_versions_anew(store: FileStore) -> None:
    write(store, make_grants(version=1, term=2))
    assert look(store, Known(), (1, 50)).grants is not None


def test_grants_that_vanish_stay_in_force(store: FileStore) -> None:
    write(store, GOOD)
    known = look(store, Known())
    store.delete(KEY)
    after = look(store, known)
    assert after.grants == GOOD
    assert after.problem is not None
    assert after.problem.code == "GrantsMissing"


def test_a_fault_never_repeats_what_stands_in_the_body(store: FileStore) -> None:
    write(store, GOOD.model_dump_json().replace('"epoch":1', '"epoch":"hf_secret"').encode())
    known = look(store, Known())
    assert known.problem is not None
    assert "hf_secret" not in known.problem.message
    assert "epoch" in known.problem.message
