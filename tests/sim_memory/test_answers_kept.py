"""What the agent keeps from look to look changes nothing: over whole histories, each kept answer is what would be said anew."""

from collections.abc import Callable, Hashable
from typing import Any

import pytest

from reconciler.agent.answers import Answers
from reconciler.sim.histories import violation

SEEDS = range(6)


def test_an_answer_that_was_kept_is_what_would_be_said_now(monkeypatch: pytest.MonkeyPatch) -> None:
    plain: Callable[..., Any] = Answers.of
    held = 0

    def held_against_a_new_one(
        self: Answers[Any], about: Hashable, function: Callable[..., Any], *asked: object, **named: object
    ) -> object:
        nonlocal held
        answer = plain(self, about, function, *asked, **named)
        assert answer == function(*asked, **named), function  # in an agent's step this is a bug, which ends the history
        held += 1
        return answer

    monkeypatch.setattr(Answers, "of", held_against_a_new_one)
    assert [str(found) for seed in SEEDS if (found := violation(seed, shrink=False)) is not None] == []
    assert held > 1000
