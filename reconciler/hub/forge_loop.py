"""The forge's loop, beside the hub's: opens, changes and closes pull requests until the forge has what Git says.

Decides when the forge is asked: when what is wanted has changed, when a webhook told of it, and now and then. An idle loop asks
nothing. Invariant: no cycle waits for it. What it hears goes to the board; what is wrong is told there like every other trouble.
"""

import threading
from collections.abc import Callable
from datetime import datetime

import structlog

from reconciler.forge_port import Forge, PullRepository
from reconciler.hub.forge_board import Board, Heard, View
from reconciler.hub.forge_checks import Checks
from reconciler.hub.forge_proposals import Answered, Facts, Proposals
from reconciler.hub.ledger import Trouble
from reconciler.hub.sources import Documents
from reconciler.hub.turns import Turns
from reconciler.model.policy import ForgeAddress
from reconciler.ports import Clock, Refused, Transient

BACK_OFF_SECONDS = (5.0, 15.0, 60.0, 300.0)
"""Waits after looks that failed in a row; the last one repeats."""
UPKEEP_SECONDS = 3600.0
"""Between two packings of the clone, if anything was looked at meanwhile."""
BREATH_SECONDS = 1.0
"""Between two looks: deliveries come in bunches."""
NAMES_AGAIN_SECONDS = (5.0, 30.0, 300.0)
"""A forge may know of a merge after Git does. After these waits nobody is asked any more who approved it."""
MOST_TOLD = 3
"""Refusals that are told at a time: they are mostly alike."""
LONG = 3600.0


