"""A worker that is killed at any call, before it is done or after, ends in the same copy when it is started again."""

from contextlib import closing
from pathlib import Path

import pytest

from reconciler.model.staged import read_marker
from tests.agent.stage.transfer.ends import PART, QUICK, Ends, Killed, Knife, staged

BIG = b"0123456789abcdef" * (3 * PART // 16) + b"end"
OBJECTS = {"a": b"1", "b c": b"22", "empty": b"", "two parts": BIG[: PART + 3]}


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before it is done", "just after"])
def test_killed_at_every_call(tmp_path: Path, target: Ends, after: bool) -> None:
    source = Ends("file", "", tmp_path / "source")
    source.write("ds", OBJECTS)
    whole = sum(map(len, OBJECTS.values()))
    at, lives = 1, 0
    while True:
        name = f"staged/ds@{at}"
        with closing(source.end("ds")) as one, closing(target.end(name)) as other:
            knife = Knife(other, at, after=after)
            try:
                staged(one, knife)  # type: ignore[arg-type]
            except Killed:
                lives += 1
                marker = other.marker.read()
                if marker is not None:
                    assert target.read(name) == OBJECTS, "marked, and not complete"
            else:
                break
            again = staged(one, other)
            assert again.sent_bytes <= whole
            assert read_marker(other.marker.read() or b"") is not None
            assert list(other.uploads()) == []
            assert other.note.read() is None
        assert target.read(name) == OBJECTS
        at += 1
    assert lives >= 15


def test_parts_that_are_there_are_not_sent_again(source: Ends, target: Ends) -> None:
    source.write("ds", {"big": BIG})
    with closing(source.end("ds")) as one, closing(target.end("ds")) as other:
        _put_parts(one, other, 2)
        assert staged(one, other).sent_bytes == len(BIG) - 2 * PART
    assert target.read("ds") == {"big": BIG}


def test_parts_of_another_version_are_thrown_away(source: Ends, target: Ends) -> None:
    source.write("ds", {"big": BIG})
    with closing(source.end("ds")) as one, closing(target.end("ds")) as other:
        _put_parts(one, other, 2)
        new = BIG[::-1]
        source.write("ds", {"big": new})
        assert staged(one, other).sent_bytes == len(new)
    assert target.read("ds") == {"big": new}


def test_uploads_that_nobody_needs_are_aborted(source: Ends, target: Ends) -> None:
    source.write("ds", {"small": b"1"})
    source.write("old", {"big": BIG})
    with closing(source.end("ds")) as one, closing(source.end("old")) as old, closing(target.end("ds")) as other:
        (found,) = old.list()
        other.begin(found, {})
        staged(one, other)
        assert list(other.uploads()) == []


def _put_parts(one: object, other: object, number: int) -> None:
    """Be killed when so many parts are there."""

    class Cut(Knife):
        def __getattr__(self, name: str) -> object:
            call = getattr(other, name)
            return self.cut(call) if name in ("put_part", "finish") else call

    knife = Cut(other, number, after=True)
    knife.note, knife.marker = other.note, other.marker  # type: ignore[attr-defined]
    with pytest.raises(Killed):
        staged(one, knife, options=_ONE_BY_ONE)  # type: ignore[arg-type]


_ONE_BY_ONE = type(QUICK)(part_bytes=PART, in_flight_bytes=PART, threads=1, patience_seconds=1.0)
