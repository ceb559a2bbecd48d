"""A person at work on the main branch: what is asked for, and what was ever asked for.

Files of jobs are JSON, which is YAML. Whatever was asked is noted, so that the end of a history can be judged by it.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from reconciler.model.names import JobKey
from reconciler.ports import RefUpdate
from reconciler.sim.agenda import START, Agenda
from reconciler.sim.git import Remote
from reconciler.sim.place import TEAMS

Fields = dict[str, Any]
MAIN: Final = "main"

PROGRAMS: Final[Mapping[str, Fields]] = {
    "ends well": {"env": {"SIM_SECONDS": "20"}, "gpu": {"count": 1}},
    "ends well, and takes its time to start and to stop": {
        "env": {"SIM_SECONDS": "150", "SIM_STOP": "25", "SIM_PULL": "2"},
        "gpu": {"count": 8},
    },
    "ends well at the second try": {"env": {"SIM_SECONDS": "60", "SIM_FAILS": "1"}, "gpu": {"count": 2}, "retries": 2},
    "always fails": {"env": {"SIM_SECONDS": "40", "SIM_FAILS": "999", "SIM_CODE": "3"}, "gpu": {"count": 1}, "retries": 1},
    "long": {"env": {"SIM_SECONDS": "700"}, "gpu": {"count": 4}, "checkpoint_path": "s3://checkpoints/long/"},
    "long, and does not want to stop": {"env": {"SIM_SECONDS": "500", "SIM_STOP": "600"}, "gpu": {"count": 2}},
    "without GPUs": {"env": {"SIM_SECONDS": "90"}, "gpu": {"count": 0}},
    "two nodes": {"env": {"SIM_SECONDS": "400", "SIM_NODES": "2"}, "gpu": {"count": 4}, "nodes": 2},
    "two nodes, the first fails once": {
        "env": {"SIM_SECONDS": "200", "SIM_NODES": "2", "SIM_FAILS": "1", "SIM_STOP": "5"},
        "gpu": {"count": 8},
        "nodes": 2,
        "retries": 1,
    },
    "never ends, and has five minutes": {"env": {}, "gpu": {"count": 1}, "max_runtime_seconds": 300},
    "asks once to be rescheduled": {
        "env": {"SIM_SECONDS": "30", "SIM_FAILS": "1", "SIM_CODE": "7"},
        "gpu": {"count": 1},
        "on_exit": {"7": "reschedule"},
    },
}
"""What jobs do; see machines.py for the variables."""
_LONG_SECONDS: Final = 300
LONG_PROGRAMS: Final = tuple(
    number
    for number, fields in enumerate(PROGRAMS.values())
    if int(fields["env"].get("SIM_SECONDS", _LONG_SECONDS)) >= _LONG_SECONDS
)
"""Those that run for longer than a lease is good, by their number."""


@dataclass(slots=True)
class Person:
    """Writes main as a push of theirs would leave it."""

    agenda: Agenda
    remote: Remote
    files: dict[str, bytes] = field(default_factory=dict)
    history: list[dict[str, bytes]] = field(default_factory=list)
    """Every state that main has had."""
    did: defaultdict[JobKey, set[str]] = field(default_factory=lambda: defaultdict(set))
    asked: defaultdict[JobKey, int] = field(default_factory=lambda: defaultdict(int))
    """The highest `rerun` that was ever asked for."""
    fields: dict[JobKey, Fields] = field(default_factory=dict)
    """What main asks for at present."""
    _forms: dict[JobKey, object] = field(default_factory=dict)

    def reruns(self, key: JobKey) -> int:
        """How often a person asked for one more run."""
        return self.asked[key]

    def commit(self, files: Mapping[str, bytes]) -> None:
        """Push main with exactly these files."""
        objects, head = self.remote.objects, self.remote.branches.get(MAIN)
        tree = objects.changed(None, {path: objects.blob(body) for path, body in files.items()})
        when = START.fromtimestamp(START.timestamp() + self.agenda.seconds, START.tzinfo)
        words = f"change {len(self.history)}"
        commit = objects.commit(tree, [head] if head else [], ("Someone", "someone@example.com"), words, when)
        self._note(dict(files))
        self.remote.move([RefUpdate(MAIN, head, commit)])

    def edit(self, path: str, fields: Fields | None) -> None:
        """Push one file: its fields, or None to remove it."""
        files = {key: body for key, body in self.files.items() if key != path}
        if fields is not None:
            files[path] = as_file(fields)
        self.commit(files)

    def jobs(self) -> list[str]:
        """Paths of the jobs' files."""
        return sorted(path for path in self.files if path.startswith("jobs/"))

    def job(self, number: int) -> str | None:
        """One of them, if there is any."""
        paths = self.jobs()
        return paths[number % len(paths)] if paths else None

    def fields_at(self, path: str) -> Fields:
        """What a job's file says."""
        found: Fields = json.loads(self.files[path])
        return found

    def has_forgotten(self, region: str) -> bool:
        """Whether anybody ever said that this region never comes back."""
        return any(path.startswith(f"confirmations/forget-{region}-") for files in self.history for path in files)

    def _note(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.history.append(files)
        jobs = {path: json.loads(body) for path, body in files.items() if path.startswith("jobs/")}
        self.fields = {JobKey(path.split("/")[1], said["job_id"]): said for path, said in jobs.items()}
        for key in self.did.keys() - self.fields.keys():
            self.did[key].add("removed")
        for key, said in self.fields.items():
            self.did[key].add("asked for")
            if said.get("suspend"):
                self.did[key].add("suspended")
            form = (said.get("env"), said["image"])
            if self._forms.setdefault(key, form) != form:
                self.did[key].add("edited")
                self._forms[key] = form
            self.asked[key] = max(self.asked[key], said.get("rerun", 0))


def as_file(fields: Fields) -> bytes:
    """One field a line, so that a reader sees what changed."""
    return (json.dumps(fields, indent=1) + "\n").encode()


def new_job(number: int, program: str, rerun: int = 0) -> tuple[str, Fields]:
    """Path and fields of a job's first file."""
    fields = {"job_id": f"j{number}", "image": "reg.example.com/train:1", **PROGRAMS[program]}
    return f"jobs/{TEAMS[number % 2]}/j{number}.yaml", fields | ({"rerun": rerun} if rerun else {})


def region_file(name: str, price: float) -> Fields:
    """Two nodes of eight GPUs."""
    pool = {"name": "a", "nodes": 2, "gpus": 8, "gpu_model": "A100-80GB", "cpu": "96", "memory": "1000Gi"}
    return {"name": name, "sync_engine": "local", "prices": {"A100-80GB": price}, "node_pools": [pool]}
