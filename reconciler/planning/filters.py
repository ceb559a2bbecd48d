"""Hard conditions: which regions can take a job at all, and if not, why not, with numbers.

The filters here do not depend on what is free at the moment. Those that say `ever` make a region impossible for the job;
the others say *not now*. A job that every region refuses for ever is impossible, and told so in its first cycle.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from reconciler.model.attempt import Needs
from reconciler.model.gpu import satisfies
from reconciler.model.job import JobSpec
from reconciler.model.pods import node_needs, overlay_fields, wants_rdma
from reconciler.model.quantity import whole
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.region import Region
from reconciler.planning.capacity import Pool
from reconciler.planning.shapes import Free, Kind
from reconciler.planning.snapshot import JobView, RegionView, Snapshot

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Refusal:
    """A region's no. `ever`: it holds as long as specs and declarations stay as they are."""

    reason: Reason
    ever: bool


@dataclass(frozen=True, slots=True)
class Fit:
    """A region's yes: for each wanted model in order of preference, the kinds of node that will do."""

    needs: Needs
    models: tuple[tuple[str | None, tuple[Kind, ...]], ...]


def _no(why: Why, **numbers: float | str | None) -> Refusal:
    return Refusal(because(why, **numbers), ever=True)


def permitted(job: JobView, view: RegionView, snapshot: Snapshot) -> Refusal | None:
    """Rules of people: lists, pins, teams, compliance, kinds of workload, what the region's profile can spell."""
    for rule in _RULES:
        refusal = rule(job, view, snapshot)
        if refusal is not None:
            return refusal
    return None


def _lists(job: JobView, view: RegionView, _: Snapshot) -> Refusal | None:
    name, spec = view.region.name, job.spec
    if spec.allowed_regions is not None and name not in spec.allowed_regions:
        return _no(Why.REGION_NOT_ALLOWED, region=name)
    if name in spec.denied_regions:
        return _no(Why.REGION_DENIED, region=name)
    if name in job.veto:
        return _no(Why.VETOED, region=name)
    if job.pin is not None and name != job.pin:
        return _no(Why.PINNED_ELSEWHERE, pin=job.pin)
    return None


def _team(job: JobView, view: RegionView, snapshot: Snapshot) -> Refusal | None:
    name = view.region.name
    team = snapshot.teams.get(job.key.team)
    if team is not None and team.regions is not None and name not in team.regions:
        return _no(Why.TEAM_MAY_NOT_USE_REGION, team=job.key.team, region=name)
    held = set(view.region.compliance)
    for whose, tags in (("team", team.compliance if team else ()), ("job", job.spec.compliance)):
        missing = sorted(set(tags) - held)
        if missing:
            return _no(Why.NOT_COMPLIANT, region=name, tag=missing[0], whose=whose)
    return None


def _profile(job: JobView, view: RegionView, _: Snapshot) -> Refusal | None:
    name, spec, profile = view.region.name, job.spec, view.region.profile
    if spec.workload not in view.region.workloads:
        return _no(Why.WORKLOAD_KIND_MISSING, region=name, kind=spec.workload)
    if spec.network == "rdma" and profile.rdma is None:
        return _no(Why.RDMA_MISSING, region=name)
    if spec.queue is not None and spec.queue not in profile.queues:
        return _no(Why.QUEUE_MISSING, region=name, queue=spec.queue)
    for toleration in spec.tolerations:
        if toleration not in profile.tolerations:
            return _no(Why.TOLERATION_UNKNOWN, region=name, toleration=toleration)
    return None


def _overlay(job: JobView, view: RegionView, _: Snapshot) -> Refusal | None:
    for field in overlay_fields(job.spec.pod_overlay):
        allowed = view.region.overlay_allowed
        if not any(field == rule or field.startswith(f"{rule}.") for rule in allowed):
            return _no(Why.OVERLAY_NOT_ALLOWED, region=view.region.name, field=field)
    return None


def _manifest(job: JobView, view: RegionView, _: Snapshot) -> Refusal | None:
    words = dict(job.unrendered).get(view.region.name)
    return _no(Why.START_REFUSED, message=words) if words is not None else None


def _namespace(job: JobView, view: RegionView, _: Snapshot) -> Refusal | None:
    if view.facts is not None and job.key.team not in view.facts.namespaces:
        return Refusal(because(Why.NAMESPACE_MISSING, region=view.region.name, team=job.key.team), ever=False)
    return None


Rule = Callable[[JobView, RegionView, Snapshot], Refusal | None]
_RULES: tuple[Rule, ...] = (_lists, _team, _profile, _overlay, _manifest, _namespace)


