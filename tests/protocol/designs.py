"""Designs that lack one rule of the protocol each, and what a person should know of the history that breaks them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tests.protocol.state import Rules

PROTOCOL = Rules()
_ONE_HUB = replace(PROTOCOL, terms=1)
"""Enough where the history needs no second one; a thing is found sooner where there is less to look at."""
_NO_DRIFT = replace(PROTOCOL, drift=0, wait=PROTOCOL.wait - PROTOCOL.drift)
"""Enough where the history hangs on no clock."""


@dataclass(frozen=True, slots=True)
class Design:
    """A simpler design. `words` say what it would be like and what is to be learned."""

    rules: Rules
    words: str


BROKEN: Mapping[str, Design] = {
    "The agent does not stop by its own clock": Design(
        replace(_ONE_HUB, fences=False),
        "The hub revokes the lease and takes the region's word for the rest. But a region that is cut off does not hear of it: only what "
        "it does by itself, by a clock that needs nobody, can be counted on.",
    ),
    "A renewal counts from its answer": Design(
        replace(_ONE_HUB, counts_from_sending=False),
        "The hub may count from the moment at which the store took the renewal, and the answer may be on its way for any time, or wait in an "
        "agent that was frozen. Only the moment of sending is surely before the hub's.",
    ),
    "A restarted agent counts from its own start": Design(
        replace(_ONE_HUB, inherits_fence=False),
        "So the time of the last renewal stands in the record, and an agent that cannot renew stops everything at that time plus "
        "`self_fence`; at once where there is no record.",
    ),
    "The hub waits, and does not revoke": Design(
        replace(_ONE_HUB, revokes=False),
        "However long it waits, the region may renew a moment after the hub's last look. The revocation is what makes one of the two fail.",
    ),
    "The revocation is a plain write": Design(
        replace(_ONE_HUB, compares=False),
        "A renewal that came in between is written over, and its agent believes in its lease for the whole of `self_fence`.",
    ),
    "The hub counts from its own start or its own last write": Design(
        replace(_ONE_HUB, counts_from_etag=False),
        "The revocation does compare, but with an ETag that nobody has watched: the lease was renewed just now.",
    ),
    "The hub waits for the fence only": Design(
        replace(_ONE_HUB, wait=PROTOCOL.fence),
        "The two clocks do not even have to differ much: the lease is still good when it is revoked.",
    ),
    "The hub leaves out the margin": Design(
        replace(_ONE_HUB, wait=PROTOCOL.fence + PROTOCOL.kill),
        "The fence is due at this very moment by the agent's clock, which is a little slower.",
    ),
    "The hub leaves out the time that pods take to end": Design(
        replace(_ONE_HUB, wait=PROTOCOL.wait - PROTOCOL.kill),
        "The agent was in time, but a pod that was told to end still writes its checkpoint. The same history breaks any sum that is "
        "shorter by one tick, so the sum has nothing to spare.",
    ),
    "The fence suspends, and leaves the pods to the controller": Design(
        replace(_ONE_HUB, kills=False),
        "A busy controller acts on `suspend` after a minute, a dead one never. So the agent deletes the pods itself.",
    ),
    "The agent does not look at the epoch": Design(
        replace(_ONE_HUB, checks_epoch=False),
        "Grants of the first epoch still lie in the store when the region is back, or arrive then. The attempt that they name has ended in "
        "the ledger; here it was never released, so the record alone would let it start.",
    ),
    "Grants take their epoch from the lease": Design(
        replace(_ONE_HUB, binds_to_epoch=False),
        "The revocation proves that attempts *of the first epoch* have stopped. A hub that grants them again under the second one, because by "
        "the ledger they are still to run, takes the ground from under a push that says the opposite and is late. A single hub does this to "
        "itself, when the answer to its push does not come. So an attempt belongs to the epoch under which it was placed, for good, and the "
        "ledger says which.",
    ),
    'Grants take their epoch from the lease, and the ledger says "stop" before the revocation': Design(
        replace(PROTOCOL, binds_to_epoch=False, stops_before_revoking=True),
        "A way around the last one that is none: a hub that has stood still writes what it knew, with the epoch of today.",
    ),
    "The grant goes before the ledger's commit": Design(
        replace(_ONE_HUB, ledger_first=False),
        "The commit is what makes one decision out of two. Granted first, a decision that was never committed has run, and nobody knows of it.",
    ),
    "What is absent from the grants need not be withdrawn": Design(
        replace(_ONE_HUB, rewrites=False),
        "It may stand in a write that is still under way. A new version, the same or not, changes the ETag, and the late one fails.",
    ),
    "Whoever reads the grants anew may write them": Design(
        replace(_NO_DRIFT, checks_term=False),
        "A hub that was passed while it stood still reads the present ETag, so comparing alone does not stop it. The term does: "
        "grants of a higher one are not its own to write.",
    ),
    "Two hubs may lead at a time": Design(
        replace(_NO_DRIFT, leads_alone=False),
        "It is not enough that every single write compares: what hub 2 decided from the ledger is outdated when it grants, and it had nothing "
        "to commit, so nothing failed. Here hub 1 begins cycles although hub 2 has taken the lead, as a hub does whose clock stood still. "
        "(Where a new leader commits its term to the ledger before it grants anything, and no hub pushes to a ledger of a higher term, "
        "this cannot happen, whatever the hubs' clocks do: that is checked as well.)",
    ),
    "The release goes before the record": Design(
        replace(_ONE_HUB, records_first=False),
        "Who restarts in between does not know that it has released the attempt, and takes the object that the sync engine has made again "
        "for a fresh one.",
    ),
    "No gate: to un-suspend is to run": Design(
        replace(_ONE_HUB, gates=False),
        "A controller with a backlog makes a pod long after the object was suspended again (26 s were seen). Without a gate it runs.",
    ),
    "A gated pod of a stopped attempt counts as stopped": Design(
        replace(_ONE_HUB, closes_pods=False),
        'A lift of its gate may still be under way. So a gated pod is marked before the word "stopped" is said: the request names the pod\'s '
        "resourceVersion, and fails.",
    ),
    "The gate is lifted by the grant alone": Design(
        replace(_ONE_HUB, lifts_by_lease=False),
        "The fence had closed everything there was, and then a pod was born late. Whoever lifts asks for the lease each time, and lifts "
        "for an open object only.",
    ),
}
"""Each is found broken."""

HARMLESS: Mapping[str, Design] = {
    "A region that comes back takes the new epoch without stopping what runs": Design(
        replace(PROTOCOL, stops_before_return=False),
        "When the lease is revoked, its fence is long past, and everything was stopped by that. The rule stays for regions whose fence "
        'could not act (the last section). "A restarted agent counts from its own start" took its place among those that break.',
    ),
    "An object whose release may be under way is not closed": Design(
        replace(PROTOCOL, closes_object=False),
        "A release that comes late makes a pod that is gated, and nobody lifts the gate. It is the gate that saves it, and the "
        'rule stays as a second lock. "A gated pod of a stopped attempt counts as stopped" took its place: the same thought, one step on.',
    ),
}
"""Each was thought to break something, and does not."""

UNSAFE: Mapping[str, Design] = {
    "Nobody stops the region in time": Design(
        replace(_ONE_HUB, acts_in_time=False),
        "Both replicas of the agent are gone, or neither reaches the region's API server until margin and fence are over, while kubelets go on "
        "and the region is cut off from the store. No rule of the hub's helps there.",
    ),
}
"""What the protocol takes for granted, taken away."""

WIDER: Mapping[str, Rules] = {
    "longer times": Rules(fence=2, kill=1, drift=2, tardy=1, wait=7),
    "a third term": Rules(terms=3),
    "a hub that was passed begins a cycle": Rules(resumes=True),
    "hubs without clocks, where the ledger has terms": Rules(leads_alone=False, ledger_has_term=True),
}
"""The protocol within wider bounds: a minute each, and all is well."""
