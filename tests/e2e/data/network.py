"""Two hosts in network namespaces of their own, and one link between them that is as wide as one likes.

Needs root. Nothing here reaches any other network: the namespaces have this link alone.
"""

import os
import secrets
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

SOURCE, TARGET = "10.77.0.1", "10.77.0.2"
_CARD = "wan0"
_EACH_SECONDS = 0.05


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class Link:
    """The link. `within(address)` begins the command of a program on that host."""

    def __init__(self) -> None:
        token = secrets.token_hex(3)
        self._names = {SOURCE: f"gr-{token}-s", TARGET: f"gr-{token}-t"}

    def up(self) -> None:
        """Make the hosts."""
        source, target = self._names.values()
        for name in (source, target):
            _run("ip", "netns", "add", name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
        _run("ip", "link", "add", "name", _CARD, "netns", source, "type", "veth", "peer", "name", _CARD, "netns", target)
        for address, name in self._names.items():
            _run("ip", "-n", name, "address", "add", f"{address}/24", "dev", _CARD)
            # Packets as they are on a wire, each with its headers; else the cards pass on bundles of them with one.
            _run("ip", "-n", name, "link", "set", _CARD, "gso_max_segs", "1", "up")

    def down(self) -> None:
        """Remove them; what still runs there loses its network."""
        for name in self._names.values():
            subprocess.run(["ip", "netns", "delete", name], check=False, stderr=subprocess.DEVNULL)

    def shape(self, bytes_per_second: int) -> None:
        """How wide it is, each way."""
        for name in self._names.values():
            rate = f"{bytes_per_second * 8}bit"
            _run(
                "tc",
                "-n",
                name,
                "qdisc",
                "replace",
                "dev",
                _CARD,
                "root",
                "tbf",
                "rate",
                rate,
                "burst",
                "128kb",
                "latency",
                "100ms",
            )

    def within(self, address: str) -> Sequence[str]:
        """What the command of a program on that host begins with. What else this machine does must not decide how quick it is."""
        return ("nice", "-n", "-10", "ip", "netns", "exec", self._names[address])


@contextmanager
def link() -> Iterator[Link]:
    """A link for the time of a `with` block."""
    if os.geteuid() != 0:
        raise RuntimeError("network namespaces need root; run `sudo make e2e SUITE=data`")
    made = Link()
    try:
        made.up()
        yield made
    finally:
        made.down()


class Meter:
    """What comes over the link to a host, as its network card counts it: bodies, and the headers of every layer."""

    def __init__(self, pid: int) -> None:
        """`pid`: a process on that host."""
        self._counters = Path(f"/proc/{pid}/net/dev")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.samples: list[tuple[float, int]] = [(time.monotonic(), self._now())]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._look()

    @property
    def total(self) -> int:
        """Bytes since it began, until now or its end."""
        return (self.samples[-1][1] if self._ended.is_set() else self._now()) - self.samples[0][1]

    def most_over(self, seconds: float, after: float = 0.0) -> float:
        """The highest rate over any span of so many seconds, in bytes a second; only `after` so many seconds."""
        most, behind = 0.0, 0
        start = self.samples[0][0] + after
        samples = [sample for sample in self.samples if sample[0] >= start]
        for at, (now, total) in enumerate(samples):
            while now - samples[behind][0] > seconds:
                behind += 1
            if behind < at and behind > 0:
                before = samples[behind - 1]
                most = max(most, (total - before[1]) / (now - before[0]))
        return most

    def busy(self) -> tuple[float, float]:
        """From when to when the bulk came: between the first hundredth and the last, in seconds since it began."""
        began, first = self.samples[0]
        total = self.samples[-1][1] - first
        times = [now - began for now, seen in self.samples if 0.01 * total <= seen - first <= 0.99 * total]
        return times[0], times[-1]

    def rate(self) -> float:
        """Bytes a second between those two moments."""
        start, end = self.busy()
        return 0.98 * (self.samples[-1][1] - self.samples[0][1]) / (end - start)

    def _now(self) -> int:
        for line in self._counters.read_text("ascii").splitlines():
            name, _, counts = line.partition(":")
            if name.strip() == _CARD:
                return int(counts.split()[0])
        raise AssertionError("the host has no link")

    def _look(self) -> None:
        self.samples.append((time.monotonic(), self._now()))

    def _run(self) -> None:
        while not self._ended.wait(_EACH_SECONDS):
            self._look()
