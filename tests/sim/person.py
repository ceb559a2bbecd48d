"""A person at work on the main and placements branches: every push is one that people make, the bad ones too.

Files of jobs are JSON, which is YAML, so that what stands there can be read back: main itself is the only memory of what was
asked for. Whatever was ever asked is noted in `did`, for judging whether an attempt's end has a cause.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC
from pathlib import Path
from typing import Any

import pygit2
import yaml

from reconciler.model.names import JobKey, placement_path
from reconciler.ports import Clock

MAIN, PLACEMENTS = "refs/heads/main", "refs/heads/placements"
REGIONS = ("eu", "us")
TEAMS = ("team-a", "team-b")
Fields = dict[str, Any]


def _pool(name: str) -> Fields:
    return {"name": name, "nodes": 2, "gpus": 8, "gpu_model": "A100-80GB", "cpu": "96", "memory": "1000Gi"}


def region_file(name: str, price: float) -> Fields:
    """Two nodes of eight GPUs."""
    return {"name": name, "sync_engine": "local", "prices": {"A100-80GB": price}, "node_pools": [_pool("a")]}


PROGRAMS: Mapping[str, Fields] = {
    "ends well": {"env": {"SIM_SECONDS": "20"}, "gpu": {"count": 1}},
    "ends well, and takes its time to stop": {"env": {"SIM_SECONDS": "40", "SIM_STOP": "20"}, "gpu": {"count": 8}},
    "ends well at the second try": {"env": {"SIM_SECONDS": "15", "SIM_FAILS": "1"}, "gpu": {"count": 2}, "retries": 2},
    "always fails": {"env": {"SIM_SECONDS": "10", "SIM_FAILS": "999", "SIM_CODE": "3"}, "gpu": {"count": 1}, "retries": 1},
    "long": {"env": {"SIM_SECONDS": "150"}, "gpu": {"count": 4}, "checkpoint_path": "s3://checkpoints/long/"},
    "without GPUs": {"env": {"SIM_SECONDS": "30"}, "gpu": {"count": 0}},
    "two nodes": {"env": {"SIM_SECONDS": "30", "SIM_NODES": "2"}, "gpu": {"count": 4}, "nodes": 2},
    "two nodes, the first fails once": {
        "env": {"SIM_SECONDS": "20", "SIM_NODES": "2", "SIM_FAILS": "1", "SIM_STOP": "5"},
        "gpu": {"count": 8},
        "nodes": 2,
        "retries": 1,
    },
    "never ends, and has two minutes": {"env": {}, "gpu": {"count": 1}, "max_runtime_seconds": 120},
    "asks once to be rescheduled": {
        "env": {"SIM_SECONDS": "10", "SIM_FAILS": "1", "SIM_CODE": "7"},
        "gpu": {"count": 1},
        "on_exit": {"7": "reschedule"},
    },
}
"""What jobs do. The environment tells the simulated program; see `witness.WitnessedRuntime`."""


class Person:
    """Writes straight into the remote's repository, as a push of theirs would leave it."""

    def __init__(self, remote: Path, clock: Clock) -> None:
        self._repository = pygit2.Repository(str(remote))
        self._clock = clock
        self._commits = 0
        self.files: dict[str, bytes] = {}
        self.history: list[tuple[str, dict[str, bytes]]] = []
        """Every state that main has had, by commit."""
        self.did: defaultdict[JobKey, set[str]] = defaultdict(set)
        self.reruns: defaultdict[JobKey, int] = defaultdict(int)
        self._programs: dict[JobKey, object] = {}
        self.fields: dict[JobKey, Fields] = {}
        """What main asks for at present, job by job; without those that are broken or named twice."""

    # ---- main

    def commit(self, files: Mapping[str, bytes], *, onto: str | None = "", message: str = "change") -> str:
        """Push main with exactly these files. `onto`: the parent; '' for what main is now, None for none (forced)."""
        self._commits += 1
        parent = self.head(MAIN) if onto == "" else onto
        tree = self._tree(files)
        commit = self._commit(tree, parent, f"{message} ({self._commits})")
        self._repository.references.create(MAIN, commit, force=True)
        self._note(dict(files))
        self.history.append((str(commit), dict(files)))
        return str(commit)

    def force_back(self, state: int) -> None:
        """Force main back to one of the states that it has had."""
        commit, files = self.history[state]
        self._repository.references.create(MAIN, commit, force=True)
        self._note(dict(files))
        self.history.append((commit, dict(files)))

    def drop_main(self) -> None:
        """Delete the branch."""
        if MAIN in self._repository.references:
            self._repository.references.delete(MAIN)
            self._note({})
            self.files = self.history[-1][1]

    def edit(self, path: str, fields: Fields | None, *, message: str = "change") -> None:
        """Push one file: its fields, or None to remove it."""
        files = {key: body for key, body in self.files.items() if key != path}
        if fields is not None:
            files[path] = as_file(fields)
        self.commit(files, message=message)

    def jobs(self) -> list[str]:
        """Paths of the jobs' files, sound or not."""
        return sorted(path for path in self.files if path.startswith("jobs/"))

    def head(self, ref: str) -> str | None:
        found = self._repository.references.get(ref)
        return None if found is None else str(found.target)

    def heads(self) -> dict[str, str]:
        """All branches and their commits."""
        return {ref: self.head(ref) or "" for ref in self._repository.references}

    def _note(self, files: dict[str, bytes]) -> None:
        before = self.files
        self.files, self.fields = files, sound_jobs(files)
        for key in {*self.did, *self.fields}:
            if is_gone(key, files, before):
                self.did[key].add("removed")
            now = self.fields.get(key)
            if now is None:
                continue
            self.did[key].add("asked for")
            if now.get("suspend"):
                self.did[key].add("suspended")
            program = now.get("env"), now["image"]
            if self._programs.setdefault(key, program) != program:
                self.did[key].add("edited")
                self._programs[key] = program
            self.reruns[key] = max(self.reruns[key], now.get("rerun", 0))

    # ---- placements

    def placements(self) -> dict[JobKey, bytes]:
        """The files of the placements branch, by job."""
        head = self.head(PLACEMENTS)
        if head is None:
            return {}
        tree = self._repository[head].peel(pygit2.Tree)
        return {
            JobKey(team.name or "", (entry.name or "").removesuffix(".yaml")): entry.data
            for team in tree
            if team.type_str == "tree"
            for entry in team
        }

    def place(self, key: JobKey, change: Callable[[Fields], Fields] | bytes | None) -> None:
        """Change a placement's file, write other bytes, or (None) remove it."""
        head = self.head(PLACEMENTS)
        files = {placement_path(each): body for each, body in self.placements().items()}
        if head is None or placement_path(key) not in files:
            return
        if change is None:
            del files[placement_path(key)]
        elif isinstance(change, bytes):
            files[placement_path(key)] = change
        else:
            content = parsed_placement(files[placement_path(key)])
            if content is None:
                return
            files[placement_path(key)] = as_file(change(content))
        self.did[key].add("placed")
        commit = self._commit(self._tree(files), head, "a word on a placement")
        self._repository.references.create(PLACEMENTS, commit, force=True)

    def proposals(self) -> list[str]:
        """Refs of the placements that wait for a person."""
        return sorted(ref for ref in self._repository.references if ref.startswith("refs/heads/proposals/"))

    def answer(self, ref: str, *, yes: bool) -> None:
        """Merge a proposal into the placements, or delete it unmerged."""
        head = self.head(ref)
        if yes and head is not None:
            path = "/".join(ref.split("/")[-2:]) + ".yaml"
            body = self._repository[head].peel(pygit2.Tree)[path].data
            files = {placement_path(each): content for each, content in self.placements().items()} | {path: body}
            commit = self._commit(self._tree(files), self.head(PLACEMENTS), "approve")
            self._repository.references.create(PLACEMENTS, commit, force=True)
        self._repository.references.delete(ref)

    # ---- objects

    def force_branch(self, branch: str, steps_back: int) -> bool:
        """Force any branch back along its history, or (-1) delete it; whether there was one."""
        ref = f"refs/heads/{branch}"
        head = self.head(ref)
        if head is None:
            return False
        if steps_back < 0:
            self._repository.references.delete(ref)
            return True
        commit = self._repository[head].peel(pygit2.Commit)
        for _ in range(steps_back):
            commit = commit.parents[0] if commit.parents else commit
        self._repository.references.create(ref, commit.id, force=True)
        return True

    def put_back(self, branch: str, commit: str) -> None:
        """Force a branch to a commit that it had."""
        self._repository.references.create(f"refs/heads/{branch}", pygit2.Oid(hex=commit), force=True)

    def branch_files(self, branch: str) -> dict[str, bytes]:
        """Path → bytes of what stands on a branch."""
        head = self.head(f"refs/heads/{branch}")
        if head is None:
            return {}
        index = pygit2.Index()
        index.read_tree(self._repository[head].peel(pygit2.Tree))
        return {entry.path: self._repository[entry.id].data for entry in index}

    def contains(self, ref: str, commit: str) -> bool:
        """Whether a branch has a commit in its history."""
        head = self.head(ref)
        return head is not None and (head == commit or self._repository.descendant_of(head, commit))

    def versions(self, branch: str, path: str) -> list[bytes]:
        """A file as the commits of a branch had it, the newest first, each content once."""
        found: dict[bytes, None] = {}
        for commit in self._repository.walk(pygit2.Oid(hex=self.head(f"refs/heads/{branch}") or "")):
            if path in commit.tree:
                found[self._repository[commit.tree[path].id].data] = None
        return list(found)

    def change_branch(self, branch: str, changes: Mapping[str, bytes | None]) -> None:
        """A commit on a branch: each path gets those bytes, or goes."""
        files: dict[str, bytes | None] = {**self.branch_files(branch), **changes}
        tree = self._tree({path: body for path, body in files.items() if body is not None})
        self.put_back(branch, str(self._commit(tree, self.head(f"refs/heads/{branch}"), "by hand")))

    def _tree(self, files: Mapping[str, bytes]) -> pygit2.Oid:
        index = pygit2.Index()
        for path, body in files.items():
            index.add(pygit2.IndexEntry(path, self._repository.create_blob(body), pygit2.enums.FileMode.BLOB))
        return index.write_tree(self._repository)

    def _commit(self, tree: pygit2.Oid, parent: str | None, message: str) -> pygit2.Oid:
        when = int(self._clock.now().astimezone(UTC).timestamp())
        who = pygit2.Signature("Someone", "someone@example.com", when, 0)
        parents = [pygit2.Oid(hex=parent)] if parent else []
        return self._repository.create_commit(None, who, who, message, tree, parents)


