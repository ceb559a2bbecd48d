"""Every reason that planning can give is given by a world or a record that calls for it, with its numbers; none is left out."""

import ast
from pathlib import Path
from typing import Any

import pytest

import reconciler.planning
from reconciler.model.reasons import Why, code_of
from reconciler.planning.decisions import Impossible
from reconciler.planning.plan import plan
from tests.builders import (
    GIB,
    NOW,
    make_node,
    make_region,
)
from tests.planning.decision_reasons import DECISIONS, GLOBAL, world
from tests.planning.life_reasons import LIVES
from tests.planning.test_draining import DRAINS
from tests.planning.test_links import CONDITIONS
from tests.planning.test_staging import CAUSES


@pytest.mark.parametrize("why", DECISIONS, ids=lambda why: why.name)
def test_a_decision(why: Why) -> None:
    snapshot, kind, where, numbers = DECISIONS[why]
    (decision,) = plan(snapshot, NOW)
    assert type(decision) is kind
    reason = decision.reason if where == GLOBAL else decision.refused[where]
    assert (reason.code, dict(reason.numbers)) == (code_of(why), dict(numbers))
    assert reason.text


@pytest.mark.parametrize("why", LIVES, ids=lambda why: why.name)
def test_a_life(why: Why) -> None:
    record, reason_of, numbers = LIVES[why]
    reason = reason_of(record)
    assert reason is not None
    assert (reason.code, dict(reason.numbers)) == (code_of(why), dict(numbers))
    assert reason.text


def named_in_planning() -> set[str]:
    """Every code that the planning modules name."""
    names = set()
    for path in Path(reconciler.planning.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Why":
                names.add(node.attr)
    return names


def test_no_code_of_planning_is_left_out() -> None:
    assert named_in_planning() == {why.name for why in (*DECISIONS, *LIVES, *DRAINS, *CONDITIONS, *CAUSES, Why.COPY_LOST)}


def test_units_of_what_is_too_small() -> None:
    """Each resource is named in its own unit, and the first that cannot do in the order GPUs, cores, memory, disk."""
    node = make_node(gpus=8)
    asked: dict[str, tuple[dict[str, Any], float, float]] = {
        "GPUs": ({"gpus": 9}, 8, 9),
        "CPU cores": ({"resources": {"cpu": "96001m"}}, 96, 96.0),
        "GiB of memory": ({"resources": {"memory": "960.5Gi"}}, 960, 960.5),
        "GiB of disk": ({"resources": {"ephemeral_storage": f"{9000 * GIB}"}}, 7450.58, 9000),
    }
    for resource, (fields, largest, wanted) in asked.items():
        (decision,) = plan(world(make_region("eu", node), **fields), NOW)
        assert isinstance(decision, Impossible)
        numbers = decision.refused["eu"].numbers
        assert (numbers["resource"], numbers["largest"], numbers["wanted"]) == (resource, largest, wanted)
