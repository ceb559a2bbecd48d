"""How the agents of the simulation measure the links: by the agent's own schedule and its own estimate (agent/probing/).

Decides nothing of its own. A probe takes no time here and moves nothing that is counted; what it sees is what one connection more
would get beside the flows of that moment, and scatters, by a tenth if nothing else is said. The agent at the source measures a link, the one at the target
does not: half of what real agents do, and with longer rests.
"""

import math
import random
from dataclasses import dataclass, field

from reconciler.agent.probing.schedule import Course as Measuring
from reconciler.agent.probing.schedule import Rules, Try, after, begun, due_at, told
from reconciler.model.link_table import LinkLine
from reconciler.model.report import LinkProbe
from reconciler.planning.links import LinkKey
from reconciler.planning.measured import Measured, measured_links
from reconciler.probe_port import TcpFacts, Transferred
from tests.bench.data.flows import Lines, shares
from tests.bench.data.places import Place

LOOK_AGAIN_SECONDS = 300.0
"""A link that may not be measured now is looked at again so much later."""
_PROBE = "a probe"


@dataclass(slots=True)
class Probing:
    """All links' measuring."""

    place: Place
    rules: Rules
    chance: random.Random
    scatter: float = 0.1
    courses: dict[LinkKey, Measuring] = field(default_factory=dict)
    due: dict[LinkKey, float] = field(default_factory=dict)
    probes: dict[LinkKey, int] = field(default_factory=dict)
    """How many were made ..."""
    clear: dict[LinkKey, int] = field(default_factory=dict)
    """... and how many of them while nothing of ours was on the link."""

    def wakes_at(self) -> float | None:
        """When the next link is due."""
        return min(self.due.values(), default=None)

    def begin(self, now: float) -> None:
        """Hear of the links."""
        for key in sorted(self.place.fleet.links):
            self.courses[key] = begun(now, self.chance)
            self._plan(key, {}, now)

    def wake(self, lines: Lines, held: dict[LinkKey, int], now: float) -> None:
        """Measure what is due. `held`: what is reserved of each link."""
        for key in [key for key, moment in self.due.items() if moment <= now]:
            course, line = self.courses[key], self._line(key, held)
            moment = due_at(course, line, now, self.rules)
            if moment is not None and moment <= now:
                found = self._transfer(lines, key, self.rules.sizes[course.step], now)
                self.courses[key] = after(course, found, Try(line, now, now + found.seconds), self.rules, self.chance)
                self.probes[key] = self.probes.get(key, 0) + 1
                self.clear[key] = self.clear.get(key, 0) + all(flow.link != key for flow in lines.flows.values())
            self._plan(key, held, now)

    def measured(self, now: float) -> dict[LinkKey, Measured]:
        """What the hub makes of the agents' reports."""
        reports: dict[str, list[LinkProbe]] = {}
        for key, course in self.courses.items():
            if course.is_tried:
                reports.setdefault(key[0], []).append(told(course, self._line(key, {}), now))
        return measured_links(reports, dict.fromkeys(reports, 0.0))

    def _line(self, key: LinkKey, held: dict[LinkKey, int]) -> LinkLine:
        gbit = self.place.fleet.links[key].gbit_per_second
        return LinkLine(source=key[0], target=key[1], gbit_per_second=gbit, held_bytes_per_second=held.get(key, 0))

    def _plan(self, key: LinkKey, held: dict[LinkKey, int], now: float) -> None:
        moment = due_at(self.courses[key], self._line(key, held), now, self.rules)
        self.due[key] = now + LOOK_AGAIN_SECONDS if moment is None else max(moment, now + 1.0)

    def _transfer(self, lines: Lines, key: LinkKey, size: int, now: float) -> Transferred:
        paces = {flow.name: flow.pace for flow in lines.flows.values() if flow.link == key}
        rate = shares({**paces, _PROBE: math.inf}, lines.curves[key].at(now))[_PROBE]
        rate *= math.exp(self.chance.gauss(0.0, self.scatter))
        moved = int(min(size, rate * self.rules.most_seconds)) or 1
        return Transferred(moved, moved / rate, rate, TcpFacts(self.place.rtts[key], retransmitted=0.0))
