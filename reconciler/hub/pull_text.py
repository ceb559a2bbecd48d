"""What a proposal's pull request says: where, why there, at what price, when, and how to say yes or no.

Decides the wording. Invariant: same placement and same job give the same text, so that it is written only when a fact has
changed; the first line is a mark by which the hub knows for which attempt the pull request was, and with which text it left it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from reconciler.hub.pull_markdown import code, fitting, table, words
from reconciler.model.job import JobSpec
from reconciler.model.names import JobKey, digest, placement_path, proposal_branch
from reconciler.model.placement import CandidateView, DecisionView, Placement
from reconciler.model.quantity import as_bytes, as_usd
from reconciler.model.reasons import Reason
from reconciler.model.record import JobRecord

MARK: Final = re.compile(r"<!-- gpu-reconciler:proposal attempt=([a-z0-9-]{1,63}) text=([0-9a-f]{16}) -->")
HEADERS: Final = ("region", "verdict", "score", "terms (weight × value)", "price", "start (UTC)", "end (UTC)", "to move", "why")
NOTHING: Final = "–"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A pull request as it should be."""

    branch: str
    attempt: str
    title: str
    body: str
    decided_at: datetime


def wanted_pull(record: JobRecord, placement: Placement, into: str) -> Wanted:
    """The pull request for a proposal. `into`: the branch that it is to be merged into."""
    chosen = placement.decision.chosen
    gpus = f"{record.spec.total_gpus} GPUs" if record.spec.total_gpus else "no GPUs"
    price = "price unknown" if chosen.price_usd is None else as_usd(chosen.price_usd)
    title = f"Place {record.key} in {placement.region} ({gpus}, {price})"
    body = fitting(_body(record, placement, into))
    mark = f"<!-- gpu-reconciler:proposal attempt={placement.attempt} text={digest([title, body])[:16]} -->"
    return Wanted(proposal_branch(record.key), placement.attempt, title, f"{mark}\n{body}\n", placement.decided_at)


def mark_of(body: str) -> tuple[str, str] | None:
    """The attempt that a pull request of ours is for, and the digest of its text; None where it does not say so."""
    found = MARK.match(body)
    return (found[1], found[2]) if found is not None else None


def _body(record: JobRecord, placement: Placement, into: str) -> Iterator[str]:
    decision = placement.decision
    chosen = decision.chosen
    job, attempt = code(str(record.key)), code(placement.attempt)
    yield f"{job} would run in **{placement.region}** as {attempt}: {words(decision.reason.text)}."
    if record.why is not None:
        yield f"It waits for a person: {words(record.why.text)}."
    if placement.region != chosen.region:
        yield f"\n**A person changed the file on this branch:** the hub had chosen {chosen.region}; the figures are of that."
    yield ""
    yield from table(("what", "how much"), _facts(record.spec, decision, placement.decided_at))
    yield ""
    yield from table(HEADERS, _regions(decision))
    yield from (f"\nand {count} more: {words(each)}" for each, count in sorted(decision.refused_more.items()))
    yield ""
    yield from _what_to_do(record.key, placement.region, into)


def _facts(spec: JobSpec, decision: DecisionView, decided_at: datetime) -> Sequence[tuple[str, str]]:
    chosen = decision.chosen
    models = f" of {words(' or '.join(spec.gpu.models))}" if spec.gpu.models else ""
    gpus = (
        f"{spec.nodes} × {spec.gpu.count} = {spec.total_gpus} GPUs{models}" if spec.total_gpus else f"{spec.nodes} nodes, no GPUs"
    )
    return (
        ("asks for", gpus),
        ("price", as_usd(chosen.price_usd)),
        ("data to move", size(chosen.move_bytes)),
        ("start", clock(chosen.start_at)),
        ("end", clock(chosen.end_at)),
        ("decided", f"{clock(decided_at)} by {words(decision.strategy)}"),
    )


def _regions(decision: DecisionView) -> Iterator[tuple[str, ...]]:
    best = decision.chosen
    yield _rated(best, "**chosen**", words(decision.reason.text))
    for other in decision.runners_up:
        yield _rated(other, "runner-up", f"{best.region} scores {best.score:.3f}")
    for region, reason in sorted(decision.refused.items()):
        yield (code(region), "refused", *[NOTHING] * 6, why(reason))


def _rated(rated: CandidateView, verdict: str, words_: str) -> tuple[str, ...]:
    terms = " + ".join(f"{term.weight:g} × {term.value:.2f} {words(term.name)}" for term in rated.terms) or NOTHING
    figures = (as_usd(rated.price_usd), clock(rated.start_at), clock(rated.end_at), size(rated.move_bytes))
    return (code(rated.region), verdict, f"{rated.score:.3f}", terms, *figures, words_)


def _what_to_do(key: JobKey, region: str, into: str) -> Iterator[str]:
    path = code(placement_path(key))
    yield "**To say yes:** merge this pull request. The job starts as soon as there is room."
    yield ""
    yield f"**Elsewhere:** change `region:` in {path} on this branch, then merge. `pin:` keeps all its attempts there."
    yield ""
    yield (
        f"**To say no:** close this pull request unmerged. The job is held until its file is changed, or until a placement for "
        f"it is committed to `{into}`. `veto: [{region}]` in that file keeps it out of the region, `veto: [all]` holds it."
    )


def why(reason: Reason) -> str:
    """A reason as Markdown: its sentence and its code."""
    return f"{words(reason.text)} ({code(reason.code)})"


def size(number: int | None) -> str:
    """Bytes, as people say them."""
    return "unknown" if number is None else as_bytes(number)


def clock(moment: datetime | None) -> str:
    """A moment in UTC, to the minute."""
    return "unknown" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"
