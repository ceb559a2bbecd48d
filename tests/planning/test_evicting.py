"""Which staged copies go first."""

from datetime import timedelta

import pytest

from reconciler.model.names import STAGING_TEAM
from reconciler.model.record import JobRecord, Phase, Source
from reconciler.model.stage import StageTask
from reconciler.planning.evicting import Use, to_evict
from reconciler.planning.stage_names import key_of
from reconciler.planning.stage_specs import spec_of
from tests.builders import NOW

DAY = timedelta(days=1)


def copy(name: str, gb: int | None = 100, region: str = "eu", phase: Phase = Phase.SUCCEEDED) -> JobRecord:
    task = StageTask(
        subject=f"{name}@1",
        region=region,
        source_region="ap",
        source_uri=f"s3://ap/{name}/",
        target_uri=f"s3://{region}/staged/{name}@1/",
        size_bytes=None if gb is None else gb * 10**9,
    )
    return JobRecord(
        team=STAGING_TEAM,
        job_id=key_of(task).job_id,
        phase=phase,
        spec=spec_of(task, {}, 50, "reg.example.com/stage:1"),
        source=Source(path="", blob="0"),
        run_hash="0",
        submitted_at=NOW,
        stage=task,
    )


def ids(*records: JobRecord) -> frozenset[str]:
    return frozenset(record.job_id for record in records)


A, B, C = copy("a"), copy("b"), copy("c")
OLD, NEW, READ = Use(last=NOW + DAY), Use(last=NOW + 2 * DAY), Use(now=True, last=NOW + DAY)


def uses(**said: Use) -> dict[str, Use]:
    return {f"s3://eu/staged/{name}@1/": use for name, use in said.items()}


CASES = {
    "all fits": ([A, B, C], uses(a=OLD), 300, ids()),
    "one too many: the least recently used": ([A, B, C], uses(a=NEW, b=OLD, c=NEW), 299, ids(B)),
    "one that nobody has read yet counts from when it came": ([A, B], uses(a=OLD), 150, ids(B)),
    "never one in use, even if it is still too much": ([A, B], uses(a=READ, b=READ), 50, ids()),
    "in use and the oldest: the next one": ([A, B], uses(a=READ, b=NEW), 150, ids(B)),
    "one on its way takes room already": ([A, copy("d", phase=Phase.RUNNING)], uses(a=OLD), 150, ids(A)),
    "one on its way is not removed": ([copy("d", phase=Phase.RUNNING)], {}, 50, ids()),
    "one that was never finished takes none": ([A, copy("d", phase=Phase.CANCELLED)], uses(a=OLD), 150, ids()),
    "as few as will do": ([A, B, C], uses(a=OLD, b=NEW, c=NEW), 200, ids(A)),
    "a size that nobody knows counts for nothing": ([A, copy("e", None)], uses(a=OLD), 150, ids()),
}


@pytest.mark.parametrize("case", CASES)
def test_what_goes(case: str) -> None:
    there, used, gb, gone = CASES[case]
    assert to_evict(there, used, {"eu": gb * 10**9}) == gone


def test_each_region_by_itself() -> None:
    here, there = copy("a"), copy("a", region="us")
    assert to_evict([here, there], {}, {"us": 1}) == ids(there)


def test_a_task_that_is_waited_for_is_in_use_by_its_name() -> None:
    assert to_evict([A], {A.job_id: Use(now=True)}, {"eu": 1}) == ids()
