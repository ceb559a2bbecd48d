"""Equal jobs are filtered and scored once: what a pass knows of a class of jobs, before it looks at what is free.

Two jobs are of one class when nothing that a filter, an estimate or a term reads differs between them.
"""

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from reconciler.model.attempt import Needs
from reconciler.model.gpu import satisfies
from reconciler.model.job import JobSpec
from reconciler.model.policy import Weights
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.region import Region
from reconciler.planning.capacity import Pool
from reconciler.planning.compliance import Misplaced, misplaced, refused_for, stores_of
from reconciler.planning.decisions import Expected
from reconciler.planning.filters import Fit, Refusal, lacking, needs_in, permitted, reachable, suited
from reconciler.planning.haste import haste_of
from reconciler.planning.images import image_refusal, image_share, images_of
from reconciler.planning.impossible import why_never
from reconciler.planning.kept import addresses
from reconciler.planning.scoring import Best, Facts, Terms, best_of, fixed_terms, weights_for
from reconciler.planning.shapes import Kind
from reconciler.planning.snapshot import JobView, RegionView, Snapshot
from reconciler.planning.transfer import Move, moving


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the GPU models that will do, in one region, and how it rates there: prices differ from model to model."""

    preference: int
    """Its place in the job's own list."""
    model: str | None
    kinds: tuple[Kind, ...]
    facts: Facts
    terms: Terms
    fixed_score: float


@dataclass(frozen=True, slots=True)
class Option:
    """A region that could run jobs of the class if it had room."""

    region: str
    needs: Needs
    choices: tuple[Choice, ...]
    """In the job's order of preference; at least one."""
    kinds: tuple[Kind, ...]
    """Of all choices together."""
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
    never: Reason | None
    """Why no region can ever run the job; None where one could."""
    exhausted: set[tuple[str, int]] = field(default_factory=set)
    """(region, preference) found without room. Room only shrinks during a pass, so it need not be asked again."""
    full: dict[str, Reason] = field(default_factory=dict)
    """Why each region had no room when that was found."""
    expected: tuple[Expected | None] | None = None
    """Where a job of it that waits will probably start, once that was asked."""


