"""Runs a scenario: the hub's own cycle, over reports as the regions of the file would write them.

Nothing is decided here. What a region shows of an attempt is only what the file says of it (`seen`), so a step can be late, partial
or wrong like a real report.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from reconciler.hub.decide import decide
from reconciler.hub.fleet import Fleet
from reconciler.hub.ledger import HubFile, Ledger, Rejected
from reconciler.hub.reading import JobFile
from reconciler.hub.regions import RegionSeen, seen_of
from reconciler.hub.sources import Sources
from reconciler.hub.world import Outcome, World
from reconciler.model.attempt import Attempt, Needs, State
from reconciler.model.fleet import Dataset, Link, Team
from reconciler.model.gpu import parse_model
from reconciler.model.identity import run_hash
from reconciler.model.job import JobSpec
from reconciler.model.names import JobKey, attempt_name
from reconciler.model.pods import node_needs
from reconciler.model.policy import Policy, Settings
from reconciler.model.record import JobRecord, Phase, Source
from reconciler.model.region import Region
from reconciler.model.report import NodeReport, PodReport, WorkloadReport
from reconciler.planning.lifecycle import Wanted, admit
from tests.builders import IMAGE, NOW, TEAM, TEAMS, make_node, make_report, make_workload
from tests.planning.scenarios import Fields, Scenario, Step, span

# ---- what regions show --------------------------------------------------------------------------------------------

SEEN: Mapping[str, tuple[Fields, Fields | None]] = {
    "running": ({"state": "Released"}, {"phase": "Running"}),
    "running but for one pod": ({"state": "Released"}, {"phase": "Running"}),
    "stopping": ({"state": "Released"}, {"phase": "Running", "terminating": True}),
    "failing": ({"state": "Released", "failed": "FailureTarget"}, {"phase": "Running", "terminating": True}),
    "suspended": ({"state": "Held", "stopped": False}, None),
    "stopped": ({"state": "Ended", "stopped": True}, None),
    "evicted": ({"state": "Ended", "stopped": True}, {"phase": "Failed", "exit_code": 137, "reason": "Evicted"}),
    "out of memory": ({"state": "Ended", "stopped": True}, {"phase": "Failed", "exit_code": 137, "reason": "OOMKilled"}),
    "out of time": ({"state": "Ended", "stopped": True, "failed": "DeadlineExceeded"}, None),
    "deleted": ({"state": "Absent", "stopped": False}, None),
    "made again": ({"state": "Held", "stopped": False, "replaced": True}, None),
}
"""What a region can show of an attempt: fields of its workload, and of each of its pods. Beside these: `exit 0`, `exit 3` …, and
`waiting: <the kubelet's words>`. `stopped` also means that the region has acted on grants without the attempt."""


def _shown(text: str) -> tuple[Fields, Fields | None]:
    if text.startswith("exit "):
        code = int(text.removeprefix("exit "))
        phase = "Failed" if code else "Succeeded"
        return {"state": "Ended", "stopped": True, "succeeded": not code}, {"phase": phase, "exit_code": code}
    if text.startswith("waiting: "):
        return {"state": "Released"}, {"phase": "Pending", "waiting": text.removeprefix("waiting: ")}
    return SEEN[text]


def _hold(nodes: list[NodeReport], attempt: Attempt) -> list[str]:
    """Bind the attempt's pods to the first nodes with room, as a scheduler would; returns their names."""
    names: list[str] = []
    for _ in range(attempt.nodes):
        for index, node in enumerate(nodes):
            if node.unavailable is None and _takes(node, attempt):
                used = node.used.model_copy(update=_more(node.used, attempt.needs))
                nodes[index] = node.model_copy(update={"used": used})
                names.append(node.name)
                break
    return names


def _takes(node: NodeReport, attempt: Attempt) -> bool:
    after = _more(node.used, attempt.needs)
    right = not attempt.gpu_products or node.gpu_product in attempt.gpu_products
    return right and all(after[name] <= getattr(node.allocatable, name) for name in after)


def _more(used: Any, needs: Needs) -> dict[str, int]:
    more = {name: getattr(used, name) + amount for name, amount in needs.model_dump().items()}
    return {**more, "pods": used.pods + 1}


