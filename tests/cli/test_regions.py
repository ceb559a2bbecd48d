"""`cordon`, `uncordon`, `drain`, `lost`, `forget`: one commit on main each, and what the hub makes of it."""

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reconciler.commands.drain import moment
from reconciler.commands.ends import BadInput
from reconciler.model.attempt import State
from reconciler.model.region_state import RegionState
from tests.cli.silence import fall_silent, place_in_us
from tests.cli.world import FLEET, Command, HubWorld, changed, job
from tests.githttp import run_git

US = FLEET["regions/us.yaml"]
ANN = "Ann Example <ann@example.com>"


@pytest.fixture
def world(folder: Path) -> HubWorld:
    return HubWorld(folder, {"jobs/red/one.yaml": job("one")})


def where(world: HubWorld) -> list[tuple[str, State]]:
    return [(one.region, one.state) for one in world.record("red", "one").attempts]


def committed(world: HubWorld) -> dict[str, str]:
    """The changed files of main, as text."""
    return {path: body.decode() for path, body in changed(world).items() if body is not None}


# ---- cordon -------------------------------------------------------------------------------------------------------


def test_a_cordoned_region_gets_nothing_new_until_it_is_uncordoned(command: Command, world: HubWorld) -> None:
    assert command.done("cordon", "us", "--repo", world.url).startswith("us is cordoned (commit ")
    assert committed(world) == {"regions/us.yaml": US + "cordoned: true\n"}
    assert world.last_commit() == (ANN, "Cordon us\n\nNothing new goes there; what runs goes on.")
    assert command.done("cordon", "us", "--repo", world.url) == "us is cordoned already\n"
    for region in ("eu", "us"):
        world.report(region)
    world.cycle()
    assert where(world) == [("eu", State.GRANTED)]
    assert world.look().ledger.hub.regions["us"].state is RegionState.CORDONED
    assert command.done("uncordon", "us", "--repo", world.url).startswith("us takes new jobs again (commit ")
    assert committed(world) == {}
    assert command.done("uncordon", "us", "--repo", world.url) == "us takes new jobs already\n"


TEXTS = {
    "flow style": (b"{name: us, prices: {A100-80GB: 1.0}}\n", b"{cordoned: true, name: us, prices: {A100-80GB: 1.0}}\n"),
    "a comment behind": (b"name: us\ncordoned: false  # since May\n", b"name: us\ncordoned: true  # since May\n"),
    "no line end": (b"name: us", b"name: us\ncordoned: true\n"),
    "an end of document": (b"name: us\n...\n", b"name: us\ncordoned: true\n...\n"),
    "line ends of another system": (b"name: us\r\n", b"name: us\r\ncordoned: true\r\n"),
}


@pytest.mark.parametrize(("before", "after"), TEXTS.values(), ids=TEXTS.keys())
def test_nothing_else_of_the_file_changes(command: Command, world: HubWorld, before: bytes, after: bytes) -> None:
    world.commit({"regions/us.yaml": before})
    command.done("cordon", "us", "--repo", world.url)
    assert run_git(world.repository, "show", "main:regions/us.yaml").rstrip() == after.decode().rstrip()
    command.done("uncordon", "us", "--repo", world.url)
    assert "cordoned: true" not in run_git(world.repository, "show", "main:regions/us.yaml")


@pytest.mark.parametrize("verb", ["cordon", "uncordon", "drain", "lost", "forget"])
def test_a_region_that_nobody_declares_is_told_with_the_one_that_was_meant(command: Command, world: HubWorld, verb: str) -> None:
    more = ("--in", "1h") if verb == "drain" else ()
    ended = command(verb, "uss", *more, "--repo", world.url)
    assert (ended.code, ended.err) == (1, "reconciler: there is no region uss\n  did you mean us?\n")


@pytest.mark.parametrize("verb", ["cordon", "uncordon", "drain", "lost", "forget"])
@pytest.mark.parametrize(("typed", "shown"), [("", "''"), (" ", "' '"), ("eu us", "'eu us'")])
def test_words_that_cannot_be_seen_are_quoted(command: Command, world: HubWorld, verb: str, typed: str, shown: str) -> None:
    more = ("--in", "1h") if verb == "drain" else ()
    ended = command(verb, typed, *more, "--repo", world.url)
    assert (ended.code, ended.err.splitlines()[0]) == (1, f"reconciler: there is no region {shown}")


@pytest.mark.parametrize("verb", ["status", "why", "cancel", "rerun", "release", "logs"])
def test_a_job_of_no_name_is_quoted(command: Command, world: HubWorld, verb: str) -> None:
    world.cycle()
    ended = command(verb, "", "--repo", world.url)
    assert (ended.code, ended.err.splitlines()[0]) == (1, "reconciler: there is no job ''")


