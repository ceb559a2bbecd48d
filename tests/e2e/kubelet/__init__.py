"""Nodes of a real control plane that run pods as programs of this machine: their kubelet, as a program of its own.

`machines(plane, nodes)` starts it for a region's control plane and ends it, with all programs, at the end. `nodes_of(file)` are
the nodes that a region's file declares.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.adapters.local import NodeSpec
from tests.waiting import until

if TYPE_CHECKING:
    from tests.e2e.control_plane import ControlPlane

__all__ = ["Machines", "machines", "nodes_of"]

_SECONDS = 60.0
_ROOT = Path(__file__).parents[3]


class Machines:
    """A kubelet and its nodes. It may be stopped or killed, and started again: its programs run on meanwhile."""

    def __init__(self, plane: "ControlPlane", nodes: Sequence[NodeSpec], folder: Path, options: Sequence[str]) -> None:
        """Of this control plane, with rights like an administrator's (one kubelet stands for several nodes)."""
        self.plane, self.nodes, self.folder = plane, nodes, folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        plane.sign("kubelet", "/O=system:masters/CN=kubelet", "IP:127.0.0.1")
        said = [word for node in nodes for word in ("--node", json.dumps(asdict(node)))]
        place = [f"--kubeconfig={plane.kubeconfig_of('kubelet')}", f"--folder={self.folder}"]
        self._command = [sys.executable, "-m", "tests.e2e.kubelet", *place, *said, *options]
        self._running: subprocess.Popen[bytes] | None = None
        self.log = self.folder.with_name(f"{folder.name}.log")

    def start(self) -> None:
        """Start the kubelet; returns when all its nodes are ready and it knows of all their pods."""
        with self.log.open("ab") as log:
            self._running = subprocess.Popen(
                self._command, cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(os.environ)
            )
        names = sorted(node.name for node in self.nodes)
        until(lambda: self._knows_all() and self.ready() == names, _SECONDS, 0.1)

    @property
    def pid(self) -> int:
        """The kubelet's, while it runs."""
        if self._running is None:
            raise RuntimeError("the kubelet does not run")
        return self._running.pid

    def _knows_all(self) -> bool:
        up = self.folder / "up"
        self._check()
        return up.exists() and up.read_text("utf-8") == str(self.pid)

    def _check(self) -> None:
        if self._running is not None and self._running.poll() is not None:
            raise RuntimeError(f"the kubelet ended with {self._running.returncode}:\n{self.log.read_text()[-3000:]}")

    def ready(self) -> list[str]:
        """The names of those of its nodes that are ready."""
        self._check()
        names = {node.name for node in self.nodes}
        found = json.loads(self.plane.kubectl("get", "nodes", "-o", "json"))["items"]
        return sorted(
            node["metadata"]["name"]
            for node in found
            if node["metadata"]["name"] in names
            and any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"].get("conditions") or ())
        )

    def stop(self) -> None:
        """End the kubelet by SIGTERM."""
        self._end(kill=False)

    def kill(self) -> None:
        """End the kubelet by SIGKILL."""
        self._end(kill=True)

    def _end(self, *, kill: bool) -> None:
        running, self._running = self._running, None
        if running is None:
            return
        if not kill:
            running.terminate()
            try:
                running.wait(10)
            except subprocess.TimeoutExpired:
                kill = True
        if kill:
            running.kill()
        running.wait()


@contextmanager
def machines(
    plane: "ControlPlane",
    nodes: Sequence[NodeSpec],
    folder: Path | None = None,
    *,
    images: Sequence[str] = ("*",),
    entry_points: Mapping[str, Sequence[str]] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Machines]:
    """Nodes that are up; gone afterwards is the kubelet, with all its programs.

    `folder` is the kubelet's own, `kubelet` in the control plane's if left out; its log lies beside it. `images`: patterns of
    what can be pulled; `entry_points`: argv by pattern, for pods without a command; `environment`: what every program gets.
    """
    from tests.adapters.local.real import leave_nothing

    options = [word for pattern in images for word in ("--image", pattern)]
    options += [f"--env={name}={value}" for name, value in (environment or {}).items()]
    for pattern, argv in (entry_points or {}).items():
        options += ["--entry-point", pattern, json.dumps(list(argv))]
    up = Machines(plane, nodes, folder or plane.folder / "kubelet", options)
    try:
        up.start()
        yield up
    finally:
        up.stop()
        leave_nothing(up.folder)


def nodes_of(region: Path) -> tuple[NodeSpec, ...]:
    """The nodes that a region's file declares, as the local demo plays them."""
    from reconciler import app_region
    from reconciler.adapters.documents import reader
    from reconciler.model.region import Region

    return app_region.nodes_of(reader.read_config(Region, region.read_bytes(), region.name))
