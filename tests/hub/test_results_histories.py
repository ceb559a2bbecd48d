"""Whatever people and regions do while results are on their way: in the end each is where it was asked for, once, and all is still."""

import random
from pathlib import Path
from typing import Any

import pytest

from reconciler.hub.result_pointer import read_result
from reconciler.model.attempt import Attempt, State
from reconciler.model.names import STAGING_TEAM, JobKey
from reconciler.model.reasons import Why, because
from reconciler.model.record import Phase
from reconciler.model.report import WorkloadReport
from tests.builders import TEAM, TEAMS
from tests.hub.rig import Rig
from tests.hub.words import FILES, failed, region_file, running, stopped, succeeded

SPACES = [*TEAMS, STAGING_TEAM]
STORE = "object_store: {url: 's3://bucket-%s'}\n"
LINKS = "links: [{source: eu, target: us, gbit_per_second: 10}]\n"
EU = region_file("eu", 1.0, STORE % "eu" + "returns_results: true\n")
US = region_file("us", 20.0, STORE % "us")
MENDED = {"regions/eu.yaml": EU, "regions/us.yaml": US, "links.yaml": LINKS}
FILE = f"jobs/{TEAM}/llm-a.yaml"
OUTPUTS = [{"path": f"/out/{at}", "uri": uri} for at, uri in enumerate(("s3://bucket-us/results/llm", "s3://bucket-us/logs"))]
STEPS, SECONDS = 26, (1, 5, 20, 20)


class World:
    """A job whose results are returned, people who change their minds, and regions that tell what an agent would."""

    def __init__(self, rig: Rig, seed: int) -> None:
        self.rig, self.dice, self.reruns = rig, random.Random(seed), 0
        rig.put({"policy.yaml": "thresholds: {reschedules: 3}\n"})
        self.want()

    def want(self, **fields: Any) -> None:
        said = {"outputs": OUTPUTS, "rerun": self.reruns, "retries": 2, "allowed_regions": ["eu"]}
        self.rig.job("llm-a", **{**said, **fields})

    def step(self) -> None:
        what = self.dice.choice(
            [
                *["nothing"] * 6,
                "rerun",
                "edit",
                "suspend",
                "go on",
                "remove",
                "cordon",
                "undeclare",
                "unlink",
                "keep",
                "mend",
                "restart",
            ]
        )
        if what == "rerun":
            self.reruns += 1
        if what in {"rerun", "go on"}:
            self.want()
        elif what == "edit":
            self.want(args=[str(self.dice.random())])
        elif what == "suspend":
            self.want(suspend=True)
        elif what == "remove" and self.rig.text("main", FILE):
            self.rig.remove("llm-a")
        elif what == "restart":
            self.rig.restart()
        changes: dict[str, dict[str, str | None]] = {
            "cordon": {"regions/us.yaml": US + "cordoned: true\n"},
            "undeclare": {"regions/us.yaml": None},
            "unlink": {"links.yaml": "links: []\n"},
            "keep": {"regions/eu.yaml": EU.replace("returns_results: true", "returns_results: false")},
            "mend": dict(MENDED),
        }
        if what in changes:
            self.rig.put(changes[what])
        self.rig.clock.seconds += self.dice.choice([*SECONDS, 700]) if what == "nothing" else self.dice.choice(SECONDS)
        self.tell(self.any_end, {"us": SPACES if self.dice.random() < 0.9 else TEAMS})

    def any_end(self, attempt: Attempt) -> WorkloadReport:
        ways = [stopped, stopped, succeeded] if attempt.state is State.STOPPING else [running, running, succeeded, failed]
        end: WorkloadReport = self.dice.choice(ways)(attempt.name)
        return end

    def tell(self, how: Any, spaces: dict[str, list[str]]) -> None:
        for region in ("eu", "us"):
            found = [(key.team, record.current) for key, record in self.rig.records().items()]
            here = [(team, one) for team, one in found if one is not None and one.region == region and one.state in _SEEN]
            works = [how(one).model_copy(update={"namespace": team}) for team, one in here]
            self.rig.tell(region, *works, namespaces=spaces.get(region, SPACES))
        self.rig.settle(30)

    def come_to_rest(self) -> None:
        """Everything is mended, one more run is asked for, and all goes well."""
        self.rig.put({**MENDED, "policy.yaml": None})
        self.reruns += 1
        self.want()
        for _ in range(30):
            self.rig.clock.seconds += 61
            self.tell(lambda one: (stopped if one.state is State.STOPPING else succeeded)(one.name), {})


_SEEN = (State.GRANTED, State.RUNNING, State.STOPPING)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_every_result_comes_to_where_it_was_asked_for(tmp_path: Path, seed: int) -> None:
    rig = Rig(tmp_path, files={**FILES, **MENDED})
    rig.tell("eu", namespaces=SPACES)
    rig.tell("us", namespaces=SPACES)
    world = World(rig, seed)
    for _ in range(STEPS):
        world.step()
    world.come_to_rest()
    record = rig.record()
    assert (record.phase, record.why) == (Phase.SUCCEEDED, because(Why.SUCCEEDED))
    won = [attempt for attempt in record.attempts if attempt.state is State.SUCCEEDED]
    assert all(attempt.returned_at is not None for attempt in won if attempt.returns)
    pointer = read_result(rig.store, JobKey(TEAM, "llm-a"))
    assert pointer is not None
    assert pointer.attempt == won[-1].name
    tasks = [record for record in rig.records().values() if record.stage is not None]
    assert {task.phase for task in tasks} <= {Phase.SUCCEEDED}
    targets = [task.stage.target_uri for task in tasks if task.stage is not None]
    assert len(targets) == len(set(targets))
    assert len(targets) == sum(len(attempt.returns) for attempt in won)
