"""The protocol of leases, grants and epochs as a small machine: its states, its messages, its clocks, and a rule for each step.

One job, two attempts. The first is placed in region A, where every step of the protocol is told; the second in region B, where it
runs the moment that B's grants name it. That is the worst that B can do, whatever its own agent is like; and the regions are
alike, so it does not matter which one is called A. Two hubs: each term is led by the other one than the term before. A paused
hub is one that makes no step; a crashed one is one whose lead was taken; what either has sent may still arrive.

What is under way stands in the state: a push, grants that name the attempt, a renewal and its answer, a release, a lift. It
arrives at any later time, or never. Every write changes an ETag, so what was sent before it on condition of the old one
is dropped on the spot. Grants that name nothing only take away: sending and arriving are one step there, as for a revocation
that compares; it is the same write, whenever it was sent.

Clocks tick in steps of their own. While the hub counts, its clock goes at most `drift` ticks ahead of A's, or behind.
"""

from collections.abc import Iterator

from tests.protocol.hubs import hub_steps
from tests.protocol.state import (
    CLOSED,
    DONE,
    ENDED,
    ENDING,
    FIRST,
    GATED,
    GONE,
    HELD,
    NAMED,
    NAMED_ANEW,
    NO_RENEWAL,
    NONE,
    NOTHING,
    OPEN,
    READ,
    REMADE,
    REPORTED,
    REVOKED,
    RUNNING,
    SECOND,
    STOP_IN_A,
    UNREAD,
    WITHDRAWN,
    Rules,
    State,
    Step,
)


def steps(s: State, r: Rules) -> Iterator[Step]:
    """Every step that could come next: what happens, in words, and the state after it."""
    if s.ledger != NOTHING:  # nothing hangs on time before that: what comes before the first placement could as well come after
        yield from _ticks(s, r)
        yield from _lease(s, r)
    yield from hub_steps(s, r)
    yield from _agent(s, r)
    yield from _cluster(s, r)


# ---- clocks -------------------------------------------------------------------------------------------------------


def _ticks(s: State, r: Rules) -> Iterator[Step]:
    counts = 0 <= s.watch < r.wait
    if counts and s.ahead < r.drift:
        yield "the hub's clock ticks", s._replace(watch=s.watch + 1, ahead=s.ahead + 1)
    if (not counts or s.ahead > 0) and _may_tick(s, r):
        sent, taken = s.renewal
        top = r.fence + r.tardy
        after = s._replace(ahead=s.ahead - counts, age=min(s.age + 1, top), dying=s.dying + (s.pod == ENDING))
        yield "A's clock ticks", after._replace(renewal=(min(sent + 1, top), taken)) if sent >= 0 else after


def _may_tick(s: State, r: Rules) -> bool:
    """Not while a pod outlives its grace; nor while a fence is overdue, because one of the agent's replicas acts in time."""
    if s.pod == ENDING and s.dying >= r.kill:
        return False
    overdue = s.age >= r.fence + r.tardy and s.lease != SECOND and r.fences and r.acts_in_time
    return not overdue or not (_to_close(s, r) or (_to_kill(s, r) and r.kills))


# ---- the lease ----------------------------------------------------------------------------------------------------


def _lease(s: State, r: Rules) -> Iterator[Step]:
    if s.lease == FIRST:
        yield from _renewed(s, r)
        yield from _watched(s, r)
    sent, taken = s.renewal
    if taken:
        age = sent if r.counts_from_sending else 0
        yield "A's agent has the answer to its renewal", s._replace(renewal=NO_RENEWAL, age=min(age, s.age))
    if s.revoking:
        yield "the revocation arrives", _revoked(s)
    if s.lease == REVOKED and (settled(s, r) or not r.stops_before_return):
        yield "A's agent takes the lease under epoch 2", s._replace(lease=SECOND, age=0)


def _renewed(s: State, r: Rules) -> Iterator[Step]:
    sent, taken = s.renewal
    if s.renewal != (0, False):
        yield "A's agent sends a renewal", s._replace(renewal=(0, False))
    if sent >= 0 and not taken:
        anew = s._replace(watch=-1, ahead=0) if r.counts_from_etag else s
        yield "the renewal arrives, and the lease has a new ETag", anew._replace(renewal=(sent, True))


def _watched(s: State, r: Rules) -> Iterator[Step]:
    if s.watch < 0:
        for ahead in range(r.drift + 1):
            yield "the hub sees the lease's ETag and counts from now", s._replace(watch=0, ahead=ahead)
    if s.watch < r.wait or not r.revokes or (r.stops_before_revoking and s.ledger != STOP_IN_A):
        return
    if r.compares:
        yield "the hub revokes the lease", _revoked(s)
    elif not s.revoking:
        yield "the hub sends a revocation", s._replace(revoking=True)


def _revoked(s: State) -> State:
    return s._replace(lease=REVOKED, watch=-1, ahead=0, revoking=False, renewal=s.renewal if s.renewal[1] else NO_RENEWAL)


# ---- the agent of A -----------------------------------------------------------------------------------------------


