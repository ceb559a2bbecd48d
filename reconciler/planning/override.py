"""Whether one named region could ever take a job: what a person's pin or override is held to, whatever is free now."""

from dataclasses import replace

from reconciler.model.reasons import Reason, Why, because
from reconciler.planning.capacity import whole_nodes
from reconciler.planning.compliance import misplaced, refused_for, stores_of
from reconciler.planning.filters import Refusal, permitted, suited
from reconciler.planning.kept import addresses
from reconciler.planning.snapshot import JobView, Snapshot
from reconciler.planning.transfer import moving


def never_in(job: JobView, region: str, snapshot: Snapshot) -> Reason | None:
    """Why the job can never run in that region; None where it could. A pin or veto of before is no reason: it may change."""
    job = replace(job, pin=None, veto=frozenset())
    view = snapshot.regions.get(region)
    if view is None:
        return because(Why.NO_SUCH_REGION, region=region, known=", ".join(sorted(snapshot.regions)) or "none")
    nodes, known = whole_nodes(view), addresses(snapshot.datasets)
    for answer in (
        permitted(job, view, snapshot),
        refused_for(misplaced(job, snapshot, known, stores_of(snapshot.regions)), region),
        suited(job, view, nodes) if nodes else None,
        moving(job, view.region, snapshot, known),
    ):
        if isinstance(answer, Refusal) and answer.ever:
            return answer.reason
    return None
