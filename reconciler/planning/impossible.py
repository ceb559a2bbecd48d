"""Why no region can ever run a job: the one sentence that names its cause, from what each region says."""

import difflib
from collections.abc import Mapping, Sequence

from reconciler.model.gpu import parse_model, satisfies
from reconciler.model.reasons import Reason, Why, because, code_of
from reconciler.planning.filters import RESOURCES, Refusal
from reconciler.planning.snapshot import JobView


def why_never(job: JobView, refused: Mapping[str, Refusal], has_regions: bool, models: Sequence[str]) -> Reason | None:
    """Why no region can ever run the job, in the words of those that came nearest; None where one could."""
    if not has_regions:
        return because(Why.NO_REGIONS)
    if not all(refusal.ever for refusal in refused.values()):
        return None
    reasons = [refusal.reason for refusal in refused.values()]
    nearest = max(map(_nearness, reasons))
    near = [reason for reason in reasons if _nearness(reason) == nearest]
    codes = {reason.code for reason in reasons}
    if nearest <= _BY_PEOPLE and len(codes) > 1 and code_of(Why.NO_SUCH_REGION) not in codes:
        return _no_region_left(reasons)
    first, wanted = near[0], job.spec.gpu.models
    if first.code == code_of(Why.GPU_MODEL_MISMATCH):
        # Those that rules of people keep it from may have the model: then it cannot be said of all regions.
        have = [own for own in models if not wanted or any(satisfies(own, model) for model in wanted)]
        return first if have else _no_model(wanted, models)
    if first.code == code_of(Why.NODE_TOO_SMALL):
        largest = max(near, key=_size)
        everywhere = all(_nearness(reason) > _BY_PEOPLE or reason.code == code_of(Why.NO_SUCH_REGION) for reason in reasons)
        numbers = {name: value for name, value in largest.numbers.items() if name != "region"}
        return because(Why.NO_NODE_LARGE_ENOUGH, **numbers) if everywhere else largest
    return first


def _no_region_left(reasons: Sequence[Reason]) -> Reason:
    """Several rules of people together leave no region: one of them alone would not be the cause."""
    texts = list(dict.fromkeys(reason.text for reason in reasons))
    more = f"; and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return because(Why.NO_REGION_LEFT, refusals="; ".join(texts[:_SHOWN]) + more)


_SHOWN = 4
_BY_PEOPLE = 1
"""Nearness of a region that a rule of people rules out."""

_NEARNESS = {
    code_of(Why.REGION_NOT_ALLOWED): 0,
    code_of(Why.REGION_DENIED): 0,
    code_of(Why.VETOED): 0,
    code_of(Why.PINNED_ELSEWHERE): 0,
    code_of(Why.GPU_MODEL_MISMATCH): 2,
    code_of(Why.VRAM_TOO_SMALL): 3,
    code_of(Why.VRAM_UNKNOWN): 3,
    code_of(Why.DRIVER_MISMATCH): 3,
    code_of(Why.NODE_TOO_SMALL): 4,
    code_of(Why.REGION_TOO_SMALL): 5,
    code_of(Why.DATA_UNREACHABLE): 6,
    code_of(Why.DATA_MAY_NOT_LEAVE): 6,
    code_of(Why.START_REFUSED): 7,
    code_of(Why.IMAGE_FORBIDDEN): 8,
    code_of(Why.IMAGE_MISSING): 8,
}
"""How far a region came through the filters; the rules of people (1) come before the nodes."""


def _nearness(reason: Reason) -> int:
    return _NEARNESS.get(reason.code, _BY_PEOPLE)


def _size(reason: Reason) -> tuple[int, float]:
    """How near the largest node came: by the resource that failed it, in the order in which they are looked at, then how much."""
    words = [word for word, _, _ in RESOURCES]
    word, largest = reason.numbers["resource"], reason.numbers["largest"]
    return words.index(word) if word in words else len(words), largest if isinstance(largest, int | float) else 0.0


def _no_model(wanted: Sequence[str], have: Sequence[str]) -> Reason:
    asked = wanted[0] if wanted else ""
    close = [own for own in have if parse_model(own).chip == parse_model(asked).chip]
    close = close or difflib.get_close_matches(asked.upper(), have, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]}?" if close else ""
    return because(Why.NO_REGION_HAS_MODEL, wanted=" or ".join(wanted) or "GPUs", have=", ".join(have) or "none", hint=hint)
