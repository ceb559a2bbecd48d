"""The region's report: composed from one look, sent by compare-and-swap, with a sequence that only rises.

Decides what one look says of the region, and when that differs enough to be sent at once; what it means is the hub's.

Invariant: what is said to have stopped, and the version of the grants beside it, come from one look at the API server that was
made after everything those grants ask for had been requested.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from reconciler.agent.accounts import Accounts, Page, account, summarise
from reconciler.agent.answers import Answers
from reconciler.agent.lister import Told
from reconciler.agent.nodes import NodeRules
from reconciler.agent.reading import Key
from reconciler.agent.seen import Seen, left_over
from reconciler.agent.workloads import NO_CAUSE, Cause, is_queued, report_attempt
from reconciler.model.grants import Grants, report_key
from reconciler.model.report import Health, LinkProbe, NodeReport, RegionReport, WorkloadReport
from reconciler.ports import ClusterState, Conflict, ObjectStore, SyncState

_MOST_SYNC_ERRORS = 100
_LONGEST_SYNC_ERROR = 1000


@dataclass(frozen=True, slots=True)
class Look:
    """One read of the region: its cluster, then its sync engine (None: never heard of)."""

    state: ClusterState
    sync: SyncState | None


@dataclass(frozen=True, slots=True)
class Content:
    """What one look says, without what differs from one sending to the next."""

    accounts: Accounts
    workloads: tuple[WorkloadReport, ...]
    namespaces: tuple[str, ...]
    kinds: tuple[str, ...]
    sync: SyncState | None
    grants_version: int
    lease_epoch: int
    probes: tuple[LinkProbe, ...] = ()
    """What was measured by the time it is sent; of no look."""
    copies: Told | None = None
    """What stands in the store, the same; None: nobody knows."""


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends: a region's agent, in this start of it."""

    region: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class Outbox:
    """Where the report stands in the store. `etag` None: to be read, or not there yet."""

    etag: str | None = None
    known: bool = False
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class Pages:
    """What was said before of each node and of each attempt."""

    nodes: Answers[Page] = field(default_factory=Answers)
    attempts: Answers[WorkloadReport] = field(default_factory=Answers)


@dataclass(frozen=True, slots=True)
class Telling:
    """How a look is told: by the region's rules, and with what was asked about an attempt beside it."""

    rules: NodeRules
    causes: Mapping[Key, Cause]
    pages: Pages = field(default_factory=Pages, compare=False)


def compose(look: Look, attempts: Sequence[Seen], grants: Grants | None, epoch: int, telling: Telling) -> Content:
    """What a look says. `attempts` were gathered from it with the record and the `grants` that were acted upon before it."""
    pages, causes = telling.pages, telling.causes
    workloads = tuple(
        pages.attempts.of(
            seen.key,
            report_attempt,
            seen,
            is_left_over=bool(left_over(seen, look.sync, grants)),
            cause=causes.get(seen.key, NO_CAUSE),
        )
        for seen in attempts
    )
    pages.attempts.keep_only({seen.key for seen in attempts})
    return Content(
        accounts=account(look.state, telling.rules, pages.nodes),
        workloads=workloads,
        namespaces=tuple(sorted(look.state.namespaces)),
        kinds=tuple(look.state.kinds),
        sync=look.sync,
        grants_version=0 if grants is None else grants.version,
        lease_epoch=epoch,
    )


def essence(content: Content, health: Sequence[Health]) -> tuple[object, ...]:
    """What of it is worth a report at once: not what pods of others use of CPU and memory, not how often something failed."""
    nodes = tuple(
        (node.name, node.unavailable, node.capacity_gpus, node.allocatable.gpus, node.used.gpus, node.releasing_gpus)
        for node in content.accounts.nodes
    )
    sync = content.sync and (content.sync.commit, tuple(sorted(content.sync.errors.items())))
    codes = tuple(sorted({one.code for one in health}))
    return nodes, sync, content.workloads, content.namespaces, content.kinds, content.grants_version, content.lease_epoch, codes


def build(content: Content, health: Sequence[Health], sender: Sender, sequence: int, now: datetime) -> RegionReport:
    """The report as it is sent."""
    nodes = content.accounts.nodes
    queued = sum(1 for workload in content.workloads if is_queued(workload))
    errors = sorted(content.sync.errors.items())[:_MOST_SYNC_ERRORS] if content.sync else []
    return RegionReport(
        region=sender.region,
        incarnation=sender.incarnation,
        sequence=sequence,
        sent_at=now,
        grants_version=content.grants_version,
        lease_epoch=content.lease_epoch,
        summary=summarise(sender.region, nodes, queued, now),
        nodes=nodes,
        workloads=content.workloads,
        namespaces=content.namespaces,
        workload_kinds=content.kinds,
        synced_commit=content.sync.commit if content.sync else None,
        sync_errors={name: message[:_LONGEST_SYNC_ERROR] for name, message in errors},
        foreign_pods=content.accounts.foreign_pods,
        probes=content.probes,
        caches=content.copies.caches if content.copies is not None else None,
        caches_listed=content.copies.listing if content.copies is not None else None,
        health=tuple(health),
    )


def unreachable(content: Content) -> Content:
    """The last content, where the cluster does not answer any more: nothing new can be scheduled there."""
    nodes = tuple(_closed(node) for node in content.accounts.nodes)
    return replace(content, accounts=replace(content.accounts, nodes=nodes))


def _closed(node: NodeReport) -> NodeReport:
    return node if node.unavailable else node.model_copy(update={"unavailable": "ClusterUnreachable"})


def read_outbox(store: ObjectStore, region: str, outbox: Outbox) -> Outbox:
    """Where the report stands, and a sequence no lower than the one there. Raises Transient or Refused."""
    stored = store.get(report_key(region))
    if stored is None:
        return replace(outbox, etag=None, known=True)
    return Outbox(stored.etag, known=True, sequence=max(outbox.sequence, _sequence(stored.body)))


def _sequence(body: bytes) -> int:
    """The sequence of a report that another incarnation sent; 0 for what is none, which is then simply replaced."""
    try:
        found = json.loads(body)["sequence"]
    except (ValueError, KeyError, TypeError):
        return 0
    return found if isinstance(found, int) else 0


def send(store: ObjectStore, report: RegionReport, outbox: Outbox) -> Outbox:
    """Put the report in the last one's place. Raises Conflict, Transient or Refused; the outbox must then be read again."""
    etag = store.put(report_key(report.region), report.model_dump_json().encode(), expect=outbox.etag)
    return Outbox(etag, known=True, sequence=report.sequence)


def sent(store: ObjectStore, content: Content, health: Sequence[Health], sender: Sender, outbox: Outbox, now: datetime) -> Outbox:
    """Send the content, above whatever another incarnation may have sent meanwhile. Raises Conflict, Transient or Refused."""
    if not outbox.known:
        outbox = read_outbox(store, sender.region, outbox)
    try:
        return send(store, build(content, health, sender, outbox.sequence + 1, now), outbox)
    except Conflict:
        outbox = read_outbox(store, sender.region, outbox)
        return send(store, build(content, health, sender, outbox.sequence + 1, now), outbox)
