"""Why the hub stands still, said in the object store: where the ledger cannot be written or believed, Git cannot tell it.

Written by the leader when its cycles fail, emptied when one goes well again; `reconciler status` reads it beside the ledger.
"""

from datetime import datetime

from pydantic import ValidationError

from reconciler.model.grants import HUB_TROUBLE_KEY, HubTrouble
from reconciler.ports import ObjectStore


class Standstill:
    """What this hub has said last."""

    def __init__(self, store: ObjectStore, holder: str) -> None:
        self._store = store
        self._holder = holder
        self._said: str | None = None

    def say(self, what: str, now: datetime) -> None:
        """Say it, '' for that all is well; nothing is written where that was said last. Raises Conflict, Transient, Refused."""
        if what == self._said:
            return
        stored = self._store.get(HUB_TROUBLE_KEY)
        if stored is not None or what:
            trouble = HubTrouble(holder=self._holder, what=what, since=now)
            expect = stored.etag if stored is not None else None
            self._store.put(HUB_TROUBLE_KEY, trouble.model_dump_json().encode(), expect=expect)
        self._said = what


def read_standstill(store: ObjectStore) -> HubTrouble | None:
    """Why the hub stands still; None where it does not say so. Raises Transient and Refused."""
    stored = store.get(HUB_TROUBLE_KEY)
    try:
        trouble = HubTrouble.model_validate_json(stored.body) if stored is not None else None
    except ValidationError:
        return None
    return trouble if trouble is not None and trouble.what else None
