"""The pass once more, slow and plain: every job against every node, one pod at a time, nothing shared and nothing remembered.

It says in the fewest lines what a pass has to decide. `plan` must agree with it on where each job goes, which wait, and which
can never run. It shares with `plan` the models and what they say of a pod's needs and of GPU names, and no other code.
"""

from datetime import datetime, timedelta
from typing import Any

from packaging.specifiers import SpecifierSet

from reconciler.model.gpu import satisfies
from reconciler.model.names import JobKey
from reconciler.model.pods import node_needs, wants_rdma
from reconciler.model.quantity import whole
from reconciler.planning.scoring import STRATEGIES
from reconciler.planning.shapes import Kind
from reconciler.planning.snapshot import Holding, JobView, RegionView, Snapshot
from tests.planning.reference_links import Begun, begin, copying, queue_up
from tests.planning.reference_rooms import Node, free_nodes, room, take, whole_nodes

Verdict = tuple[JobKey, str, str | None]
"""A job, what becomes of it, and where."""


def reference(snapshot: Snapshot, now: datetime) -> list[Verdict]:
    """What becomes of each pending job, in the order in which they are decided."""
    given: dict[str, list[Holding]] = {name: list(view.holdings) for name, view in snapshot.regions.items()}
    begun: Begun = {}
    free = {name: free_nodes(view, given[name], set()) for name, view in snapshot.regions.items()}
    used, waiting, verdicts = dict(snapshot.used_gpus), list(snapshot.pending), []
    while waiting:
        weight = {name: team.weight for name, team in snapshot.teams.items()}
        shares = {job.key.team: used.get(job.key.team, 0) / weight.get(job.key.team, 1.0) for job in waiting}
        job = min(waiting, key=lambda job: (-job.spec.priority_value, shares[job.key.team], job.submitted_at, job.key))
        waiting.remove(job)
        kind, where = decide(job, snapshot, free, given, begun, now)
        verdicts.append((job.key, kind, where))
        if kind == "Place":
            used[job.key.team] = used.get(job.key.team, 0) + job.spec.nodes * job.spec.gpu.count
    return verdicts


def decide(
    job: JobView,
    snapshot: Snapshot,
    free: dict[str, list[Node]],
    given: dict[str, list[Holding]],
    begun: Begun,
    now: datetime,
) -> tuple[str, str | None]:
    """Place and where, Wait or Impossible; what is placed is taken out of `free` and noted in `given` and `begun`."""
    could = {name: answer for name in sorted(snapshot.regions) if (answer := could_run(job, name, snapshot)) != "never"}
    if not could:
        return "Impossible", None
    choices = [choice for answer in could.values() if isinstance(answer, list) for choice in answer]
    rate(job, choices, snapshot)
    for choice in choices:
        queue_up(choice, begun)
    closed = {name for name in could if unreachable(snapshot.regions[name], snapshot)}
    open_now, busy = [], [name for name, answer in could.items() if isinstance(answer, list)]
    for choice in choices:
        nodes, weights = free[choice["region"]], choice["weights"]
        total = sum(max(0, node[1][0]) for node in nodes)
        size = sum(node[3] for node in nodes)
        idle = total / size if size and choice["needs"].gpus else 1.0
        if choice["region"] not in closed and room(nodes, choice["needs"], choice["kinds"]) >= job.spec.nodes:
            score = choice["score"] + idle * weights.idle_gpus
            open_now.append((choice["region"] in job.avoid, choice["preference"], -score, choice["region"], choice))
            busy = [name for name in busy if name != choice["region"]]
    open_now.sort(key=lambda entry: entry[:4])
    best_of_each = [entry[4] for at, entry in enumerate(open_now) if entry[3] not in [other[3] for other in open_now[:at]]]
    queues = [choice for choice in choices if choice["region"] in busy and choice["region"] not in closed]
    for choice in best_of_each:
        if choice["bytes"] >= whole(snapshot.policy.thresholds.small_data) and wait_instead(
            job, choice, queues, snapshot, given, now
        ):
            continue
        end = None if job.run_seconds is None else now + timedelta(seconds=choice["seconds"] + job.run_seconds)
        models = {kind.gpu_model for kind in choice["kinds"] if kind.gpu_model is not None}
        model = models.pop() if len(models) == 1 and choice["needs"].gpus else None
        given[choice["region"]].append(Holding(f"{job.key} of this pass", job.spec.nodes, choice["needs"], model, end))
        take(free[choice["region"]], choice["needs"], job.spec.nodes, choice["kinds"])
        begin(choice, begun)
        return "Place", choice["region"]
    return "Wait", None


