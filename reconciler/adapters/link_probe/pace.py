"""How quick a transfer is, by how much of it had moved when.

The rate that counts is that of the second half of the bytes: TCP has found it by then. Of a short transfer it is that of all.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from reconciler.ports import Transient
from reconciler.probe_port import TcpFacts, Transferred

BLOCK: Final = 256 * 1024
"""Bytes that are asked for, or given away, at once."""
LEAST_BYTES: Final = 256 * 1024
"""What must have moved to tell a rate, where a transfer did not come to its end in time: more than buffers take on their own."""
LEAST_SECONDS: Final = 0.1
"""What the second half must have taken to be told apart; what waits in buffers comes quicker than any link."""


@dataclass(slots=True)
class Pace:
    """A transfer of `size` bytes that begins now."""

    size: int
    monotonic: Callable[[], float]
    moved: int = 0
    began: float = field(init=False)
    _half: tuple[float, int] | None = None

    def __post_init__(self) -> None:
        """The clock starts."""
        self.began = self.monotonic()

    def note(self, moved: int) -> None:
        """So much has moved by now, of all of it."""
        self.moved = moved
        if self._half is None and 2 * moved >= self.size:
            self._half = self.monotonic(), moved

    def told(self, tcp: TcpFacts | None = None, *, buffered: bool = False) -> Transferred:
        """The transfer as it has ended now. `buffered`: something on the way may have taken bytes that had not arrived yet, and
        the second half looks slower than it was. Raises Transient where too little has moved to tell.
        """
        ended = self.monotonic()
        if self.moved < min(self.size, LEAST_BYTES):
            raise Transient(f"only {self.moved} of {self.size} bytes have moved in {ended - self.began:.0f} s")
        whole = later = self.moved / max(ended - self.began, 1e-6)
        if self._half is not None and ended - self._half[0] >= LEAST_SECONDS:
            later = (self.moved - self._half[1]) / (ended - self._half[0])
        return Transferred(self.moved, ended - self.began, max(whole, later) if buffered else later, tcp)


def blocks(block: bytes, size: int) -> Iterator[bytes]:
    """`size` bytes, block by block; one block's bytes again and again."""
    for start in range(0, size, len(block)):
        yield block[: size - start]