def test_a_commit_of_no_name_is_quoted(command: Command, world: HubWorld) -> None:
    world.cycle()
    assert command("confirm", "", "--repo", world.url).err.splitlines()[0] == "reconciler: '' is no commit"


def test_a_broken_file_is_not_edited(command: Command, world: HubWorld) -> None:
    world.cycle()
    world.commit({"regions/us.yaml": "name: us\nnode_pools: none\n"})
    world.cycle(1)
    ended = command("cordon", "us", "--repo", world.url)
    assert ended.err.splitlines()[0] == "reconciler: regions/us.yaml on main is broken or gone; an earlier version is in force"


# ---- drain --------------------------------------------------------------------------------------------------------


def test_drain_writes_the_moment_and_shows_what_leaves_how(command: Command, world: HubWorld) -> None:
    place_in_us(world)
    said = command.done("drain", "us", "--by", "2099-05-01T14:00+02:00", "--store", world.store_url, "--repo", world.url)
    assert committed(world) == {"regions/us.yaml": US + 'drain_by: "2099-05-01T12:00:00Z"\n'}
    first, head, row = said.splitlines()
    assert first.startswith("us is to be empty by 2099-05-01T12:00:00Z (commit ")
    assert head.split("  ")[0] == "job"
    assert row.startswith("red/one  Running  a1 ")
    world.cycle(1)
    assert "us      Draining" in command.done("status", "--repo", world.url)
    said = command.done("why", "one", "--repo", world.url)
    assert "its region is Draining since" in said
    command.done("uncordon", "us", "--repo", world.url)
    assert committed(world) == {}


def test_a_dry_run_writes_nothing(command: Command, world: HubWorld) -> None:
    place_in_us(world)
    before = run_git(world.repository, "rev-parse", "main")
    said = command.done("drain", "us", "--in", "0s", "--dry-run", "--store", world.store_url, "--repo", world.url)
    assert "is stopped now" in said
    assert run_git(world.repository, "rev-parse", "main") == before
    assert command.done("drain", "eu", "--in", "2h", "--dry-run", "--repo", world.url) == "nothing stands in eu\n"


def test_without_a_moment_it_shows_the_one_in_force(command: Command, world: HubWorld) -> None:
    ended = command("drain", "us", "--repo", world.url)
    assert (ended.code, ended.err.splitlines()[0]) == (1, "reconciler: us is not being drained")
    world.commit({"regions/us.yaml": US + 'drain_by: "2026-05-01T12:00:00Z"\n'})
    assert command.done("drain", "us", "--repo", world.url) == "nothing stands in us\n"


NOW = datetime(2026, 5, 1, 12, 0, 0, 5, tzinfo=UTC)
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
MOMENTS = {
    "a span": (None, "90min", NOON + timedelta(minutes=90)),
    "of two units": (None, "1h30m", NOON + timedelta(minutes=90)),
    "at once": (None, "0s", NOON),
    "a moment in UTC": ("2026-05-01T14:00:00Z", None, NOON + timedelta(hours=2)),
    "a moment elsewhere": ("2026-05-01 16:00+02:00", None, NOON + timedelta(hours=2)),
    "none": (None, None, None),
}


@pytest.mark.parametrize(("by", "within", "meant"), MOMENTS.values(), ids=MOMENTS.keys())
def test_the_moment_that_is_meant(by: str | None, within: str | None, meant: datetime | None) -> None:
    assert moment(by, within, NOW) == meant


UNCLEAR = {
    "no time zone": ("2026-05-01T14:00:00", None),
    "no moment": ("tomorrow", None),
    "the past": ("2026-05-01T11:00:00Z", None),
    "no span": (None, "2 moons"),
    "a span and more": (None, "2h later"),
    "both": ("2026-05-01T14:00:00Z", "2h"),
    "longer than the calendar": (None, "99999999d"),
    "longer than any number of days": (None, f"{'9' * 30}d"),
    "more digits than are read": (None, f"{'9' * 5000}s"),
    "many spans that are too long together": (None, "2000000d" * 5),
    "beyond the calendar in UTC": ("9999-12-31T23:59:59-14:00", None),
    "before the calendar in UTC": ("0001-01-01T00:00:00+14:00", None),
    "nothing": ("", None),
    "no span at all": (None, ""),
}


@pytest.mark.parametrize(("by", "within"), UNCLEAR.values(), ids=UNCLEAR.keys())
def test_a_moment_that_is_not_clear_is_refused(by: str | None, within: str | None) -> None:
    with pytest.raises(BadInput) as refused:
        moment(by, within, NOW)
    assert len(refused.value.what) < 100
    assert not refused.value.what.startswith(" ")


