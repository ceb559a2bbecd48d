"""Equal jobs are filtered and scored once: what a pass knows of a class of jobs, before it looks at what is free.

Two jobs are of one class when nothing that a filter, an estimate or a term reads differs between them.
"""

import difflib
import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from reconciler.model.gpu import satisfies
from reconciler.model.job import JobSpec
from reconciler.model.policy import Weights
from reconciler.model.reasons import Reason, Why, because, code_of
from reconciler.planning.capacity import Pool
from reconciler.planning.filters import Fit, Refusal, permitted, reachable, suited
from reconciler.planning.scoring import Facts, Terms, best_of, fixed_terms, weights_for
from reconciler.planning.shapes import Kind
from reconciler.planning.snapshot import JobView, RegionView, Snapshot
from reconciler.planning.transfer import Move, moving


@dataclass(frozen=True, slots=True)
class Option:
    """A region that could run jobs of the class if it had room."""

    region: str
    fit: Fit
    preferences: tuple[int, ...]
    """For each model of the fit, its place in the job's own list."""
    facts: Facts
    terms: Terms
    fixed_score: float
    blocked: Refusal | None
    """Why it cannot be given new jobs at present (cordoned, stale), though it would do."""


@dataclass(slots=True)
class JobClass:
    """What holds for every job of the class."""

    options: tuple[Option, ...]
    refused: Mapping[str, Refusal]
    reasons: Mapping[str, Reason]
    strategy: str
    weights: Weights
    exhausted: set[tuple[str, int]] = field(default_factory=set)
    """(region, preference) found without room. Room only shrinks during a pass, so it need not be asked again."""
    full: dict[str, Reason] = field(default_factory=dict)
    """Why each region had no room when that was found."""


def class_key(job: JobView) -> Hashable:
    """Everything of a job that its class is made from."""
    spec = job.spec
    return (
        job.key.team,
        job.pin,
        job.veto,
        job.avoid,
        # Without data to move, prices compare by the hour and no start depends on how long the job runs.
        job.run_seconds if spec.dataset is not None or spec.deadline is not None else None,
        spec.gpu,
        spec.nodes,
        spec.resources,
        spec.network,
        spec.communication_mode,
        spec.workload,
        spec.dataset,
        spec.allowed_regions,
        spec.denied_regions,
        spec.compliance,
        spec.tolerations,
        spec.queue,
        spec.strategy,
        spec.priority_value,
        spec.deadline,
        _overlay_key(spec),
    )


class Classifier:
    """Filters regions for jobs and rates those that are left; remembers what jobs of different classes have in common."""

    def __init__(self, snapshot: Snapshot, nodes: Mapping[str, dict[Kind, Pool]]) -> None:
        self._snapshot = snapshot
        self._nodes = nodes
        fresh = snapshot.policy.thresholds.report_fresh_seconds
        self._blocked = {name: reachable(view, fresh) for name, view in snapshot.regions.items()}
        self._suited: dict[Hashable, dict[str, tuple[Fit, float | None, bool] | Refusal]] = {}
        self._moves: dict[Hashable, dict[str, Move | Refusal]] = {}
        self._permitted: dict[Hashable, dict[str, Refusal | None]] = {}

    def classify(self, job: JobView) -> JobClass:
        """What holds for every job of this one's class."""
        name, weights = weights_for(job.spec, self._snapshot.policy)
        refused: dict[str, Refusal] = {}
        fits: dict[str, Fit] = {}
        facts: dict[str, Facts] = {}
        permitted_in, suited_in, moves_to = self._rules(job), self._shapes(job), self._transfers(job)
        for region in self._snapshot.regions:
            suits, move = suited_in[region], moves_to[region]
            refusal = permitted_in[region] or (suits if isinstance(suits, Refusal) else move)
            if isinstance(refusal, Refusal):
                refused[region] = refusal
            elif isinstance(suits, tuple) and isinstance(move, Move):
                fits[region] = suits[0]
                facts[region] = Facts(move, suits[1], suits[2])
        best = best_of(facts, job.run_seconds)
        options = tuple(
            self._option(job, region, fits[region], fact, fixed_terms(job.spec, fact, best, weights, self._snapshot.policy))
            for region, fact in sorted(facts.items())
        )
        refused |= _unknown_regions(job, self._snapshot)
        reasons = {region: refusal.reason for region, refusal in refused.items()}
        return JobClass(options, refused, reasons, name, weights)

    def _rules(self, job: JobView) -> dict[str, Refusal | None]:
        spec = job.spec
        people = (job.key.team, job.pin, job.veto, spec.allowed_regions, spec.denied_regions, spec.compliance)
        key = (people, spec.workload, spec.network, spec.queue, spec.tolerations, _overlay_key(spec))
        found = self._permitted.get(key)
        if found is None:
            regions = self._snapshot.regions.items()
            found = self._permitted[key] = {name: permitted(job, view, self._snapshot) for name, view in regions}
        return found

    def _shapes(self, job: JobView) -> dict[str, tuple[Fit, float | None, bool] | Refusal]:
        spec = job.spec
        key = (spec.gpu, spec.nodes, spec.resources, spec.network, spec.communication_mode, spec.tolerations, _overlay_key(spec))
        found = self._suited.get(key)
        if found is None:
            found = self._suited[key] = {name: self._shape(job, view) for name, view in self._snapshot.regions.items()}
        return found

    def _shape(self, job: JobView, view: RegionView) -> tuple[Fit, float | None, bool] | Refusal:
        nodes = self._nodes[view.region.name]
        if not nodes:  # nothing declared, nothing reported: nobody can say that it will never fit
            return self._blocked[view.region.name] or Refusal(because(Why.NO_REPORT, region=view.region.name), ever=False)
        fit = suited(job, view, nodes)
        if isinstance(fit, Refusal):
            return fit
        rdma = any(kind.rdma for _, kinds in fit.models for kind in kinds) and view.region.profile.rdma is not None
        return fit, hourly_usd(job.spec, view, fit), rdma

    def _transfers(self, job: JobView) -> dict[str, Move | Refusal]:
        key = job.spec.dataset
        found = self._moves.get(key)
        if found is None:
            regions = self._snapshot.regions.items()
            found = self._moves[key] = {name: moving(job.spec, view.region, self._snapshot) for name, view in regions}
        return found

    def _option(self, job: JobView, region: str, fit: Fit, facts: Facts, terms: Terms) -> Option:
        models = job.spec.gpu.models
        preferences = tuple(0 if model is None else models.index(model) for model, _ in fit.models)
        score = sum([value * weight for _, value, weight in terms])
        return Option(region, fit, preferences, facts, terms, score, self._blocked[region])