def class_key(job: JobView) -> Hashable:
    """Everything of a job that its class is made from."""
    spec = job.spec
    return (
        job.key.team,
        job.pin,
        job.veto,
        job.avoid,
        job.unrendered,
        # Without data to move, prices compare by the hour and no start depends on how long the job runs.
        job.run_seconds if spec.dataset is not None or spec.deadline is not None else None,
        spec.gpu,
        spec.nodes,
        spec.resources,
        spec.network,
        spec.communication_mode,
        spec.workload,
        spec.dataset,
        job.kept,
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

    def __init__(self, snapshot: Snapshot, nodes: Mapping[str, dict[Kind, Pool]], now: datetime) -> None:
        self._snapshot = snapshot
        self._now = now
        self._nodes = nodes
        self._models = tuple(sorted({kind.gpu_model for kinds in nodes.values() for kind in kinds if kind.gpu_model is not None}))
        fresh = snapshot.policy.thresholds.report_fresh_seconds
        self._blocked = {name: reachable(view, fresh) for name, view in snapshot.regions.items()}
        self._regions = sorted(snapshot.regions.items())
        self._addresses = addresses(snapshot.datasets)
        self._stores = stores_of(snapshot.regions)
        self._suited: dict[Hashable, dict[str, _Shaped | Refusal]] = {}
        self._moves: dict[Hashable, dict[str, Move | Refusal]] = {}
        self._permitted: dict[Hashable, dict[str, Refusal | None]] = {}

    def key(self, job: JobView) -> Hashable:
        """What tells its class from others in this snapshot."""
        images = images_of(job.spec, job.kept_image) if self._snapshot.images or self._snapshot.image_seconds else None
        return class_key(job), images, self._misplaced(job)

    def _misplaced(self, job: JobView) -> tuple[Misplaced, ...]:
        return misplaced(job, self._snapshot, self._addresses, self._stores)

    def classify(self, job: JobView) -> JobClass:
        """What holds for every job of this one's class."""
        name, weights = weights_for(job.spec, self._snapshot.policy)
        refused: dict[str, Refusal] = {}
        fits: dict[str, tuple[Fit, tuple[Facts, ...]]] = {}
        permitted_in, suited_in, moves_to = self._rules(job), self._shapes(job), self._transfers(job)
        pulls = self._snapshot.image_seconds.get(job.image, {})
        broken = self._misplaced(job)
        for region, view in self._regions:
            suits, move, pull = suited_in[region], moves_to[region], image_refusal(job, view.region, self._snapshot)
            answers = (permitted_in[region], refused_for(broken, region), suits, move, pull)
            noes = [answer for answer in answers if isinstance(answer, Refusal)]
            if noes:  # what holds for ever is what must be mended
                refused[region] = next((refusal for refusal in noes if refusal.ever), noes[0])
            elif isinstance(suits, tuple) and isinstance(move, Move):
                image = pulls.get(region, 0.0), image_share(job, region, self._snapshot)
                fits[region] = (suits[0], tuple(Facts(move, usd, rdma, *image) for usd, rdma in suits[1]))
        best = best_of([fact for _, facts in fits.values() for fact in facts], job.run_seconds)
        options = tuple(
            self._option(job, region, fit, [(fact, self._terms(job, fact, best, weights)) for fact in facts])
            for region, (fit, facts) in fits.items()
        )
        refused |= _unknown_regions(job, self._snapshot)
        never = None if options else why_never(job, refused, bool(self._regions), self._models)
        reasons = {region: refusal.reason for region, refusal in refused.items()}
        return JobClass(options, refused, reasons, name, weights, never)

    def _terms(self, job: JobView, facts: Facts, best: Best, weights: Weights) -> Terms:
        return fixed_terms(job.spec, facts, best, weights, self._snapshot.policy)

    def _rules(self, job: JobView) -> dict[str, Refusal | None]:
        spec = job.spec
        people = (job.key.team, job.pin, job.veto, spec.allowed_regions, spec.denied_regions, spec.compliance)
        key = (people, job.unrendered, spec.workload, spec.network, spec.queue, spec.tolerations, _overlay_key(spec))
        found = self._permitted.get(key)
        if found is None:
            found = self._permitted[key] = {name: permitted(job, view, self._snapshot) for name, view in self._regions}
        return found

    def _shapes(self, job: JobView) -> dict[str, "_Shaped | Refusal"]:
        spec = job.spec
        key = (spec.gpu, spec.nodes, spec.resources, spec.network, spec.communication_mode, spec.tolerations, _overlay_key(spec))
        found = self._suited.get(key)
        if found is None:
            found = self._suited[key] = {name: self._shape(job, view) for name, view in self._regions}
        return found

    def _shape(self, job: JobView, view: RegionView) -> "_Shaped | Refusal":
        nodes, needs = self._nodes[view.region.name], needs_in(job.spec, view.region)
        if not nodes and isinstance(needs, Needs):  # none declared, none reported: nobody can say that it will never fit
            return self._blocked[view.region.name] or _no_nodes(job.spec, needs, view.region.name)
        fit = suited(job, view, nodes)
        if isinstance(fit, Refusal):
            return fit
        has_rdma = view.region.profile.rdma is not None
        return fit, tuple(
            (hourly_usd(job.spec, view.region, fit.needs, kinds), has_rdma and any(kind.rdma for kind in kinds))
            for _, kinds in fit.models
        )

    def _transfers(self, job: JobView) -> dict[str, Move | Refusal]:
        haste = haste_of(job, self._now, self._snapshot.policy.thresholds)
        key = (job.spec.dataset, job.kept, haste if job.spec.dataset is not None else None)
        found = self._moves.get(key)
        if found is None:
            found = self._moves[key] = {
                name: moving(job, view.region, self._snapshot, self._addresses, haste) for name, view in self._regions
            }
        return found

    def _option(self, job: JobView, region: str, fit: Fit, rated: Sequence[tuple[Facts, Terms]]) -> Option:
        models = job.spec.gpu.models
        choices = tuple(
            Choice(
                0 if model is None else models.index(model),
                model,
                kinds,
                facts,
                terms,
                sum([value * weight for _, value, weight in terms]),
            )
            for (model, kinds), (facts, terms) in zip(fit.models, rated, strict=True)
        )
        kinds = tuple(dict.fromkeys(kind for _, kinds in fit.models for kind in kinds))
        return Option(region, fit.needs, choices, kinds, self._blocked[region])


_Shaped = tuple[Fit, tuple[tuple[float | None, bool], ...]]
"""A region's yes; for each of the fit's models what all GPUs cost an hour, and whether there is RDMA."""


def _no_nodes(spec: JobSpec, needs: Needs, region: str) -> Refusal:
    """A region that is heard of but has no node at present: it may get some."""
    per_node, resource = lacking(needs, lambda _: True)
    numbers: dict[str, float | str] = {"free_nodes": 0, "wanted": spec.nodes, "per_node": per_node, "resource": resource}
    return Refusal(because(Why.NOT_ENOUGH_FREE, region=region, **numbers), ever=False)


def _overlay_key(spec: JobSpec) -> str:
    return json.dumps(spec.pod_overlay, sort_keys=True) if spec.pod_overlay else ""


def hourly_usd(spec: JobSpec, region: Region, needs: Needs, kinds: Iterable[Kind]) -> float | None:
    """What all GPUs of the job cost an hour on nodes of these kinds, at most; None where a price is not known."""
    if not needs.gpus:
        return 0.0
    dearest = 0.0
    for model in {str(kind.gpu_model) for kind in kinds}:
        prices = [usd for own, usd in region.prices.items() if satisfies(model, own)]
        if not prices:
            return None
        dearest = max(dearest, *prices)
    return dearest * needs.gpus * spec.nodes


def _unknown_regions(job: JobView, snapshot: Snapshot) -> dict[str, Refusal]:
    named = set(job.spec.allowed_regions or ()) | ({job.pin} if job.pin else set())
    known = ", ".join(sorted(snapshot.regions)) or "none"
    return {
        region: Refusal(because(Why.NO_SUCH_REGION, region=region, known=known), ever=True)
        for region in sorted(named - snapshot.regions.keys())
    }
