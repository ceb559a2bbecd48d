"""Why a granted workload is not one that may be released: what its object, its pods, the record or the region lack.

Decides that alone, and how it is told. Pure. Invariant: what is let through can be told from one that was released before, is
born with its gate, and in a deadman's region can be ended by Kubernetes in time.
"""

from reconciler.agent.deadman import Deadman, unfit_for
from reconciler.agent.queueing import queue_of
from reconciler.agent.reading import JOB_SET, generation_of, has_gate, is_deleting, pod_templates, ref_of
from reconciler.agent.record import FULL
from reconciler.agent.seen import Seen
from reconciler.ports import KubeObject

_JOB = "Job"


def unfit(seen: Seen, item: KubeObject, deadman: Deadman | None, *, room: bool) -> tuple[str, str] | None:
    """Why an object is not one that may be released here, as a code and in words. `room`: whether the record takes one more."""
    fault = _misfit(seen, item, room=room)
    return fault if fault is not None or deadman is None else unfit_for(item, deadman)


def _misfit(seen: Seen, item: KubeObject, *, room: bool) -> tuple[str, str] | None:
    if len(seen.objects) > 1:
        return "TwoObjects", f"{len(seen.objects)} workloads carry its label; delete the copies"
    kind = ref_of(item, _JOB).kind
    if kind not in (_JOB, JOB_SET):
        return "KindUnknown", f"this agent knows no {kind}"
    if len(pod_templates(item)) != 1:
        return "SeveralJobs", f"it makes {len(pod_templates(item))} Jobs, not one, so a second release could not be ruled out"
    if is_deleting(item):
        return "ObjectLeaving", "its object is being deleted"
    if not has_gate(item):
        return "GateMissing", "its pods would be born without our scheduling gate"
    if generation_of(item) == 0:
        return "GenerationMissing", "its object has no metadata.generation, so a second release could not be ruled out"
    if queue_of(item) is not None and not seen.has_kueue:
        return "KueueMissing", f"it is for the queue {queue_of(item)}, and there is no Kueue; install it, or name no queue"
    if seen.pods:
        return "PodsBeforeStart", f"there are {len(seen.pods)} pods with its label already; delete them"
    if seen.entry is None and not room:
        return "RecordFull", f"the record is full ({FULL} bytes); remove ended attempts from the branch"
    return None
