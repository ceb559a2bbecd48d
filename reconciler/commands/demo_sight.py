"""What can be seen of a failover at one moment: the ledger, the lease in the store, and the region's own folder.

Decides where each of them is looked for; what it means is demo_story.py's. The folder of a region that is cut off is read as its
own people would read it: nothing of what the hub does depends on that.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from reconciler.agent.record import Record
from reconciler.app_region import remembered
from reconciler.commands.demo_runs import Run, programs, runs_in, steps_of
from reconciler.commands.demo_stage import REGIONS, Stage, looked, url
from reconciler.commands.repository import Look
from reconciler.model.attempt import Attempt
from reconciler.model.grants import Lease, lease_key
from reconciler.model.names import JobKey, region_branch
from reconciler.model.record import JobRecord
from reconciler.model.region_state import RegionCondition

KEY: Final = JobKey("language", "curve-fit")
"""The job that the story is about."""


@dataclass(frozen=True, slots=True)
class Sight:
    """One look at everything."""

    cut: str
    """The region that is cut off, or will be."""
    at: float
    """Seconds since the epoch."""
    look: Look
    lease: Lease | None
    """Of that region, as the store has it."""
    record: Record | None
    """What that region's agent keeps in mind."""
    runs: tuple[Run, ...]
    """In all regions, in the order in which they began."""
    trouble: str | None
    """The last trouble with its line of which that region's own log tells."""

    @property
    def job(self) -> JobRecord | None:
        """As the ledger has it."""
        return self.look.ledger.records.get(KEY)

    def attempt(self, number: int) -> Attempt | None:
        """As the ledger has it."""
        attempts = self.job.attempts if self.job is not None else ()
        return next((each for each in attempts if each.number == number), None)

    @property
    def away(self) -> Mapping[str, RegionCondition]:
        """The regions that are not Ready, as the ledger has them."""
        return self.look.ledger.hub.regions

    def program(self, number: int) -> Run | None:
        """Of that attempt, if it has begun anywhere."""
        return next((run for run in programs(self.runs) if run.attempt == number), None)

    def losses(self, number: int) -> dict[int, float]:
        """Step → loss, as the attempt's program has written them."""
        run = self.program(number)
        return dict(steps_of(run)) if run is not None else {}

    def step(self, number: int) -> int:
        """The last step that the attempt's program has done; 0 before the first."""
        return max(self.losses(number), default=0)

    def manifests(self, number: int) -> list[str]:
        """What the branch of the region that is cut off has of an attempt."""
        head, attempt = self.look.heads.get(region_branch(self.cut)), self.attempt(number)
        files = self.look.git.files(head, "manifests") if head is not None else {}
        return [path for path in files if attempt is not None and attempt.name in path]


def sight(stage: Stage, cut: str, now: float) -> Sight | None:
    """A look at everything; None where the repository could not be read this time."""
    look = looked(stage)
    if look is None:
        return None
    runs = sorted((run for name in REGIONS for run in runs_in(name, stage.region(name))), key=lambda run: run.began)
    return Sight(cut, now, look, _lease(stage, cut), remembered(stage.region(cut)), tuple(runs), _trouble(stage, cut))


def _lease(stage: Stage, cut: str) -> Lease | None:
    try:
        return Lease.model_validate_json((stage.store / lease_key(cut)).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _trouble(stage: Stage, cut: str) -> str | None:
    for line in reversed(stage.log(cut).read_text("utf-8", "replace").splitlines()):
        said = json.loads(line) if line.startswith("{") and line.endswith("}") else {}
        what = str(said.get("what"))
        if said.get("event") == "trouble" and url(stage.line(cut)) in what:
            return what
    return None
