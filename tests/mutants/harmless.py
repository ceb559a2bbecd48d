"""Mutants that no history can catch, and why. Each was made, and is replaced by one of the same thought that does harm."""

from typing import Final, NamedTuple

__all__ = ["HARMLESS", "Harmless"]


class Harmless(NamedTuple):
    """`replaced_by`: the name of the mutant that took its place."""

    name: str
    why: str
    replaced_by: str


HARMLESS: Final = (
    Harmless(
        "pods are read from a cache that is one look old",
        "Only the agent's own lift lets a pod begin, so what was gated or gone a look ago can run now by that alone; and a lift and the "
        "mark that must stand on a gated pod before `stopped` is said both name the pod's resourceVersion. One that was read from an "
        "old look is refused, and the next look is no older than that refusal. An old look delays a stop by a look; it proves none.",
        "pods are looked for by their owner, not by their labels",
    ),
    Harmless(
        "the epoch after a revocation is taken before everything has stopped",
        "When a lease is revoked its fence is long past, and everything was stopped by that; the model in tests/protocol searches all "
        "of its states without finding harm. The rule stays for regions whose fence could not act.",
        "an agent that starts anew counts from its own start",
    ),
    Harmless(
        "only the clock of the lease goes on while the hub does not see",
        "An ETag that is the same after a stretch as before it was not renewed in between, or the revocation fails. What must begin "
        "anew is the silence: so the mutant lets both go on.",
        "the stretch in which the hub did not see counts as silence",
    ),
)
