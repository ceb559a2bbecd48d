"""What a pass decides: values that print themselves; nothing here acts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from reconciler.model.attempt import Needs
from reconciler.model.names import JobKey
from reconciler.model.placement import CandidateView, Term
from reconciler.model.reasons import Reason
from reconciler.planning.ways import Source


@dataclass(frozen=True, slots=True)
class Candidate:
    """A region that can take a job now, and how it rates."""

    region: str
    gpu_model: str | None
    """As the job wanted it; None for any."""
    gpu_products: tuple[str, ...]
    """How the region's nodes spell the models that will do."""
    node_model: str | None
    """The model of the nodes, when they are all of one."""
    needs: Needs
    terms: tuple[tuple[str, float, float], ...]
    """(name, value in [0, 1], weight)"""
    score: float
    start_at: datetime
    end_at: datetime | None
    move_bytes: int | None
    price_usd: float | None
    dataset_uris: tuple[str, ...]
    sources: tuple[Source | None, ...] = ()
    """From where each of its datasets is brought; None for one that is there already, or is read where it is."""

    def view(self) -> CandidateView:
        """As it is published."""
        return CandidateView(
            region=self.region,
            score=round(self.score, 4),
            terms=tuple(Term(name=name, value=round(value, 4), weight=weight) for name, value, weight in self.terms),
            gpu_model=self.node_model or self.gpu_model,
            start_at=self.start_at,
            end_at=self.end_at,
            move_bytes=self.move_bytes,
            price_usd=None if self.price_usd is None else round(self.price_usd, 4),
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Run it there, now."""

    key: JobKey
    chosen: Candidate
    reason: Reason
    runners_up: tuple[Candidate, ...]
    refused: Mapping[str, Reason]
    strategy: str


@dataclass(frozen=True, slots=True)
class Expected:
    """Where a job that waits will probably start. Jobs that wait in front of it are not foreseen."""

    region: str
    start_at: datetime
    sources: tuple[Source | None, ...]
    """As of a candidate."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Not now. `refused` says why not, region by region."""

    key: JobKey
    reason: Reason
    refused: Mapping[str, Reason]
    expected: Expected | None = None
    """Of jobs that read datasets; None where nobody can say, or of other jobs."""


@dataclass(frozen=True, slots=True)
class Impossible:
    """No region could ever run it as it is written. Decided anew whenever specs, regions or nodes change."""

    key: JobKey
    reason: Reason
    refused: Mapping[str, Reason]


Decision = Place | Wait | Impossible
