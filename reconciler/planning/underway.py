"""Transfers that the placements of one pass begin: what is placed later comes behind them, and shares what they bring.

Scratch of a pass, thrown away at its end. What was under way before the pass is in the snapshot.
"""

from collections.abc import Sequence
from dataclasses import replace

from reconciler.planning.links import LinkKey
from reconciler.planning.transfer import Move, seconds_of
from reconciler.planning.ways import Source


class Underway:
    """What the pass has begun so far."""

    def __init__(self) -> None:
        self._taken: dict[LinkKey, float] = {}
        """Seconds for which each link is busy with it."""
        self._there: dict[tuple[str, str], float] = {}
        """(subject, region) → seconds until it is there."""

    def behind(self, move: Move, region: str) -> Move:
        """The same move as it is behind and beside what was begun: what comes anyhow costs nothing more."""
        if not self._there or not any(move.sources):
            return move
        coming = {subject: seconds for (subject, to), seconds in self._there.items() if to == region}
        waits = {source: seconds for (source, to), seconds in self._taken.items() if to == region}
        if not coming and not waits:
            return move
        own = [None if _comes(source, coming) else source for source in move.sources]
        seconds = max(seconds_of(own, waits), *(coming.get(source.subject, 0.0) for source in move.sources if source is not None))
        shared = [source.price_usd for source in move.sources if source is not None and _comes(source, coming)]
        price = move.price_usd
        if shared:
            prices = [source.price_usd for source in own if source is not None]
            afar = any(source is None for source in move.sources) and price is None
            price = None if afar or None in prices else sum(usd for usd in prices if usd is not None)
        return replace(move, seconds=seconds, price_usd=price)

    def begin(self, move: Move, region: str) -> None:
        """Note that `move` begins, as `behind` gave it."""
        for source in move.sources:
            if source is None or (source.subject, region) in self._there:
                continue
            key = (source.region, region)
            begun = self._taken.get(key, 0.0)
            self._there[source.subject, region] = begun + source.seconds
            self._taken[key] = begun + source.bytes / source.usable if source.usable else begun

    def in_their_turn(self, sources: Sequence[Source | None], region: str) -> tuple[Source | None, ...]:
        """The sources with when each of them is there: behind what was begun, and one after another over one link."""
        taken = dict(self._taken)
        found: list[Source | None] = []
        for source in sources:
            if source is None:
                found.append(None)
                continue
            key = (source.region, region)
            begun = taken.get(key, 0.0)
            there = self._there.get((source.subject, region), begun + source.seconds)
            found.append(replace(source, seconds=there) if there != source.seconds else source)
            taken[key] = begun + source.bytes / source.usable if source.usable else begun
        return tuple(found)


def _comes(source: Source | None, coming: dict[str, float]) -> bool:
    return source is not None and source.subject in coming
