"""The status branch: records of jobs, refused files, what the hub itself must not forget. JSON: same value, same bytes."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError

from reconciler.model.base import Many, Model
from reconciler.model.names import JobKey, job_at, record_path
from reconciler.model.record import JobRecord
from reconciler.model.region import LossTimes
from reconciler.model.region_state import RegionCondition
from reconciler.model.report import RegionSummary
from reconciler.ports import EntryKind, TreeEntry

HUB_FILE = "hub.json"
REJECTED_FILE = "rejected.json"
FLEET_FILE = "fleet.json"
README_FILE = "README.md"
IN_FORCE = "inforce/"
"""Below it stand the declarations in force, as the very blobs of main: they survive a rewritten main, and cost nothing."""


class Suspicion(Model):
    """A change of main that looks like an accident."""

    main: str
    """The commit that has to be confirmed; empty where main itself is gone."""
    kind: Literal["gone", "unreadable", "rewound"]
    gone: int
    live: int
    since: datetime


class Trouble(Model):
    """Something that a person should look at."""

    subject: str
    """A region, a branch, a path."""
    code: str
    what: str
    since: datetime | None = None


class WordNoted(Model):
    """A person's word of a region, as a hub read it."""

    blob: str
    """Of its file: another one is another word."""
    report: str = ""
    """Which report of the region stood there when the word was first read; empty for none."""
    is_void: bool = False
    """Whether the region was heard of since, so that the word says nothing of any silence any more."""


class HubFile(Model):
    """hub.json: what is true of the hub as a whole."""

    schema_version: Literal[1] = 1
    main: str | None = None
    """The commit of main that was last taken in."""
    suspicion: Suspicion | None = None
    troubles: Many[Trouble] = ()
    term: int = 0
    """Of the hub that writes here: one of an earlier term writes nothing any more."""
    holder: str = ""
    """That hub."""
    store: str = ""
    """The id of the object store that it goes with."""
    regions: dict[str, RegionCondition] = Field(default_factory=dict)
    """The regions that are not heard of, or were given up."""
    crowded: dict[str, datetime] = Field(default_factory=dict)
    """`<source> → <target>` of links of which transfers hold more than may be used, and since when."""
    loss: dict[str, LossTimes] = Field(default_factory=dict)
    """The times of the regions that have some of their own; of one that is declared no more while attempts stand there."""
    words: dict[str, WordNoted] = Field(default_factory=dict)
    """What people say of regions, by the path of the file."""


class RejectedFile(Model):
    """One refused file or one remark, in rejected.json."""

    path: str
    line: int
    column: int
    code: str
    what: str
    todo: str
    since: datetime


class Rejected(Model):
    """rejected.json."""

    schema_version: Literal[1] = 1
    problems: Many[RejectedFile] = ()


M = TypeVar("M", bound=Model)


class FleetRegion(Model):
    """One region as a decision saw it."""

    incarnation: str
    sequence: int
    summary: RegionSummary


class FleetFile(Model):
    """fleet.json: the regional state that the last decisions used."""

    schema_version: Literal[1] = 1
    regions: dict[str, FleetRegion] = Field(default_factory=dict)


class Corrupt(Exception):
    """A file of the ledger cannot be read. Nothing may be decided over its job until a person has looked."""


def written(model: Model) -> bytes:
    """A machine file: JSON with sorted keys, a line a field, fields at their default left out but for the schema version."""
    content: dict[str, Any] = model.model_dump(mode="json", exclude_defaults=True)
    if "schema_version" in type(model).model_fields:
        content["schema_version"] = 1
    return (_pretty(content, "\n") + "\n").encode()


_plain = json.JSONEncoder(ensure_ascii=False).encode


