"""How quick a staging task may be: the bandwidth that the hub has reserved goes to the task's pods.

Decides which pods are told. The rate is the hub's, the copying is the worker's. Nothing here starts or stops anything.
"""

from collections.abc import Iterable

from reconciler.agent.actions import Pace
from reconciler.agent.reading import is_closed, is_deleting, is_held, is_live, part, ref_of
from reconciler.agent.seen import Seen
from reconciler.model.names import ANNOTATION_PACE, PACE_UNLIMITED, STAGING_TEAM
from reconciler.ports import KubeObject


def paces(seen: Seen) -> list[Pace]:
    """What the pods of a staging task must be told. One whose gate is lifted in this pass is told in the next."""
    if seen.grant is None or seen.key.namespace != STAGING_TEAM:
        return []
    rate = seen.grant.bytes_per_second
    pace = PACE_UNLIMITED if rate is None else str(rate)
    return [Pace(seen.key, ref_of(pod, "Pod"), pace) for pod in at_work(seen.pods) if _told(pod) != pace]


def at_work(pods: Iterable[KubeObject]) -> list[KubeObject]:
    """Those that run, or will without anything more from us."""
    return [pod for pod in pods if not (is_held(pod) or is_deleting(pod) or is_closed(pod)) and is_live(pod)]


def _told(pod: KubeObject) -> object:
    return part(part(pod, "metadata"), "annotations").get(ANNOTATION_PACE)
