"""Which hub leads: one object in the store, taken and renewed by compare-and-swap.

A lease is another hub's for as long as its ETag keeps changing by our own clock. We count our own from the moment a renewal was
sent. Leading is what spares work; safety does not hang on it: every push and every grant is a compare-and-swap of its own.
"""

from collections.abc import Callable

from pydantic import ValidationError

from reconciler.model.grants import HUB_LEASE_KEY, HubLease
from reconciler.ports import Conflict, ObjectStore, Refused


class Leadership:
    """This hub's view of the lease."""

    def __init__(self, store: ObjectStore, holder: str, duration_seconds: float, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._holder = holder
        self._duration = duration_seconds
        self._monotonic = monotonic
        self._observed: tuple[str, float] | None = None
        self._valid_until = -1.0
        self._held: HubLease | None = None

    @property
    def term(self) -> int | None:
        """The term that we lead in; None while another hub does, or nobody."""
        return self._held.term if self._held is not None and self._monotonic() < self._valid_until else None

    def step(self, above: int = 0) -> int | None:
        """Renew or try to take the lease; returns the term that we lead in. Raises Transient, and Refused for a broken lease.

        `above`: the highest term that grants were seen to have. Where the lease was lost, its term begins above that.
        """
        if self._held is not None and self._held.term >= above and self._monotonic() < self._valid_until - self._duration * 2 / 3:
            return self._held.term
        sent = self._monotonic()
        stored = self._store.get(HUB_LEASE_KEY)
        if stored is None:
            return self._write(self._first(above + 1), None, sent)
        lease = _parsed(stored.body)
        if lease.holder == self._holder:
            term = lease.term if lease.term >= above else above + 1
            return self._write(lease.model_copy(update={"renewal": lease.renewal + 1, "term": term}), stored.etag, sent)
        self._held = None
        if self._observed is None or self._observed[0] != stored.etag:
            self._observed = (stored.etag, sent)
            return None
        if sent - self._observed[1] <= lease.duration_seconds:
            return None
        return self._write(self._first(max(lease.term, above) + 1), stored.etag, sent)

    def _first(self, term: int) -> HubLease:
        return HubLease(holder=self._holder, term=term, renewal=0, duration_seconds=self._duration)

    def _write(self, lease: HubLease, expect: str | None, sent: float) -> int | None:
        try:
            self._store.put(HUB_LEASE_KEY, lease.model_dump_json().encode(), expect=expect)
        except Conflict:
            self._held, self._observed = None, None
            return None
        self._held, self._valid_until = lease, sent + self._duration
        return lease.term

    def resign(self) -> None:
        """Give the lease up at a clean end, so that the next hub need not wait: it is left with no time to run."""
        stored = self._store.get(HUB_LEASE_KEY) if self._held is not None else None
        if stored is None or self._held is None:
            return
        lease = _parsed(stored.body)
        if lease.holder == self._holder:
            self._write(lease.model_copy(update={"renewal": lease.renewal + 1, "duration_seconds": 0.001}), stored.etag, -1e9)
        self._held = None


def _parsed(body: bytes) -> HubLease:
    try:
        return HubLease.model_validate_json(body)
    except ValidationError as error:
        raise Refused(f"{HUB_LEASE_KEY} in the store is no lease; look at it, then delete it") from error