def _report_nodes(groups: list[Fields]) -> list[NodeReport]:
    nodes: list[NodeReport] = []
    for group in groups:
        said = dict(group)
        count, card = said.pop("nodes", 1), said.pop("model", None)
        gpus = said.pop("gpus", 8 if card else 0)
        start = len(nodes)
        nodes += [make_node(f"n{start + index}", card=card, gpus=gpus, **said) for index in range(count)]
    return nodes


# ---- the world ----------------------------------------------------------------------------------------------------


@dataclass
class Course:
    """A scenario under way: what is on main, what the regions show, and the records after the last cycle."""

    scenario: Scenario
    now: datetime = NOW
    cycles: int = 0
    regions: dict[str, Fields] = field(default_factory=dict)
    jobs: dict[str, Fields] = field(default_factory=dict)
    seen: dict[str, str] = field(default_factory=dict)
    """Attempt → what its region shows of it; an attempt that is not here has not been seen yet."""
    acted: dict[str, int] = field(default_factory=dict)
    withdrawn_at: dict[str, int] = field(default_factory=dict)
    records: dict[JobKey, JobRecord] = field(default_factory=dict)
    outcome: Outcome | None = None

    def key(self, name: str) -> JobKey:
        """A job's identity by its name in the file."""
        said = self.jobs.get(name) or self.scenario.jobs.get(name) or self.scenario.running.get(name) or {}
        return JobKey(said.get("team", TEAM), name)


def course_of(scenario: Scenario) -> Course:
    """The world before its first cycle."""
    course = Course(scenario, regions={name: dict(said) for name, said in scenario.regions.items()})
    for name, said in scenario.running.items():
        fields = {word: value for word, value in said.items() if word not in ("in", "since")}
        course.jobs[name] = fields
        record = _running_record(course, name, said["in"], span(said.get("since", "0 s")))
        course.records[course.key(name)] = record
        course.seen[record.attempts[0].name] = "running"
    course.jobs |= {name: dict(said) for name, said in scenario.jobs.items()}
    return course


def _spec(name: str, said: Fields) -> JobSpec:
    fields = {word: value for word, value in said.items() if word not in ("team", "submitted")}
    return JobSpec.model_validate({"job_id": name, "image": IMAGE, **fields})


def _running_record(course: Course, name: str, region: str, since: timedelta) -> JobRecord:
    key, spec, began = course.key(name), _spec(name, course.jobs[name]), course.now - since
    profile = _regions(course)[region].profile
    of_run = run_hash(key.team, spec)
    products = {group.get("model") for group in course.regions[region]["nodes"] if group.get("model")}
    attempt = Attempt(
        number=1,
        name=attempt_name(name, of_run, 1),
        region=region,
        state=State.RUNNING,
        run_hash=of_run,
        nodes=spec.nodes,
        needs=node_needs(spec, profile),
        gpu_model=str(parse_model(next(iter(products)))) if len(products) == 1 else None,
        decided_at=began,
        placed_at=began,
        granted_at=began,
        started_at=began,
    )
    return JobRecord(
        team=key.team,
        job_id=name,
        phase=Phase.RUNNING,
        spec=spec,
        source=Source(path=f"jobs/{key.team}/{name}.yaml", blob=of_run),
        run_hash=of_run,
        submitted_at=began,
        attempts=(attempt,),
    )


def _regions(course: Course) -> dict[str, Region]:
    own = ("nodes", "reported")
    return {
        name: Region.model_validate({"name": name, **{word: value for word, value in said.items() if word not in own}})
        for name, said in course.regions.items()
    }


def _fleet(course: Course) -> Fleet:
    scenario = course.scenario
    links = [Link.model_validate(said) for said in scenario.links]
    both = [*links, *(link.model_copy(update={"source": link.target, "target": link.source}) for link in links if link.symmetric)]
    datasets = {}
    for name, said in scenario.datasets.items():
        copies = [copy if isinstance(copy, dict) else {"region": copy} for copy in said["replicas"]]
        datasets[name] = Dataset.model_validate({"name": name, "uri": f"s3://data/{name}/", **said, "replicas": copies})
    teams = {name: Team.model_validate({"name": name, **scenario.teams.get(name, {})}) for name in {*TEAMS, *scenario.teams}}
    by_ends = {(link.source, link.target): link for link in both}
    return Fleet(_regions(course), by_ends, datasets, teams, Policy.model_validate(scenario.policy), Settings())


