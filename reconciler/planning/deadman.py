"""What a region cannot take whose Kubernetes itself is to end its jobs when their agent is gone (`deadman: true`). Pure.

The end that the agent keeps putting off stands in a Job, so a kind without that field cannot have one; and the time that the pods
may take to end goes off the time for which the agent may be away.
"""

from reconciler.model.job import JobSpec
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.region import LossTimes, Region


def unkeepable(spec: JobSpec, region: Region, policy: LossTimes) -> Reason | None:
    """Why a deadman region cannot take the job; None where it can, or is none. `policy`: where the region has no own times."""
    if not region.deadman:
        return None
    if spec.workload != "job":
        return because(Why.DEADMAN_NOT_POSSIBLE, region=region.name, kind=spec.workload)
    loss = region.loss or policy
    most = loss.self_fence_seconds // 2 + loss.fence_kill_seconds
    if spec.grace_seconds > most:
        return because(Why.GRACE_TOO_LONG, region=region.name, most=most, wanted=spec.grace_seconds)
    return None
