"""The example jobs, pushed to a forge, on three real regions: each ends as it does in the demo."""

from reconciler.commands.demo_ends import EXPECTED, REFUSED, differs, reached
from tests.e2e.fleet.up import Fleet
from tests.waiting import until


def test_the_example_jobs_end_as_expected(fleet: Fleet) -> None:
    def all_reached() -> bool:
        fleet.check()
        records = fleet.person.records()
        return all(name in records and reached(records[name], end) for name, end in EXPECTED.items())

    until(all_reached, 240.0, 0.5)
    records = fleet.person.records()
    assert {name: fault for name, end in EXPECTED.items() if (fault := differs(records[name], end))} == {}
    rejected = fleet.person.read("status", "rejected.json") or ""
    assert all(path in rejected for path in REFUSED)
    assert {run.region for run in fleet.witness.runs.values()} == set(fleet.regions)


def test_what_has_ended_leaves_nothing_in_the_regions(fleet: Fleet) -> None:
    for name, region in fleet.regions.items():
        until(lambda name=name: fleet.person.manifests(name) == [], 60.0, 0.5)
        until(lambda region=region: region.ours("jobs,services,configmaps") == [], 60.0, 0.2)