def _agent(s: State, r: Rules) -> Iterator[Step]:
    known = s.grants_a[1]
    heard = _withdrawals(s, WITHDRAWN, READ)._replace(known=known)
    if heard != s:
        words = "they name attempt 1" if known else "they do not name attempt 1"
        yield f"A's agent reads its grants: {words}", heard
    if s.known != UNREAD or not (r.records_first and r.inherits_fence):
        yield "A's agent dies, and another one starts", _restarted(s, r)
    granted = s.known == (NAMED_ANEW if s.lease == SECOND else NAMED) or (s.known in (NAMED, NAMED_ANEW) and not r.checks_epoch)
    yield from _starts(s, r, granted=granted)
    fenced = s.age >= r.fence and s.lease != SECOND and r.fences
    withdrawn = s.known != UNREAD and not granted
    if withdrawn or fenced or s.lease == REVOKED:
        yield from _stops(s, r)
    if withdrawn and settled(s, r) and any(hub.withdrawal == READ for hub in s.hubs):
        yield "A's agent reports attempt 1 as stopped", _withdrawals(s, READ, REPORTED)


def _withdrawals(s: State, before: int, after: int) -> State:
    one, other = (hub._replace(withdrawal=after) if hub.withdrawal == before else hub for hub in s.hubs)
    return s._replace(hubs=(one, other))


def _restarted(s: State, r: Rules) -> State:
    """Only the record is left. The answer to a renewal that is under way reaches nobody."""
    sent, taken = s.renewal
    renewal = NO_RENEWAL if taken or sent < 0 else (r.fence + r.tardy, False)
    kept = _withdrawals(s, READ, WITHDRAWN)._replace(known=UNREAD, renewal=renewal)
    return kept._replace(entry=s.entry and r.records_first, age=s.age if r.inherits_fence else 0)


def _starts(s: State, r: Rules, *, granted: bool) -> Iterator[Step]:
    may = granted and (s.age < r.fence or s.lease == SECOND)
    if may and not s.release and (s.object == HELD or (s.object == REMADE and not s.entry)):
        words = "writes its record and" if r.records_first else "writes no record, and"
        yield f"A's agent {words} sends the release", s._replace(entry=True, release=True)
    if s.pod == GATED and not s.lift and ((may and s.object == OPEN and s.entry) or (granted and not r.lifts_by_lease)):
        yield "A's agent sends the lift of the gate", s._replace(lift=True)


def _stops(s: State, r: Rules) -> Iterator[Step]:
    """First the object, so that it makes no more pods; then what it has made."""
    if _to_close(s, r):
        yield "A's agent suspends the object and closes it", s._replace(object=CLOSED, release=False)
    elif _to_kill(s, r) and r.kills:
        if s.pod == GATED:
            yield "A's agent closes the gated pod", s._replace(pod=GONE, lift=False)
        else:
            yield "A's agent deletes the pod, which has its grace to end", s._replace(pod=ENDING)


def _to_close(s: State, r: Rules) -> bool:
    return s.object == OPEN or (s.object == HELD and s.entry and r.closes_object)


def _to_kill(s: State, r: Rules) -> bool:
    return s.pod == RUNNING or (s.pod == GATED and r.closes_pods)


def settled(s: State, r: Rules) -> bool:
    """Whether a look proves that nothing of attempt 1 runs, and that nothing under way can change that."""
    return s.pod != ENDING and not _to_close(s, r) and not _to_kill(s, r)


# ---- the cluster of A ---------------------------------------------------------------------------------------------


def _cluster(s: State, r: Rules) -> Iterator[Step]:
    if s.release:
        yield "the release arrives", s._replace(object=OPEN, release=False, releases=s.releases + 1)
    if s.releases and s.pod == NONE:  # it may have been suspended since: a controller acts when it gets to it
        words, pod = ("a gated pod", GATED) if r.gates else ("a pod, which runs", RUNNING)
        yield f"the controller makes {words}", s._replace(pod=pod)
    if s.lift:
        yield "the lift arrives, and attempt 1 runs in A", s._replace(pod=RUNNING, lift=False)
    if s.pod == RUNNING:
        yield "attempt 1 ends well", s._replace(pod=DONE)
    if s.pod == ENDING:
        yield "the pod has ended", s._replace(pod=GONE, dying=0)
    if s.object in (OPEN, CLOSED):
        yield "the object is deleted, and the sync engine makes it again", s._replace(object=REMADE, release=False)
    if s.object == CLOSED and s.pod in (GATED, RUNNING):
        after = s._replace(pod=ENDING) if s.pod == RUNNING else s._replace(pod=GONE, lift=False)
        yield "the controller ends the pod of the suspended object", after


# ---- what must hold -----------------------------------------------------------------------------------------------


def wrong(s: State) -> str | None:
    """What must never be, in words; None where all is well."""
    if s.in_b and s.pod in (RUNNING, ENDING):
        return "both attempts of the job have a running pod"
    if s.releases > 1:
        return "attempt 1 was released twice"
    return "a job that has ended runs again" if s.ledger == ENDED and s.in_b else None


def is_served(s: State) -> bool:
    """Whether the job runs or has ended. From every state, one of these must be within reach."""
    return s.ledger == ENDED or s.in_b or s.pod in (RUNNING, DONE)
