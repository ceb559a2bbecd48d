"""What the links do, as the agents at their ends have measured it: one value a directed link.

A rate here is what one transfer was seen to reach while the link had room for it, never a reservation. Who gives a transfer how
much of it is for others to say, and what stands in for a link that is not here.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measured:
    """One directed link. `age_seconds`: since its newest transfer ended. `samples`: transfers behind the rate.

    `rtt_ms`: the round trip as the kernel of one end sees it; None where no connection tells.
    """

    bytes_per_second: float
    age_seconds: float
    samples: int
    rtt_ms: float | None = None
