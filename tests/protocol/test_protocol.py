"""The protocol is searched whole within its bounds; each simpler design breaks, by the history that the decision record tells."""

import pytest

from tests.protocol.designs import BROKEN, HARMLESS, PROTOCOL, UNSAFE, WIDER
from tests.protocol.explorer import explore, replayed
from tests.protocol.model import wrong
from tests.protocol.record import RECORD, figures, harmless, section
from tests.protocol.telling import in_order

_HOW = "run `python -m tests.protocol --write`, and read what has changed"


def test_the_protocol_keeps_its_promises_in_every_state() -> None:
    found = explore(PROTOCOL)
    print(figures(PROTOCOL, found))
    assert found.fault is None, "\n".join([found.fault or "", *found.history])
    assert figures(PROTOCOL, found) in RECORD.read_text(encoding="utf-8"), _HOW


@pytest.mark.parametrize("title", [*BROKEN, *UNSAFE])
def test_a_simpler_design_breaks_by_the_history_that_the_record_tells(title: str) -> None:
    design = {**BROKEN, **UNSAFE}[title]
    found = explore(design.rules)
    print(f"{found.states:,} states; a history of {len(found.history)} steps")
    assert found.fault is not None, "nothing breaks: say in the record why it is harmless, and find another design"
    told = in_order(found.history, design.rules)
    assert sorted(told) == sorted(found.history)
    for history in (found.history, told):  # by the model itself, without any states taken for one
        assert found.fault in {wrong(state) for state in replayed(history, design.rules)}
    assert section(title, design, found) in RECORD.read_text(encoding="utf-8"), _HOW


def test_the_record_tells_of_these_designs_and_no_others() -> None:
    text = RECORD.read_text(encoding="utf-8")
    titles = [line.removeprefix("### ") for line in text.splitlines() if line.startswith("### ")]
    assert titles == [*BROKEN, *UNSAFE], _HOW
    for title in HARMLESS:
        assert harmless(title) in text, _HOW


@pytest.mark.parametrize("title", HARMLESS)
@pytest.mark.slow
def test_what_the_record_calls_harmless_is(title: str) -> None:
    found = explore(HARMLESS[title].rules)
    assert found.fault is None, "\n".join([found.fault or "", *found.history])


@pytest.mark.parametrize("bounds", WIDER)
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_protocol_keeps_its_promises_within_wider_bounds(bounds: str) -> None:
    found = explore(WIDER[bounds])
    print(figures(WIDER[bounds], found))
    assert found.fault is None, "\n".join([found.fault or "", *found.history])
