"""What the pieces of a transfer share, and how one piece is read."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from reconciler.agent.stage.transfer.flight import Flight
from reconciler.agent.stage.transfer.pacing import REQUEST_BYTES, Pacer, RateNow
from reconciler.agent.stage.transfer.patience import Patience
from reconciler.agent.stage.transfer.tally import Tally
from reconciler.bulk_port import BulkSource, BulkTarget, Found
from reconciler.ports import Clock, Refused, Transient

_MIB: Final = 1024**2
_HELD_SECONDS: Final = 4.0


@dataclass(frozen=True, slots=True)
class Options:
    """How a transfer is done. Sizes in bytes."""

    part_bytes: int = 8 * _MIB
    """Of objects that are written by parts: those that are larger than one."""
    copied_part_bytes: int = 256 * _MIB
    """The same, where the store copies by itself."""
    in_flight_bytes: int = 128 * _MIB
    """Held in memory at most, and sent again after a kill at most; at a slow rate less: what takes four seconds."""
    threads: int = 32
    patience_seconds: float = 300.0
    """So long it asks again where nothing gets through."""
    marker: bool = True
    """Whether the target is a copy of ours alone: with a marker beside it, and nothing else in it."""
    link: Literal["source", "target"] = "source"
    """Which end is across the link: there the rate is kept."""
    by_size: bool = False
    """Whether an object of the right size is believed, for stores whose ETags are not of the bytes."""
    may_be_empty: bool = False
    """Whether a source in which there is nothing is one: a program may have no results."""
    checksums: bool = True
    """Whether bytes are refused that come twice with another checksum than their ETag; else that ETag is believed to be none."""
    objects: Mapping[str, Found] | None = None
    """Those of the source's objects that are meant, by key, in these versions; None: all that there are."""
    last: tuple[str, ...] = ()
    """Keys of those that are sent one by one, in this order, each when a fresh look has found all that comes before it."""


@dataclass(frozen=True, slots=True)
class Work:
    """One round of a transfer."""

    source: BulkSource
    target: BulkTarget
    options: Options
    copies: bool
    """Whether the store copies by itself."""
    flight: Flight
    ask: Patience
    reading: Pacer
    sending: Pacer
    tally: Tally
    known: dict[str, str]
    """ETags that the target gave for what was written or asked about."""
    written: set[str]
    """Keys of what this start has written."""

    @property
    def part_bytes(self) -> int:
        """Bytes of a part."""
        return self.options.copied_part_bytes if self.copies else self.options.part_bytes


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes that were read."""

    body: bytes
    traits: Mapping[str, str] = field(default_factory=dict)


def in_flight_limit(options: Options, rate: float | None, *, copies: bool) -> int:
    """How many bytes may be in flight: what the rate moves in four seconds, but two parts at least."""
    if copies:  # they are in the store's memory, not in ours
        return 4 * options.copied_part_bytes
    if rate is None:
        return options.in_flight_bytes
    return int(min(options.in_flight_bytes, max(2 * options.part_bytes, rate * _HELD_SECONDS)))


def _no_limit() -> None:
    """The rate of the end that is near."""


def work_of(ends: tuple[BulkSource, BulkTarget], options: Options, rate: RateNow, clock: Clock, *, copies: bool) -> Work:
    """The beginnings of a round; its flight must be closed."""
    flight = Flight(options.threads, lambda: in_flight_limit(options, rate(), copies=copies))
    reading, sending = (
        Pacer(rate if options.link == end else _no_limit, clock.monotonic, flight.wait) for end in ("source", "target")
    )
    patience = Patience(clock.monotonic, flight.wait, options.patience_seconds)
    return Work(ends[0], ends[1], options, copies, flight, patience, reading, sending, Tally(clock.monotonic), {}, set())


def read(work: Work, found: Found, offset: int, size: int) -> Piece:
    """Bytes of an object at the pace of the link. What a broken connection has brought is kept. Raises Transient or Refused."""
    if size == 0:
        return Piece(b"")
    once = _read_once(work, found, offset, size)
    if not once.mismatch or work.options.by_size:
        return once.piece
    before = once.mismatch
    del once  # two pieces are never held
    # Once may be the network's fault; the same bytes twice are what the store has.
    again = _read_once(work, found, offset, size)
    if again.mismatch and work.options.checksums:
        raise Refused(
            f"{work.source.uri}: the bytes of {found.key!r} do not have the checksum that the store gives as its ETag; "
            "put the object there again, or where the store's ETags are no checksums, stage with --size-check"
        )
    if again.mismatch not in {"", before}:
        raise Transient(f"{work.source.uri}{found.key}: it came twice, each time with other bytes, and never with its checksum")
    return again.piece


@dataclass(frozen=True, slots=True)
class _Once:
    piece: Piece
    mismatch: str
    """The MD5 of the bytes, where it is not what the store says; ''."""


def _read_once(work: Work, found: Found, offset: int, size: int) -> _Once:
    body = bytearray()

    def go_on() -> _Once:
        # Before anything is asked for: a small object comes at the link's full speed as soon as it is.
        taken = min(work.reading.block(), size - len(body))
        work.reading.take(REQUEST_BYTES + taken)
        with work.source.open(found, offset + len(body), size - len(body)) as stream:
            while len(body) < size:
                wanted = taken or min(work.reading.block(), size - len(body))
                work.reading.take(wanted - taken)
                taken = 0
                block = stream.read(wanted)
                if not block:
                    raise Transient(f"{work.source.uri}{found.key}: the connection ended before the object did")
                body.extend(block)
                work.tally.sent(len(block))
                work.ask.moved()
        is_known = size == found.size and stream.md5 != ""
        md5 = hashlib.md5(body, usedforsecurity=False).hexdigest() if is_known else ""
        return _Once(Piece(bytes(body), stream.traits), md5 if md5 != stream.md5 and is_known else "")

    return work.ask(go_on)
