"""Whatever people and regions do while a checkpoint is copied: no attempt runs before its task is over, none waits for what does not
come, and each goes on from the newest attempt of its run that has started."""

import random
from pathlib import Path
from typing import Any

import pytest

from reconciler.hub.results import Ended
from reconciler.model.attempt import MAY_RUN, Attempt, State
from reconciler.model.names import STAGING_TEAM, JobKey
from reconciler.model.record import FINISHED, Phase
from reconciler.model.report import WorkloadReport
from tests.builders import TEAM, TEAMS
from tests.hub.rig import Rig
from tests.hub.test_cycle_checkpoints import ELSEWHERE, SPACES, stored
from tests.hub.words import FILES, failed, running, stopped, succeeded, work

STEPS, SECONDS = 16, (1, 20, 70)
KEY = JobKey(TEAM, "llm-a")
MENDED = {"policy.yaml": None} | {f"regions/{name}.yaml": stored(name) for name in ("ap", "eu", "us")}
US = "regions/us.yaml"
CHANGES: dict[str, dict[str, str | None]] = {
    "cordon": {US: stored("us", "cordoned: true\n")},
    "drain": {US: stored("us", "drain_by: '2020-01-01T00:00:00Z'\n")},
    "undeclare": {US: None},
    "another bucket": {US: stored("us").replace("s3://bucket-us", "s3://bucket-new")},
    "no store": {US: stored("us").replace("object_store:", "#")},
    "its bucket twice": {"regions/ap.yaml": stored("ap").replace("s3://bucket-ap", "s3://bucket-us")},
    "ask people": {"policy.yaml": "approval: {always: true}\n"},
    "mend": dict(MENDED),
}
DOES = [*["nothing"] * 4, *["resume"] * 6, "edit", "rerun", "remove", "to ap", "restart", "spoil", *["wait"] * 3]


