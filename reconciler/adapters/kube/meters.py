"""What cards say of themselves: free memory and how busy they are, from the metrics of NVIDIA's DCGM exporter where it runs.

Decides which exporters are asked, how often, and what their lines mean. Nothing is placed by it. Invariant: a node whose exporter
is not there or does not answer has no meter: unknown, never zero.
Sources: dcgm-exporter, "default-counters.csv" (framebuffer in MiB, utilisation in percent).
"""

import math
import re
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import urllib3
from urllib3.exceptions import HTTPError

from reconciler.adapters.kube.answers import Request
from reconciler.adapters.kube.connection import Connection
from reconciler.ports import Clock, GpuMeter, Refused, Transient

SELECTORS: Final = ("app=nvidia-dcgm-exporter", "app.kubernetes.io/name=dcgm-exporter")
"""As the GPU operator and the exporter's own chart label it."""
_PORT: Final = 9400
_MIB: Final = 1 << 20
_LARGEST: Final = 4 << 20
"""Bytes that are read of one exporter's answer."""
_PAGE: Final = 100
_ASKED_AT_ONCE: Final = 8
_USED, _FREE, _BUSY = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_GPU_UTIL"
_LINE: Final = re.compile(rf"({_USED}|{_FREE}|{_BUSY})\{{(.*)\}}\s+(\S+)")
_CARD: Final = re.compile(r'(?:^|,)\s*UUID="([^"]*)"')
_SLICE: Final = re.compile(r'(?:^|,)\s*GPU_I_ID="[^"]+"')


@dataclass(frozen=True, slots=True)
class MeterTimes:
    """All in seconds."""

    every_seconds: float = 30.0
    """Between readings."""
    find_seconds: float = 300.0
    """Between looks for exporters."""
    answer_seconds: float = 2.0
    """For one exporter's answer."""


class _Exporter(NamedTuple):
    node: str
    host: str
    port: int


def meter_of(text: str) -> GpuMeter | None:
    """What an exporter's metrics say of its node's cards together; None where they say nothing of their memory.

    A card that several pods share has a line for each of them, and a sliced one lines for its slices: it counts once, as a whole.
    """
    found: dict[str, dict[str, float]] = {_USED: {}, _FREE: {}, _BUSY: {}}
    for line in text.splitlines():
        match = _LINE.match(line)
        card = _CARD.search(match[2]) if match else None
        value = _number(match[3]) if match else None
        if match and card and value is not None and not _SLICE.search(match[2]):
            found[match[1]][card[1]] = value
    used, free, busy = (found[name] for name in (_USED, _FREE, _BUSY))
    if not used or used.keys() != free.keys():
        return None
    share = min(sum(busy.values()) / len(busy) / 100, 1.0) if busy else None
    return GpuMeter(int(sum(used.values())) * _MIB, int(sum(free.values())) * _MIB, share)


class Meters:
    """The readings of all nodes, taken by a thread from `start` to `stop`."""

    def __init__(self, connection: Connection, clock: Clock, times: MeterTimes) -> None:
        """Nothing is sent yet."""
        self._connection = connection
        self._clock = clock
        self._times = times
        self._pool = urllib3.PoolManager(
            num_pools=1, timeout=urllib3.Timeout(total=times.answer_seconds), retries=urllib3.Retry(total=False)
        )
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="meters", daemon=True)
        self._exporters: list[_Exporter] = []
        self._read: tuple[float, Mapping[str, GpuMeter]] = (float("-inf"), {})
        self._trouble = ""

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def stop(self, within_seconds: float) -> None:
        """End it; returns when it has ended, or after that time."""
        self._stopped.set()
        self._thread.join(within_seconds)

    def latest(self) -> Mapping[str, GpuMeter]:
        """The last readings by node, if they are not older than three rounds."""
        at, found = self._read
        return found if self._clock.monotonic() <= at + 3 * self._times.every_seconds else {}

    @property
    def trouble(self) -> str:
        """What went wrong in the last round, in words; '' where all is well."""
        return self._trouble

    def _run(self) -> None:
        sought = float("-inf")
        while not self._stopped.is_set():
            begun = self._clock.monotonic()
            try:
                if begun >= sought + self._times.find_seconds:
                    self._exporters = [one for selector in SELECTORS for one in self._found(selector)]
                    sought = begun
                self._turn(begun)
            except (Transient, Refused) as error:
                self._trouble = str(error)
            except Exception as error:  # noqa: BLE001 - a bug costs its round; `trouble` shows it
                self._trouble = f"bug: {type(error).__name__}: {error}"
            self._stopped.wait(self._times.every_seconds)

    def _turn(self, begun: float) -> None:
        with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
            answers = list(pool.map(self._ask, self._exporters))
        silent = [words for answer in answers if (words := answer if isinstance(answer, str) else "")]
        self._trouble = f"{len(silent)} of {len(answers)} DCGM exporters say nothing: {silent[0]}" if silent else ""
        readings = zip(self._exporters, answers, strict=True)
        self._read = begun, {one.node: answer for one, answer in readings if isinstance(answer, GpuMeter)}

    def _ask(self, exporter: _Exporter) -> GpuMeter | str:
        """What it says, or why it says nothing."""
        if self._stopped.is_set():
            return "stopped"
        address = f"http://{exporter.host}:{exporter.port}/metrics"
        until = self._clock.monotonic() + self._times.answer_seconds
        try:
            response = self._pool.request("GET", address, preload_content=False, redirect=False)
            try:
                body = b""
                while chunk := response.read1(1 << 16):
                    body += chunk
                    if len(body) > _LARGEST or self._clock.monotonic() > until:
                        return f"{address} on {exporter.node} does not come to an end"
            finally:
                response.close()
        except (HTTPError, OSError) as error:
            return f"{address} on {exporter.node}: {type(error).__name__}"
        found = meter_of(body.decode(errors="replace")) if response.status == HTTPStatus.OK else None
        return found or f"{address} on {exporter.node}: {response.status}, without the memory of its cards"

    def _found(self, selector: str) -> Iterable[_Exporter]:
        query = {"labelSelector": selector, "fieldSelector": "status.phase=Running", "limit": str(_PAGE)}
        while True:
            page = self._connection.ask(Request("GET", "/api/v1/pods", query)).value
            yield from (one for item in page.get("items") or () if (one := _exporter(item)) is not None)
            following = (page.get("metadata") or {}).get("continue")
            if not following:
                return
            query["continue"] = following


def _exporter(pod: Mapping[str, Any]) -> _Exporter | None:
    node, host = pod["spec"].get("nodeName"), (pod.get("status") or {}).get("podIP")
    if not node or not host:
        return None
    ports = [port for container in pod["spec"]["containers"] for port in container.get("ports") or ()]
    named = [port["containerPort"] for port in ports if port.get("name") == "metrics"]
    return _Exporter(node, f"[{host}]" if ":" in host else host, next(iter(named), _PORT))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
