"""`plan`: the hub's own decisions for a working tree, and where its picture of the world came from."""

import json
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reconciler.adapters.documents import reader
from reconciler.commands import plan
from reconciler.commands.regions_table import refused_rows
from reconciler.hub.sources import ParseCache, read_sources
from reconciler.hub.whatif import NO_LEDGER, imagined_world, what_if
from reconciler.model.names import JobKey
from reconciler.model.reasons import Why, because
from reconciler.model.record import Phase
from tests.cli.world import FLEET, NOW, Command, HubWorld, assert_golden, job, running
from tests.hub.main_branch import Main

JOBS = {
    "jobs/red/one.yaml": job("one"),
    "jobs/red/pair.yaml": job("pair", "nodes: 2"),
    "jobs/blue/wide.yaml": job("wide", "nodes: 9"),
    "jobs/blue/bad.yaml": "job_id: bad\ngpu: {count: no}\nimage: reg.example.com/ml/train:1\n",
}

ENDLESS = job("one").replace("max_runtime_seconds: 3600\n", "")


def write(folder: Path, files: dict[str, str]) -> Path:
    for path, body in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(body, encoding="utf-8")
    return folder


def clone(world: HubWorld, folder: Path) -> Path:
    subprocess.run(["git", "clone", "-q", world.url, str(folder)], check=True, capture_output=True)
    return folder


def planned(command: Command, *arguments: str | Path) -> dict:
    return json.loads(command.done("plan", *arguments, "--json"))


def of(said: dict, name: str) -> dict:
    return next(each for each in said["jobs"] if each["job"] == name)


# ---- without anything but the files -------------------------------------------------------------------------------


def test_the_plan_of_a_folder_that_is_in_no_repository(command: Command, folder: Path) -> None:
    assert_golden("plan.txt", command.done("plan", write(folder / "tree", {**FLEET, **JOBS})))


def test_json_has_every_region_with_its_figures(command: Command, folder: Path) -> None:
    said = planned(command, write(folder / "tree", {**FLEET, **JOBS}))
    assert said["schema_version"] == 1
    assert set(said["basis"]["regions"]) == {"eu", "us"}
    assert [problem["code"] for problem in said["problems"]] == ["AmbiguousValue"]
    assert said["events"] == [
        "blue/wide impossible: " + of(said, "blue/wide")["why"]["text"],
        "red/one starting in us",
        "red/pair starting in eu",
    ]
    one = of(said, "red/one")
    assert (one["region"], one["decided_now"], one["proposed"], one["strategy"]) == ("us", True, False, "policy weights")
    chosen, other = one["regions"]
    assert (chosen["verdict"], other["verdict"]) == ("chosen", "runner-up")
    assert round(sum(term["value"] * term["weight"] for term in chosen["terms"]), 3) == round(chosen["score"], 3)
    assert (chosen["price_usd"], chosen["move_bytes"]) == (8.0, 0)
    assert [row["verdict"] for row in of(said, "blue/wide")["regions"]] == ["never", "never"]


def test_one_job_alone(command: Command, folder: Path) -> None:
    tree = write(folder / "tree", {**FLEET, **JOBS})
    assert [each["job"] for each in planned(command, tree, "--job", "one")["jobs"]] == ["red/one"]
    ended = command("plan", tree, "--job", "bad")
    assert ended.code == 1
    assert "blue/bad cannot be planned for: jobs/blue/bad.yaml:2:14: AmbiguousValue" in ended.err


def test_a_folder_that_is_no_jobs_repository(command: Command, folder: Path) -> None:
    assert command("plan", folder).code == 1


def test_planning_writes_nothing_beside_the_cache(command: Command, folder: Path) -> None:
    world = HubWorld(folder, JOBS)
    tree = clone(world, folder / "tree")
    store = folder / "not-there"
    before = sorted(path for path in tree.rglob("*") if ".git" not in path.parts)
    command.done("plan", tree)
    ended = command("plan", tree, "--store", f"file://{store}")
    assert (ended.code, store.exists()) == (2, False)
    assert sorted(path for path in tree.rglob("*") if ".git" not in path.parts) == before


# ---- with a ledger and live reports -------------------------------------------------------------------------------


@pytest.fixture
def two(folder: Path) -> HubWorld:
    """A hub that runs two jobs."""
    world = HubWorld(folder, {f"jobs/red/{name}.yaml": ENDLESS.replace("one", name) for name in ("one", "other")})
    for region in ("eu", "us"):
        world.report(region)
    world.cycle()
    attempts = [world.record("red", name).attempts[-1] for name in ("one", "other")]
    for region in ("eu", "us"):
        works = (running(attempt.name, NOW) for attempt in attempts if attempt.region == region)
        world.report(region, *works, at=datetime.now(UTC))
    world.cycle(5)
    return world


@pytest.fixture
def busy(folder: Path) -> HubWorld:
    """A hub that runs red/one in us, whose reports are of just now."""
    # Without a limit: the hub's clock stands in the past, and the command's does not.
    world = HubWorld(folder, {"jobs/red/one.yaml": ENDLESS})
    for region in ("eu", "us"):
        world.report(region)
    world.cycle()
    attempt = world.record("red", "one").current
    assert attempt is not None
    world.report("us", running(attempt.name, NOW), at=datetime.now(UTC))
    world.report("eu", at=datetime.now(UTC))
    world.cycle(5)
    return world


