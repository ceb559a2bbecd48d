"""`why` on data: what a job's attempt is made from, where it writes, and where the result is."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from tests.cli.world import NOW, Command, HubWorld, job, succeeded

SETTINGS = "intervals: {{push_seconds: 0}}\nstore: {{url: '{url}'}}\n"
CORPUS = "name: corpus\nuri: s3://data/corpus/\nversion: '7'\nsize_gb: 1\nreplicas: [{region: eu}, {region: us}]\n"
PHOTOS = "name: photos\nuri: s3://data/photos/\nsize_gb: 1\nreplicas: [{region: eu}, {region: us}]\n"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CODE = "code: {git: 'https://git.example.com/ml.git', ref: REF}"
FIELDS = ("dataset: [{name: corpus}, {name: photos}]", "outputs: [{path: /out, uri: 's3://results/fit/'}]")


@pytest.fixture
def world(folder: Path) -> HubWorld:
    jobs = {
        "jobs/red/fit.yaml": job("fit", *FIELDS, CODE.replace("REF", "main")),
        "jobs/red/exact.yaml": job("exact", CODE.replace("REF", COMMIT)),
    }
    settings = {"reconciler.yaml": SETTINGS.format(url=f"file://{folder / 'store'}")}
    made = HubWorld(folder, {**jobs, **settings, "datasets/corpus.yaml": CORPUS, "datasets/photos.yaml": PHOTOS})
    for region in ("eu", "us"):
        made.report(region)
    made.cycle()
    return made


def told(command: Command, world: HubWorld, typed: str = "fit") -> list[str]:
    return [line.strip() for line in command.done("why", typed, "--repo", world.url).splitlines()]


def end_well(world: HubWorld) -> str:
    attempt = world.record("red", "fit").last
    assert attempt is not None
    world.report(attempt.region, succeeded(attempt.name, NOW, NOW + timedelta(seconds=50)))
    world.cycle(60)
    return attempt.name


def test_what_it_reads_and_where_it_writes(command: Command, world: HubWorld) -> None:
    attempt = world.record("red", "fit").last
    assert attempt is not None
    said = told(command, world)
    assert "reads corpus, version 7" in said
    assert "reads photos, of which no version is declared" in said
    assert "code: https://git.example.com/ml.git at main (what a branch or tag named then is not known)" in said
    assert f"{attempt.name} writes s3://results/fit/{attempt.name}/" in said
    assert not [line for line in said if line.startswith("result:")]


def test_a_commit_needs_no_warning(command: Command, world: HubWorld) -> None:
    assert f"code: https://git.example.com/ml.git at {COMMIT}" in told(command, world, "exact")


def test_where_the_result_is(command: Command, world: HubWorld) -> None:
    name = end_well(world)
    said = told(command, world)
    assert [line for line in said if line.startswith(f"result: s3://results/fit/{name}/, of {name} (")]
    assert not [line for line in said if " writes " in line]
    as_json = json.loads(command.done("why", "fit", "--json", "--repo", world.url))
    assert as_json["result"]["attempt"] == name
    assert as_json["result"]["outputs"] == [f"s3://results/fit/{name}/"]
    assert json.loads(command.done("why", "exact", "--json", "--repo", world.url))["result"] is None


def test_the_status_says_where_results_are_by_the_ledger_alone(command: Command, world: HubWorld) -> None:
    name = end_well(world)
    pointer = json.loads(command.done("why", "fit", "--json", "--repo", world.url))["result"]
    world.store_folder.rename(world.store_folder.with_name("gone"))
    lines = command.done("status", "fit", "--repo", world.url).splitlines()
    assert [line for line in lines if line.startswith(f"result: s3://results/fit/{name}/, of {name} (")]
    jobs = json.loads(command.done("status", "--json", "--repo", world.url))["jobs"]
    assert {one["job_id"]: one["result"] for one in jobs} == {"fit": pointer, "exact": None}


def test_without_the_store_all_else_is_told(command: Command, world: HubWorld) -> None:
    name = end_well(world)
    world.store_folder.rename(world.store_folder.with_name("gone"))
    said = told(command, world)
    assert f"{name} writes s3://results/fit/{name}/" in said
    assert json.loads(command.done("why", "fit", "--json", "--repo", world.url))["result"] is None
