"""Two hashes of a spec: what it says, and what of it decides what runs.

Both are over the parsed, defaulted spec, so comments, key order, line ends and a byte-order mark change neither. An edit that
leaves the run hash alone restarts nothing.
"""

from reconciler.model.job import JobSpec
from reconciler.model.names import digest

RESTARTS_NOTHING = frozenset(
    "task_type queue strategy allowed_regions denied_regions compliance tolerations priority preemptible retries on_exit "
    "on_region_lost release start_timeout_seconds grace_seconds max_runtime_seconds expected_runtime_seconds deadline suspend "
    "rerun owner description labels".split()
)
"""Fields that say when, where and how long, but not what runs."""


def spec_hash(spec: JobSpec) -> str:
    """SHA-256 over the whole spec, as hex."""
    return digest(spec.model_dump(mode="json"))


def run_hash(team: str, spec: JobSpec) -> str:
    """SHA-256 over the team and the fields that decide what runs, as hex."""
    return digest([team, spec.model_dump(mode="json", exclude=set(RESTARTS_NOTHING))])


def changed_fields(before: JobSpec, after: JobSpec) -> tuple[str, ...]:
    """Names of the fields that decide what runs and differ, sorted."""
    fields = set(JobSpec.model_fields) - RESTARTS_NOTHING
    return tuple(sorted(name for name in fields if getattr(before, name) != getattr(after, name)))
