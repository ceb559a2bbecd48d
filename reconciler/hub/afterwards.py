"""What the hub writes to the store after the push, beside the grants: copies of what it has published or seen, to be read.

Each is tried by itself, and what fails is told and tried again at the next cycle: nothing is decided by any of them.
"""

from collections.abc import Mapping

from reconciler.hub.fleet import Fleet
from reconciler.hub.ledger import Trouble
from reconciler.hub.link_table import LinkTables
from reconciler.hub.regions import Reports
from reconciler.hub.result_pointer import ResultPointers
from reconciler.hub.staging import tasks_in
from reconciler.hub.transfers import held_of
from reconciler.model.names import JobKey
from reconciler.model.record import JobRecord
from reconciler.ports import Clock, ObjectStore


class Afterwards:
    """The result pointers, and what is said of the links."""

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._results = ResultPointers(store)
        self._links = LinkTables(store, clock)

    def forget(self) -> None:
        """For a hub that lost the lead."""
        self._results.forget()
        self._links.forget()

    def follow(self, records: Mapping[JobKey, JobRecord], fleet: Fleet, reports: Reports) -> tuple[Trouble, ...]:
        """Write what follows from the published ledger and the newest reports; what could not be written."""
        held = held_of(tasks_in(records).values())
        return (*self._results.follow(records), *self._links.follow(fleet, held, reports.seen, reports.ages()))
