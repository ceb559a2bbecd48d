"""`plan` shares, remembers and counts in bulk; the reference does not. Both must come to the same decisions."""

from hypothesis import HealthCheck, given, settings

from reconciler.planning.decisions import Place
from reconciler.planning.plan import plan
from reconciler.planning.snapshot import Snapshot
from tests.builders import NOW
from tests.examples import examples
from tests.planning.reference import Verdict, reference
from tests.planning.worlds import numbers, snapshot_of


def verdicts(snapshot: Snapshot) -> list[Verdict]:
    decisions = plan(snapshot, NOW)
    return [(one.key, type(one).__name__, one.chosen.region if isinstance(one, Place) else None) for one in decisions]


@settings(
    max_examples=examples(300),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(numbers)
def test_plan_agrees_with_the_reference(number: int) -> None:
    snapshot = snapshot_of(number)
    assert verdicts(snapshot) == reference(snapshot, NOW)
