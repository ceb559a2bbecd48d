"""One file of the repository: its bytes, bounded, and what they say; remembered by path and blob id.

Decides what a single file says by itself. How bytes become a value is for whoever implements `Documents`; what files say
about each other is for fleet.py and job_rules.py.

Invariant: a blob is read only after its size was asked, and understood once for each path it stands at; a cache that is
thrown away costs time and changes nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from reconciler.hub.repo_files import Kind, Place, named_job
from reconciler.model.base import Model
from reconciler.model.fleet import Confirmation, Dataset, Links, Team
from reconciler.model.identity import run_hash
from reconciler.model.job import JobSpec
from reconciler.model.names import JobKey
from reconciler.model.policy import Policy, Settings
from reconciler.model.problem import Invalid, Problem
from reconciler.model.region import Region

M = TypeVar("M", bound=Model)

LARGEST_BYTES = 256 * 1024
MODELS: dict[Kind, type[Model]] = {
    Kind.REGION: Region,
    Kind.LINKS: Links,
    Kind.DATASET: Dataset,
    Kind.TEAM: Team,
    Kind.POLICY: Policy,
    Kind.SETTINGS: Settings,
    Kind.CONFIRMATION: Confirmation,
}


class Documents(Protocol):
    """From bytes to values of the model. `path` names the file in problems. Every call raises Invalid."""

    def read_job(self, body: bytes, path: str) -> JobSpec: ...

    def read_config(self, kind: type[M], body: bytes, path: str) -> M: ...

    def locate(self, body: bytes, path: str, pointer: Sequence[str | int]) -> tuple[int, int]:
        """Line and column, from 1, of the value at `pointer` in a file that was read before, or of what comes nearest above."""


@dataclass(frozen=True, slots=True)
class Access:
    """How blobs are had, by object id, and understood. `size` in bytes, without reading."""

    read: Callable[[str], bytes]
    size: Callable[[str], int]
    documents: Documents


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job as its file says. `blob`: the file's object id; `run_hash`: as in model/identity.py."""

    key: JobKey
    spec: JobSpec
    path: str
    blob: str
    run_hash: str


@dataclass(frozen=True, slots=True)
class Broken:
    """A file that was refused. `key`: the job that it names, where that can still be told."""

    problems: tuple[Problem, ...]
    key: JobKey | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong at a place of a file that is sound by itself. Where it does not refuse the file, people are only told."""

    pointer: tuple[str | int, ...]
    code: str
    what: str
    todo: str
    refuses: bool = True


Blob = tuple[str, str]
"""A path and the object id of what stands there."""


@dataclass(slots=True)
class FileCache:
    """What single files say, and where in them findings stand."""

    jobs: dict[Blob, JobFile | Broken] = field(default_factory=dict)
    configs: dict[Blob, Model | Broken] = field(default_factory=dict)
    positions: dict[tuple[Blob, tuple[str | int, ...]], tuple[int, int]] = field(default_factory=dict)


def job_at(blob: Blob, place: Place, access: Access, cache: FileCache) -> JobFile | Broken:
    """The job in a regular file. Raises what `read` raises."""
    known = cache.jobs.get(blob)
    if known is None:
        known = cache.jobs[blob] = _job(blob, place, access)
    return known


def config_at(blob: Blob, place: Place, access: Access, cache: FileCache) -> Model | Broken:
    """The declaration in a regular file. Raises what `read` raises."""
    known = cache.configs.get(blob)
    if known is None:
        known = cache.configs[blob] = _config(blob, place, access, cache)
    return known


def problem_at(blob: Blob, finding: Finding, access: Access, cache: FileCache) -> Problem:
    """The finding with its line and column."""
    key = (blob, finding.pointer)
    position = cache.positions.get(key) if finding.pointer else (0, 0)
    if position is None:
        # Positions are not kept with every file: they would cost more memory than the specs.
        position = cache.positions[key] = access.documents.locate(access.read(blob[1]), blob[0], finding.pointer)
    return Problem(blob[0], *position, finding.code, finding.what, finding.todo)


def _job(blob: Blob, place: Place, access: Access) -> JobFile | Broken:
    path, oid = blob
    if place.problem is not None and not place.name:
        return Broken((place.problem,))
    too_large = _too_large(blob, access)
    if too_large is not None:
        return Broken((place.problem or too_large,))
    body = access.read(oid)
    if place.problem is not None:
        return Broken((place.problem,), _key(place, body))
    try:
        spec = access.documents.read_job(body, path)
    except Invalid as refused:
        return Broken(refused.problems, _key(place, body))
    return JobFile(JobKey(place.name, spec.job_id), spec, path, oid, run_hash(place.name, spec))


def _key(place: Place, body: bytes) -> JobKey | None:
    job_id = named_job(body)
    return JobKey(place.name, job_id) if job_id else None


def _config(blob: Blob, place: Place, access: Access, cache: FileCache) -> Model | Broken:
    too_large = _too_large(blob, access)
    if too_large is not None:
        return Broken((too_large,))
    try:
        value = access.documents.read_config(MODELS[place.kind], access.read(blob[1]), blob[0])
    except Invalid as refused:
        return Broken(refused.problems)
    findings = [*_misnamed(value, place), *(_doubled(value) if isinstance(value, Links) else ())]
    return Broken(tuple(problem_at(blob, finding, access, cache) for finding in findings)) if findings else value


def _too_large(blob: Blob, access: Access) -> Problem | None:
    size = access.size(blob[1])
    if size <= LARGEST_BYTES:
        return None
    what = f"the file has {size} bytes, the limit is {LARGEST_BYTES}"
    return Problem(blob[0], 0, 0, "TooLarge", what, "split it, or keep large content elsewhere")


def _misnamed(value: Model, place: Place) -> Iterator[Finding]:
    if isinstance(value, Region | Dataset | Team) and value.name != place.name:
        what = f"the file is called {place.name}, but declares `{value.name}`"
        yield Finding(("name",), "NameMismatch", what, "rename the file, or change `name`")


def _doubled(links: Links) -> Iterator[Finding]:
    """Two figures for one direction: nobody could say which holds."""
    seen: set[tuple[str, str]] = set()
    for index, link in enumerate(links.links):
        ways = {(link.source, link.target)} | ({(link.target, link.source)} if link.symmetric else set())
        for source, target in sorted(ways & seen):
            what = f"the link from `{source}` to `{target}` is given twice"
            yield Finding(("links", index), "DuplicateLink", what, "keep one; a `symmetric` link gives both directions")
        seen |= ways
