"""How an attempt ended, read from what its region reported."""

from datetime import timedelta
from typing import Any

import pytest

from reconciler.model.attempt import Event, Outcome
from reconciler.model.reasons import Why, code_of
from reconciler.model.report import WorkloadReport
from reconciler.planning.endings import DISRUPTIONS, Ending, ending, not_started
from tests.builders import NOW, make_pod, make_spec, make_workload

OK, BAD = Event.SUCCEEDED, Event.FAILED


def over(*pods: Any, **fields: Any) -> WorkloadReport:
    return make_workload("x", *pods, state="Ended", **fields)


def failed(code: int = 1, name: str = "p0", minute: int | None = None, **fields: Any) -> Any:
    ended = None if minute is None else NOW + timedelta(minutes=minute)
    return make_pod(name, phase="Failed", exit_code=code, ended_at=ended, **fields)


def done(name: str = "p1") -> Any:
    return make_pod(name, phase="Succeeded", exit_code=0)


EVICTED: dict[str, Any] = {"reason": "Evicted", "message": "node was low on memory"}

RUNS_ON: dict[str, WorkloadReport] = {
    "its pods run": make_workload("x", make_pod()),
    "some are done": make_workload("x", done(), make_pod()),
    "one has failed and others still end": make_workload("x", failed(), make_pod("p1", terminating=True), failed="FailureTarget"),
    "it has ended, and one pod was not seen to": over(failed(), stopped=False),
    "suspended, and its pods still end": make_workload("x", make_pod(terminating=True)),
    "suspended": make_workload("x", state="Held"),
    "not released yet": make_workload("x", make_pod(phase="Pending", gated=True), state="Held"),
    "not made yet": make_workload("x", state="Absent", uid=None),
}


@pytest.mark.parametrize("workload", RUNS_ON.values(), ids=RUNS_ON.keys())
def test_it_has_not_ended(workload: WorkloadReport) -> None:
    assert ending(workload, make_spec(), 60) is None


ENDS: dict[str, tuple[WorkloadReport, Event, Why, dict[str, Any]]] = {
    "success": (over(done(), succeeded=True), OK, Why.SUCCEEDED, {"exit_code": 0}),
    "success that was seen before the workload said so": (
        make_workload("x", done(), succeeded=True),
        OK,
        Why.SUCCEEDED,
        {"exit_code": 0},
    ),
    "success beside a pod that failed after it": (over(done(), failed(1), succeeded=True), OK, Why.SUCCEEDED, {"exit_code": 0}),
    "a failure of the program": (over(failed(3)), BAD, Why.EXITED, {"counts": True, "exit_code": 3}),
    "the first failure is the cause": (
        over(failed(143, "p0", 5), failed(7, "p1", 1), failed(143, "p2")),
        BAD,
        Why.EXITED,
        {"counts": True, "exit_code": 7},
    ),
    "of two at once the first by name": (
        over(failed(4, "p1", 1), failed(3, "p0", 1)),
        BAD,
        Why.EXITED,
        {"counts": True, "exit_code": 3},
    ),
    "a pod of which only the code is known": (
        over(failed(9, "p1"), done("p0")),
        BAD,
        Why.EXITED,
        {"counts": True, "exit_code": 9},
    ),
    "a signal": (over(failed(139, signal=11)), BAD, Why.KILLED, {"counts": True, "exit_code": 139}),
    "out of memory": (over(failed(137, reason="OOMKilled")), BAD, Why.OUT_OF_MEMORY, {"counts": True, "exit_code": 137}),
    "its own time-out": (
        over(failed(143), failed="DeadlineExceeded"),
        BAD,
        Why.DEADLINE_EXCEEDED,
        {"outcome": Outcome.DEADLINE_EXCEEDED, "final": True},
    ),
    "evicted": (over(failed(137, **EVICTED)), BAD, Why.DISRUPTED, {"outcome": Outcome.DISRUPTED}),
    "deleted by somebody": (over(failed(143, terminating=True)), BAD, Why.DISRUPTED, {"outcome": Outcome.DISRUPTED}),
    "an eviction that made the others fail": (
        over(failed(1, "p0", 9), failed(137, "p1", 1, **EVICTED)),
        BAD,
        Why.DISRUPTED,
        {"outcome": Outcome.DISRUPTED},
    ),
    "a failure that made the others go": (
        over(failed(1, "p0", 1), failed(137, "p1", 9, **EVICTED)),
        BAD,
        Why.EXITED,
        {"counts": True, "exit_code": 1},
    ),
    "no pod was seen": (over(), BAD, Why.DISRUPTED, {"outcome": Outcome.DISRUPTED}),
    "pods without a code": (
        over(make_pod(phase="Failed", reason="NodeLost")),
        BAD,
        Why.DISRUPTED,
        {"outcome": Outcome.DISRUPTED},
    ),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS.keys())
def test_an_end(case: tuple[WorkloadReport, Event, Why, dict[str, Any]]) -> None:
    workload, event, why, fields = case
    found = ending(workload, make_spec(), 60)
    assert found is not None
    assert found == Ending(event, found.reason, **fields)
    assert found.reason.code == code_of(why)
    assert found.reason.text


