"""The hubs of the protocol's model: who leads, what follows from the ledger, what is pushed and granted. See model.py."""

from collections.abc import Iterator

from tests.protocol.state import (
    DONE,
    ENDED,
    FIRST,
    NAMED,
    NAMED_ANEW,
    NO,
    NO_GRANTS,
    NOTHING,
    REPORTED,
    REVOKED,
    RUN_IN_A,
    RUN_IN_B,
    SECOND,
    STOP_IN_A,
    UNNAMED,
    WITHDRAWN,
    Hub,
    Rules,
    State,
    Step,
)

SAYS = ("nothing yet", "attempt 1 is to run in A", "attempt 1 is to stop", "attempt 2 is to run in B", "the job has ended")


def hub_steps(s: State, r: Rules) -> Iterator[Step]:
    """What either hub could do next, and what it has sent and could arrive."""
    if s.term < r.terms:
        yield from _takes_over(s, r)
    for i, hub in enumerate(s.hubs):
        if hub.term == s.term or hub.resumes or (hub.term and not r.leads_alone):
            yield from _cycle(s, r, i)
        if hub.push >= 0:
            yield f"hub {i + 1}'s push arrives: {SAYS[hub.push]}", _pushed(s, r, i)
        if hub.view >= 0 and hub.owns:
            yield from _grants_for_a(s, r, i)
            yield from _grants_for_b(s, r, i)
        if hub.late[0]:
            yield f"hub {i + 1}'s grants arrive: they name attempt 1", _with_grants_a(s, hub.late)


def _takes_over(s: State, r: Rules) -> Iterator[Step]:
    """The hub that leads no more goes on from where it was: within its cycle, or (by `resumes`) at the beginning of one."""
    i, term = s.term % 2, s.term + 1
    hub = Hub(term=term, push=s.hubs[i].push, late=s.hubs[i].late, owns=not r.ledger_has_term)
    other = s.hubs[1 - i]
    for left in (other, other._replace(view=-1, resumes=True)) if r.resumes else (other,):
        passed = with_hub(s, 1 - i, left)
        yield f"hub {i + 1} takes the lead, with term {term}", with_hub(passed, i, hub)._replace(term=term, watch=-1, ahead=0)


def _cycle(s: State, r: Rules, i: int) -> Iterator[Step]:
    """A look at ledger, lease and newest report; with a push of what follows, if anything does."""
    if r.ledger_has_term and s.ledger_term > s.hubs[i].term:
        return  # it sees that it leads no more
    owns = not r.ledger_has_term or s.ledger_term == s.hubs[i].term
    hub = s.hubs[i]._replace(view=s.ledger, owns=owns, resumes=False)
    if hub != s.hubs[i]:
        yield f"hub {i + 1} reads the ledger", with_hub(s, i, hub)
    for push in (*_follows(s, r, hub), *(() if owns else (s.ledger,))):
        if push != hub.push:
            view = hub.view if r.ledger_first else push
            yield f"hub {i + 1} reads the ledger and pushes: {SAYS[push]}", with_hub(s, i, hub._replace(push=push, view=view))


def _follows(s: State, r: Rules, hub: Hub) -> Iterator[int]:
    if s.ledger == NOTHING:
        if s.lease == FIRST:
            yield RUN_IN_A
        yield RUN_IN_B
    elif s.ledger in (RUN_IN_A, STOP_IN_A):
        if s.pod == DONE:
            yield ENDED
        if s.ledger == RUN_IN_A:
            yield STOP_IN_A  # somebody has cancelled, edited or moved it
        if _is_lost(s, r) or (s.ledger == STOP_IN_A and hub.withdrawal == REPORTED):
            yield RUN_IN_B


def _is_lost(s: State, r: Rules) -> bool:
    """Whether the hub takes attempt 1 for stopped because its region was lost."""
    if not r.revokes:
        return s.watch >= r.wait
    return s.lease == REVOKED or (s.lease == SECOND and r.binds_to_epoch)


def _pushed(s: State, r: Rules, i: int) -> State:
    """The ledger has moved: no other push that was under way can arrive."""
    ledger, term = s.hubs[i].push, s.hubs[i].term if r.ledger_has_term else 1
    hubs = [hub._replace(push=-1) for hub in s.hubs]
    if not hubs[i].resumes:  # else the cycle that waited for it is over
        hubs[i] = hubs[i]._replace(view=ledger, owns=True)
    return s._replace(ledger=ledger, ledger_term=term, hubs=(hubs[0], hubs[1]))


def _grants_for_a(s: State, r: Rules, i: int) -> Iterator[Step]:
    hub, (term, says) = s.hubs[i], s.grants_a
    if term > hub.term and r.checks_term:
        return
    named = hub.term, _named(s, r, hub.view)
    if named[1] != UNNAMED:
        if named not in (s.grants_a, hub.late):
            yield f"hub {i + 1} sends grants that name attempt 1", with_hub(s, i, hub._replace(late=named))
        return
    fresh = hub.view == STOP_IN_A and hub.withdrawal == NO
    after = with_hub(s, i, hub._replace(withdrawal=WITHDRAWN)) if fresh else s
    if says == UNNAMED and not r.rewrites:
        if fresh:
            yield f"hub {i + 1} reads A's grants: they do not name attempt 1", after
    elif fresh or s.grants_a != named:
        yield f"hub {i + 1} writes A's grants without attempt 1", _with_grants_a(after, named)


def _named(s: State, r: Rules, view: int) -> int:
    """What grants for A say of attempt 1. It was placed under the first epoch, and belongs to that one for good."""
    if view != RUN_IN_A or s.lease == REVOKED:
        return UNNAMED
    if s.lease == FIRST:
        return NAMED
    return UNNAMED if r.binds_to_epoch else NAMED_ANEW


def _with_grants_a(s: State, grants: tuple[int, int]) -> State:
    one, other = s.hubs
    return s._replace(grants_a=grants, hubs=(one._replace(late=NO_GRANTS), other._replace(late=NO_GRANTS)))


def _grants_for_b(s: State, r: Rules, i: int) -> Iterator[Step]:
    hub = s.hubs[i]
    if s.in_b or (s.grants_b > hub.term and r.checks_term):
        return
    if hub.view == RUN_IN_B:
        yield f"hub {i + 1} grants attempt 2 in B, where it runs", s._replace(grants_b=hub.term, in_b=True)
    elif s.grants_b < hub.term:
        yield f"hub {i + 1} writes B's grants anew", s._replace(grants_b=hub.term)


def with_hub(s: State, i: int, hub: Hub) -> State:
    """The state with another first or second hub."""
    return s._replace(hubs=(hub, s.hubs[1]) if i == 0 else (s.hubs[0], hub))
