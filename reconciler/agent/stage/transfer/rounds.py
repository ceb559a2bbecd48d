"""One transfer, from a source's listing to the marker beside a complete copy.

Decides the order of things: pin the source's versions; compare; send what is missing, in rounds, until a fresh listing of the
target misses nothing; look whether the source is still what was pinned; send what must come last, one after the other; remove
what is unfinished; write the marker. Each round begins by looking, so a worker that was killed anywhere begins where a round
begins. What is missing is for `planning`, how it is sent for `pieces`.

Invariant: the marker is there only while everything that it names was found there, by a listing after the last write; and so is
each object that must come last, of all that comes before it.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

from reconciler.agent.stage.transfer import leftovers
from reconciler.agent.stage.transfer.ahead import Ahead
from reconciler.agent.stage.transfer.flight import Stopped
from reconciler.agent.stage.transfer.listing import Listing, listing_of, sizes_digest, versions_digest
from reconciler.agent.stage.transfer.pacing import RateNow
from reconciler.agent.stage.transfer.pieces import launch_all
from reconciler.agent.stage.transfer.planning import Comparison, compare
from reconciler.agent.stage.transfer.tally import telling
from reconciler.agent.stage.transfer.work import Options, Work, work_of
from reconciler.bulk_port import BulkSource, BulkTarget, CannotCopy, Changed, Found
from reconciler.model.progress import Progress
from reconciler.model.staged import StagedCopy, read_marker
from reconciler.ports import Clock, Refused

_ROUNDS: Final = 5
"""Two are usual: one that sends and one that finds nothing missing."""


@dataclass(frozen=True, slots=True)
class Staged:
    """What a transfer found and did. Sizes in bytes."""

    objects: int
    size: int
    sent_bytes: int
    """What came over the link; what a store copied by itself did not."""
    written_objects: int = 0
    written_size: int = 0


@dataclass(frozen=True, slots=True)
class _Turn:
    """What must be there at its end, of all that is pinned. `only`: the one key that may be missing before; None: any."""

    pinned: Listing
    wanted: Listing
    only: str | None = None


def transfer(
    source: BulkSource, target: BulkTarget, options: Options, rate: RateNow, clock: Clock, say: Callable[[Progress], None]
) -> Staged:
    """Make the target hold what the source holds. Raises Transient when patience is at its end, Refused and Changed at once."""
    copies = target.copies_from(source)
    is_one_store = copies or source.uri.startswith("file:")  # else they are two, and may name their folders alike
    if is_one_store and options.objects is None:
        _refuse_nested(source.uri, target.uri)
    work = work_of((source, target), options, rate, clock, copies=copies)
    ahead = Ahead(source, options, rate, clock.monotonic)
    ahead.look()

    def tick() -> None:
        ahead.look()
        say(work.tally.progress())

    with closing(work.flight):
        pinned = _pinned(work)
        with telling(tick):
            work = _in_turns(work, pinned, rate, clock)
        _finish(work, pinned, clock)
    say(work.tally.progress())
    written = pinned.part(work.written)
    return Staged(len(pinned.objects), pinned.size, work.tally.progress().bytes_sent, len(written.objects), written.size)


def _refuse_nested(source: str, target: str) -> None:
    if source.startswith(target) or target.startswith(source):
        raise Refused(f"{target} and {source} lie one in the other; choose a target beside the source")


def _pinned(work: Work) -> Listing:
    if work.options.objects is not None:
        return listing_of(work.options.objects.values())
    pinned = listing_of(work.ask(lambda: list(work.source.list())))
    if not pinned.objects and not work.options.may_be_empty:
        raise Refused(f"there is nothing below {work.source.uri}; check the dataset's URI and its version")
    return pinned


def _in_turns(work: Work, pinned: Listing, rate: RateNow, clock: Clock) -> Work:
    """Send all, and what must come last after that; returns the last round's work."""
    last = work.options.last
    before = sorted(pinned.objects.keys() - set(last))
    work = _in_rounds(work, _Turn(pinned, pinned.part(before)), rate, clock)
    _check_source(work, pinned)
    for key in last:
        before.append(key)
        work = _in_rounds(work, _Turn(pinned, pinned.part(before), key), rate, clock)
    return work