def reachable(view: RegionView, fresh_seconds: int) -> Refusal | None:
    """Whether the region can be given new jobs now: it is known, not cordoned, and its report is fresh."""
    name = view.region.name
    if view.closed is not None:
        return Refusal(view.closed, ever=False)
    if view.region.drain_by is not None:
        return Refusal(because(Why.DRAINING, region=name, by=view.region.drain_by), ever=False)
    if view.region.cordoned:
        return Refusal(because(Why.CORDONED, region=name), ever=False)
    if view.facts is None or view.report_age_seconds is None:
        return Refusal(because(Why.NO_REPORT, region=name), ever=False)
    if view.report_age_seconds > fresh_seconds:
        age = round(view.report_age_seconds)
        return Refusal(because(Why.REPORT_STALE, region=name, age_seconds=age, limit_seconds=fresh_seconds), ever=False)
    return None


_UNREADABLE = (ArithmeticError, AttributeError, TypeError, ValueError)
"""What is raised where a partial pod is none: its fields are anybody's, and one bad pod must not end the pass."""


def needs_in(spec: JobSpec, region: Region) -> Needs | Refusal:
    """What each node of the job requests there; a refusal where its pod cannot be put together."""
    try:
        return node_needs(spec, region.profile)
    except _UNREADABLE as error:
        message = f"its pod_overlay and the profile of {region.name} make no pod: {error or type(error).__name__}"
        return _no(Why.START_REFUSED, message=message)


def suited(job: JobView, view: RegionView, nodes: dict[Kind, Pool]) -> Fit | Refusal:
    """Whether the job fits the region's nodes when they are empty: GPU model, VRAM, driver, taints, shape, number."""
    spec, name = job.spec, view.region.name
    needs = needs_in(spec, view.region)
    if isinstance(needs, Refusal):
        return needs
    kinds = _open_to(spec, view.region, nodes)
    with_rdma = [kind for kind in kinds if kind.rdma]
    if spec.network == "rdma":
        return _fitting(spec, needs, name, nodes, with_rdma) if with_rdma else _no(Why.RDMA_MISSING, region=name)
    if with_rdma and wants_rdma(spec) and view.region.profile.rdma and view.region.profile.rdma.resources:
        # Its pods will ask for RDMA here, so nodes without it cannot take them.
        fit, without = (_fitting(spec, needs, name, nodes, some) for some in (with_rdma, kinds))
        return _no(Why.RDMA_MISSING, region=name) if isinstance(fit, Refusal) and isinstance(without, Fit) else fit
    return _fitting(spec, needs, name, nodes, kinds)


def _fitting(spec: JobSpec, needs: Needs, name: str, nodes: dict[Kind, Pool], kinds: Sequence[Kind]) -> Fit | Refusal:
    if not needs.gpus:
        return _shaped(needs, spec.nodes, name, nodes, ((None, tuple(kinds)),))
    right = _right_gpus(spec, name, [kind for kind in kinds if kind.gpu_model is not None])
    if isinstance(right, Refusal):
        return right
    return _shaped(needs, spec.nodes, name, nodes, right)


def _open_to(spec: JobSpec, region: Region, nodes: dict[Kind, Pool]) -> list[Kind]:
    """Kinds of node whose taints the job's pods tolerate."""
    profile = region.profile
    everybody = [item for item in profile.pod.get("tolerations") or () if isinstance(item, dict)]
    if any(not item.get("key") and item.get("operator") == "Exists" for item in everybody):
        return list(nodes)
    tolerated = {profile.tolerations[name].key for name in spec.tolerations if name in profile.tolerations}
    tolerated |= {str(item.get("key")) for item in everybody} | ({profile.gpu_resource} if spec.gpu.count else set())
    return [kind for kind in nodes if set(kind.taints) <= tolerated]


Models = tuple[tuple[str | None, tuple[Kind, ...]], ...]


def _right_gpus(spec: JobSpec, region: str, kinds: Sequence[Kind]) -> Models | Refusal:
    """The wanted models that are here, in the job's order, with the kinds that have enough VRAM and the right driver."""
    have = ", ".join(sorted({str(kind.gpu_model) for kind in kinds})) or "no GPUs"
    wanted = spec.gpu.models
    groups: list[tuple[str | None, list[Kind]]] = (
        [(model, [kind for kind in kinds if satisfies(str(kind.gpu_model), model)]) for model in wanted]
        if wanted
        else [(None, list(kinds))]
    )
    if not any(group for _, group in groups):
        return _no(Why.GPU_MODEL_MISMATCH, region=region, wanted=" or ".join(wanted) or "GPU", have=have)
    candidates = [kind for _, group in groups for kind in group]
    small = _vram(spec, region, candidates) or _driver(spec, region, candidates)
    if small is not None:
        return small
    good = {kind for kind in candidates if _has_vram(spec, kind) and _has_driver(spec, kind)}
    return tuple((model, tuple(kind for kind in group if kind in good)) for model, group in groups if set(group) & good)


