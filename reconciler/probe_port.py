"""What the agent asks of the regions' stores to measure the links to them, as a protocol: real transfers, timed.

Adapters raise the errors of ports.py only, with the same meaning. What is written here is never read as anything but bytes.
"""

from dataclasses import dataclass
from typing import Protocol

from reconciler.model.region import StoreAddress


@dataclass(frozen=True, slots=True)
class TcpFacts:
    """What the kernel says of the connection that a transfer was made over. Round-trip times in milliseconds."""

    rtt_ms: float
    rtt_var_ms: float | None = None
    retransmitted: float | None = None
    """Share of the segments that this end sent again, 0 to 1; None where this end sent next to nothing."""


@dataclass(frozen=True, slots=True)
class Transferred:
    """One transfer. `seconds`: of its bytes, without what came before the first of them."""

    moved_bytes: int
    seconds: float
    bytes_per_second: float
    """What it had reached when it was well under way: TCP's start is left out where it can be told. Above 0."""
    tcp: TcpFacts | None = None
    """None where there was no connection."""


class LinkStores(Protocol):
    """The regions' stores, as ends of links. Every call returns within its seconds, or soon after; raises Transient, Refused."""

    def keep(self, region: str, address: StoreAddress, size: int) -> None:
        """See to it that the store of our own region has `size` bytes which others may read."""

    def read(self, region: str, address: StoreAddress, size: int, most_seconds: float) -> Transferred:
        """Bring `size` bytes from that region's store here. After `most_seconds` what has come counts; nothing is Transient."""

    def write(self, region: str, address: StoreAddress, size: int, most_seconds: float) -> Transferred:
        """Bring `size` bytes from here to that region's store, where nothing of them stays. The same otherwise."""
