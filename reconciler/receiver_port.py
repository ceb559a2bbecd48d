"""What the hub asks of receivers: that sync engines hear of a push from outside, where their regions allow it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from reconciler.model.region import Region


@dataclass(frozen=True, slots=True)
class Moved:
    """A region's branch was pushed: from `before` (None: it was not there) to `after`."""

    region: Region
    before: str | None
    after: str


class Receivers(Protocol):
    """Tells sync engines from outside that their branches moved, where their regions have a receiver. A short cut, no more."""

    def tell(self, moved: Sequence[Moved]) -> None:
        """Begin to tell them; returns at once, raises nothing. A region's newest news replaces what was not told yet."""

    def troubles(self) -> Mapping[str, str]:
        """Region → why its receiver did not take the last news, as far as is known."""