def could_run(job: JobView, name: str, snapshot: Snapshot) -> Any:
    """`never`, `later`, or the choices of GPU model that the region offers."""
    spec, view = job.spec, snapshot.regions[name]
    region, profile, team = view.region, view.region.profile, snapshot.teams.get(job.key.team)
    tags = set(spec.compliance) | set(team.compliance if team else ())
    if (
        (spec.allowed_regions is not None and name not in spec.allowed_regions)
        or name in {*spec.denied_regions, *job.veto}
        or (job.pin is not None and job.pin != name)
        or (team is not None and team.regions is not None and name not in team.regions)
        or not tags <= set(region.compliance)
        or (spec.network == "rdma" and profile.rdma is None)
        or not set(spec.tolerations) <= profile.tolerations.keys()
    ):
        return "never"
    if writes_where_it_may_not(job, name, tags, snapshot):
        return "never"
    move = copying(job, name, snapshot)
    if move == "never":
        return "never"
    nodes = whole_nodes(view)
    if not nodes:
        return "later"
    tolerated = {profile.tolerations[word].key for word in spec.tolerations} | {profile.gpu_resource if spec.gpu.count else ""}
    needs = node_needs(spec, profile)
    kinds = list(dict.fromkeys(node[0] for node in nodes if set(node[0].taints) <= tolerated))
    asks_for_rdma = profile.rdma is not None and bool(profile.rdma.resources) and any(kind.rdma for kind in kinds)
    if spec.network == "rdma" or (wants_rdma(spec) and asks_for_rdma):
        kinds = [kind for kind in kinds if kind.rdma]
    groups: list[tuple[int, list[Kind]]] = [(0, kinds)]
    if needs.gpus:
        right = [kind for kind in kinds if kind.gpu_model and _good_card(spec, kind)]
        wanted = spec.gpu.models
        groups = [(wanted.index(m), [k for k in right if satisfies(str(k.gpu_model), m)]) for m in wanted] or [(0, right)]
    fitting = [(preference, group) for preference, group in groups if room(nodes, needs, group) >= spec.nodes]
    if not fitting:
        return "never"
    if (view.facts is not None and job.key.team not in view.facts.namespaces) or move == "later":
        return "later"
    return [{"region": name, "needs": needs, "preference": p, "kinds": group, **move} for p, group in fitting]


def writes_where_it_may_not(job: JobView, name: str, tags: set[str], snapshot: Snapshot) -> bool:
    """Whether its checkpoints would lie in the store of another region, which lacks a tag that holds for the job."""
    bucket = (job.spec.checkpoint_path or "").split("/checkpoints/")[0]
    read = [snapshot.datasets[str(use.name)].residency for use in job.spec.datasets if use.name in snapshot.datasets]
    wanted = tags.union(*read)
    stores = {
        other: view.region.object_store.url.split("/reconciler")[0]
        for other, view in snapshot.regions.items()
        if view.region.object_store is not None
    }
    return any(
        url == bucket and other != name and not wanted <= set(snapshot.regions[other].region.compliance)
        for other, url in stores.items()
    )


def _good_card(spec: Any, kind: Kind) -> bool:
    enough = spec.gpu.memory is None or (kind.vram_bytes or 0) >= 0.95 * whole(spec.gpu.memory)
    return enough and (spec.gpu.driver is None or (kind.driver is not None and kind.driver in SpecifierSet(spec.gpu.driver)))


