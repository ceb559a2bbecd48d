"""What ends a watch, or makes it lie, as a real API server cannot be made to do at will."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.kube.connection import Connection
from reconciler.adapters.kube.listing import Collection
from reconciler.adapters.kube.watching import Times, Watch
from tests.adapters.kube.answering import Raw, Server, answering, events, hang_up, http, status
from tests.waiting import until

NODES = Collection("Node", "/api/v1/nodes")
LONG_AGO = float("-inf")
REST = events(silent=True)
"""A watch with nothing to tell."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with answering(tmp_path) as made:
        yield made


def node(name: str, version: int, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version), "labels": labels}
    beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"2026-05-01T10:00:{version % 60:02}Z"}
    return {"metadata": metadata, "status": {"conditions": [beat]}}


def listed(version: int, *items: dict[str, Any]) -> Raw:
    return http(200, {"kind": "NodeList", "metadata": {"resourceVersion": str(version)}, "items": list(items)})


def event(word: str, item: dict[str, Any], kind: str = "Node") -> dict[str, Any]:
    return {"type": word, "object": {"kind": kind, "apiVersion": "v1", **item}}


def bookmark(version: int) -> dict[str, Any]:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


GONE = {"kind": "Status", "metadata": {}, "code": 410, "reason": "Expired", "message": "too old resource version: 5 (9)"}


class Watched:
    """A watch at work, and how often it has woken somebody."""

    def __init__(self, connection: Connection, times: Times) -> None:
        self.wakes = 0
        self.watch = Watch(connection, NODES, SystemClock(), times, self._wake)

    def _wake(self) -> None:
        self.wakes += 1

    def names(self) -> list[str] | None:
        """What is in the copy, with the label `is`."""
        items = self.watch.items(LONG_AGO)
        if items is None:
            return None
        return sorted(item["metadata"]["name"] + (item["metadata"]["labels"].get("is") or "") for item in items)


@contextmanager
def watching(server: Server, *answers: Raw, **times: Any) -> Iterator[Watched]:
    """The watch of a server that gives these answers, and then one with nothing to tell."""
    server.answers = [*answers, REST]
    connection = Connection(server.access, SystemClock(), 5.0)
    found = Watched(connection, Times(**{"retry_seconds": 0.01, "longest_retry_seconds": 0.05, "silence_seconds": 30.0, **times}))
    found.watch.start()
    try:
        yield found
    finally:
        found.watch.stop(10)
        connection.close()
    assert "watch Node" not in [thread.name for thread in threading.enumerate()]


def followed(server: Server) -> list[str]:
    """From which versions it was watched, and where it was listed."""
    asked = [one.split()[1] for one in server.asked]
    return [one.partition("resourceVersion=")[2].partition("&")[0] if "watch=1" in one else "list" for one in asked]


def test_what_is_watched_begins_where_the_list_ends(server: Server) -> None:
    told = events(event("ADDED", node("b", 6)), event("MODIFIED", node("a", 7, **{"is": "!"})), bookmark(9), silent=True)
    with watching(server, listed(5, node("a", 4)), told) as found:
        until(lambda: found.names() == ["a!", "b"])
    assert followed(server) == ["list", "5"]
    assert "timeoutSeconds=240" in server.asked[1]
    assert "allowWatchBookmarks=true" in server.asked[1]
    assert "timeout=" not in server.asked[1].split()[1].replace("timeoutSeconds", "")
    assert found.watch.trouble == ""


ENDS = {
    "as it should": ([events(event("ADDED", node("b", 6)), bookmark(8))], ["list", "5", "8"]),
    "as it should, twice": ([events(bookmark(8)), events(event("ADDED", node("b", 9)))], ["list", "5", "8", "9"]),
    "in the middle of an event": (
        [events(event("ADDED", node("b", 6)), b'{"type": "ADDED", "obj')],
        ["list", "5", "6"],
    ),
    "with an error that tells of an old version": (
        [events(event("ADDED", node("b", 6)), {"type": "ERROR", "object": GONE}), listed(9, node("a", 4), node("b", 6))],
        ["list", "5", "list", "9"],
    ),
    "with an old version when it begins": ([http(410, GONE), listed(9, node("a", 4), node("b", 6))], ["list", "5", "list", "9"]),
    "with an error of another kind": (
        [events({"type": "ERROR", "object": {**GONE, "code": 500}}), listed(9, node("a", 4), node("b", 6))],
        ["list", "5", "list", "9"],
    ),
    "with no answer": ([hang_up, events(event("ADDED", node("b", 6)), silent=True)], ["list", "5", "5"]),
    "with a server that is away": (
        [status(503, "away"), http(502, "<html>"), events(event("ADDED", node("b", 6)), silent=True)],
        ["list", "5", "5", "5"],
    ),
    "with a Status in an object's place": (
        [events(event("ADDED", GONE, kind="Status")), listed(9, node("a", 4), node("b", 6))],
        ["list", "5", "list", "9"],
    ),
    "with an object of another kind": (
        [events(event("MODIFIED", node("x", 6), kind="Pod")), listed(9, node("a", 4), node("b", 6))],
        ["list", "5", "list", "9"],
    ),
    "with a word that nobody knows": (
        [events(event("RENAMED", node("a", 6))), listed(9, node("a", 4), node("b", 6))],
        ["list", "5", "list", "9"],
    ),
    "with what is no event": ([events(b"<html>\n"), listed(9, node("a", 4), node("b", 6))], ["list", "5", "list", "9"]),
    "with an event without an object": (
        [events({"type": "ADDED"}), listed(9, node("a", 4), node("b", 6))],
        ["list", "5", "list", "9"],
    ),
    "with an object without a version": (
        [events(event("ADDED", {"metadata": {}})), listed(9, node("a", 4), node("b", 6))],
        ["list", "5", "list", "9"],
    ),
}


