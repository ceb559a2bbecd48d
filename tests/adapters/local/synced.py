"""A region whose branch stands on a real Git server."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from reconciler.adapters.git import BareClone
from reconciler.adapters.local import LocalSync
from reconciler.model.names import LABEL_MANAGED, MANAGED_BY
from tests.adapters.local.world import TEAM, World
from tests.githttp import GitServer, commit_files

BRANCH = "region/eu"


def sentinel() -> dict[str, Any]:
    labels = {LABEL_MANAGED: MANAGED_BY}
    metadata = {"name": "sentinel-eu", "namespace": "gpu-reconciler", "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"region": "eu"}}


def written(*objects: Mapping[str, Any]) -> bytes:
    return yaml.safe_dump_all(objects, explicit_start=True).encode()


def file_of(name: str) -> str:
    return f"manifests/{TEAM}/{name}.yaml"


class SyncedWorld(World):
    """A region whose branch stands on a Git server."""

    def __init__(self, server: GitServer, folder: Path, **settings: Any) -> None:
        super().__init__(**settings)
        self.server = server
        self.bare = server.create("jobs")
        self.clone = BareClone(server.url("jobs"), folder / "clone")
        self.sync = LocalSync(self.cluster, self.clone, BRANCH, self.clock)

    def push(self, *jobs: Mapping[str, Any], raw: Mapping[str, bytes] | None = None, with_sentinel: bool = True) -> str:
        """A commit with these Jobs and raw files and, unless told otherwise, the sentinel."""
        files = {file_of(job["metadata"]["name"]): written(job) for job in jobs} | dict(raw or {})
        if with_sentinel:
            files["manifests/_sentinel.yaml"] = written(sentinel())
        return commit_files(self.bare, BRANCH, files)

    def pull(self, commit: str) -> None:
        """Nudge the engine, and let what follows happen."""
        self.sync.nudge(commit)
        assert self.sync.step()
        self.settle()

    def wait(self, seconds: float) -> None:
        """Let time pass for region and engine."""
        for _ in range(round(seconds)):
            self.advance(1)
            self.sync.step()
        self.settle()

    def names(self) -> list[str]:
        return [job["metadata"]["name"] for job in self.cluster.read().workloads]


def rv(world: World, name: str = "train") -> str:
    return str(world.job(name)["metadata"]["resourceVersion"])
