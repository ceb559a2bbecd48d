"""What a job's file must keep to beside its own schema: the team, the datasets and the policy that others declare.

Decides which jobs are refused before anybody plans for them. Which region could take a job is for planning: a region that
does not exist there makes a job impossible, not its file wrong.

Invariant: a job passes only where its team's and its datasets' rules can be read. That the policy can be is for the caller to
see to (`Sources.unread`): one broken policy is one problem, not one for each job.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.hub.fleet import Fleet, unknown
from reconciler.hub.reading import Finding, JobFile
from reconciler.hub.repo_files import did_you_mean
from reconciler.model.fleet import Dataset
from reconciler.model.image_ref import image_problem
from reconciler.model.job import JobSpec
from reconciler.model.job_parts import DatasetUse
from reconciler.model.policy import Limits
from reconciler.rendering.overlay import reserved_problems

_COPIED = frozenset({"s3", "file"})


@dataclass(frozen=True, slots=True)
class Rules:
    """The fleet, and the names that main declares, whether their files can be read or not."""

    fleet: Fleet
    regions: frozenset[str]
    datasets: frozenset[str]
    teams: frozenset[str]


def findings_in(job: JobFile, rules: Rules) -> Iterator[Finding]:
    """All that is wrong with a job in view of what others declare."""
    if job.key.team not in rules.fleet.teams:
        yield _no_team(job.key.team, rules.teams)
    yield from _beyond_limits(job, rules.fleet.policy.limits)
    yield from _wrong_regions(job.spec, rules.regions)
    yield from _not_to_be_rendered(job.spec)
    yield from _not_to_be_copied(job.spec)
    for pointer, use in _uses(job.spec):
        if use.name is not None:
            yield from _wrong_dataset(pointer, use, use.name, rules)


def _no_team(team: str, declared: frozenset[str]) -> Finding:
    if team in declared:
        return Finding((), "TeamUnreadable", f"teams/{team}.yaml is broken, so its rights are not known", "mend that file")
    return unknown((), "team", team, declared, refuses=True)


def _not_to_be_rendered(spec: JobSpec) -> Iterator[Finding]:
    """What no region could make a pod of: names that are ours, images that are none."""
    for problem in reserved_problems(spec):
        what, _, todo = problem.partition("; ")
        field, _, name = what.partition(": ")[0].partition(".")
        yield Finding((field, name) if field in {"env", "labels"} else (field,), "ReservedName", what, todo)
    images: list[tuple[tuple[str, ...], str]] = [(("image",), spec.image)]
    if spec.prepare is not None and spec.prepare.image is not None:
        images.append((("prepare", "image"), spec.prepare.image))
    for pointer, image in images:
        wrong = image_problem(image)
        if wrong is not None:
            what, _, todo = wrong.partition("; ")
            yield Finding(pointer, "BadImage", f"{'.'.join(pointer)}: {what}", todo or "write a shorter one")


def _not_to_be_copied(spec: JobSpec) -> Iterator[Finding]:
    """What our own steps would have to copy, and cannot. What only the program opens may be anywhere."""
    copied: list[tuple[tuple[str | int, ...], str | None]] = [(("checkpoint_path",), spec.checkpoint_path)]
    copied += [((*pointer, "uri"), use.uri) for pointer, use in _uses(spec) if use.mount_path is not None]
    for at, uri in copied:
        scheme = uri.partition("://")[0] if uri is not None else None
        if scheme is not None and scheme not in _COPIED:
            what = f"nothing here can copy {scheme}:// addresses, and this one has to be copied"
            yield Finding(at, "UnsupportedStore", what, "give s3://bucket/path/ or file:///folder/")


def _beyond_limits(job: JobFile, limits: Limits) -> Iterator[Finding]:
    spec = job.spec
    asked = (
        ("priority", spec.priority_value, limits.max_priority),
        ("max_runtime_seconds", spec.max_runtime_seconds, limits.max_runtime_seconds),
        ("nodes", spec.nodes, limits.max_nodes),
    )
    for field, value, limit in asked:
        if value is not None and limit is not None and value > limit:
            yield Finding((field,), "LimitExceeded", f"{field} is {value}, the policy allows {limit}", f"ask for at most {limit}")
    if spec.pod_overlay and job.key.team not in limits.overlay_teams:
        what = f"the policy does not let team {job.key.team} set a pod_overlay"
        yield Finding(("pod_overlay",), "LimitExceeded", what, "remove it, or have the team added to `limits.overlay_teams`")


def _wrong_regions(spec: JobSpec, known: frozenset[str]) -> Iterator[Finding]:
    """Only names that are probably misspelt. A misspelt denial refuses the job: it would run where it must not."""
    for field, names in (("allowed_regions", spec.allowed_regions or ()), ("denied_regions", spec.denied_regions)):
        for index, name in enumerate(names):
            if name not in known and did_you_mean(name, known, likeness=0.8):
                yield unknown((field, index), "region", name, known, refuses=field == "denied_regions")


def _uses(spec: JobSpec) -> Iterator[tuple[tuple[str | int, ...], DatasetUse]]:
    if isinstance(spec.dataset, DatasetUse):
        yield ("dataset",), spec.dataset
    elif isinstance(spec.dataset, tuple):
        for index, use in enumerate(spec.dataset):
            if isinstance(use, DatasetUse):
                yield ("dataset", index), use


def _wrong_dataset(pointer: tuple[str | int, ...], use: DatasetUse, name: str, rules: Rules) -> Iterator[Finding]:
    registered = rules.fleet.datasets.get(name)
    if registered is not None:
        if use.uri is not None and use.uri.rstrip("/") not in _addresses(registered):
            what = f"datasets/{name}.yaml does not give this address for `{name}`"
            yield Finding((*pointer, "uri"), "DatasetMismatch", what, "remove `uri`, or use another `name`")
    elif name in rules.datasets:
        what = f"datasets/{name}.yaml is broken, so where it is and may go is not known"
        yield Finding((*pointer, "name"), "DatasetUnreadable", what, "mend that file")
    elif use.uri is None:
        yield unknown((*pointer, "name"), "dataset", name, rules.datasets, refuses=True)


def _addresses(dataset: Dataset) -> set[str]:
    copies = (replica.uri for replica in dataset.replicas if replica.uri is not None)
    return {uri.rstrip("/") for uri in (dataset.uri, *copies)}
