"""Wiring of a region's agent beside its Kubernetes: API server, sync engine, the common store, and which of its replicas acts.

The agent is the same as on one machine. Of its replicas one leads, by a Lease of the region's own Kubernetes; the others stand by
with their watches running. That only keeps them out of each other's way: what may run hangs on the store's lease and on the
record (a paused leader's late request fails, for it names a version that is no more).

Rule for whoever edits this file: a leader whose API server is silent leads on, unless the store shows that another replica has
begun to. The region's lease must be renewed: once it has run out, the region may be given up, and pods that nobody can reach run
on.
"""

import os
import secrets
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import structlog

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.kube import Access, KubeCluster, from_kubeconfig, in_cluster
from reconciler.adapters.kube.admission_check import keep_active
from reconciler.adapters.kube.argocd import ArgoCd
from reconciler.adapters.kube.cluster import OWN_NAMESPACE
from reconciler.adapters.kube.flux import Flux
from reconciler.adapters.kube.leading import AgentReplica, Leadership
from reconciler.adapters.store_probe import Unfit, probe
from reconciler.agent.loop import Agent
from reconciler.agent.settings import Settings
from reconciler.app import beside, lister_for, open_store, prober_for, store_address
from reconciler.app_troubles import Troubles, tell, troubles_of
from reconciler.model.base import matches_name
from reconciler.model.grants import Lease, lease_key
from reconciler.model.policy import Settings as HubSettings
from reconciler.ports import Conflict, ObjectStore, Refused, SyncEngine, Transient

EngineName = Literal["flux", "argocd"]
RETRY_SECONDS = 2.0
"""Between tries to have, or renew, the lead."""
CHECK_SECONDS = 30.0
"""Between looks at the AdmissionCheck by which Kueue waits for our grants."""
PROBE_SECONDS = 10.0
"""Between tries to ask the store what it promises."""
STALE_SECONDS = 60.0
"""Without a step for so long, whoever leads is not well."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How an agent is run. Without `kubeconfig` it runs in a pod of its region."""

    region: str
    engine: EngineName
    store: str
    kubeconfig: Path | None = None
    context: str | None = None
    agent: Settings = field(default_factory=Settings)
    probes: bool = True
    """Whether it measures its links."""


