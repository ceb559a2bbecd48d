"""What may stand in confirmations/, and when a region may be said to be empty."""

from typing import Any

import pytest
from pydantic import ValidationError

from reconciler.model.fleet import Confirmation
from reconciler.model.region import Region

COMMIT = "0" * 40
WORD = {"says": "forget", "region": "eu", "epoch": 3}

TAKEN: dict[str, dict[str, Any]] = {
    "a commit": {"main": COMMIT, "by": "ann"},
    "a region that is lost": {**WORD, "says": "lost"},
    "a region that never had a lease": {**WORD, "epoch": 0},
    "a region that is forgotten by force": {**WORD, "force": True, "why": "the hall burnt down"},
}


@pytest.mark.parametrize("said", TAKEN.values(), ids=TAKEN.keys())
def test_a_word_is_taken(said: dict[str, Any]) -> None:
    assert Confirmation.model_validate(said).model_dump(exclude_defaults=True) == said


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({"by": "ann"}, "give either `main`"),
    "a commit and a region": ({"main": COMMIT, **WORD}, "give either `main`"),
    "no epoch": ({"says": "lost", "region": "eu"}, "`says` needs `region` and `epoch`"),
    "no region": ({"says": "lost", "epoch": 1}, "`says` needs `region` and `epoch`"),
    "a region with a commit": ({"main": COMMIT, "region": "eu"}, "go with `says`"),
    "force without forgetting": ({**WORD, "says": "lost", "force": True}, "`force` goes with `says: forget`"),
    "force with a commit": ({"main": COMMIT, "force": True}, "`force` goes with `says: forget`"),
}


@pytest.mark.parametrize(("said", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_a_word_is_refused(said: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Confirmation.model_validate(said)


def test_a_moment_to_be_empty_by_is_one_of_the_calendar() -> None:
    region = Region.model_validate({"name": "eu", "drain_by": "2026-05-01T12:00:00Z"})
    assert region.drained_at is not None
    assert region.drained_at.isoformat() == "2026-05-01T12:00:00+00:00"
    assert Region.model_validate({"name": "eu"}).drained_at is None
    for wrong in ("2026-02-31T12:00:00Z", "2026-05-01T12:00:00", "2026-05-01"):
        with pytest.raises(ValidationError):
            Region.model_validate({"name": "eu", "drain_by": wrong})
