"""From decisions to files: which paths of which branch become what. Nothing is written here.

A region's manifests follow from the ledger: the files of its attempts that have not ended. They are write-once: added or removed,
never edited; and only those are removed whose attempt has ended in the ledger. Anything else on the branch is left alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reconciler.hub.drafts import Drafts
from reconciler.hub.index import Index
from reconciler.model.names import JobKey
from reconciler.model.record import JobRecord
from reconciler.model.region import Region

MANIFESTS = "manifests/"
SENTINEL = "manifests/_sentinel.yaml"

Changes = dict[str, bytes | None]
"""Path → new bytes, or None to remove it."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The manifests of all regions: what to change, and what could not be rendered."""

    changes: Mapping[str, Changes]
    refused: Mapping[JobKey, str]
    """Job → why its manifest cannot be made; its attempt must not be published."""


def manifest_changes(
    records: Mapping[JobKey, JobRecord],
    index: Index,
    regions: Mapping[str, Region],
    present: Mapping[str, frozenset[str]],
    drafts: Drafts,
) -> Rendered:
    """What every region's branch lacks or has too much. `present`: the manifests that stand on each branch now."""
    changes: dict[str, Changes] = {}
    refused: dict[JobKey, str] = {}
    for region in sorted(regions.keys() | present.keys()):
        there, wanted = present.get(region, frozenset()), index.manifests(region)
        branch: Changes = dict.fromkeys(sorted(path for path in there - wanted.keys() if index.may_leave(region, path)))
        for path in sorted(wanted.keys() - there if region in regions else ()):
            record = records[wanted[path]]
            attempt = record.current
            if attempt is None or attempt.run_hash != record.run_hash:
                continue  # its spec is not the one in force any more
            made = drafts.draft(record, attempt, regions[region])
            if isinstance(made, str):
                refused[record.key] = made
            else:
                branch[path] = made
        if branch:
            changes[region] = branch
    return Rendered(changes, refused)


def changed_records(before: Mapping[JobKey, JobRecord], after: Mapping[JobKey, JobRecord]) -> list[JobRecord]:
    """The record of every job that is new or different, in the order of their names."""
    return [after[key] for key in sorted(key for key, record in after.items() if before.get(key) is not record)]


SUBJECT_LIMIT = 72


def message(subject: str, lines: Sequence[str], trailers: Mapping[str, str], most: int = 20) -> str:
    """A commit message: what and why in a person's words, then trailers. The subject is for when no line says it all."""
    body = "\n".join(lines[:most]) + (f"\n… and {len(lines) - most} more" if len(lines) > most else "")
    head = lines[0] if len(lines) == 1 else subject
    if len(head) > SUBJECT_LIMIT:
        head = head[: SUBJECT_LIMIT - 1].rstrip() + "…"
    tail = "\n".join(f"{name}: {value}" for name, value in trailers.items() if value)
    return "\n\n".join(part for part in (head, body if body != head else "", tail) if part) + "\n"


def summed_up(lines: Sequence[str]) -> str:
    """A subject for several events: the first, shortened to its first clause, and how many more there are."""
    if not lines:
        return "Record what was seen"
    first = lines[0].split(": ", 1)[0]
    return first if len(lines) == 1 else f"{first}, and {len(lines) - 1} more"


def manifests_summed_up(region: str, changes: Changes) -> str:
    """A subject for a region's branch."""
    added = [path for path, body in changes.items() if body is not None and path.startswith(MANIFESTS) and path != SENTINEL]
    removed = [path for path, body in changes.items() if body is None]
    parts = [f"{verb} {_names(paths)}" for verb, paths in (("add", added), ("remove", removed)) if paths]
    return f"{region}: {'; '.join(parts) or 'begin the branch'}"


def _names(paths: Sequence[str]) -> str:
    return paths[0].rpartition("/")[2].removesuffix(".yaml") if len(paths) == 1 else f"{len(paths)} manifests"