def _overlay_key(spec: JobSpec) -> str:
    return json.dumps(spec.pod_overlay, sort_keys=True) if spec.pod_overlay else ""


def hourly_usd(spec: JobSpec, view: RegionView, fit: Fit) -> float | None:
    """What all GPUs of the job cost an hour in the region; None where its price is not known."""
    if not fit.needs.gpus:
        return 0.0
    models = {str(kind.gpu_model) for _, kinds in fit.models[:1] for kind in kinds}
    prices = [usd for model, usd in view.region.prices.items() if any(satisfies(own, model) for own in models)]
    return max(prices) * fit.needs.gpus * spec.nodes if prices else None


def _unknown_regions(job: JobView, snapshot: Snapshot) -> dict[str, Refusal]:
    named = set(job.spec.allowed_regions or ()) | ({job.pin} if job.pin else set())
    known = ", ".join(sorted(snapshot.regions)) or "none"
    return {
        region: Refusal(because(Why.NO_SUCH_REGION, region=region, known=known), ever=True)
        for region in sorted(named - snapshot.regions.keys())
    }


def impossible(job: JobView, found: JobClass, snapshot: Snapshot) -> Reason | None:
    """Why no region can ever run the job, in the words of those that came nearest; None where one could."""
    if not snapshot.regions:
        return because(Why.NO_REGIONS)
    if found.options or not all(refusal.ever for refusal in found.refused.values()):
        return None
    nearest = max(_NEARNESS.get(refusal.reason.code, 1) for refusal in found.refused.values())
    reasons = [refusal.reason for refusal in found.refused.values() if _NEARNESS.get(refusal.reason.code, 1) == nearest]
    first = reasons[0]
    if first.code == code_of(Why.GPU_MODEL_MISMATCH):
        return _no_model(job, snapshot)
    if first.code == code_of(Why.NODE_TOO_SMALL):
        largest = max(reasons, key=lambda reason: _number(reason.numbers["largest"]))
        numbers = {name: value for name, value in largest.numbers.items() if name != "region"}
        return because(Why.NO_NODE_LARGE_ENOUGH, **numbers)
    return first


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else -1.0


_NEARNESS = {
    code_of(Why.REGION_NOT_ALLOWED): 0,
    code_of(Why.REGION_DENIED): 0,
    code_of(Why.VETOED): 0,
    code_of(Why.PINNED_ELSEWHERE): 0,
    code_of(Why.GPU_MODEL_MISMATCH): 2,
    code_of(Why.VRAM_TOO_SMALL): 3,
    code_of(Why.VRAM_UNKNOWN): 3,
    code_of(Why.DRIVER_MISMATCH): 3,
    code_of(Why.NODE_TOO_SMALL): 4,
    code_of(Why.REGION_TOO_SMALL): 5,
    code_of(Why.DATA_UNREACHABLE): 6,
    code_of(Why.DATA_MAY_NOT_LEAVE): 6,
}
"""How far a region came through the filters; the rules of people (1) come before the nodes."""


def _no_model(job: JobView, snapshot: Snapshot) -> Reason:
    have = sorted(
        {
            node.kind.gpu_model
            for view in snapshot.regions.values()
            if view.facts
            for node in view.facts.nodes
            if node.kind.gpu_model
        }
        | {str(pool.gpu_model) for view in snapshot.regions.values() for pool in view.region.node_pools if pool.gpu_model}
    )
    wanted = " or ".join(job.spec.gpu.models)
    close = difflib.get_close_matches(job.spec.gpu.models[0].upper() if job.spec.gpu.models else "", have, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]}?" if close else ""
    return because(Why.NO_REGION_HAS_MODEL, wanted=wanted or "GPUs", have=", ".join(have) or "none", hint=hint)