def test_a_moment_of_no_words_is_quoted(command: Command, world: HubWorld) -> None:
    for flag, said in (("--in", "'' is no span of time"), ("--by", "'' is no moment")):
        assert command("drain", "us", flag, "", "--repo", world.url).err.splitlines()[0] == f"reconciler: {said}"


# ---- lost ---------------------------------------------------------------------------------------------------------


def test_a_silent_region_is_said_to_be_lost(command: Command, world: HubWorld) -> None:
    place_in_us(world)
    ended = command("lost", "us", "--repo", world.url)
    assert (ended.code, ended.err.splitlines()[0]) == (1, "reconciler: us is heard of: it is Ready")
    for _ in range(14):
        world.cycle(10)
    assert "`reconciler lost REGION`, for each" in command.done("status", "--repo", world.url)
    assert command.done("lost", "us", "--repo", world.url).startswith("us is said to be lost: the hub does not doubt it any more")
    assert committed(world) == {"confirmations/lost-us-1.yaml": f'says: "lost"\nregion: "us"\nepoch: 1\nby: "{ANN}"\n'}
    assert world.last_commit() == (ANN, f"Call lost us\n\nus is lost, and not the hub blind\n{ANN} says so.")
    assert command.done("lost", "us", "--repo", world.url).startswith("that is said of us already")
    world.cycle(1)
    found = world.look().ledger.hub.regions["us"]
    assert (found.state, found.next_at is None) == (RegionState.LOST, False)


# ---- forget -------------------------------------------------------------------------------------------------------


def test_without_proof_a_region_is_forgotten_by_force_only(
    command: Command, world: HubWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    place_in_us(world)
    assert "us is heard of" in command("forget", "us", "--force", "--yes", "--repo", world.url).err
    fall_silent(world, "us", 60)
    first, todo = command("forget", "us", "--force", "--yes", "--repo", world.url).err.splitlines()
    assert first.startswith("reconciler: us does not count as lost yet: us has not been heard of since")
    assert "wait until it does at 2026-05-01 12:0" in todo
    fall_silent(world, "us", 70)
    first, todo = command("forget", "us", "--repo", world.url).err.splitlines()
    assert first.startswith(
        "reconciler: nobody knows yet that nothing runs in us, where 1 attempts stand: us has not been heard of"
    )
    assert "its lease is revoked at 2026-05-01 12:0" in todo
    assert "`reconciler forget us --force`" in todo
    monkeypatch.setattr("sys.stdin", io.StringIO("eu\n"))
    ended = command("forget", "us", "--force", "--repo", world.url)
    assert ended.code == 1
    assert ended.err.endswith("reconciler: that is not the region's name, so nothing was done\n  with --yes nobody is asked\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("us\n"))
    said = command.done("forget", "us", "--force", "--repo", world.url)
    assert said.startswith("us is forgotten: 1 attempts there end as lost; take regions/us.yaml out as well (commit ")
    assert committed(world) == {
        "confirmations/forget-us-1.yaml": f'says: "forget"\nregion: "us"\nepoch: 1\nforce: true\nby: "{ANN}"\n'
    }
    risk = "us never comes back. The risk that something of it still runs is taken."
    assert world.last_commit() == (ANN, f"Forget us\n\n{risk}\n{ANN} says so.")
    fall_silent(world, "us", 20)
    assert where(world) == [("us", State.STOPPED), ("eu", State.GRANTED)]


def test_nothing_is_forgotten_of_a_region_whose_agent_never_came(command: Command, folder: Path) -> None:
    world = HubWorld(folder, {"jobs/red/one.yaml": job("one")})
    world.report("eu")
    world.cycle()
    fall_silent(world, "us", 40)
    assert world.look().ledger.hub.regions["us"].state is RegionState.AWAITED
    for verb in ("lost", "forget"):
        ended = command(verb, "us", "--repo", world.url)
        assert (ended.code, ended.err) == (
            1,
            "reconciler: no agent of us has reported yet: nothing of ours runs there\n  take regions/us.yaml out instead\n",
        )


def test_a_region_whose_lease_is_revoked_needs_no_force(command: Command, folder: Path) -> None:
    world = HubWorld(folder, {"jobs/red/one.yaml": job("one", "on_region_lost: wait")})
    place_in_us(world)
    fall_silent(world, "us", 340)
    assert where(world) == [("us", State.STOPPING)]
    command.done("forget", "us", "--force", "--yes", "--repo", world.url)
    assert "force" not in committed(world)["confirmations/forget-us-1.yaml"], "there is no risk to take"
    fall_silent(world, "us", 20)
    assert where(world) == [("us", State.STOPPED), ("eu", State.GRANTED)]