def _pretty(value: Any, margin: str) -> str:
    """What `json.dumps` says with `indent=1, sort_keys=True`; that hands every value through a generator for each level above it.

    `margin`: a line's end and the indentation of the next one.
    """
    inner = margin + " "
    if value and isinstance(value, dict):
        fields = [f"{inner}{_plain(name)}: {_pretty(value[name], inner)}" for name in sorted(value)]
        return f"{{{','.join(fields)}{margin}}}"
    if value and isinstance(value, list | tuple):
        return f"[{','.join([inner + _pretty(item, inner) for item in value])}{margin}]"
    return _plain(value)


@dataclass(slots=True)
class LedgerCache:
    """Records by blob. May vanish at any time."""

    records: dict[str, JobRecord] = field(default_factory=dict)
    keys: dict[str, JobKey] = field(default_factory=dict)
    """Path → the job whose record stands there."""

    def keep_only(self, blobs: set[str]) -> None:
        """Forget records of blobs that the ledger has no more, once they are many."""
        if len(self.records) > 2 * len(blobs) + 64:
            self.records = {blob: record for blob, record in self.records.items() if blob in blobs}


@dataclass(frozen=True, slots=True)
class Ledger:
    """The status branch at one commit."""

    records: Mapping[JobKey, JobRecord]
    blobs: Mapping[JobKey, str]
    hub: HubFile
    rejected: Rejected
    in_force: Mapping[str, str]
    corrupt: Mapping[str, str]
    """Path → why, of records that cannot be read; their jobs are left alone."""

    @property
    def unread(self) -> frozenset[JobKey]:
        """Jobs whose record cannot be read: what becomes of them is for a person to say."""
        return frozenset(key for path in self.corrupt if (key := job_at(path)) is not None)


def read_ledger(entries: Mapping[str, TreeEntry], read: Callable[[str], bytes], cache: LedgerCache) -> Ledger:
    """The ledger from all entries of the status branch. Raises Corrupt where hub.json itself cannot be read."""
    records: dict[JobKey, JobRecord] = {}
    blobs: dict[JobKey, str] = {}
    corrupt: dict[str, str] = {}
    for path, entry in entries.items():
        if not path.startswith("jobs/") or entry.kind is not EntryKind.FILE:
            continue
        record = cache.records.get(entry.oid)
        if record is None:
            try:
                record = cache.records[entry.oid] = JobRecord.model_validate_json(read(entry.oid))
            except ValidationError as error:
                corrupt[path] = _first_fault(error)
                continue
        key = cache.keys.get(path) or job_at(path)
        if key is None or record.job_id != key.job_id or record.team != key.team:
            corrupt[path] = f"it is the record of {record.key}"
            continue
        cache.keys[path] = key
        records[key] = record
        blobs[key] = entry.oid
    cache.keep_only(set(blobs.values()))
    return Ledger(
        records,
        blobs,
        _single(entries, read, HUB_FILE, HubFile),
        _single(entries, read, REJECTED_FILE, Rejected),
        {path.removeprefix(IN_FORCE): entry.oid for path, entry in entries.items() if path.startswith(IN_FORCE)},
        corrupt,
    )


def without(ledger: Ledger, corrupt: Mapping[str, str]) -> Ledger:
    """The ledger without the records at these paths, which are told to be unusable."""
    lost = {key for key in ledger.records if record_path(key) in corrupt}
    records = {key: record for key, record in ledger.records.items() if key not in lost}
    blobs = {key: blob for key, blob in ledger.blobs.items() if key not in lost}
    return replace(ledger, records=records, blobs=blobs, corrupt={**ledger.corrupt, **corrupt})


def _single(entries: Mapping[str, TreeEntry], read: Callable[[str], bytes], path: str, kind: type[M]) -> M:
    entry = entries.get(path)
    if entry is None:
        return kind()
    try:
        return kind.model_validate_json(read(entry.oid))
    except ValidationError as error:
        raise Corrupt(
            f"{path} on the status branch cannot be read: {_first_fault(error)}; restore it from its last good commit"
        ) from error


def _first_fault(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'its beginning'}: {first['msg']}"
