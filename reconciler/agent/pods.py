"""One pod of an attempt, as its region reports it: why it does not start, how it ended.

Decides which of a pod's many words are passed on; what they mean for the attempt is for the hub. Pure.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

from reconciler.agent.reading import (
    condition,
    gates_of,
    index_of,
    is_deleting,
    is_live,
    is_true,
    moment,
    name_of,
    node_of,
    part,
    parts,
    phase_of,
)
from reconciler.model.names import GATE
from reconciler.model.pods import MAIN
from reconciler.model.report import Phase, PodReport
from reconciler.ports import KubeObject

LONGEST_MESSAGE: Final = 500
"""Characters; a report carries thousands of pods."""

_PHASES: Final[Mapping[str, Phase]] = {name: name for name in get_args(Phase)}
_ON_THE_WAY: Final = ("ContainerCreating", "PodInitializing")
"""What a container waits for when nothing is wrong."""
_SIGNALS: Final = 64

Terminated = Mapping[str, Any]


def report_pod(pod: KubeObject) -> PodReport:
    """What is said of one pod."""
    end, step = _end(pod)
    reason, message = _why(pod, end)
    if step is not None:
        message = f"init container {step}: {message}" if message else f"init container {step} failed"
    started = moment(end.get("startedAt")) or moment(part(_main_state(pod), "running").get("startedAt"))
    code = end.get("exitCode")
    return PodReport(
        name=name_of(pod),
        index=index_of(pod),
        node=node_of(pod),
        phase=_PHASES.get(phase_of(pod), "Unknown"),
        gated=GATE in gates_of(pod),
        terminating=is_deleting(pod),
        waiting=_waiting(pod) if is_live(pod) else None,
        exit_code=code,
        signal=_signal(end),
        reason=reason,
        message=short(message),
        started_at=started if step is None else None,
        ended_at=moment(end.get("finishedAt")),
    )


def ended_well(pod: KubeObject) -> bool:
    """Whether its program was seen to end with exit code 0, and all of the pod with it.

    A program that exits 0 counts also where a container beside it was then killed; but while the pod goes on, it does not.
    """
    if phase_of(pod) == "Succeeded":
        return True
    code = part(_main_state(pod), "terminated").get("exitCode")
    return code == 0 and (not is_live(pod) or is_deleting(pod))


def first_failed(pods: Iterable[KubeObject]) -> KubeObject | None:
    """The pod that failed first: the others were stopped because of it."""
    failed = [pod for pod in pods if _end(pod)[0].get("exitCode") not in (None, 0)]
    return min(failed, key=lambda pod: (str(_end(pod)[0].get("finishedAt") or "~"), name_of(pod)), default=None)


def _main_state(pod: KubeObject) -> Mapping[str, Any]:
    statuses = parts(part(pod, "status"), "containerStatuses")
    chosen = next((one for one in statuses if one.get("name") == MAIN), statuses[0] if statuses else {})
    return part(chosen, "state")


def _end(pod: KubeObject) -> tuple[Terminated, str | None]:
    """How the program ended, or else the init container that kept it from starting, with its name."""
    end = part(_main_state(pod), "terminated")
    if end:
        return end, None
    sidecars = {one.get("name") for one in parts(part(pod, "spec"), "initContainers") if one.get("restartPolicy") == "Always"}
    for status in parts(part(pod, "status"), "initContainerStatuses"):
        found = part(part(status, "state"), "terminated")
        if found.get("exitCode", 0) != 0 and status.get("name") not in sidecars:
            return found, str(status.get("name"))
    return {}, None


def _why(pod: KubeObject, end: Terminated) -> tuple[str | None, str | None]:
    """Reason and message: of the pod as a whole, of what took it away, of its program; the first that there is."""
    status = part(pod, "status")
    disruption = condition(pod, "DisruptionTarget") if is_true(pod, "DisruptionTarget") else {}
    sources = (status, disruption, end)
    reason, message = (next((str(one[field]) for one in sources if one.get(field)), None) for field in ("reason", "message"))
    return reason, message


def _signal(end: Terminated) -> int | None:
    if end.get("signal"):
        return int(end["signal"])
    over = int(end.get("exitCode") or 0) - 128
    return over if 0 < over <= _SIGNALS else None


def _waiting(pod: KubeObject) -> str | None:
    status = part(pod, "status")
    states = [part(one, "state") for field in ("initContainerStatuses", "containerStatuses") for one in parts(status, field)]
    waits = [part(state, "waiting") for state in states if part(state, "waiting")]
    wrong = [wait for wait in waits if wait.get("reason") not in _ON_THE_WAY]
    unbound = condition(pod, "PodScheduled")
    if not wrong and unbound.get("status") == "False" and GATE not in gates_of(pod):
        wrong = [unbound]
    chosen = next(iter(wrong or waits), None)
    if chosen is None:
        return None
    words = [str(chosen[field]) for field in ("reason", "message") if chosen.get(field)]
    return short(": ".join(words)) or None


def short(message: str | None) -> str | None:
    """What fits of a message into a report."""
    if message is None or len(message) <= LONGEST_MESSAGE:
        return message
    return message[: LONGEST_MESSAGE - 1] + "…"
