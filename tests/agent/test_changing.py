"""`changed` against `dataclasses.replace`, on the values that the agent uses it for."""

from dataclasses import dataclass, fields, replace

import pytest

from reconciler.agent.changing import changed
from reconciler.agent.decide import Decision
from reconciler.agent.memory import Memory
from reconciler.agent.record import Record

VALUES: dict[str, Memory | Record | Decision] = {
    "memory": Memory(),
    "record": Record(epoch=3, seen=(1, 2)),
    "decision": Decision(Record(), (), ()),
}


@pytest.mark.parametrize("name", VALUES)
def test_each_part_changes_and_no_other(name: str) -> None:
    value, new = VALUES[name], object()
    for field in fields(value):
        assert changed(value, **{field.name: new}) == replace(value, **{field.name: new})  # type: ignore[arg-type]
    assert changed(value) == value
    assert changed(value) is not value


def test_a_part_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        changed(Record(), epoc=1)  # type: ignore[call-arg]


@dataclass(frozen=True, slots=True)
class _Doubled:
    number: int
    twice: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "twice", 2 * self.number)


def test_a_value_that_works_something_out_is_refused() -> None:
    with pytest.raises(TypeError, match="_Doubled is not a plain frozen dataclass"):
        changed(_Doubled(1), number=2)