def _in_rounds(work: Work, turn: _Turn, rate: RateNow, clock: Clock) -> Work:
    """Send until nothing is missing; returns the last round's work."""
    missing: tuple[str, ...] = ()
    for number in range(_ROUNDS):
        with closing(work.flight):
            try:
                if number == 0 and turn.only is None:
                    _send_folders(work, turn.pinned)
                comparison = _compared(work, turn)
                missing = tuple(one.key for one in comparison.missing)
                if not missing:
                    return _next(work, rate, clock, copies=work.copies)
                _send(work, turn, comparison)
                copies = work.copies
            except CannotCopy:
                copies = False
            except Stopped:
                work.flight.land()  # raises why
                raise
        work = _next(work, rate, clock, copies=copies)
    raise Refused(
        f"{work.target.uri}: {len(missing)} objects, {missing[0]!r} the first, are not there as they were sent, {_ROUNDS} times; "
        "see whether the store takes such keys, and whether something else writes there"
    )


def _next(work: Work, rate: RateNow, clock: Clock, *, copies: bool) -> Work:
    fresh = work_of((work.source, work.target), work.options, rate, clock, copies=copies)
    return replace(fresh, tally=work.tally, known=work.known, written=work.written)


def _compared(work: Work, turn: _Turn) -> Comparison:
    """Compare with a fresh listing of the target, and ask it about what is doubtful."""
    listed = listing_of(work.ask(lambda: list(work.target.list())))
    seen = compare(turn.wanted, listed, work.known, by_size=work.options.by_size)
    copies: list[Found] = []
    for one in seen.doubtful:
        work.flight.launch(0, partial(_ask_about, work, one, listed.objects[one.key].etag, copies))
    work.flight.land()
    if work.options.marker and seen.strays:
        raise Refused(
            f"{work.target.uri}: {len(seen.strays)} objects, {seen.strays[0]!r} the first, are not of {work.source.uri}; "
            f"choose another target, or remove all that is there: reconciler stage evict {work.target.uri}"
        )
    there = [*seen.there, *copies]
    by_key = {one.key for one in there}
    work.tally.found(len(there), sum(one.size for one in there), len(turn.pinned.objects), turn.pinned.size)
    missing = [one for one in turn.wanted.objects.values() if one.key not in by_key]
    return replace(seen, there=there, doubtful=(), missing=missing)


def _ask_about(work: Work, origin: Found, etag: str, copies: list[Found]) -> None:
    if work.ask(lambda: work.target.is_copy(origin.key, origin)):
        work.known[origin.key] = etag
        copies.append(origin)


def _send(work: Work, turn: _Turn, comparison: Comparison) -> None:
    for one in comparison.missing:
        if turn.only not in {None, one.key}:
            _take_last_back(work)
            raise Changed(f"{work.target.uri}: {one.key!r} was there and is not any more; see what else writes there")
    if work.options.marker:
        work.ask(work.target.marker.delete)
    launch_all(work, comparison.missing, leftovers.begun(work, turn.pinned))
    work.flight.land()


def _take_last_back(work: Work) -> None:
    """What comes last must not stand where something that comes before it does not."""
    for key in reversed(work.options.last):
        if key in work.written:
            work.ask(partial(work.target.delete, key))


def _send_folders(work: Work, pinned: Listing) -> None:
    for key in pinned.folders:
        work.flight.launch(0, partial(work.ask, partial(work.target.put_folder, key)))
    work.flight.land()


def _check_source(work: Work, pinned: Listing) -> None:
    listed = listing_of(work.ask(lambda: list(work.source.list())))
    if work.options.objects is not None:
        listed = listed.part(pinned.objects)
    if versions_digest(listed) != versions_digest(pinned):
        raise Changed(
            f"{work.source.uri} changed while it was being copied; a version of a dataset must not change: "
            "publish what is new as a new version, or stage again when nobody writes there any more"
        )


def _finish(work: Work, pinned: Listing, clock: Clock) -> None:
    with closing(work.flight):
        leftovers.remove(work, pinned)
        if work.options.marker:
            _mark(work, pinned, clock)


def _mark(work: Work, pinned: Listing, clock: Clock) -> None:
    copy = StagedCopy(
        source=work.source.uri,
        objects=len(pinned.objects),
        size_bytes=pinned.size,
        listing_digest=sizes_digest((one.key, one.size) for one in pinned.objects.values()),
        source_digest=versions_digest(pinned),
        finished_at=clock.now(),
    )
    before = work.ask(work.target.marker.read)
    if before is None or read_marker(before) != copy.model_copy(update={"finished_at": _finished(before)}):
        work.ask(lambda: work.target.marker.write(copy.model_dump_json(indent=2).encode()))


def _finished(marker: bytes) -> datetime | None:
    found = read_marker(marker)
    return None if found is None else found.finished_at
