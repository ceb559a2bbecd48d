"""What may be left of attempts that have ended: nothing. Pure sentences, one a fault, for every world that plays histories."""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from reconciler.agent.record import decode, joined
from reconciler.model.attempt import Attempt, State
from reconciler.model.grants import Grants
from reconciler.model.names import LABEL_ATTEMPT, JobKey, manifest_path
from reconciler.ports import Cluster

Alive = Mapping[str, AbstractSet[tuple[str, str]]]
"""Region → (team, attempt) of what has not ended in the ledger."""


def alive_in(regions: Iterable[str], attempts: Iterable[tuple[JobKey, Attempt]]) -> Alive:
    """What of all attempts of the ledger has not ended, by region."""
    alive: dict[str, set[tuple[str, str]]] = {name: set() for name in regions}
    for key, attempt in attempts:
        if not attempt.ended and attempt.state is not State.PROPOSED:
            alive[attempt.region].add((key.team, attempt.name))
    return alive


def on_branch(region: str, there: AbstractSet[str], alive: Alive) -> Iterator[str]:
    """`there`: the paths of manifests that stand on the region's branch."""
    wanted = {"manifests/_sentinel.yaml", *(manifest_path(*attempt) for attempt in alive[region])}
    if there != wanted:
        yield f"the branch of {region} has {sorted(there - wanted)} too much and lacks {sorted(wanted - there)}"


def in_grants(grants: Grants, alive: Alive) -> Iterator[str]:
    """What has ended is granted to nobody."""
    ended = {(grant.team, grant.attempt) for grant in grants.attempts} - alive[grants.region]
    if ended:
        yield f"{grants.region} is granted what has ended: {sorted(ended)}"


def in_cluster(region: str, cluster: Cluster, alive: Alive) -> Iterator[str]:
    """Objects, and entries of the agent's record. Those whose pods somebody orphaned may stay."""
    state = cluster.read()
    names = {name for _, name in alive[region]}
    jobs = {job["metadata"]["name"] for job in state.workloads} - names
    if jobs:
        yield f"{region} still has objects of ended attempts: {sorted(jobs)}"
    record = cluster.read_record()
    orphans = {(pod["metadata"].get("labels") or {}).get(LABEL_ATTEMPT) for pod in state.pods}
    kept = decode(record.body).attempts if record is not None and joined(record.body) is None else {}
    known = {attempt for _, attempt in kept} - names - orphans
    if known:
        yield f"the record of {region} still has {sorted(known)}"
