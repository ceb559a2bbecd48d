"""Links whose every transfer takes what it would take, by a clock moved by hand; and what was moved over each, when."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from reconciler.model.link_table import LINKS_KEY, LinkLine, LinkTable
from reconciler.model.region import StoreAddress
from reconciler.ports import Transient
from reconciler.probe_port import TcpFacts, Transferred
from tests.agent.region import HandClock
from tests.agent.stores import FailingStore

RTT_SECONDS = 0.02


@dataclass
class PretendLinks:
    """`LinkStores` of the agent of `region`. `rate` answers what a link does at a moment; 0: it is down."""

    region: str
    clock: HandClock
    rate: Callable[[str, str], float]
    moved: list[tuple[str, str, float, int]] = field(default_factory=list)
    """(source, target, when it began, bytes), of every transfer."""
    kept: list[str] = field(default_factory=list)
    scatter: Callable[[], float] = lambda: 1.0

    def keep(self, region: str, address: StoreAddress, size: int) -> None:  # noqa: ARG002
        self.kept.append(address.url)

    def read(self, region: str, address: StoreAddress, size: int, most_seconds: float) -> Transferred:  # noqa: ARG002
        return self._move(region, self.region, size, most_seconds)

    def write(self, region: str, address: StoreAddress, size: int, most_seconds: float) -> Transferred:  # noqa: ARG002
        return self._move(self.region, region, size, most_seconds)

    def _move(self, source: str, target: str, size: int, most_seconds: float) -> Transferred:
        rate = self.rate(source, target) * self.scatter()
        self.moved.append((source, target, self.clock.monotonic(), size if rate else 0))
        if not rate:
            self.clock.seconds += 5
            raise Transient("the connection was refused")
        seconds = min(size / rate, most_seconds)
        self.clock.seconds += seconds + RTT_SECONDS
        return Transferred(min(size, int(rate * seconds)), seconds, rate, TcpFacts(RTT_SECONDS * 1000, 1.0, 0.0))


def line(source: str, target: str, gbit: float | None = None, held: int = 0) -> LinkLine:
    return LinkLine(source=source, target=target, gbit_per_second=gbit, held_bytes_per_second=held)


def table_of(*lines: LinkLine, stores: Mapping[str, str] | None = None) -> LinkTable:
    """A table of these links, with a store for every region that they name, or those given."""
    names = sorted({name for each in lines for name in (each.source, each.target)})
    urls = {name: f"s3://bucket-{name}/" for name in names} if stores is None else stores
    return LinkTable(stores={name: StoreAddress(url=url) for name, url in urls.items()}, links=lines)


def publish(store: FailingStore, table: LinkTable) -> None:
    """The hub writes the table."""
    store.put(LINKS_KEY, table.model_dump_json().encode(), expect=store.etag(LINKS_KEY))
