"""What a scenario expects, held against what the cycle came to."""

from collections.abc import Mapping
from typing import Any

from reconciler.model.reasons import Reason
from tests.builders import GB
from tests.planning.course import Course
from tests.planning.scenarios import Expected, Fields, span


def found(course: Course, name: str, expected: Expected) -> Fields:
    """What is so, of everything that is expected of the job, in the form in which it is expected."""
    assert course.outcome is not None
    key = course.key(name)
    record = course.records[key]
    placement = course.outcome.placements.get(key) or course.outcome.proposals.get(key)
    decision = placement.decision if placement is not None else None
    reason = decision.reason if decision is not None else record.why
    refused = decision.refused if decision is not None else record.waits
    chosen = decision.chosen if decision is not None else None
    ended = next((attempt for attempt in reversed(record.attempts) if attempt.ended), None)
    price = chosen.price_usd if chosen is not None else None
    facts: Fields = {
        "in": record.current.region if record.current is not None else None,
        "phase": record.phase.value,
        "why": reason.code if reason is not None else None,
        "says": reason.text if reason is not None else "",
        "others": {region: _like(refused.get(region), want) for region, want in expected.others.items()},
        "attempts": len(record.attempts),
        "ended": None if ended is None else ended.outcome.value if ended.outcome is not None else ended.state.value,
        "model": chosen.gpu_model if chosen is not None else None,
        "terms": {term.name: round(term.value, 3) for term in chosen.terms} if chosen is not None else {},
        "score": round(chosen.score, 3) if chosen is not None else None,
        "price_usd": "unknown" if chosen is not None and price is None else price,
        "copies_gb": chosen.move_bytes / GB if chosen is not None and chosen.move_bytes is not None else None,
        "starts_in": str((chosen.start_at - course.now) if chosen is not None else None),
        "runners_up": [other.region for other in decision.runners_up] if decision is not None else None,
    }
    return {word: facts[word] for word in wanted(expected)}


def wanted(expected: Expected) -> Fields:
    """What is expected, without what was left out, in a form that compares."""
    said = expected.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if "starts_in" in said:
        said["starts_in"] = str(span(said["starts_in"]))
    return said


def _like(reason: Reason | None, want: str | Fields) -> str | Fields | None:
    if reason is None or isinstance(want, str):
        return None if reason is None else reason.code
    return {word: reason.code if word == "code" else reason.numbers.get(word) for word in want}


def differences(course: Course, expect: Mapping[str, Expected]) -> dict[str, dict[str, tuple[Any, Any]]]:
    """By job and word: what was expected, and what is so; empty where all is as expected."""
    wrong: dict[str, dict[str, tuple[Any, Any]]] = {}
    for name, expected in expect.items():
        want, have = wanted(expected), found(course, name, expected)
        pairs = {word: (want[word], have[word]) for word in want if not _same(word, want[word], have[word])}
        if pairs:
            wrong[name] = pairs
    return wrong


def _same(word: str, want: Any, have: Any) -> bool:
    if word == "says":
        return want in have
    if word == "terms":
        return bool(want.items() <= have.items())
    return bool(want == have)
