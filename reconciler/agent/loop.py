"""The regional agent: one step after the other, each from what is so then. It talks to the world through ports only.

Decides the order of a step, what a bug costs (its part of one step) and when the next step is due.

Invariant: a store or a cluster that does not answer stops nothing and ends nothing; only a lease that has run out does.
Make an Agent when its replica becomes the leader: it inherits the lease by the record, and renews it at its first step.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from reconciler.agent.changing import changed
from reconciler.agent.granting import is_new, read_grants
from reconciler.agent.lister import Lister
from reconciler.agent.memory import Anchor, Kept, Memory, Site, troubled
from reconciler.agent.probing.prober import Prober
from reconciler.agent.renewing import fence_is_due, fence_is_near, fence_of, with_lease, with_recalled_epoch
from reconciler.agent.sending import due_at, health_of, reported
from reconciler.agent.settings import Settings
from reconciler.agent.working import worked
from reconciler.model.grants import grants_key
from reconciler.ports import Clock, Cluster, ObjectStore, Refused, SyncEngine, Transient


def with_grants(site: Site, memory: Memory) -> Memory:
    """The memory after a look at the grants."""
    if memory.silent:
        return memory
    try:
        known = read_grants(site.store, site.region, memory.known, memory.seen)
        return memory if known is memory.known else changed(memory, known=known)
    except (Transient, Refused) as error:
        memory = changed(memory, silent=isinstance(error, Transient))
        return troubled(memory, "GrantsUnreadable", grants_key(site.region), error, site.clock.monotonic())


Part = Callable[[Site, Memory], Memory]


def parts_of_step(site: Site, memory: Memory) -> tuple[Part, ...]:
    """What a step does, in order. Each part goes on from what the one before has left, whatever failed there.

    The fence waits for no store: shortly before it nothing is asked of one, and once it is due, stopping comes first.
    """
    if fence_is_due(site, memory):
        return with_recalled_epoch, worked, with_lease, with_grants, reported
    if fence_is_near(site, memory):
        return with_recalled_epoch, worked
    if not memory.known.looked:
        return with_recalled_epoch, with_grants, with_lease, worked, reported
    return with_recalled_epoch, with_lease, with_grants, worked, reported


@dataclass(slots=True)
class Agent:
    """The agent of one region. `incarnation` differs for each start; `settings` are this region's numbers."""

    region: str
    cluster: Cluster
    engine: SyncEngine
    store: ObjectStore
    clock: Clock
    settings: Settings
    incarnation: str
    memory: Memory = field(default_factory=Memory)
    prober: Prober | None = None
    """Who measures its links, beside it: it only reads what was found. None where nobody does."""
    lister: Lister | None = None
    """Who lists the copies in its store, the same."""
    stepped_at: float = field(init=False)
    """When the last step ended, or else when it was made; by the monotonic clock."""
    began: Anchor = field(init=False)
    _kept: Kept = field(init=False, default_factory=Kept)

    def __post_init__(self) -> None:
        """No step was made yet."""
        self.began = Anchor(self.clock.now(), self.clock.monotonic())
        self.stepped_at = self.began.monotonic

    def step(self) -> float:
        """One step; returns the seconds until the next should be made. Raises nothing that a next step could mend."""
        site = self._site()
        if self.memory.silent:
            self.memory = changed(self.memory, silent=False)
        for part in parts_of_step(site, self.memory):
            try:
                self.memory = part(site, self.memory)
            except Exception as error:  # noqa: BLE001 - a bug ends its part of this step, not the agent; the report shows it
                # What was seen last may not be so any more.
                self.memory = troubled(changed(self.memory, reachable=False), "Bug", part.__name__, error, self.clock.monotonic())
        self.stepped_at = self.clock.monotonic()
        return max(next_at(site, self.memory) - self.stepped_at, 0.0)

    def run(self, stop: threading.Event, wake: threading.Event) -> None:
        """Step until `stop` is set. `wake` asks for a step soon; set it with `stop` to end at once."""
        while not stop.is_set():
            until = self.clock.monotonic() + self.step()
            stop.wait(self.settings.rest_seconds)
            while not stop.is_set() and self.clock.monotonic() < until and not self._has_new_grants():
                if wake.wait(min(self.settings.poll_seconds, max(until - self.clock.monotonic(), 0.0))):
                    break
            wake.clear()

    def _has_new_grants(self) -> bool:
        # Reading from a store that does not answer takes longer than a write: the fence would wait for it.
        if self.memory.silent or fence_is_near(self._site(), self.memory):
            return False
        try:
            return is_new(self.store, self.region, self.memory.known)
        except (Transient, Refused) as error:
            self.memory = troubled(self.memory, "GrantsUnreadable", grants_key(self.region), error, self.clock.monotonic())
            return False

    def _site(self) -> Site:
        seat = self.region, self.cluster, self.engine, self.store, self.clock, self.settings, self.incarnation
        return Site(*seat, began=self.began, kept=self._kept, prober=self.prober, lister=self.lister)


def next_at(site: Site, memory: Memory) -> float:
    """When the next step is due, on the monotonic clock."""
    settings, now = site.settings, site.clock.monotonic()
    dues = [now + (settings.rest_seconds if memory.busy else settings.look_seconds)]
    if not fence_is_near(site, memory):
        dues.append(memory.renew_at)
        if memory.content is not None:
            dues.append(due_at(site, memory, memory.content, health_of(site, memory, memory.content)))
    elif not fence_is_due(site, memory):
        dues.append(fence_of(site, memory))
    return max(min(dues), now)