class World:
    """A job that is stopped and goes on beside other regions' stores."""

    def __init__(self, rig: Rig, seed: int) -> None:
        self.rig, self.dice, self.log = rig, random.Random(seed), list[str]()
        self.reruns, self.path, self.heard = 0, ELSEWHERE, ["ap", "eu", "us"]
        self.firsts, self.spoiled = dict[str, int](), set[str]()
        self.want()

    def want(self, **fields: Any) -> None:
        said = {"checkpoint_path": self.path, "rerun": self.reruns, "retries": 50, "allowed_regions": ["ap", "eu"]}
        self.rig.job("llm-a", **{**said, **fields})

    def step(self) -> None:
        what = self.dice.choice([*DOES, *CHANGES, *["mend"] * 2])
        self.log.append(what)
        if what in CHANGES:
            self.rig.put(CHANGES[what])
        elif what != "nothing":
            getattr(self, what.replace(" ", "_"))()
        if self.dice.random() < 0.1:
            self.heard = self.dice.choice([["ap", "eu", "us"], ["ap", "eu"]])
        self.rig.clock.seconds += self.dice.choice(SECONDS)
        self.tell(self.any_end)
        self.approve(0.5)
        self.settle()

    def resume(self) -> None:
        """It runs, is stopped, and goes on."""
        self.want()
        self.tell(self.as_before)
        self.want(suspend=True)
        self.tell(self.as_before)
        self.want()

    def edit(self) -> None:
        self.path = self.dice.choice([ELSEWHERE, ELSEWHERE, "s3://bucket-eu/llm/", "s3://nobody/llm/"])
        self.want()

    def rerun(self) -> None:
        self.reruns += 1
        self.want()

    def remove(self) -> None:
        if self.rig.text("main", f"jobs/{TEAM}/llm-a.yaml"):
            self.rig.remove("llm-a")

    def to_ap(self) -> None:
        self.want(allowed_regions=["ap"], args=["ap"])

    def restart(self) -> None:
        self.rig.restart()

    def spoil(self) -> None:
        tasks = [key for key, one in self.rig.records().items() if one.stage is not None and one.phase not in FINISHED]
        for key in tasks:
            self.spoiled.add(key.job_id)
            self.rig.put({f"jobs/{key.team}/{key.job_id}.json": self.dice.choice(["{", None])}, "status")

    def approve(self, likely: float) -> None:
        if f"proposals/{TEAM}/llm-a" in self.rig.tips() and self.dice.random() < likely:
            self.rig.merge_proposal(delete=False)

    def wait(self) -> None:
        """Ten minutes in which nobody does anything, and workers neither begin nor end."""
        for _ in range(11):
            self.rig.clock.seconds += 60
            self.tell(self.as_before)
        record = self.rig.records().get(KEY)
        attempt = record.current if record is not None else None
        if attempt is not None and attempt.state is State.STAGING:
            tasks = [self.rig.records()[JobKey(STAGING_TEAM, name)] for name in attempt.stages]
            at_work = all(one.current is not None and one.current.state is State.RUNNING for one in tasks)
            assert at_work, (self.log, attempt, tasks)

    def as_before(self, attempt: Attempt) -> WorkloadReport:
        """Programs begin, run on and stop; workers do not begin, but run on, and do not stop."""
        is_worker = attempt.name.count("-a") > 1
        if attempt.state is State.STOPPING and not is_worker:
            return stopped(attempt.name)
        return work(attempt.name) if attempt.state is State.GRANTED and is_worker else running(attempt.name)

    def any_end(self, attempt: Attempt) -> WorkloadReport:
        ways: list[Any] = [running, running, running, failed]
        if attempt.state is State.STOPPING:
            ways = [stopped, stopped, running]
        elif attempt.name.count("-a") > 1:
            ways = [running, running, succeeded, failed, work, work]
        end: WorkloadReport = self.dice.choice(ways)(attempt.name)
        return end

    def tell(self, how: Any) -> None:
        found = [(key.team, record.current) for key, record in self.rig.records().items()]
        for region in self.heard:
            here = [(team, one) for team, one in found if one is not None and one.region == region and one.state in _SEEN]
            works = [how(one).model_copy(update={"namespace": team}) for team, one in here]
            no_room = {"nodes": []} if region == "us" and self.dice.random() < 0.2 else {}
            epoch = self.rig.grants(region).epoch if self.rig.version(region) else 1
            spaces = TEAMS if region == "us" and self.dice.random() < 0.05 else SPACES
            self.rig.tell(region, *works, namespaces=spaces, lease_epoch=max(epoch, 1), **no_room)
        self.settle()

    def settle(self) -> None:
        ended = None
        while ended is None or ended.ended not in (Ended.QUIET, Ended.IDLE) or ended.again_in_seconds == 0:
            ended = self.rig.cycle()
            self.check()

    def check(self) -> None:
        records = self.rig.records()
        record = records.get(KEY)
        for at, attempt in enumerate(record.attempts if record is not None else ()):
            first = self.firsts.setdefault(attempt.name, record.first_attempt)
            before = [old for old in record.attempts[:at] if old.number >= first and old.started_at and old.checkpoint]
            assert attempt.seeded_from == (before[-1].checkpoint if before else None), (self.log, attempt)
            if attempt.state in MAY_RUN:
                tasks = {records[JobKey(STAGING_TEAM, one)].phase for one in attempt.stages if one not in self.spoiled}
                assert tasks <= {Phase.SUCCEEDED}, (self.log, attempt)

    def come_to_rest(self) -> None:
        """Everything is mended, one more run is asked for, and all goes well."""
        self.rig.put(dict(MENDED))
        self.heard, self.path = ["ap", "eu", "us"], ELSEWHERE
        self.reruns += 1
        self.want()
        for _ in range(16):
            self.rig.clock.seconds += 61
            self.approve(1.0)
            self.settle()
            self.tell(lambda one: (stopped if one.state is State.STOPPING else succeeded)(one.name))


_SEEN = (State.GRANTED, State.RUNNING, State.STOPPING)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_job_goes_on_from_what_it_has_whatever_happens(tmp_path: Path, seed: int) -> None:
    rig = Rig(tmp_path, files={**FILES, **{path: body for path, body in MENDED.items() if body is not None}})
    for region in ("ap", "eu", "us"):
        rig.tell(region, namespaces=SPACES)
    rig.settle()
    world = World(rig, seed)
    for _ in range(STEPS):
        world.step()
    world.come_to_rest()
    assert rig.record().phase is Phase.SUCCEEDED, (world.log, rig.record().why)
    tasks = [one for one in rig.records().values() if one.stage is not None]
    assert {one.phase for one in tasks} <= FINISHED, (world.log, tasks)
    assert rig.granted("us") == [one for one in rig.granted("us") if any(one.startswith(name) for name in world.spoiled)]
