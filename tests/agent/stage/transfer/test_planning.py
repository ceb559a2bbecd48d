"""What is missing, and into which parts objects are cut."""

import pytest

from reconciler.agent.stage.transfer.listing import listing_of, sizes_digest, versions_digest
from reconciler.agent.stage.transfer.planning import compare, parts_of, split
from reconciler.bulk_port import Found, Part

SOURCE = Found("a", 3, "e1")
SEEN = {
    "nothing there": (None, {}, "missing"),
    "another size": (Found("a", 2, "e1"), {}, "missing"),
    "the same ETag": (Found("a", 3, "e1"), {}, "there"),
    "another ETag": (Found("a", 3, "e2"), {}, "doubtful"),
    "the ETag that was given for it": (Found("a", 3, "e2"), {"a": "e2"}, "there"),
    "changed since it was written": (Found("a", 3, "e3"), {"a": "e2"}, "doubtful"),
}


@pytest.mark.parametrize(("found", "known", "verdict"), SEEN.values(), ids=SEEN.keys())
def test_an_object_is_there_missing_or_doubtful(found: Found | None, known: dict[str, str], verdict: str) -> None:
    seen = compare(listing_of([SOURCE]), listing_of([found] if found else []), known)
    assert {"there": seen.there, "doubtful": seen.doubtful, "missing": seen.missing}[verdict] == [SOURCE]
    assert len(seen.there) + len(seen.doubtful) + len(seen.missing) == 1


def test_sizes_are_enough_where_that_is_asked_for() -> None:
    assert compare(listing_of([SOURCE]), listing_of([Found("a", 3, "e2")]), {}, by_size=True).there == [SOURCE]


def test_what_only_the_target_has_is_told() -> None:
    assert compare(listing_of([SOURCE]), listing_of([SOURCE, Found("z", 1, ""), Found("d/", 0, "")]), {}).strays == ["z"]


def test_objects_that_stand_for_folders_are_not_counted() -> None:
    listing = listing_of([Found("d/", 0, "x"), Found("d/a", 0, "x"), Found("odd/", 2, "x"), Found("", 0, "x")])
    assert (sorted(listing.objects), listing.folders, listing.size) == (["d/a", "odd/"], ("", "d/"), 2)


CUTS = {
    "a whole number of parts": (20, 10, [10, 10]),
    "a smaller last one": (21, 10, [10, 10, 1]),
    "one": (10, 10, [10]),
}


@pytest.mark.parametrize(("size", "each", "sizes"), CUTS.values(), ids=CUTS.keys())
def test_parts_cover_the_object(size: int, each: int, sizes: list[int]) -> None:
    parts = parts_of(size, each)
    assert [part.size for part in parts] == sizes
    assert [part.offset for part in parts] == [sum(sizes[:at]) for at in range(len(sizes))]
    assert [part.number for part in parts] == list(range(1, len(sizes) + 1))


def test_a_huge_object_has_larger_parts_and_not_too_many() -> None:
    parts = parts_of(5 * 1024**4, 8 * 1024**2)
    assert len(parts) <= 10_000
    assert sum(part.size for part in parts) == 5 * 1024**4


def test_parts_of_the_right_size_are_kept() -> None:
    wanted = parts_of(25, 10)
    kept, missing = split(wanted, [Part(1, 0, 10, "e1"), Part(2, 0, 9, "e2"), Part(7, 0, 10, "e7")])
    assert kept == [Part(1, 0, 10, "e1")]
    assert missing == wanted[1:]


def test_digests_tell_listings_apart() -> None:
    one = listing_of([Found("a", 1, "x"), Found("b", 2, "y")])
    assert versions_digest(one) == versions_digest(listing_of(reversed(list(one.objects.values()))))
    assert versions_digest(one) != versions_digest(listing_of([Found("a", 1, "x"), Found("b", 2, "z")]))
    assert sizes_digest([("a", 1)]) != sizes_digest([("a", 2)])
    assert sizes_digest([("\udcff", 1)]) != sizes_digest([("ü", 1)])