def rate(job: JobView, choices: list[dict[str, Any]], snapshot: Snapshot) -> None:
    """Each choice's score, but for the idle GPUs: those change within the pass."""
    spec, policy, hours = job.spec, snapshot.policy, None if job.run_seconds is None else job.run_seconds / 3600
    name = spec.strategy or policy.strategy
    weights = STRATEGIES[name] if name else policy.weights
    for one in choices:
        models = {str(kind.gpu_model) for kind in one["kinds"]}
        prices = snapshot.regions[one["region"]].region.prices.items()
        each = [max((usd for own, usd in prices if satisfies(model, own)), default=None) for model in models]
        cards = one["needs"].gpus * spec.nodes
        one["hourly"] = 0.0 if not cards else None if None in each else max(usd for usd in each if usd is not None) * cards
        unknown = one["hourly"] is None or one["usd"] is None or (one["hourly"] and hours is None)
        one["price"] = None if unknown else one["hourly"] * (job.run_seconds or 0) / 3600.0 + one["usd"]
    lowest = min((one["price"] for one in choices if one["price"] is not None), default=None)
    if all(one["usd"] == 0 for one in choices):
        lowest = None
    hourly = min((one["hourly"] for one in choices if one["hourly"] is not None), default=None)
    fastest = max((one["gbit"] for one in choices if one["gbit"] is not None), default=None)
    for one in choices:
        small = one["bytes"] < whole(policy.thresholds.small_data) or not one["total"]
        cost = ratio(lowest, one["price"]) if lowest is not None else ratio(hourly, one["hourly"]) if one["usd"] == 0 else 0.0
        has_rdma = any(kind.rdma for kind in one["kinds"]) and snapshot.regions[one["region"]].region.profile.rdma is not None
        terms = [
            ((1.0 if small else 1.0 - one["bytes"] / one["total"]), weights.data_affinity),
            (cost, weights.cost),
            (1.0 if not one["bytes"] else one["gbit"] / fastest if one["gbit"] else 0.0, weights.bandwidth),
            (0.0 if one["rtt"] is None else 1.0 / (1.0 + one["rtt"] / 100.0), weights.latency),
            (1.0 / (1.0 + one["seconds"] / 3600.0), weights.start_time),
            (float(has_rdma), weights.rdma if spec.network is None and wants_rdma(spec) else 0.0),
        ]
        one["score"], one["weights"] = sum(value * weight for value, weight in terms if weight > 0), weights


def ratio(lowest: float | None, own: float | None) -> float:
    """How near the lowest price this one is; unknown is as far as can be."""
    if lowest is None or own is None:
        return 0.0
    return 1.0 if own <= lowest or own == 0 else lowest / own


def unreachable(view: RegionView, snapshot: Snapshot) -> bool:
    """Whether the region gets nothing new at present."""
    age = view.report_age_seconds
    silent = view.facts is None or age is None or age > snapshot.policy.thresholds.report_fresh_seconds
    return view.closed is not None or view.region.cordoned or view.region.drain_by is not None or silent


def wait_instead(
    job: JobView,
    choice: dict[str, Any],
    queues: list[dict[str, Any]],
    snapshot: Snapshot,
    given: dict[str, list[Holding]],
    now: datetime,
) -> bool:
    """Whether waiting for a busy region that needs less copying is better than copying to this one."""
    free_at, where, waiting_usd = None, "", 0.0
    for name in {queue["region"] for queue in queues if queue["seconds"] < choice["seconds"]}:
        kinds = [kind for queue in queues if queue["region"] == name for kind in queue["kinds"]]
        queue = next(queue for queue in queues if queue["region"] == name)
        ends = [one.ends_at for one in given[name] if one.ends_at is not None and one.ends_at > now - timedelta(minutes=10)]
        for end in sorted(ends):
            gone = {
                one.attempt for one in given[name] if one.ends_at is not None and now - timedelta(minutes=10) < one.ends_at <= end
            }
            if room(free_nodes(snapshot.regions[name], given[name], gone), queue["needs"], kinds) >= job.spec.nodes:
                starts = max(end, now + timedelta(seconds=queue["seconds"]))
                if free_at is None or (starts, name) < (free_at, where):
                    free_at, where, waiting_usd = starts, name, queue["usd"] or 0.0
                break
    copied_at = now + timedelta(seconds=choice["seconds"])
    if free_at is None:
        return False
    run = timedelta(seconds=job.run_seconds or 0)
    late = None if job.spec.deadline is None else datetime.fromisoformat(job.spec.deadline)
    if free_at <= copied_at:
        return True
    if late is not None and free_at + run > late:
        return False
    worth = (free_at - copied_at).total_seconds() / 3600 * snapshot.policy.thresholds.copy_urgency_usd_per_hour
    return choice["usd"] is None or worth * job.spec.priority_value / 50 < choice["usd"] - waiting_usd
