"""The words of the protocol's model: what there is at one moment, and the rules that can be left out. What happens is in model.py and hubs.py.

Numbers that are states have names, so that a state reads as a sentence; `-1` is "none" where 0 is something.
"""

from dataclasses import dataclass
from typing import NamedTuple

# The lease of A: of its first epoch, revoked, or taken anew under the second one.
FIRST, REVOKED, SECOND = 1, 2, 3
# The ledger: nothing placed; attempt 1 is to run in A; it is to stop; attempt 2 is to run in B; the job has ended.
NOTHING, RUN_IN_A, STOP_IN_A, RUN_IN_B, ENDED = 0, 1, 2, 3, 4
# What A's grants say of attempt 1: nothing; named under the first epoch; under the second. UNREAD: the agent knows of no grants.
UNNAMED, NAMED, NAMED_ANEW, UNREAD = 0, 1, 2, 3
# The object of attempt 1: suspended as it was made; un-suspended; suspended and closed; deleted and made again by the sync engine.
HELD, OPEN, CLOSED, REMADE = 0, 1, 2, 3
# Its pod.
NONE, GATED, RUNNING, ENDING, GONE, DONE = 0, 1, 2, 3, 4, 5
# How far a withdrawal is: not written, written, read by the agent, and reported: "stopped, by these grants".
NO, WITHDRAWN, READ, REPORTED = 0, 1, 2, 3


class Hub(NamedTuple):
    """One hub: what it remembers, and what it has sent."""

    term: int = 0
    """In which it leads, or led last and believes so; 0: never."""
    view: int = -1
    """The ledger as it knows it; -1: not read in this term."""
    owns: bool = True
    """Whether that view was committed in its own term. It is asked only where the ledger has terms."""
    push: int = -1
    """A ledger under way to Git; -1: none."""
    late: tuple[int, int] = (0, UNNAMED)
    """Grants under way that name attempt 1: (term, under which epoch); (0, UNNAMED): none."""
    withdrawal: int = NO
    resumes: bool = False
    """It was passed between its look at the hub's lease and its look at the ledger: that one is still to come."""


class State(NamedTuple):
    """Everything there is at one moment."""

    hubs: tuple[Hub, Hub] = (Hub(term=1, view=NOTHING), Hub())
    term: int = 1
    ledger: int = NOTHING
    ledger_term: int = 1
    lease: int = FIRST
    grants_a: tuple[int, int] = (1, UNNAMED)
    """(term, what it says of attempt 1)."""
    grants_b: int = 1
    """Term."""
    in_b: bool = False
    """B's grants have named attempt 2: it runs."""
    watch: int = -1
    """Ticks of the hub's clock since it first saw the lease's present ETag; -1: it has not seen it."""
    ahead: int = 0
    """By how many ticks the hub's clock is ahead of where A's could be, up to `drift`; 0 while the hub does not count."""
    revoking: bool = False
    """A revocation under way that compares nothing; only where a design has that."""
    # The agent of A. What a restart leaves of it is the record: age and entry.
    age: int = 0
    """Ticks since the last renewal that counts was sent; no more than matter."""
    renewal: tuple[int, bool] = (-1, False)
    """A renewal under way: (ticks since it was sent, whether the store has taken it); (-1, False): none."""
    known: int = UNREAD
    """What the grants said when they were read last."""
    entry: bool = False
    """Attempt 1 is bound to its object: it was released, or may have been."""
    # The cluster of A.
    object: int = HELD
    release: bool = False
    """A request to un-suspend is under way, for the object as it is."""
    releases: int = 0
    """How often it was un-suspended."""
    pod: int = NONE
    dying: int = 0
    """Ticks since the pod was told to end."""
    lift: bool = False
    """A request to lift the gate is under way, for the pod as it is."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The bounds; and the protocol's rules one by one, each of which can be left out to see what it is for."""

    fence: int = 1
    kill: int = 1
    drift: int = 1
    tardy: int = 0
    """Ticks that may go by until a stop that is due was asked for and took effect."""
    wait: int = 4
    """fence + kill + margin; the margin is tardy + drift, and one more because events fall between ticks."""
    terms: int = 2
    """Of hubs, one after the other."""
    resumes: bool = False
    """Whether a hub may be passed between its look at the hub's lease and its look at the ledger; else only after both."""
    fences: bool = True
    kills: bool = True
    counts_from_sending: bool = True
    inherits_fence: bool = True
    acts_in_time: bool = True
    revokes: bool = True
    compares: bool = True
    counts_from_etag: bool = True
    stops_before_return: bool = True
    checks_epoch: bool = True
    binds_to_epoch: bool = True
    stops_before_revoking: bool = False
    ledger_first: bool = True
    rewrites: bool = True
    checks_term: bool = True
    leads_alone: bool = True
    ledger_has_term: bool = False
    records_first: bool = True
    gates: bool = True
    lifts_by_lease: bool = True
    closes_object: bool = True
    closes_pods: bool = True


START = State()
NO_GRANTS, NO_RENEWAL = (0, UNNAMED), (-1, False)
Step = tuple[str, State]
"""What happens, in words, and the state after it."""