class ClusterRegion:
    """One replica of a region's agent, ready to run. It starts without its store, too: stopping must not wait for one."""

    def __init__(self, options: ClusterOptions) -> None:
        """Raises Refused where the store's or the cluster's address cannot be used at all."""
        if not matches_name(options.region):
            raise Refused(f"{options.region!r} is no name of a region")
        self._region = options.region
        self._clock = SystemClock()
        self._store = _opened(options.store)
        self._cluster = KubeCluster(_access(options), self._clock)
        self._engine = _engine(options.engine, self._cluster, self._clock)
        self._settings = replace(options.agent, boot=_boot())
        self._probes = options.probes
        self._holder = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._leadership = Leadership(self._cluster.connection, self._clock, AgentReplica(self._holder, OWN_NAMESPACE))
        self._stop, self._over, self._wake = threading.Event(), threading.Event(), threading.Event()
        self._agent: Agent | None = None
        self._looked_at = self._clock.monotonic()
        self._checked_at, self._check_trouble = float("-inf"), ""
        self._trouble = ""
        self._unfit: Unfit | None = None
        self._told: frozenset[tuple[str, str]] = frozenset()
        self._log = structlog.get_logger("agent").bind(region=options.region)

    def stop(self) -> None:
        """End the loops. What runs in the region runs on."""
        self._stop.set()
        self._over.set()
        self._wake.set()

    def run(self) -> None:
        """Stand by, lead, stand by again, until `stop`. Blocks. Raises Refused for a store that leases cannot stand on."""
        self._cluster.start(self._wake.set)
        threading.Thread(target=self._probe, name="probe", daemon=True).start()
        standing_by = False
        try:
            while not self._stop.is_set():
                leads = self._leads()
                if leads is False and not standing_by:
                    self._log.info("stands by", holder=self._holder)
                standing_by = leads is False
                if leads:
                    self._lead()
                self._stop.wait(RETRY_SECONDS)
        finally:
            self._resign()
            self._cluster.stop()
        if self._unfit is not None:
            raise self._unfit

    def _leads(self) -> bool | None:
        """Whether this replica has the Lease, after one try to have it; None where the API server does not say."""
        try:
            leads = self._leadership.try_lead() or self._leadership.may_act()
        except (Conflict, Transient, Refused) as error:
            self._say(str(error))
            return None
        self._say("")
        self._looked_at = self._clock.monotonic()
        return leads

    def _lead(self) -> None:
        """Be the region's agent for as long as the Lease is kept."""
        self._log.info("leads", holder=self._holder)
        self._over.clear()
        if self._stop.is_set():
            return
        incarnation = secrets.token_hex(8)
        prober = prober_for(self._region, self._store) if self._probes else None
        seat = self._region, self._cluster, self._engine, self._store, self._clock, self._settings
        lister = lister_for(self._region, self._store)
        self._agent = Agent(*seat, incarnation, prober=prober, lister=lister)
        keeping = threading.Thread(target=self._keep, name="leadership", daemon=True)
        keeping.start()
        try:
            with beside(prober, lister):
                self._agent.run(self._over, self._wake)
        finally:
            self._over.set()
            keeping.join()
            self._agent = None
        if not self._stop.is_set():
            self._log.warning("leads no more; another replica may")

    def _keep(self) -> None:
        """Renew the Lease beside the agent's steps, which may take longer; end them when another has it, or this fails."""
        try:
            while not self._over.wait(RETRY_SECONDS):
                leads = self._leads()
                if leads is False or (leads is None and self._another_renews()):
                    return
                if leads:
                    self._keep_check()
                self._tell()
        finally:
            self._over.set()
            self._wake.set()

    def _another_renews(self) -> bool:
        """Whether another replica has renewed the region's lease since this one did: then only this one's way to its server is
        broken, and what it would report is old. Where nobody can reach the API server, nobody else has begun to."""
        agent = self._agent
        if agent is not None and agent.memory.holding.watched is not None:
            return True
        lease = agent.memory.holding.lease if agent is not None and agent.memory.holding.sent_at is not None else None
        if agent is None or lease is None:
            return False
        try:
            stored = self._store.get(lease_key(self._region))
            found = None if stored is None else Lease.model_validate_json(stored.body)
        except (Transient, Refused, ValueError):
            return False
        return (
            found is not None and not found.revoked and found.incarnation != agent.incarnation and found.renewal > lease.renewal
        )

    def _tell(self) -> None:
        self._told = tell(self._log, self._troubles(), self._told)

    def _troubles(self) -> Troubles:
        agent = self._agent
        return {} if agent is None else troubles_of(agent, self._clock.monotonic())

    def _keep_check(self) -> None:
        """Kueue's queues admit nothing while nobody answers for their check."""
        if self._clock.monotonic() < self._checked_at + CHECK_SECONDS:
            return
        self._checked_at = self._clock.monotonic()
        try:
            words = keep_active(self._cluster.connection, self._clock)
        except (Conflict, Transient, Refused) as error:
            words = str(error)
        if words and words != self._check_trouble:
            self._log.warning("the AdmissionCheck of Kueue's queues is not kept active", what=words)
        self._check_trouble = words

    def _probe(self) -> None:
        """Ask the store, until it has answered once, whether it keeps what leases stand on. Beside everything else: an agent must
        lead, and if need be stop everything, also while its store does not answer or does not let it in."""
        said = ""
        while not self._stop.is_set():
            try:
                probe(self._store, secrets.token_hex(8))
            except Unfit as error:
                self._unfit = error
                self.stop()
            except (Transient, Refused) as error:
                if str(error) != said:
                    self._log.warning("the store cannot be asked yet what it promises", what=str(error))
                said = str(error)
                self._stop.wait(PROBE_SECONDS)
            else:
                return

    def _resign(self) -> None:
        try:
            self._leadership.resign()
        except (Conflict, Transient, Refused) as error:
            self._log.warning("the lead could not be given up; another replica takes it when it runs out", what=str(error))

    def _say(self, words: str) -> None:
        if words and words != self._trouble:
            self._log.warning("trouble", what=words)
        self._trouble = words

    # ---- for probes, from other threads

    def health(self) -> tuple[bool, Mapping[str, Any]]:
        """Whether the program should be left running: it steps, or it stands by."""
        agent = self._agent
        figures: dict[str, Any] = {"region": self._region, "leads": agent is not None, "trouble": self._trouble}
        if agent is None:
            return True, figures
        silent = self._clock.monotonic() - agent.stepped_at
        troubles = [f"{code}: {words}" for (code, _), words in sorted(self._troubles().items())]
        return silent < STALE_SECONDS, {**figures, "seconds_since_step": round(silent, 1), "troubles": troubles}

    def readiness(self) -> tuple[bool, Mapping[str, Any]]:
        """Whether it could lead: its API server answers."""
        silent = self._clock.monotonic() - self._looked_at
        alive, figures = self.health()
        return alive and silent < STALE_SECONDS, {**figures, "seconds_since_answer": round(silent, 1)}


def _opened(url: str) -> ObjectStore:
    address = store_address(url, HubSettings())
    if address is None:
        raise Refused("no store is named; give --store")
    return open_store(address)


def _access(options: ClusterOptions) -> Access:
    return in_cluster(os.environ) if options.kubeconfig is None else from_kubeconfig(options.kubeconfig, options.context)


def _engine(name: EngineName, cluster: KubeCluster, clock: SystemClock) -> SyncEngine:
    return Flux(cluster.connection, clock) if name == "flux" else ArgoCd(cluster.connection)


def _boot() -> str:
    """What names this machine's boot; '' where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
