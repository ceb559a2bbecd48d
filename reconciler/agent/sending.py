"""When the report is sent: at its interval, and at once when something has changed.

Decides what the report says beside one look: what went wrong lately, and whether the look is still good. Never sent before the
first look: an empty report would read as a region without GPUs.
"""

from reconciler.agent.changing import changed
from reconciler.agent.health import recent, shown
from reconciler.agent.lease import SKEW_SECONDS
from reconciler.agent.memory import AT_ONCE, Memory, Site, troubled
from reconciler.agent.report import Content, Sender, essence, sent, unreachable
from reconciler.agent.settings import Settings
from reconciler.model.grants import report_key
from reconciler.model.report import Health
from reconciler.ports import Conflict, Refused, Transient


def reported(site: Site, memory: Memory) -> Memory:
    """The memory after a report, if one was due."""
    now = site.clock.monotonic()
    troubles = recent(memory.troubles, now, site.settings.trouble_seconds)
    memory = memory if troubles == memory.troubles else changed(memory, troubles=troubles)
    if memory.silent:
        return changed(memory, send_again_at=now + site.settings.retry_seconds)
    if memory.content is None:
        return memory
    content = memory.content if memory.reachable else unreachable(memory.content)
    health = health_of(site, memory, content)
    if now < due_at(site, memory, content, health):
        return memory
    if site.prober is not None:
        content = changed(content, probes=site.prober.probes())
    if site.lister is not None:
        content = changed(content, copies=site.lister.told())
    sender = Sender(site.region, site.incarnation)
    try:
        outbox = sent(site.store, content, health, sender, memory.outbox, site.clock.now())
    except (Conflict, Transient, Refused) as error:
        again = now + site.settings.retry_seconds
        memory = changed(memory, outbox=changed(memory.outbox, known=False), send_again_at=again)
        return troubled(memory, "ReportNotSent", report_key(site.region), error, now)
    memory = changed(memory, outbox=outbox, sent_at=now, sent_essence=_essence(site, content, health))
    return _cleared(memory)


def due_at(site: Site, memory: Memory, content: Content, health: tuple[Health, ...]) -> float:
    """When the next report is due."""
    settings = site.settings
    hurries = _essence(site, content, health) != memory.sent_essence or _may_clear(memory)
    due = memory.sent_at + (settings.change_seconds if hurries else settings.report_seconds)
    return max(due, memory.send_again_at)


def _essence(site: Site, content: Content, health: tuple[Health, ...]) -> tuple[object, ...]:
    return site.kept.essences.of("", essence, content, health)


def _may_clear(memory: Memory) -> bool:
    offered = memory.holding.offered
    return offered is not None and memory.settled_for == offered and memory.cleared != offered


def _cleared(memory: Memory) -> Memory:
    """A region that comes back reports first that nothing runs there; then it may take the new epoch."""
    return changed(memory, cleared=memory.holding.offered, renew_at=AT_ONCE) if _may_clear(memory) else memory


def health_of(site: Site, memory: Memory, content: Content) -> tuple[Health, ...]:
    """All that is not as it should be."""
    found = [
        *of_lease(memory, site.settings, site.clock.monotonic()),
        *_of_clock(site),
        *memory.notes,
        *content.accounts.health,
        *shown(memory.troubles),
    ]
    if memory.known.problem is not None:
        found.append(memory.known.problem)
    if site.prober is not None:
        found += site.prober.health()
    return tuple(found)


def _of_clock(site: Site) -> list[Health]:
    """A deadman's deadlines are written by the wall's clock as it was when the agent began."""
    if not site.settings.deadman:
        return []
    off = (site.clock.now() - site.began.at(site.clock.monotonic())).total_seconds()
    if abs(off) <= SKEW_SECONDS:
        return []
    words = f"the agent's clock was set by {off:+.0f} s since it began; deadlines go by the old time until it is started again"
    return [Health(code="ClockSet", message=words)]


def of_lease(memory: Memory, settings: Settings, now: float) -> list[Health]:
    """How the lease is, where it is not as it should be. `now`: of the monotonic clock."""
    holding = memory.holding
    if holding.offered is not None:
        words = f"epoch {holding.offered} follows {holding.epoch}; everything of ours is being stopped before it is taken"
        return [Health(code="LeaseRevoked", message=words)]
    if memory.fenced:
        return [Health(code="Fenced", message="the lease was not renewed in time; everything of ours is being stopped")]
    fence = settings.self_fence_seconds
    if holding.sent_at is not None and now - holding.sent_at > fence / 2:
        words = f"the last renewal is {round(now - holding.sent_at)} s old; at {round(fence)} s everything of ours is stopped"
        return [Health(code="LeaseLate", message=words)]
    return []