def _has_vram(spec: JobSpec, kind: Kind) -> bool:
    # Cards report a little less than their name says (81559Mi on an 80 GB card): a twentieth is forgiven.
    return spec.gpu.memory is None or (kind.vram_bytes is not None and kind.vram_bytes * 20 >= whole(spec.gpu.memory) * 19)


def _vram(spec: JobSpec, region: str, kinds: Sequence[Kind]) -> Refusal | None:
    if any(_has_vram(spec, kind) for kind in kinds):
        return None
    known = [kind.vram_bytes for kind in kinds if kind.vram_bytes is not None]
    if not known:
        return _no(Why.VRAM_UNKNOWN, region=region, model=kinds[0].gpu_model)
    wanted = whole(spec.gpu.memory or 0) / GIB
    return _no(Why.VRAM_TOO_SMALL, region=region, have_gib=round(max(known) / GIB, 1), wanted_gib=round(wanted, 1))


@lru_cache(maxsize=4096)
def _driver_matches(driver: str, wanted: str) -> bool:
    try:
        return SpecifierSet(wanted).contains(Version(driver), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return False


def _has_driver(spec: JobSpec, kind: Kind) -> bool:
    return spec.gpu.driver is None or (kind.driver is not None and _driver_matches(kind.driver, spec.gpu.driver))


def _driver(spec: JobSpec, region: str, kinds: Sequence[Kind]) -> Refusal | None:
    if any(_has_driver(spec, kind) and _has_vram(spec, kind) for kind in kinds):
        return None
    have = ", ".join(sorted({kind.driver or "unknown" for kind in kinds if _has_vram(spec, kind)}))
    return _no(Why.DRIVER_MISMATCH, region=region, have=have, wanted=spec.gpu.driver)


RESOURCES = (
    ("GPUs", "gpus", 1),
    ("CPU cores", "cpu_milli", 1000),
    ("GiB of memory", "memory_bytes", GIB),
    ("GiB of disk", "disk_bytes", GIB),
)
"""What is looked at, in this order: its word, its field in Needs and Free, how many of the field's units make one."""


def lacking(needs: Needs, short_of: Callable[[Needs], bool]) -> tuple[float, str]:
    """The first resource that alone is short, as amount per node and word; all of them together where none alone is."""
    for word, field, unit in RESOURCES:
        amount = getattr(needs, field)
        if amount and short_of(Needs(**{field: amount})):
            return _plain(amount / unit), word
    return (needs.gpus, "GPUs") if needs.gpus else (_plain(needs.cpu_milli / 1000), "CPU cores")


def _shaped(needs: Needs, wanted: int, region: str, nodes: dict[Kind, Pool], models: Models) -> Fit | Refusal:
    """Drop models whose empty nodes are too small or too few; refuse with the nearest miss where none is left."""
    fitting = tuple((model, kinds) for model, kinds in models if _count(needs, wanted, nodes, kinds) >= wanted)
    if fitting:
        return Fit(needs, fitting)
    lines = [line for _, kinds in models for kind in kinds for line in nodes[kind]]
    have = max((_count(needs, wanted, nodes, kinds) for _, kinds in models), default=0)
    if have:
        return _no(Why.REGION_TOO_SMALL, region=region, have=have, wanted=wanted)
    return _too_small(needs, region, lines)


def _count(needs: Needs, wanted: int, nodes: dict[Kind, Pool], kinds: Iterable[Kind]) -> int:
    return min(wanted, sum(line.times(needs) * count for kind in kinds for line, count in nodes[kind].items()))


def _too_small(needs: Needs, region: str, lines: Sequence[Free]) -> Refusal:
    for word, field, unit in RESOURCES:
        largest = max((getattr(line, field) for line in lines), default=0)
        need = getattr(needs, field)
        if need > largest:
            return _no(
                Why.NODE_TOO_SMALL, region=region, largest=_plain(largest / unit), resource=word, wanted=_plain(need / unit)
            )
    # Each resource alone would fit somewhere, but no node has all of them.
    best = max(lines, key=lambda line: (line.gpus, line.cpu_milli, line.memory_bytes), default=Free(0, 0, 0, 0, 0))
    return _no(
        Why.NODE_TOO_SMALL,
        region=region,
        largest=f"{best.gpus} GPUs with {best.cpu_milli // 1000} cores and {best.memory_bytes // GIB}",
        resource="GiB",
        wanted=f"{needs.gpus} GPUs with {_plain(needs.cpu_milli / 1000)} cores and {_plain(needs.memory_bytes / GIB)} GiB",
    )


def _plain(number: float) -> float:
    return int(number) if number == int(number) else round(number, 2)
