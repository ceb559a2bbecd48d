"""A world in memory and on virtual time: a remote, a store, hubs and regions as they are, one person, and a judge.

Decides what is built and who is woken by what. What happens to it is for happenings.py; how it ends for ending.py. Two worlds
with the same choices and happenings are the same, instant by instant.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from reconciler.model.attempt import Attempt
from reconciler.model.grants import Grants, grants_key
from reconciler.model.names import JobKey
from reconciler.model.result import RESULTS
from reconciler.ports import Stored
from reconciler.sim.agenda import Agenda, Clock, Dice
from reconciler.sim.git import Remote
from reconciler.sim.hubs import HubProgram
from reconciler.sim.judge import Judge
from reconciler.sim.ledger import STATUS, PublicLedger
from reconciler.sim.losses import Losses
from reconciler.sim.person import MAIN, Person, as_file, region_file
from reconciler.sim.place import Place
from reconciler.sim.regions import Region
from reconciler.sim.store import Shelf
from reconciler.sim.ways import Way

NAMES: Final = ("eu", "us", "ap")
_POLICY: Final = {
    "limits": {"start_timeout_seconds": 240},
    "thresholds": {"report_fresh_seconds": 110},
    "loss": {"unknown_seconds": 100, "grace_seconds": 130},
}
"""Times that fit to reports that come every 40 seconds."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What a world is made of. `rates` and `wall_ahead`: of the hubs' machines, then of each region's two."""

    seed: str
    hubs: int = 1
    regions: tuple[str, ...] = NAMES[:2]
    rates: tuple[float, ...] = (1.0,)
    wall_ahead: tuple[float, ...] = (0.0,)
    push_seconds: float = 0.0


def choices_of(seed: int) -> Choices:
    """The choices of a seed: clocks that drift by up to one per cent, wall clocks that are up to eleven minutes wrong."""
    draw = Random(f"world {seed}")  # noqa: S311 - it must repeat itself
    regions = 3 if draw.random() < 0.25 else 2
    drifts = draw.random() < 0.5
    return Choices(
        seed=str(seed),
        hubs=2 if draw.random() < 0.35 else 1,
        regions=NAMES[:regions],
        rates=tuple(draw.choice((0.99, 1.0, 1.01)) if drifts else 1.0 for _ in range(2 + 2 * regions)),
        wall_ahead=tuple(draw.choice((0.0, 0.0, -660.0, 660.0)) for _ in range(2 + regions)),
        push_seconds=draw.choice((0.0, 0.0, 10.0)),
    )


@dataclass(slots=True)
class World:
    """Everything of one history. `telling`: whether a story is written."""

    choices: Choices
    telling: bool = False
    story: list[tuple[float, str]] = field(default_factory=list)
    causes: set[str] = field(default_factory=set)
    """Faults that may take an attempt's pods away."""
    agenda: Agenda = field(default_factory=Agenda)
    remote: Remote = field(default_factory=Remote)
    shelf: Shelf = field(default_factory=Shelf)
    person: Person = field(init=False)
    ledger: PublicLedger = field(init=False)
    judge: Judge = field(init=False)
    hubs: list[HubProgram] = field(init=False)
    regions: list[Region] = field(init=False)
    is_mended: bool = False
    """Whether all faults were cleared: nothing goes wrong any more."""

    def __post_init__(self) -> None:
        """Build it; nothing has taken a step yet."""
        choices = self.choices
        self.person = Person(self.agenda, self.remote)
        self.ledger = PublicLedger(self.remote, self._attempt_changed)
        self.judge = Judge(self.agenda, self.ledger.attempt, self.person.reruns)
        self.ledger.taken = Losses(self.judge, self.person).taken
        self.remote.moved = self._moved
        self.shelf.written = self._written
        self.hubs, self.regions = [], []
        self.person.commit(_first_files(choices))
        place = Place(self.agenda, Dice(choices.seed), self.remote, self.shelf, self.judge, self.tell)
        for number, name in enumerate(choices.regions):
            ahead = choices.wall_ahead[(2 + number) % len(choices.wall_ahead)]
            clocks = [
                Clock(self.agenda, self._rate(2 + 2 * number + machine), ahead, 5000.0 + 70000.0 * machine) for machine in (0, 1)
            ]
            self.regions.append(Region(name, place, (clocks[0], clocks[1])))
        for number in range(choices.hubs):
            clock = Clock(self.agenda, self._rate(number), choices.wall_ahead[number % len(choices.wall_ahead)])
            self.hubs.append(HubProgram(f"hub-{number}", place, clock))

    def tell(self, words: str) -> None:
        """One more line of the story."""
        if self.telling:
            self.story.append((self.agenda.seconds, words))

    def ways(self) -> Iterator[Way]:
        """All ways between programs and places."""
        for hub in self.hubs:
            yield from (hub.store, hub.git)
        for region in self.regions:
            yield from (region.store, region.git, region.kube)

    def grants(self) -> Iterator[Grants]:
        """What stands in the store for each region."""
        for region in self.regions:
            stored = self.shelf.objects.get(grants_key(region.name))
            if stored is not None:
                yield Grants.model_validate_json(stored.body)

    def _rate(self, number: int) -> float:
        return self.choices.rates[number % len(self.choices.rates)]

    # ---- who is woken by what, and what is judged where it happens

    def _moved(self, names: Sequence[str]) -> None:
        if STATUS in names:
            self.ledger.look()
        for hub in self.hubs:
            if MAIN in names or len(self.hubs) > 1:
                hub.wake()

    def _written(self, who: str, key: str, stored: Stored, sent: float) -> None:
        folder, _, rest = key.partition("/")
        if key.startswith(RESULTS):
            self.judge.wrote_result(who, stored.body)
        if folder != "regions":
            return
        name, _, what = rest.partition("/")
        region = next((region for region in self.regions if region.name == name), None)
        if what == "grants.json" and region is not None:
            self.judge.wrote_grants(name, stored.body)
            region.wake_agent(0.0, 1.0)
            if self.telling:
                self._tell_grants(who, name, stored.body)
        elif what == "lease.json":
            given_up = self.judge.wrote_lease(name, who, stored.body, sent)
            if given_up is not None:
                self.tell(f"{who} revokes the lease of {name}: epoch {given_up.epoch}")
        elif what == "report.json":
            self.judge.reported[name] = self.agenda.seconds
        if who.startswith("agent"):
            for hub in self.hubs:
                hub.wake()

    def _tell_grants(self, who: str, name: str, body: bytes) -> None:
        grants = Grants.model_validate_json(body)
        listed = ", ".join(grant.attempt for grant in grants.attempts) or "nothing"
        self.tell(f"{who} grants {listed} in {name} (epoch {grants.epoch}, version {grants.version})")

    def _attempt_changed(self, key: JobKey, attempt: Attempt) -> None:
        if self.telling:
            why = f", {attempt.outcome}" if attempt.outcome is not None else ""
            self.tell(f"the ledger says: {attempt.name} of {key} in {attempt.region} is {attempt.state}{why}")
        if attempt.ended:
            self.judge.said_to_have_ended(key, attempt)


def _first_files(choices: Choices) -> dict[str, bytes]:
    files = {f"regions/{name}.yaml": region_file(name, 1.0 + number) for number, name in enumerate(choices.regions)}
    files["reconciler.yaml"] = {"intervals": {"push_seconds": choices.push_seconds}}
    files["policy.yaml"] = _POLICY
    return {path: as_file(fields) for path, fields in files.items()}