def test_what_runs_and_what_is_free_is_known_from_ledger_and_reports(command: Command, busy: HubWorld, folder: Path) -> None:
    tree = clone(busy, folder / "tree")
    write(tree, {"jobs/red/pair.yaml": job("pair", "nodes: 2", "allowed_regions: [us]"), "jobs/red/new.yaml": job("new")})
    said = planned(command, tree, "--store", busy.store_url)
    assert re.fullmatch(r"1 jobs, by status at [0-9a-f]{12}", said["basis"]["ledger"])
    assert all(words.startswith("live, reported ") for words in said["basis"]["regions"].values())
    assert of(said, "red/one")["phase"] == "Running"
    waiting = of(said, "red/pair")
    assert waiting["phase"] == "Pending"
    assert {row["region"]: row["why"]["code"] for row in waiting["regions"]} == {"us": "NotEnoughFree", "eu": "RegionNotAllowed"}
    assert [row["verdict"] for row in waiting["regions"]] == ["not now", "never"]
    assert of(said, "red/new")["decided_now"]


def test_a_region_that_fell_silent_gets_nothing_and_says_so(command: Command, busy: HubWorld, folder: Path) -> None:
    busy.report("eu", at=datetime.now(UTC) - timedelta(minutes=10))
    tree = write(clone(busy, folder / "tree"), {"jobs/red/new.yaml": job("new", "allowed_regions: [eu]")})
    (row, _) = of(planned(command, tree, "--store", busy.store_url), "red/new")["regions"]
    assert (row["region"], row["why"]["code"], row["verdict"]) == ("eu", "ReportStale", "not now")


def test_a_new_region_is_planned_for_as_it_is_declared(command: Command, busy: HubWorld, folder: Path) -> None:
    tree = write(
        clone(busy, folder / "tree"), {"regions/ap.yaml": FLEET["regions/eu.yaml"].replace("eu", "ap").replace("2.0", "0.1")}
    )
    write(tree, {"jobs/red/new.yaml": job("new", "strategy: cost")})
    said = planned(command, tree, "--store", busy.store_url)
    assert said["basis"]["regions"]["ap"].startswith("as declared, taken as empty (no report in file://")
    assert of(said, "red/new")["region"] == "ap"


def test_removing_and_editing_what_runs_is_shown_as_what_it_does(command: Command, busy: HubWorld, folder: Path) -> None:
    tree = clone(busy, folder / "tree")
    write(tree, {"jobs/red/one.yaml": ENDLESS.replace("train:1", "train:2")})
    edited = of(planned(command, tree, "--store", busy.store_url), "red/one")
    assert (edited["phase"], edited["why"]["text"]) == ("Stopping", "its spec changed: image")
    (tree / "jobs/red/one.yaml").unlink()
    write(tree, {"jobs/red/other.yaml": job("other")})
    gone = of(planned(command, tree, "--store", busy.store_url), "red/one")
    assert (gone["phase"], gone["why"]["text"]) == ("Stopping", "its file was removed")


def test_a_tree_without_any_job_would_be_doubted(command: Command, two: HubWorld, folder: Path) -> None:
    tree = clone(two, folder / "tree")
    for name in ("one", "other"):
        (tree / f"jobs/red/{name}.yaml").unlink()
    said = planned(command, tree, "--store", two.store_url)
    assert (said["doubt"]["kind"], said["doubt"]["gone"]) == ("unreadable", 2)
    assert [each["phase"] for each in said["jobs"]] == ["Running"] * 2
    words = "the hub would doubt this: the main branch has no jobs any more: 2 of 2 live jobs went in one step; "
    assert words in command.done("plan", tree, "--store", two.store_url)


def test_a_broken_edit_leaves_the_last_good_version_in_force(command: Command, busy: HubWorld, folder: Path) -> None:
    tree = write(clone(busy, folder / "tree"), {"regions/us.yaml": "name: us\nprices: {A100-80GB: dear}\n"})
    said = planned(command, tree, "--store", busy.store_url)
    assert said["problems"][0]["path"] == "regions/us.yaml"
    assert of(said, "red/one")["phase"] == "Running"
    assert set(said["basis"]["regions"]) == {"eu", "us"}


def test_a_repository_that_does_not_answer_is_said_and_planned_without(command: Command, busy: HubWorld, folder: Path) -> None:
    tree = clone(busy, folder / "tree")
    busy.repository.rename(folder / "elsewhere.git")
    assert planned(command, tree)["basis"]["ledger"].startswith("none (")
    assert command("plan", tree, "--repo", busy.url).code == 2


# ---- the pure part ------------------------------------------------------------------------------------------------


def test_same_world_same_answer_and_the_declared_nodes_bound_it() -> None:
    files = {**FLEET, **{f"jobs/red/job-{number}.yaml": job(f"job-{number}") for number in range(6)}}
    main = Main.of(files)
    sources = read_sources(main.entries, main.read, main.size, {}, ParseCache(), reader)
    world = imagined_world(sources, NO_LEDGER, {}, {}, {}, NOW)
    answer = what_if(world, NOW)
    assert answer == what_if(world, NOW)
    phases = [answer.jobs[JobKey("red", f"job-{number}")].after.phase for number in range(6)]
    assert phases == [*[Phase.STARTING] * 4, *[Phase.PENDING] * 2]  # two regions of two nodes of eight
    assert plan.rows(answer.jobs[JobKey("red", "job-5")])[0].verdict == "not now"


def test_a_region_that_may_run_nothing_at_present_is_not_ruled_out_for_ever() -> None:
    halted = because(Why.REGION_HALTED, region="eu", message="its lease was not renewed in time")
    never = because(Why.RDMA_MISSING, region="us")
    assert [row.verdict for row in refused_rows({"eu": halted, "us": never})] == ["not now", "never"]
