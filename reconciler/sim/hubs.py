"""A hub in a world: the program unchanged, and when it takes its cycles.

Decides how it is started, dies, stands still and is started again, and which of its errors are expected; a killed hub leaves what
it wrote, and a new one finds that and nothing else.
"""

from dataclasses import dataclass, field
from typing import Final

from reconciler.hub.cycle import Hub
from reconciler.hub.ledger import Corrupt
from reconciler.hub.loop import BACK_OFF_SECONDS
from reconciler.hub.results import Ended, HubOptions, Result
from reconciler.ports import Refused, Transient
from reconciler.sim.agenda import Clock, Turn
from reconciler.sim.documents import remembered
from reconciler.sim.doors import GitDoor, StoreDoor
from reconciler.sim.judge import Violation
from reconciler.sim.place import Place
from reconciler.sim.ways import Fuse, Killed, Life, Way

_LEASE_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = _LEASE_SECONDS / 3 - 1.0
"""Between two cycles at most."""


@dataclass
class HubProgram:
    """One hub. It steps when its last cycle said so, when something that it watches has changed, and after a failed one later."""

    name: str
    place: Place
    clock: Clock
    store: Way = field(init=False)
    git: Way = field(init=False)
    fuse: Fuse = field(init=False)
    turn: Turn = field(init=False)
    life: Life = field(default_factory=Life)
    starts: int = 0
    failures: int = 0
    last: Result | Exception | None = None
    _busy: bool = False
    _up_at: float = 0.0

    def __post_init__(self) -> None:
        """Start it."""
        self.store, self.git = Way(f"{self.name} and the store"), Way(f"{self.name} and Git")
        self.fuse = Fuse(self.stand_still)
        self.turn = Turn(self.place.agenda, self._come)
        self.start()

    def start(self) -> None:
        """A new process, which knows nothing."""
        self.life.ended = True
        self.life = Life()
        self.starts += 1
        self.failures = 0
        place = self.place
        git = GitDoor(place.remote, place.route(self.git, self.fuse, self.life))
        store = StoreDoor(place.shelf, self.name, place.route(self.store, self.fuse, self.life))
        options = HubOptions(
            f"{self.name}-{self.starts}",
            "https://git.example.com/jobs",
            "reg.example.com/stage:1",
            lease_seconds=_LEASE_SECONDS,
            resync_seconds=60.0,
            reports_at_once=1,  # a world has one thread
        )
        self.hub = Hub(git, store, remembered, self.clock, options)
        self.turn.by(place.agenda.seconds)

    def kill(self, back_after: float) -> None:
        """It dies now, and is started again later."""
        self.life.ended = True
        self._up_at = self.place.agenda.seconds + back_after
        self.place.agenda.at(self._up_at, self.start)

    def stand_still(self, seconds: float) -> None:
        """The process stands still; its clocks go on."""
        self.place.tell(f"{self.name} stands still for {seconds:.0f} s")
        self.place.agenda.wait(seconds)

    def wake(self) -> None:
        """Something that it watches has changed."""
        agenda = self.place.agenda
        self.turn.by(agenda.seconds + self.place.dice.roll(f"wake {self.name}"))

    def _come(self) -> None:
        if self._busy or self.life.ended:
            return
        life, self._busy = self.life, True
        try:
            seconds = self._cycle()
        except Killed as killed:
            back_after = 30 * self.place.dice.roll(f"back {self.name}") ** 2
            self.place.tell(f"{self.name} is killed at `{killed}` and is back after {back_after:.0f} s")
            self._busy = False
            if life is self.life:
                self.kill(back_after)
            return
        self._busy = False
        if life is self.life:
            self.turn.by(self.place.agenda.seconds + seconds)

    def _cycle(self) -> float:
        """One cycle, with the errors that the hub's loop expects of it; any other is a bug. Seconds until the next."""
        try:
            self.last = self.hub.cycle()
        except (Transient, Refused, Corrupt) as error:
            self.last = error
            self.failures += 1
            return BACK_OFF_SECONDS[min(self.failures, len(BACK_OFF_SECONDS)) - 1]
        except Exception as error:
            raise Violation("Bug", f"a cycle of {self.name} failed: {error!r}") from error
        self.failures = 0
        again = self.last.again_in_seconds
        # A real hub looks every second, and so renews its lead in time.
        return _LOOK_SECONDS if again is None else min(max(again, 0.05), _LOOK_SECONDS)

    @property
    def is_quiet(self) -> bool:
        """Whether it leads and has nothing to do."""
        last = self.last
        return isinstance(last, Result) and last.ended in (Ended.IDLE, Ended.QUIET) and not last.ungranted
