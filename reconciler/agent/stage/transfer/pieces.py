"""Sending the pieces of a transfer: whole objects, and the parts of large ones.

Decides nothing of what is missing. Invariant: a piece that has come to its end is in the target and was checked by it; what was
lost meanwhile (`UploadLost`) is left for the next round, which looks anew.
"""

import threading
from collections.abc import Iterable, Mapping
from functools import partial

from reconciler.agent.stage.transfer.pacing import REQUEST_BYTES
from reconciler.agent.stage.transfer.planning import parts_of, split
from reconciler.agent.stage.transfer.work import Work, read
from reconciler.bulk_port import Found, Part, Upload, UploadLost


def launch_all(work: Work, missing: Iterable[Found], begun: Mapping[str, Upload]) -> None:
    """Send objects. `begun`: unfinished uploads of the same versions, whose parts are kept."""
    for origin in missing:
        if origin.size <= work.part_bytes:
            work.flight.launch(origin.size, partial(_send_whole, work, origin))
        else:
            _launch_parts(work, origin, begun.get(origin.key))


def _send_whole(work: Work, origin: Found) -> None:
    try:
        work.known[origin.key] = _sent(work, origin)
    except UploadLost:
        return
    work.written.add(origin.key)
    work.tally.there(origin.size, objects=1)


def _sent(work: Work, origin: Found) -> str:
    if work.copies:
        return work.ask(lambda: work.target.copy(work.source, origin))
    piece = read(work, origin, 0, origin.size)
    work.sending.take(REQUEST_BYTES)
    return work.ask(lambda: work.target.put(origin, piece.body, piece.traits, work.sending.take))


class _Assembly:
    """An object that is being written by parts, by many threads."""

    def __init__(self, work: Work, origin: Found, upload: Upload, wanted: list[Part]) -> None:
        self.work, self.origin, self.upload = work, origin, upload
        self.is_lost = False
        self._left = len(wanted)
        self._done: list[Part] = []
        self._lock = threading.Lock()

    def put(self, part: Part) -> None:
        """A part is there; the last one makes the object."""
        with self._lock:
            self._done.append(part)
            self._left -= 1
            is_last = self._left == 0
        self.work.tally.there(part.size)
        if is_last:
            self.finish()

    def finish(self) -> None:
        """Make the object of its parts."""
        work = self.work
        work.known[self.origin.key] = work.ask(lambda: work.target.finish(self.upload, self.origin, self._done))
        work.written.add(self.origin.key)
        work.tally.there(0, objects=1)

    def keep(self, parts: Iterable[Part]) -> None:
        """Parts that were there before."""
        for part in parts:
            with self._lock:
                self._done.append(part)
                self._left -= 1
            self.work.tally.there(part.size)


def _launch_parts(work: Work, origin: Found, upload: Upload | None) -> None:
    wanted = parts_of(origin.size, work.part_bytes)
    kept: list[Part] = []
    missing = wanted
    if upload is not None:
        found = upload
        try:
            kept, missing = split(wanted, work.ask(lambda: work.target.parts(found)))
        except UploadLost:
            upload = None
    if upload is None:
        traits = work.ask(lambda: work.source.traits(origin))
        try:
            upload = work.ask(lambda: work.target.begin(origin, traits))
        except UploadLost:
            return
    assembly = _Assembly(work, origin, upload, wanted)
    assembly.keep(kept)
    if not missing:
        work.flight.launch(0, partial(_finish, assembly))
    for part in missing:
        work.flight.launch(part.size, partial(_send_part, assembly, part))


def _finish(assembly: _Assembly) -> None:
    try:
        assembly.finish()
    except UploadLost:
        assembly.is_lost = True


def _send_part(assembly: _Assembly, part: Part) -> None:
    if assembly.is_lost:
        return
    work, origin, upload = assembly.work, assembly.origin, assembly.upload
    try:
        if work.copies:
            done = work.ask(lambda: work.target.copy_part(work.source, origin, upload, part))
        else:
            body = read(work, origin, part.offset, part.size).body
            work.sending.take(REQUEST_BYTES)
            done = work.ask(lambda: work.target.put_part(upload, part, body, work.sending.take))
        assembly.put(done)
    except UploadLost:
        assembly.is_lost = True
