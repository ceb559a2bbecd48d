"""What main says: all jobs and the fleet, read from one commit's tree, each file by its own merits.

Decides which files are taken, which are refused and why, and what of the refused can still be told. What becomes of a job
whose file is broken, doubled or gone is for the cycle.

Invariant: the answer is a function of the tree and of the versions that were in force before; the order of the entries
and the state of the cache do not show in it. One bad file never affects another.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from reconciler.hub.fleet import Declared, Fleet, Found, Word, declared, fleet_of, remarks
from reconciler.hub.job_rules import Rules, findings_in
from reconciler.hub.reading import Access, Blob, Broken, Documents, FileCache, Finding, JobFile, job_at, problem_at
from reconciler.hub.repo_files import SUFFIXES, Kind, Place, path_of, place_of, printable
from reconciler.model.names import JobKey
from reconciler.model.problem import Problem
from reconciler.ports import EntryKind, TreeEntry

__all__ = ["Documents", "Fleet", "JobFile", "ParseCache", "Sources", "read_sources"]


@dataclass(frozen=True, slots=True)
class Sources:
    """What one commit of main says."""

    jobs: Mapping[JobKey, JobFile]
    """Jobs that may be taken as they are."""
    fleet: Fleet
    problems: tuple[Problem, ...]
    """All that is wrong, sorted. A job's file was refused where it is in `broken` or `conflicts`, a declaration where main's
    blob is not the one in force; the other problems only tell."""
    broken: Mapping[str, JobKey | None]
    """Path of each refused job file → the job it names; None where that cannot be told, and then a job that seems to be gone
    may be this one. A job that is in `jobs` as well is sound there."""
    conflicts: Mapping[JobKey, tuple[str, ...]]
    """Jobs that two or more files name, and those files; none of them is in `jobs`."""
    in_force: Mapping[str, str]
    """Path → blob of the version in force of every declaration; the next call's `previous`."""
    unread: frozenset[str]
    """Where declarations should stand that have no valid version at all. With `policy.yaml` here the default policy is in
    `fleet`, which is not what anybody meant: nothing new should be placed."""
    confirmations: frozenset[str]
    """Commits of main that a person has confirmed."""
    words: tuple[Word, ...] = ()
    """What people have said of regions that are not heard of."""


Verdict = tuple[tuple[Problem, ...], bool]
"""Problems of a job, and whether they refuse it."""


@dataclass(slots=True)
class ParseCache(FileCache):
    """What is remembered from one call to the next. Throwing it away costs time and changes nothing."""

    places: dict[str, Place | None] = field(default_factory=dict)
    rules: tuple[tuple[object, ...], Rules, tuple[Problem, ...]] | None = None
    """What they were made from, the rules, and the remarks on their files."""
    verdicts: dict[Blob, Verdict] = field(default_factory=dict)
    """On each job under these rules."""


_PASSED: Final[Verdict] = ((), False)


def read_sources(
    entries: Mapping[str, TreeEntry],
    read: Callable[[str], bytes],
    size: Callable[[str], int],
    previous: Mapping[str, str],
    cache: ParseCache,
    documents: Documents,
) -> Sources:
    """Read all of main. `entries`: every file of the commit; `previous`: the last call's `in_force`, path → blob.

    `read` and `size` (bytes) take an object id. Raises what they raise; nothing else.
    """
    access = Access(read, size, documents)
    job_files, others = _sorted_out(entries, cache)
    found = declared((each for each in others if each.place.kind is not Kind.JOB), previous, access, cache)
    rules, told = _rules(found, frozenset(place.name for _, place in job_files if place.name), access, cache)
    unread_jobs = [each for each in others if each.place.kind is Kind.JOB]
    problems = [*found.problems, *told, *(each.place.problem for each in unread_jobs if each.place.problem is not None)]
    jobs, broken, conflicts = _jobs(job_files, rules, access, cache, problems)
    _forget(cache, entries, job_files, {(each.path, each.entry.oid) for each in others} | set(found.in_force.values()))
    return Sources(
        jobs=jobs,
        fleet=rules.fleet,
        problems=tuple(sorted(problems)),
        broken=broken | {printable(each.path): None for each in unread_jobs if each.path.endswith(SUFFIXES)},
        conflicts=conflicts,
        in_force=dict(found.in_force.values()),
        unread=frozenset(path_of(*slot) for slot in found.unread),
        confirmations=found.confirmed,
        words=found.words,
    )


_NOWHERE = Place(Kind.JOB, "")
"""Not looked at yet."""