def as_file(fields: Fields) -> bytes:
    """One field a line, so that a reader sees what changed."""
    return (json.dumps(fields, indent=1) + "\n").encode()


def parsed(body: bytes) -> Fields | None:
    """A job's fields, None for a file that is broken."""
    try:
        fields = json.loads(body)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) and "image" in fields else None


def is_gone(key: JobKey, files: Mapping[str, bytes], before: Mapping[str, bytes]) -> bool:
    """Whether surely no file names a job: one that is newly cut off may be of any job of its team."""
    bodies = {path: body for path, body in files.items() if path.startswith(f"jobs/{key.team}/")}
    named = any(f'"job_id": "{key.job_id}"'.encode() in body for body in bodies.values())
    return not named and not any(_is_cut(body) and not _is_cut(before.get(path, b"}\n")) for path, body in bodies.items())


def _is_cut(body: bytes) -> bool:
    return not body.endswith(b"}\n")


def parsed_placement(body: bytes) -> Fields | None:
    """What a placement's file says, None for one that is broken."""
    try:
        said = yaml.safe_load(body)
    except yaml.YAMLError:
        return None
    return said if isinstance(said, dict) else None


def sound_jobs(files: Mapping[str, bytes]) -> dict[JobKey, Fields]:
    """What files ask for, job by job, where one sound file names it."""
    found: dict[JobKey, list[Fields]] = {}
    for path, body in files.items():
        fields = parsed(body) if path.startswith("jobs/") else None
        if fields is not None:
            found.setdefault(JobKey(path.split("/")[1], fields["job_id"]), []).append(fields)
    return {key: several[0] for key, several in found.items() if len(several) == 1}
