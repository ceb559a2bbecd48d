"""The regions of one decision, a row each: what became of it, why, and by which figures; for `plan` and `why` alike.

Decides how a decision is laid out; what was decided is in it. A region that could have taken the job and was not chosen is a
runner-up; the others are refused for now or for ever.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from reconciler.commands import screen
from reconciler.model.placement import CandidateView, DecisionView
from reconciler.model.quantity import as_usd
from reconciler.model.reasons import Reason, Why, because, code_of

HEADERS: Final = ("region", "verdict", "score", "terms (weight × value)", "price", "start", "end", "to move", "why")
CHOSEN, RUNNER_UP, NOT_NOW, NEVER = "chosen", "runner-up", "not now", "never"

_NOT_NOW: Final = frozenset(
    code_of(why)
    for why in (
        Why.CORDONED,
        Why.DRAINING,
        Why.NO_REPORT,
        Why.REPORT_STALE,
        Why.NOT_ENOUGH_FREE,
        Why.FRAGMENTED,
        Why.NAMESPACE_MISSING,
        Why.BRANCH_REFUSED,
        Why.REGION_HALTED,
    )
)
"""Reasons that pass by themselves, or as soon as somebody has looked after the region."""


@dataclass(frozen=True, slots=True)
class RegionRow:
    """One region of a decision."""

    region: str
    verdict: str
    why: Reason
    rated: CandidateView | None
    """None for a region that could not take the job, which is then not rated."""
    passed_over: bool = False
    """It was not chosen although it scores more."""

    @property
    def words(self) -> str:
        """The reason as a sentence."""
        text = self.why.text
        return f"{text}, but the job prefers the GPUs there or has just failed here" if self.passed_over else text


def rows_of(decision: DecisionView) -> tuple[RegionRow, ...]:
    """The regions of a placement: the chosen one, the next best, the refused."""
    best = decision.chosen
    chosen = RegionRow(best.region, CHOSEN, decision.reason, best)
    others = [
        RegionRow(other.region, RUNNER_UP, _outbid(other, best), other, passed_over=other.score > best.score)
        for other in decision.runners_up
    ]
    return (chosen, *others, *refused_rows(decision.refused))


def refused_rows(refused: Mapping[str, Reason]) -> tuple[RegionRow, ...]:
    """The regions that cannot take a job, those that may soon be able to before the others."""
    rows = [RegionRow(region, NOT_NOW if why.code in _NOT_NOW else NEVER, why, None) for region, why in refused.items()]
    return tuple(sorted(rows, key=lambda row: (row.verdict == NEVER, row.region)))


def _outbid(other: CandidateView, best: CandidateView) -> Reason:
    return because(
        Why.OUTBID, region=other.region, score=round(other.score, 3), winner=best.region, winner_score=round(best.score, 3)
    )


def cells(row: RegionRow, now: datetime) -> tuple[str, ...]:
    """The row of the table."""
    rated = row.rated
    if rated is None:
        return (row.region, row.verdict, *[screen.NOTHING] * 6, row.words)
    figures = (
        f"{rated.score:.3f}",
        terms(rated),
        as_usd(rated.price_usd),
        screen.ahead(rated.start_at, now),
        screen.ahead(rated.end_at, now),
        screen.size(rated.move_bytes),
    )
    return (row.region, row.verdict, *figures, row.words)


def terms(rated: CandidateView) -> str:
    """The score's terms, so that it can be checked."""
    return " + ".join(f"{term.weight:g} × {term.value:.2f} {term.name}" for term in rated.terms) or screen.NOTHING


def more(counts: Mapping[str, int]) -> Sequence[str]:
    """What is said of the regions beyond those that are listed."""
    return [f"and {count} more: {code}" for code, count in sorted(counts.items())]


def as_value(row: RegionRow) -> dict[str, Any]:
    """The JSON form: region, verdict, why; for a rated one its figures as well."""
    why = {"code": row.why.code, "text": row.words, "numbers": row.why.numbers}
    said: dict[str, Any] = {"region": row.region, "verdict": row.verdict, "why": why}
    rated = row.rated
    if rated is not None:
        said |= {
            "score": rated.score,
            "terms": [term.model_dump(mode="json") for term in rated.terms],
            "gpu_model": rated.gpu_model,
            "price_usd": rated.price_usd,
            "start_at": screen.time_json(rated.start_at),
            "end_at": screen.time_json(rated.end_at),
            "move_bytes": rated.move_bytes,
        }
    return said
