"""Which staged copies stand in the region's own store: listed now and then, in a thread of its own, for the report.

Decides how often, and how long a listing may take: at most a seventh of the time goes into it, so that a store of many objects is
listed less often. Where the store answers is the hub's word (`hub/links.json`).

Invariants: nothing here is waited for by the agent's steps: they read what was found last, a value that is replaced whole. What
is not known is not told: a store that cannot be listed to its end reads as one of which nobody knows anything, never as empty.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from reconciler.agent.probing.table import newer_table
from reconciler.agent.stage.transfer.copies import copies
from reconciler.model.link_table import LINKS_KEY, LinkTable
from reconciler.model.region import StoreAddress
from reconciler.model.report import CacheListing, CacheReport
from reconciler.model.staged import STAGED
from reconciler.ports import Clock, ObjectStore, Refused, Transient

EVERY_SECONDS: Final = 300.0
"""From the end of a listing to the next; up to half as much again at random, so that many agents never come at once."""
REST: Final = 6
"""So many times as long as a listing took, at least."""
MOST_SECONDS: Final = 600.0
"""A listing that takes longer is given up: some five million objects, at the usual pace of S3."""
NO_STORE_SECONDS: Final = 60.0
"""Between looks whether the region has a store by now."""
MOST_COPIES: Final = 500
"""Copies in a report, some 250 bytes each; those that lack something first."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a report says of the store."""

    caches: tuple[CacheReport, ...]
    listing: CacheListing


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known at one moment. `began`: by the monotonic clock, when the listing of `told` was; its age there is 0."""

    told: Told | None = None
    began: float = 0.0
    trouble: str = ""


class Lister:
    """Lists one region's store. `store` is the common one, where the hub says where it is; `open_store` opens it."""

    def __init__(
        self, region: str, store: ObjectStore, open_store: Callable[[StoreAddress], ObjectStore], clock: Clock, chance: Random
    ) -> None:
        self._region = region
        self._store = store
        self._open_store = open_store
        self._clock = clock
        self._chance = chance
        self._table, self._etag = LinkTable(), ""
        self._opened: tuple[StoreAddress, ObjectStore] | None = None
        self._known = _Known()

    @property
    def trouble(self) -> str:
        """Why nothing is known of the copies, in words, and what to do; '' where something is, or the region has no store."""
        return self._known.trouble

    def told(self) -> Told | None:
        """What was found, for the report; None where nothing is known. From any thread, at once."""
        known = self._known
        if known.told is None:
            return None
        age = max(self._clock.monotonic() - known.began, 0.0)
        return replace(known.told, listing=known.told.listing.model_copy(update={"age_seconds": round(age, 1)}))

    def run(self, stop: threading.Event) -> None:
        """List until `stop` is set. Ends within the seconds of one request."""
        stop.wait(NO_STORE_SECONDS * self._chance.random())
        while not stop.is_set():
            stop.wait(self.step(stop.is_set))

    def step(self, is_over: Callable[[], bool] = lambda: False) -> float:
        """One listing; returns the seconds until the next."""
        began = self._clock.monotonic()
        address: StoreAddress | None = None
        try:
            address = self._address()
            self._known = _Known() if address is None else _Known(self._listed(address, began, is_over), began)
        except (Transient, Refused) as error:
            self._known = _Known(trouble=_words(address, error))
        except Exception as error:  # noqa: BLE001 - a bug ends this listing, not all of them; the log shows it
            self._known = _Known(trouble=f"Bug: {type(error).__name__}: {error}")
        if address is None:
            return NO_STORE_SECONDS
        took = self._clock.monotonic() - began
        return max(EVERY_SECONDS, REST * took) * (1.0 + 0.5 * self._chance.random())

    def _address(self) -> StoreAddress | None:
        """Where the region's store is; None where it has none as far as the hub has said."""
        newer = newer_table(self._store, self._etag)
        if newer is not None:
            self._table, self._etag = newer
        return self._table.stores.get(self._region)

    def _listed(self, address: StoreAddress, began: float, is_over: Callable[[], bool]) -> Told:
        if self._opened is None or self._opened[0] != address:
            self._opened = address, self._open_store(address)

        def look() -> None:
            if is_over() or self._clock.monotonic() - began > MOST_SECONDS:
                raise Transient(f"the listing has not come to its end within {MOST_SECONDS:.0f} s")

        found = copies(self._opened[1], address.url, look)
        lacking = sorted(found, key=lambda one: (one.objects, one.size_bytes) == (one.objects_total, one.size_bytes_total))
        left_out = max(len(found) - MOST_COPIES, 0)
        return Told(tuple(lacking[:MOST_COPIES]), CacheListing(url=address.url, age_seconds=0.0, left_out=left_out))


def _words(address: StoreAddress | None, error: Exception) -> str:
    if address is None:
        return f"{LINKS_KEY}: {error}"
    todo = f"let the agent's credentials list `{STAGED}` there, and read `{STAGED}*.json`"
    return f"{address.url}: which staged copies are there is not known, so the hub believes its ledger: {error}; {todo}"