@pytest.mark.parametrize("reason", sorted(DISRUPTIONS))
def test_every_way_to_be_taken_away_is_no_failure(reason: str) -> None:
    found = ending(over(failed(137, reason=reason)), make_spec(on_exit={"137": "fail"}), None)
    assert found is not None
    assert (found.counts, found.final, found.outcome, found.reason.text) == (
        False,
        False,
        Outcome.DISRUPTED,
        f"its pod was taken away from it: {reason}",
    )


STOPPED_BY_A_FENCE = {
    "its pods are gone": over(failed="Fenced"),
    "its pod is still seen to go": over(failed(143, terminating=True), failed="Fenced"),
}


@pytest.mark.parametrize("workload", STOPPED_BY_A_FENCE.values(), ids=STOPPED_BY_A_FENCE)
def test_a_fence_is_told_as_what_it_is(workload: WorkloadReport) -> None:
    found = ending(workload, make_spec(), None)
    assert found is not None
    assert (found.outcome, found.counts) == (Outcome.DISRUPTED, False)
    assert found.reason.text.endswith("its region's agent stopped it, for the region's lease was not renewed in time")


def test_a_program_that_failed_before_the_fence_has_failed() -> None:
    found = ending(over(failed(3), failed="Fenced"), make_spec(), None)
    assert found is not None
    assert (found.reason.code, found.counts) == (code_of(Why.EXITED), True)


ACTIONS: dict[str, tuple[Event, bool, bool]] = {
    "retry": (BAD, True, False),
    "reschedule": (BAD, False, False),
    "fail": (BAD, True, True),
    "succeed": (OK, False, False),
}


@pytest.mark.parametrize("code", [1, 3, 137, 255])
@pytest.mark.parametrize("action", ACTIONS)
def test_what_an_exit_code_means(action: str, code: int) -> None:
    spec = make_spec(on_exit={str(code): action})
    found, other = ending(over(failed(code)), spec, None), ending(over(failed(2)), spec, None)
    assert found is not None
    assert other is not None
    assert (found.event, found.counts, found.final) == ACTIONS[action]
    assert found.exit_code == code
    assert (other.event, other.counts, other.final) == ACTIONS["retry"]


STARTS: dict[str, tuple[WorkloadReport | None, Why, bool, str]] = {
    "no object": (None, Why.START_TIMEOUT, False, "it did not start within 60 s: the sync engine has not made its object"),
    "an object that is gone": (
        make_workload("x", state="Absent"),
        Why.START_TIMEOUT,
        False,
        "it did not start within 60 s: the sync engine has not made its object",
    ),
    "no pod": (make_workload("x"), Why.START_TIMEOUT, False, "it did not start within 60 s: no pod was seen running"),
    "no room": (
        make_workload("x", make_pod("p0"), make_pod("p1", phase="Pending", waiting="Unschedulable: 0/3 nodes")),
        Why.START_TIMEOUT,
        False,
        "it did not start within 60 s: Unschedulable: 0/3 nodes",
    ),
    "a volume that hangs": (
        make_workload("x", make_pod(phase="Pending", waiting="ContainerCreating: waiting for volume")),
        Why.START_TIMEOUT,
        False,
        "it did not start within 60 s: ContainerCreating: waiting for volume",
    ),
    **{
        word: (make_workload("x", make_pod(phase="Pending", waiting=f"{word}: no")), why, True, f"{text}: {word}: no")
        for why, text, words in (
            (
                Why.IMAGE_PULL,
                "the image cannot be pulled",
                (
                    "ErrImagePull",
                    "ImagePullBackOff",
                    "InvalidImageName",
                    "ErrImageNeverPull",
                    "ImageInspectError",
                    "RegistryUnavailable",
                ),
            ),
            (
                Why.START_REFUSED,
                "the region cannot start it",
                ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "InvalidConfig"),
            ),
        )
        for word in words
    },
}


@pytest.mark.parametrize("case", STARTS.values(), ids=STARTS.keys())
def test_a_start_that_was_missed(case: tuple[WorkloadReport | None, Why, bool, str]) -> None:
    """What can start nowhere is over; what a region could not start now may start elsewhere."""
    workload, why, nowhere, text = case
    found = not_started(workload, 60)
    assert found == Ending(Event.WITHDRAWN, found.reason, Outcome.START_TIMEOUT, counts=nowhere, final=nowhere)
    assert (found.reason.code, found.reason.text) == (code_of(why), text)


def test_words_of_others_are_cut() -> None:
    found = not_started(make_workload("x", make_pod(phase="Pending", waiting="Unschedulable: " + 9000 * "x")), 60)
    assert len(str(found.reason.numbers["message"])) == 500
    assert str(found.reason.numbers["message"]).endswith("…")


def test_what_a_workload_without_pods_waits_for_is_told() -> None:
    queued = make_workload("x").model_copy(update={"waiting": "couldn't assign flavors: insufficient unused quota"})
    assert "insufficient unused quota" in not_started(queued, 60).reason.text