def _sorted_out(entries: Mapping[str, TreeEntry], cache: ParseCache) -> tuple[list[tuple[Blob, Place]], list[Found]]:
    """The entries that mean something: regular files of jobs, and all others."""
    jobs: list[tuple[Blob, Place]] = []
    others: list[Found] = []
    places, file, job = cache.places, EntryKind.FILE, Kind.JOB  # of ten thousand entries, each look-up counts
    for path, entry in entries.items():
        is_file = entry.kind is file
        place = places.get(path, _NOWHERE) if is_file else place_of(path, entry)
        if place is _NOWHERE:
            place = places[path] = place_of(path, entry)
        if place is None:
            continue
        if is_file and place.kind is job:
            jobs.append(((path, entry.oid), place))
        else:
            others.append(Found(path, entry, place))
    return jobs, others


def _rules(found: Declared, folders: frozenset[str], access: Access, cache: ParseCache) -> tuple[Rules, tuple[Problem, ...]]:
    """What jobs are held to, and the remarks on the files that say so; made anew only when one of them changes."""
    names = {kind: found.known(kind) for kind in (Kind.REGION, Kind.DATASET, Kind.TEAM)}
    made_from = (found.in_force, found.current, found.unread, folders if not names[Kind.TEAM] else None)
    if cache.rules is None or cache.rules[0] != made_from:
        rules = Rules(fleet_of(found, folders), names[Kind.REGION], names[Kind.DATASET], names[Kind.TEAM])
        told = tuple(problem_at(found.in_force[slot], finding, access, cache) for slot, finding in remarks(found))
        cache.rules = (made_from, rules, told)
        cache.verdicts.clear()
    return cache.rules[1:]


def _jobs(
    files: Iterable[tuple[Blob, Place]], rules: Rules, access: Access, cache: ParseCache, problems: list[Problem]
) -> tuple[dict[JobKey, JobFile], dict[str, JobKey | None], dict[JobKey, tuple[str, ...]]]:
    """The jobs that may be taken, the refused files, the conflicts; what is wrong is added to `problems`."""
    jobs: dict[JobKey, JobFile] = {}
    broken: dict[str, JobKey | None] = {}
    refused: set[JobKey] = set()
    doubled: dict[JobKey, list[JobFile]] = {}
    for blob, place in files:
        job = job_at(blob, place, access, cache)
        if isinstance(job, Broken):
            problems.extend(job.problems)
            broken[printable(blob[0])] = job.key
            continue
        other = jobs.setdefault(job.key, job)
        if other is not job:
            doubled.setdefault(job.key, [other]).append(job)
        verdict = cache.verdicts.get(blob)
        if verdict is None:
            verdict = cache.verdicts[blob] = _verdict(blob, job, rules, access, cache)
        if verdict is not _PASSED:
            problems.extend(verdict[0])
        if verdict[1]:
            refused.add(job.key)
            broken[blob[0]] = job.key
    for job in chain.from_iterable(doubled.values()):
        blob = (job.path, job.blob)
        problems.append(problem_at(blob, _doubled(job, doubled[job.key]), access, cache))
    for key in refused | doubled.keys():
        del jobs[key]
    return jobs, broken, {key: tuple(sorted(job.path for job in both)) for key, both in doubled.items()}


def _verdict(blob: Blob, job: JobFile, rules: Rules, access: Access, cache: ParseCache) -> Verdict:
    findings = list(findings_in(job, rules))
    if not findings:
        return _PASSED
    problems = tuple(problem_at(blob, finding, access, cache) for finding in findings)
    return problems, any(finding.refuses for finding in findings)


def _doubled(job: JobFile, both: Iterable[JobFile]) -> Finding:
    others = sorted(other.path for other in both if other is not job)
    listed = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
    what = f"{listed} names the job `{job.key.job_id}` as well"
    return Finding(("job_id",), "DuplicateJob", what, "keep one of them; until then none is newly taken, and what runs stays")


def _forget(cache: ParseCache, entries: Mapping[str, TreeEntry], jobs: Sequence[tuple[Blob, Place]], configs: set[Blob]) -> None:
    """Drop what no longer stands in the tree, so that the cache never outgrows it."""
    if len(cache.places) > len(entries):
        cache.places = {path: place for path, place in cache.places.items() if path in entries}
    if len(cache.jobs) <= len(jobs) and len(cache.configs) <= len(configs):
        return
    kept = configs.union(blob for blob, _ in jobs)
    cache.jobs = {blob: job for blob, job in cache.jobs.items() if blob in kept}
    cache.configs = {blob: value for blob, value in cache.configs.items() if blob in kept}
    cache.verdicts = {blob: verdict for blob, verdict in cache.verdicts.items() if blob in kept}
    cache.positions = {place: position for place, position in cache.positions.items() if place[0] in kept}
