"""Which object store a ledger belongs to: the store bears an id, and the ledger notes it.

Leases and grants stand in the store alone. Two hubs on one repository with a store each would both lead, and what one revokes the
other's agents never hear of. So a hub whose store is not the one that the ledger notes decides nothing, and says so; a person who
means it moves the id. Invariant: a ledger without an id takes that of the first store, and no hub ever changes one.
"""

from datetime import datetime

from pydantic import ValidationError

from reconciler.model.grants import HUB_STORE_KEY, StoreIdentity
from reconciler.model.names import digest
from reconciler.ports import Conflict, ObjectStore, Refused


class Home:
    """The store's id, as this hub knows it; read anew in each term, for a person may have moved it."""

    def __init__(self, store: ObjectStore, holder: str) -> None:
        self._store = store
        self._holder = holder
        self._known: tuple[int, str] | None = None

    def step(self, noted: str, term: int, now: datetime) -> str:
        """The store's id. `noted`: by the ledger, empty where none is: then the store's is taken, or made.

        Raises Refused where the ledger belongs to another store, and Transient.
        """
        found = self._known[1] if self._known is not None and self._known[0] == term else self._read()
        if not found and not noted:
            found = self._make(digest([self._holder, now.isoformat()])[:16])
        if noted and found != noted:
            self._known = None
            raise Refused(_another(noted, found))
        self._known = term, found
        return found

    def _read(self) -> str:
        stored = self._store.get(HUB_STORE_KEY)
        if stored is None:
            return ""
        try:
            return StoreIdentity.model_validate_json(stored.body).id
        except ValidationError as error:
            raise Refused(
                f"{HUB_STORE_KEY} in the store cannot be read; restore it: it holds the id that hub.json names"
            ) from error

    def _make(self, name: str) -> str:
        try:
            self._store.put(HUB_STORE_KEY, StoreIdentity(id=name).model_dump_json().encode(), expect=None)
        except Conflict:
            return self._read()  # another hub was quicker
        return name


def _another(noted: str, found: str) -> str:
    here = f"this one's is {found}" if found else "this one has none"
    return (
        f"the ledger belongs to the object store with the id {noted}, and {here} ({HUB_STORE_KEY}): leases and grants stand in "
        "the other one, so nothing is decided here. Start this hub with that store; to move to this one for good, stop every hub "
        f"and agent that uses the other, and move its {HUB_STORE_KEY} here, as docs/operations.md says"
    )
