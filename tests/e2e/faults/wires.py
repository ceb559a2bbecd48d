"""The ways between the parts, each of which can be cut: a port on loopback that leads to another.

A cut is one of three. Refused: what is connected is reset, and nobody is let in. Silent: connections are taken and nothing passes,
as with a firewall that drops; what was sent meanwhile arrives when it is mended, as it does by TCP. Unanswered: what is asked
arrives and is done, and its answer is dropped.
"""

import asyncio
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum

from tests.e2e.control_plane import free_ports

_CHUNK = 65_536


class Cut(Enum):
    """How a way is cut."""

    REFUSED = "refused"
    SILENT = "silent"
    UNANSWERED = "unanswered"


class Wire:
    """One way. All of it happens in the event loop of its `Wires`."""

    def __init__(self, port: int, target: int) -> None:
        self.port, self._target = port, target
        self._server: asyncio.Server | None = None
        self._passes = asyncio.Event()
        self._passes.set()
        self._cut: Cut | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._spoiled: set[asyncio.StreamWriter] = set()

    async def open(self) -> None:
        """Let clients in."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)

    async def cut(self, how: Cut) -> None:
        """Cut it."""
        self._cut = how
        if how is Cut.SILENT:
            self._passes.clear()
        if how is Cut.REFUSED:
            await self.close()

    async def mend(self) -> None:
        """As before. Connections that lost an answer are no use to anybody any more."""
        self._cut = None
        self._passes.set()
        for end in self._spoiled:
            end.transport.abort()
        self._spoiled.clear()
        if self._server is None:
            await self.open()

    async def close(self) -> None:
        """Let nobody in, and reset what is connected."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for end in self._ends:
            end.transport.abort()

    async def _connected(self, asking: asyncio.StreamReader, answering: asyncio.StreamWriter) -> None:
        try:
            answers, asks = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            answering.transport.abort()
            return
        ends = {answering, asks}
        self._ends |= ends
        pumps = [
            asyncio.create_task(self._pump(asking, asks, is_answer=False)),
            asyncio.create_task(self._pump(answers, answering, is_answer=True)),
        ]
        try:
            await asyncio.gather(*pumps)
        finally:
            self._ends -= ends
            self._spoiled -= ends
            for end in ends:
                end.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, is_answer: bool) -> None:
        try:
            while chunk := await source.read(_CHUNK):
                await self._passes.wait()
                if is_answer and self._cut is Cut.UNANSWERED:
                    self._spoiled.add(sink)
                if sink in self._spoiled:
                    continue
                sink.write(chunk)
                await sink.drain()
            sink.write_eof()
        except OSError:  # an end was reset: so is the other
            sink.transport.abort()


class Wires:
    """All ways, by their name: who asks, and whom (`eu-west-store`, `hub-git`)."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._wires: dict[str, Wire] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, name="wires", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def way(self, name: str, target: int) -> int:
        """The port by which somebody reaches a port; made at the first call."""
        if name not in self._wires:
            (port,) = free_ports(1)
            self._wires[name] = Wire(port, target)
            asyncio.run_coroutine_threadsafe(self._wires[name].open(), self._loop).result()
        return self._wires[name].port

    def cut(self, names: Iterable[str], how: Cut = Cut.REFUSED) -> None:
        """Cut some ways."""
        for name in names:
            asyncio.run_coroutine_threadsafe(self._wires[name].cut(how), self._loop).result()

    def mend(self, names: Iterable[str] | None = None) -> None:
        """Mend some, or all."""
        for name in self._wires if names is None else names:
            asyncio.run_coroutine_threadsafe(self._wires[name].mend(), self._loop).result()

    @contextmanager
    def cut_off(self, names: Iterable[str], how: Cut = Cut.REFUSED) -> Iterator[None]:
        """Cut for the time of a `with` block."""
        names = tuple(names)
        self.cut(names, how)
        try:
            yield
        finally:
            self.mend(names)

    def stop(self) -> None:
        """End all."""

        async def end() -> None:
            for wire in self._wires.values():
                await wire.mend()
                await wire.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for other in others:
                other.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
