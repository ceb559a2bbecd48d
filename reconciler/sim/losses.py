"""What jobs say of a lost region, and whether it was minded: judged where the ledger moves, by what the world itself knows.

Decides of which attempts nobody could know how they ended: their region was given up, and no report came from it since the end of
what they ran. A job that says `wait` must not be told to have ended by that; one that says `hold` must not go on after it.
"""

from dataclasses import dataclass, field

from reconciler.model.attempt import Attempt, State
from reconciler.model.names import JobKey
from reconciler.model.record import JobRecord
from reconciler.sim.agenda import NEVER
from reconciler.sim.judge import REPORTED_SECONDS, Judge, Violation
from reconciler.sim.person import Person


@dataclass(slots=True)
class Losses:
    """Follows the ledger, record by record."""

    judge: Judge
    person: Person
    held: dict[JobKey, Attempt] = field(default_factory=dict)
    """The last attempt of jobs that are not to go on by themselves."""

    def taken(self, before: JobRecord | None, after: JobRecord) -> None:
        """A record was published in the place of another. Raises Violation."""
        ended = self._ended(before, after) if before is not None else None
        # Taken away and put back is a person's word as well: it asks for another run.
        if before is not None and ended is not None and not (before.cancelled or after.cancelled):
            self._judge_end(before, ended)
        lost, last = self.held.get(after.key), after.last
        if lost is not None and last is not None and last.number > lost.number:
            del self.held[after.key]
            self._judge_next(lost, last, after)

    def _ended(self, before: JobRecord, after: JobRecord) -> Attempt | None:
        """The attempt that is stopped now, and of which nobody knows how it ended."""
        was = before.current
        now = next((one for one in after.attempts if was is not None and one.number == was.number), None)
        return now if now is not None and now.state is State.STOPPED and self._is_unknown(now) else None

    def _is_unknown(self, attempt: Attempt) -> bool:
        given_up = [one for one in self.judge.given_up if one.region == attempt.region and one.epoch > attempt.epoch > 0]
        reported = self.judge.reported.get(attempt.region, 0.0)
        if not given_up or reported > given_up[0].at:
            return False
        runs = self.judge.runs.get(attempt.name, ())
        return any((NEVER if run.ends is None else run.ends) > reported - REPORTED_SECONDS for run in runs)

    def _judge_end(self, before: JobRecord, ended: Attempt) -> None:
        """By what the job said before: that is what the hub went by."""
        if before.spec.on_region_lost == "hold":
            self.held[before.key] = ended
        waits = before.spec.on_region_lost == "wait" and before.spec.release < ended.number
        if waits and not self.person.has_forgotten(ended.region):
            words = (
                f"{ended.name} was to wait for {ended.region}, and is said to have stopped ({ended.outcome}) before that is back"
            )
            raise Violation("NotWaited", words)

    def _judge_next(self, lost: Attempt, following: Attempt, after: JobRecord) -> None:
        holds = after.spec.on_region_lost == "hold" and after.first_attempt <= lost.number
        if holds and after.spec.release < lost.number:
            words = f"{following.name} follows {lost.name}, which was lost with {lost.region}, and nobody released it"
            raise Violation("DoneTwice", words)
