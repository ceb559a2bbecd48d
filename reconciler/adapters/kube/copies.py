"""A copy of one collection as its watch tells it: what is in it, at which version, and when that was known to be so.

Decides what an event means for the copy. Who listens, and what is done about an end, is watching.py's.

Invariants: only objects of the collection's own kind get in: never a `Status`. A moment counts as confirming only if the server
has spoken then; and a copy that is replaced is replaced as a whole.
"""

import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

from reconciler.adapters.kube.slim import slim, without_version
from reconciler.ports import Conflict, KubeObject

_SETS: Final = frozenset({"ADDED", "MODIFIED"})


class Copy:
    """One collection's copy. Safe to share between threads. Objects are kept by uid, for a name may be given again."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._lock = threading.Lock()
        self._items: dict[str, KubeObject] = {}
        self._version = ""
        self._confirmed: float | None = None

    @property
    def version(self) -> str:
        """From where its watch goes on; '' where all must be listed."""
        with self._lock:
            return self._version

    def since(self, moment: float) -> list[KubeObject] | None:
        """All of it, if it was known to be so at that moment (monotonic seconds) or later; else None."""
        with self._lock:
            if self._confirmed is None or self._confirmed < moment:
                return None
            return list(self._items.values())

    def replace(self, items: Iterable[KubeObject], version: str, at: float) -> bool:
        """Take a list in its place, which was asked for `at` that moment. Whether anything differs."""
        new = {str(item["metadata"]["uid"]): item for item in items}
        with self._lock:
            old, self._items = self._items, new
            self._version, self._confirmed = version, at
        return old.keys() != new.keys() or any(without_version(new[uid]) != without_version(old[uid]) for uid in new)

    def withheld(self, items: Iterable[KubeObject]) -> int:
        """How many objects of a list are not as the copy has them, though they were so before what its watch has told since.

        Versions of one server may be compared as numbers.
        Source: Kubernetes enhancement 5504, comparable resource versions.
        """
        with self._lock:
            mine, version = self._items, self._version
        if not version.isdigit():
            return 0
        count = 0
        for item in items:
            own = str(item["metadata"].get("resourceVersion", ""))
            known = mine.get(str(item["metadata"]["uid"]))
            if own.isdigit() and int(own) <= int(version):
                count += known is None or known["metadata"].get("resourceVersion") != own
        return count

    def expire(self) -> None:
        """Let all be listed before it is watched again. What is in it stays until then."""
        with self._lock:
            self._version = ""

    def take(self, event: Mapping[str, Any], at: float) -> bool:
        """Take an event that came `at` that moment. Whether anything differs that is read. Raises Conflict: list again."""
        word, item = event.get("type"), event.get("object")
        if not isinstance(item, Mapping) or word == "ERROR" or item.get("kind") != self._kind:
            words = (item.get("message") or item.get("kind")) if isinstance(item, Mapping) else item
            raise Conflict(f"the watch of {self._kind} ended with {word} {words}")
        metadata = item["metadata"]
        with self._lock:
            self._version, self._confirmed = str(metadata["resourceVersion"]), at
            if word == "BOOKMARK":
                return False
            uid = str(metadata["uid"])
            before = self._items.pop(uid, None)
            if word in _SETS:
                now = self._items[uid] = slim(self._kind, item)
                return before is None or without_version(before) != without_version(now)
        if word == "DELETED":
            return before is not None
        raise Conflict(f"the watch of {self._kind} said {word}, which nobody knows")