def _sources(course: Course) -> Sources:
    files = {}
    for name, said in course.jobs.items():
        key, spec = course.key(name), _spec(name, said)
        of_run = run_hash(key.team, spec)
        files[key] = JobFile(key, spec, f"jobs/{key.team}/{name}.yaml", of_run, of_run)
    return Sources(files, _fleet(course), (), {}, {}, {}, frozenset(), frozenset())


def _look(course: Course, region: str) -> RegionSeen:
    """The region's report: its nodes, and on them the pods of what it shows."""
    nodes = _report_nodes(course.regions[region].get("nodes", []))
    shown: list[WorkloadReport] = []
    for record in course.records.values():
        for attempt in record.attempts:
            if attempt.region != region or attempt.name not in course.seen:
                continue
            workload, pod = _shown(course.seen[attempt.name])
            holds = pod is not None and pod["phase"] in ("Running", "Pending")
            late = course.seen[attempt.name] == "running but for one pod"
            bound = attempt.model_copy(update={"nodes": attempt.nodes - late})
            where = _hold(nodes, bound) if holds else [None] * attempt.nodes
            pods = [PodReport(name=f"p{at}", node=node, **pod) for at, node in enumerate(where)] if pod is not None else []
            if late:
                pods.append(PodReport(name="late", phase="Pending", waiting="Unschedulable"))
            shown.append(make_workload(attempt.name, *pods, **workload))
    teams = sorted({*TEAMS, *course.scenario.teams})
    return seen_of(make_report(region, nodes, shown, teams, grants_version=course.acted.get(region, 0)))


def _submitted_before(course: Course, sources: Sources) -> dict[JobKey, JobRecord]:
    """Records of jobs that an earlier cycle has seen already, though no room was made for them."""
    records = {}
    for name, said in course.jobs.items():
        key = course.key(name)
        if key not in course.records and "submitted" in said:
            file = sources.jobs[key]
            wanted = Wanted(file.spec, Source(path=file.path, blob=file.blob), file.run_hash)
            records[key] = admit(key, wanted, course.now - span(said["submitted"]))
    return records


def cycle(course: Course) -> None:
    """One cycle of the hub; its outcome and the records are kept in the course."""
    course.cycles += 1
    told = {name: said.get("reported", "1 s") for name, said in course.regions.items()}
    sources = _sources(course)
    world = World(
        sources=sources,
        ledger=Ledger(course.records | _submitted_before(course, sources), {}, HubFile(), Rejected(), {}, {}),
        suspicion=None,
        regions={name: _look(course, name) for name, when in told.items() if when != "never"},
        ages={name: None if when == "never" else span(when.removesuffix(" ago")).total_seconds() for name, when in told.items()},
        withdrawn_at=course.withdrawn_at,
        placements={},
        declined=frozenset(),
        refused={},
        inputs=f"cycle {course.cycles}",
    )
    course.outcome = decide(world, course.now)
    course.records = dict(course.outcome.records)
    for record in course.records.values():
        if record.current is not None and record.current.state is State.STOPPING:
            course.withdrawn_at.setdefault(record.current.name, course.cycles)


def change(course: Course, step: Step) -> None:
    """Let time pass and the world change as the step says."""
    course.now += span(step.after)
    for name, fields in step.regions.items():
        course.regions[name] = {**course.regions.get(name, {}), **fields}
    for name, edit in step.jobs.items():
        if edit is None:
            del course.jobs[name]
        else:
            course.jobs[name] = {**course.jobs.get(name, {}), **edit}
    for name, text in step.seen.items():
        attempt = course.records[course.key(name)].attempts[-1]
        course.seen[attempt.name] = text
        if text == "stopped":
            course.acted[attempt.region] = course.cycles + 1