class ForgeLoop:
    """Keeps one forge in step with the repository. `open_forge` raises Refused where that cannot be."""

    def __init__(
        self, board: Board, git: PullRepository, documents: Documents, open_forge: Callable[[ForgeAddress], Forge], clock: Clock
    ) -> None:
        self._board = board
        self._git = git
        self._open = open_forge
        self._clock = clock
        self._proposals = Proposals(git, documents)
        self._checks = Checks(git, documents, clock)
        self._log = structlog.get_logger("forge")
        self._forge: tuple[ForgeAddress, Forge] | None = None
        self._address: ForgeAddress | None = None
        self._done: object = None
        self._not_before = 0.0
        self._at_latest = 0.0
        self._failures = 0
        self._kept_up = clock.monotonic()
        self._asked: dict[str, int] = {}
        """Attempt → how often it was asked in vain who approved it."""
        self._told = threading.Event()
        self._told.set()
        self._turns = Turns("forge", self.turn, self._hang_up)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._turns.start()

    def stop(self) -> None:
        """End after the call under way."""
        self._turns.stop()

    def wake(self) -> None:
        """A cycle has seen something: see whether that concerns the forge."""
        self._turns.wake()

    def tell(self) -> None:
        """The forge said that something changed there: ask it."""
        self._told.set()
        self._turns.wake()

    def turn(self) -> float:
        """Look if a look is due; the seconds until the next one may be."""
        view, now = self._board.view, self._clock.monotonic()
        address = view.world.sources.fleet.settings.forge if view is not None else None
        if view is None or address is None:
            self._done = None
            self._hang_up()
            self._board.say(Heard())
            return LONG
        if self._address != address:  # the waits were another forge's
            self._address, self._failures, self._not_before = address, 0, 0.0
        if now < self._not_before:
            return self._not_before - now
        try:
            return self._look(view, address)
        except (Transient, Refused) as error:
            return self._failed(error)
        except Exception as error:  # noqa: BLE001 - a bug must end the look, not the loop: the next one reads everything anew
            self._log.exception("look failed")
            return self._failed(error)
        finally:
            self._keep_up()

    def _keep_up(self) -> None:
        """Pack what pull requests have brought: only this thread uses that clone."""
        now = self._clock.monotonic()
        if now - self._kept_up < UPKEEP_SECONDS:
            return
        self._kept_up = now
        try:
            self._git.maintain()
        except (Transient, Refused) as error:
            self._log.warning("maintenance of the clone failed", what=str(error))

    def _look(self, view: View, address: ForgeAddress) -> float:
        began, now = self._clock.monotonic(), self._clock.now()
        facts = self._facts(view, now)
        told = self._told.is_set()
        if told:
            self._told.clear()
        if not told and self._matter(facts, view, address) == self._done and began < self._at_latest:
            return self._at_latest - began
        self._done = None
        try:
            forge = self._forge_at(address)
            opened = forge.open_pulls()
            answered = self._proposals.act(forge, facts, opened, view)
            self._say(answered, answered.troubles)  # a person's no is not to wait for the plans of others
            checked = self._checks.act(forge, opened.those, view, now)
        except BaseException:
            self._told.set()
            raise
        self._say(answered, (*answered.troubles, *checked.troubles))
        self._failures = 0
        self._done = self._matter(facts, view, address)
        return self._rest(facts, answered, address, again=not checked.complete)

    def _matter(self, facts: Facts, view: View, address: ForgeAddress) -> object:
        """What a look is due for when it changes."""
        unanswered = facts.unnamed.keys() - self._board.heard.approved.keys()
        return facts.wanted, unanswered, view.git.heads.get(view.git.branches.main), view.git.branches, address

    def _rest(self, facts: Facts, answered: Answered, address: ForgeAddress, *, again: bool) -> float:
        now = self._clock.monotonic()
        unanswered = facts.unnamed.keys() - answered.approved.keys()
        tries = [self._asked.get(attempt, 0) for attempt in unanswered]
        soon = min((NAMES_AGAIN_SECONDS[count] for count in tries if count < len(NAMES_AGAIN_SECONDS)), default=LONG)
        self._asked |= {attempt: self._asked.get(attempt, 0) + 1 for attempt in unanswered}
        wait = 0.0 if again else min(address.look_seconds, soon)
        self._not_before, self._at_latest = now + BREATH_SECONDS, now + wait
        return max(wait, BREATH_SECONDS)

    def _facts(self, view: View, now: datetime) -> Facts:
        facts = self._proposals.facts(view, now)
        self._asked = {attempt: count for attempt, count in self._asked.items() if attempt in facts.unnamed}
        spent = {attempt for attempt, count in self._asked.items() if count > len(NAMES_AGAIN_SECONDS)}
        return Facts(facts.wanted, {name: each for name, each in facts.unnamed.items() if name not in spent})

    def _forge_at(self, address: ForgeAddress) -> Forge:
        if self._forge is None or self._forge[0] != address:
            self._hang_up()
            self._forge = (address, self._open(address))
        return self._forge[1]

    def _hang_up(self) -> None:
        if self._forge is not None:
            self._forge[1].hang_up()
        self._forge = None

    def _say(self, answered: Answered, troubles: tuple[str, ...]) -> None:
        said = {"ForgeSuspicious": answered.doubt, "ForgeRefused": "; ".join(list(dict.fromkeys(troubles))[:MOST_TOLD])}
        told = tuple(_trouble(code, words) for code, words in said.items() if words)
        self._board.say(Heard(answered.declined, answered.approved, told))

    def _failed(self, error: Exception) -> float:
        """What was heard before stays; a refusal is told at once, and silence only when it lasts (troubles.py)."""
        wait = BACK_OFF_SECONDS[min(self._failures, len(BACK_OFF_SECONDS) - 1)]
        self._failures += 1
        self._not_before = self._clock.monotonic() + wait
        code = "ForgeUnreachable" if isinstance(error, Transient) else "ForgeRefused"
        words = str(error) if isinstance(error, Transient | Refused) else f"a bug, please report it: {error!r}"
        heard = self._board.heard
        self._board.say(Heard(heard.declined, heard.approved, (_trouble(code, words),)))
        self._log.warning("look failed", what=words, again_in_seconds=wait)
        return wait


def _trouble(code: str, what: str) -> Trouble:
    return Trouble(subject="forge", code=code, what=" ".join(what.split()))
