"""How an attempt ended, read from what its region reported: success, a failure of the program, or a disruption.

A disruption is anything that was done to the program (eviction, a drained node, a deleted object): it never counts as a
failure. The first pod that failed is the cause; the others were stopped because of it.
"""

from dataclasses import dataclass

from reconciler.model.attempt import Attempt, Event, Outcome, State
from reconciler.model.job import JobSpec
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.report import PodReport, WorkloadReport

DISRUPTIONS = frozenset(
    {
        "Evicted",
        "Preempting",
        "Preempted",
        "NodeLost",
        "NodeShutdown",
        "Shutdown",
        "Terminated",
        "DeletionByTaintManager",
        "TerminationByKubelet",
        "PreemptionByScheduler",
        "EvictionByEvictionAPI",
        "DeletionByPodGC",
        "ContainerStatusUnknown",
        "Unknown",
    }
)
"""Pod reasons that say that the node or the cluster took the pod away."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What the end of an attempt means for its job."""

    event: Event
    reason: Reason
    outcome: Outcome | None = None
    counts: bool = False
    """Whether it uses up a retry."""
    final: bool = False
    """Whether no other attempt may follow."""
    exit_code: int | None = None


def ending(workload: WorkloadReport, spec: JobSpec, limit_seconds: int | None) -> Ending | None:
    """How the attempt ended; None while anything of it may still run. `limit_seconds`: the run time of all attempts together."""
    if workload.succeeded:
        return Ending(Event.SUCCEEDED, because(Why.SUCCEEDED), exit_code=0)
    if workload.state != "Ended" or not workload.stopped:
        return None
    if workload.failed == "DeadlineExceeded":
        reason = because(Why.DEADLINE_EXCEEDED, limit_seconds=limit_seconds)
        return Ending(Event.FAILED, reason, Outcome.DEADLINE_EXCEEDED, final=True)
    if workload.failed == "Deadman":  # its pods were told to end: their exit codes are no word of the program's
        return _disrupted("Kubernetes ended it: nothing more was heard of its region's agent")
    failed = [pod for pod in workload.pods if pod.exit_code not in (None, 0)]
    fence = _FENCED if workload.failed == "Fenced" else None
    if not failed:
        message = next((pod.message or pod.reason for pod in workload.pods if pod.message or pod.reason), "no exit code was seen")
        return _disrupted(fence or message or "")
    first = min(failed, key=lambda pod: (pod.ended_at is None, pod.ended_at, pod.name))
    if first.terminating or first.reason in DISRUPTIONS:
        return _disrupted(fence or first.message or first.reason or "it was deleted")
    return _exited(first, spec)


_FENCED = "its region's agent stopped it, for the region's lease was not renewed in time"


def _disrupted(message: str) -> Ending:
    return Ending(Event.FAILED, because(Why.DISRUPTED, message=_short(message)), Outcome.DISRUPTED)


def _exited(pod: PodReport, spec: JobSpec) -> Ending:
    code = pod.exit_code or 0
    action = spec.on_exit.get(str(code), "retry")
    if action == "succeed":
        return Ending(Event.SUCCEEDED, because(Why.EXITED, code=code), exit_code=code)
    if pod.reason == "OOMKilled":
        reason = because(Why.OUT_OF_MEMORY)
    elif pod.reason in _NOT_STARTED:
        reason = because(Why.PROGRAM_NOT_STARTED, message=_short(pod.message or f"exit code {code}"))
    elif pod.signal is not None:
        reason = because(Why.KILLED, signal=pod.signal)
    else:
        reason = because(Why.EXITED, code=code)
    return Ending(Event.FAILED, reason, counts=action != "reschedule", final=action == "fail", exit_code=code)


_NOT_STARTED = ("StartError", "ContainerCannotRun")
_PULLS = "ImagePull"
_UNPULLABLE = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
)
_UNSTARTABLE = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "InvalidConfig")


def _waiting(workload: WorkloadReport | None) -> str:
    """Why it does not start, in its region's words; '' where nothing is said."""
    return "" if workload is None else next((pod.waiting for pod in workload.pods if pod.waiting), workload.waiting or "")


def waits_otherwise(attempt: Attempt, workload: WorkloadReport | None) -> Reason | None:
    """Why a granted attempt does not run yet, where that is another wait than the one noted; None where there is nothing new.

    Not the numbers and details of the same wait, nor the turns that a pull takes: each note is a commit.
    """
    words = _waiting(workload)
    if attempt.state is not State.GRANTED or not words:
        return None
    if attempt.reason is not None and _kind(str(attempt.reason.numbers.get("message", ""))) == _kind(words):
        return None
    return because(Why.NOT_YET_RUNNING, region=attempt.region, message=_short(words))


def _kind(words: str) -> str:
    return _PULLS if words.startswith(_UNPULLABLE) else words.partition(":")[0]


def not_started(workload: WorkloadReport | None, limit_seconds: int) -> Ending:
    """What a missed start means: a spec that can start nowhere, or a region that could not start it now."""
    waiting = _waiting(workload)
    if waiting and waiting.startswith(_UNPULLABLE):
        return Ending(
            Event.WITHDRAWN, because(Why.IMAGE_PULL, message=_short(waiting)), Outcome.START_TIMEOUT, counts=True, final=True
        )
    if waiting and waiting.startswith(_UNSTARTABLE):
        return Ending(
            Event.WITHDRAWN, because(Why.START_REFUSED, message=_short(waiting)), Outcome.START_TIMEOUT, counts=True, final=True
        )
    absent = workload is None or workload.state == "Absent"
    message = waiting or ("the sync engine has not made its object" if absent else "no pod was seen running")
    return Ending(
        Event.WITHDRAWN, because(Why.START_TIMEOUT, limit_seconds=limit_seconds, message=_short(message)), Outcome.START_TIMEOUT
    )


def _short(message: str, most: int = 500) -> str:
    return message if len(message) <= most else message[: most - 1] + "…"