@pytest.mark.parametrize(("answers", "want"), ENDS.values(), ids=ENDS.keys())
def test_a_watch_goes_on_however_it_ends(server: Server, answers: list[Raw], want: list[str]) -> None:
    with watching(server, listed(5, node("a", 4)), *answers) as found:
        until(lambda: found.names() == ["a", "b"] and len(server.asked) >= len(want))
    assert followed(server)[: len(want)] == want


def test_a_watch_that_goes_silent_is_begun_anew(server: Server) -> None:
    told = events(event("ADDED", node("b", 6)), silent=True)
    with watching(server, listed(5), told, events(event("ADDED", node("c", 7)), silent=True), silence_seconds=0.2) as found:
        until(lambda: found.names() == ["b", "c"])
    assert followed(server)[:3] == ["list", "5", "6"]


def test_a_copy_is_as_old_as_the_servers_last_word(server: Server) -> None:
    clock = SystemClock()
    before = clock.monotonic()
    with watching(server, listed(5, node("a", 4)), events(silent=True)) as found:
        until(lambda: len(server.asked) == 2)
        assert found.watch.items(before) is not None
        assert found.watch.items(clock.monotonic()) is None, "it has said nothing since the list was asked for"
    with watching(server, listed(5, node("a", 4)), events(bookmark(7), silent=True)) as found:
        until(lambda: found.watch.items(before) is not None)
        middle = clock.monotonic()
        assert found.watch.items(middle) is None


def test_what_a_watch_keeps_back_is_found_by_the_next_list(server: Server) -> None:
    lying = events(bookmark(30))
    late = [node("a", 20, **{"is": "!"}), node("c", 31)]
    with watching(server, listed(5, node("a", 4), node("b", 4)), lying, listed(31, *late), relist_seconds=0.0) as found:
        until(lambda: found.names() == ["a!", "c"])
        until(lambda: "kept 1 changes back" in found.watch.trouble)
        assert found.wakes == 2


def test_a_watch_that_keeps_nothing_back_is_not_blamed(server: Server) -> None:
    told = events(event("MODIFIED", node("a", 20, **{"is": "!"})), event("DELETED", node("b", 21)), bookmark(30))
    with watching(server, listed(5, node("a", 4), node("b", 4)), told, listed(31, node("a", 20)), relist_seconds=0.0) as found:
        until(lambda: followed(server)[:4] == ["list", "5", "list", "31"])
        assert (found.names(), found.watch.trouble) == (["a"], "")


def test_what_is_not_allowed_is_told_and_tried_again(server: Server) -> None:
    refusals = [status(403, 'cannot watch resource "nodes"')] * 3
    with watching(server, listed(5, node("a", 4)), *refusals, events(event("ADDED", node("b", 6)), silent=True)) as found:
        until(lambda: 'cannot watch resource "nodes"' in found.watch.trouble)
        until(lambda: found.names() == ["a", "b"])
        until(lambda: found.watch.trouble == "")


def test_what_cannot_be_listed_has_no_copy(server: Server) -> None:
    with watching(server, *[status(403, 'cannot list resource "nodes"')] * 2, listed(5, node("a", 4))) as found:
        assert found.names() in (None, ["a"])
        until(lambda: found.names() == ["a"])


def test_only_changes_of_what_is_read_wake_anybody(server: Server) -> None:
    told = events(
        event("MODIFIED", node("a", 6)),
        event("MODIFIED", node("a", 7)),
        event("DELETED", node("never-seen", 8)),
        bookmark(9),
        silent=True,
    )
    with watching(server, listed(5, node("a", 4)), told, silence_seconds=0.3) as found:
        until(lambda: followed(server) == ["list", "5", "9"])
        assert found.wakes == 1, "the list itself"


def test_an_object_that_was_made_again_is_another(server: Server) -> None:
    again = node("a", 8)
    again["metadata"]["uid"] = "another"
    told = events(event("DELETED", node("a", 7)), event("ADDED", again), event("DELETED", node("a", 9)), silent=True)
    with watching(server, listed(5, node("a", 4)), told) as found:
        until(lambda: [item["metadata"]["uid"] for item in found.watch.items(LONG_AGO) or ()] == ["another"])


def test_a_watch_that_is_stopped_while_it_waits_to_try_again_ends(server: Server) -> None:
    with watching(server, *[hang_up] * 3, retry_seconds=60.0, longest_retry_seconds=60.0) as found:
        until(lambda: found.watch.trouble)
