"""Controllers with webhooks beside a region's control plane, as processes: their Services are replaced by addresses on loopback."""

import base64
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.control_plane import ControlPlane
from tests.e2e.engines import Processes
from tests.waiting import until


class Controller:
    """A controller's process."""

    def __init__(self, name: str, running: Processes, command: list[str | Path], health: int) -> None:
        self._name, self._running, self._command, self._health = name, running, command, health

    def start(self) -> None:
        """Begin; returns when it is ready."""
        self._running.start(self._name, self._command)
        self._running.until_ready(f"http://127.0.0.1:{self._health}/readyz")

    def stop(self) -> None:
        """End it, if it runs: its webhooks then answer no more, either."""
        self._running.stop()


class Webhooks:
    """The webhooks that a controller serves on a port, and their certificate of the region's CA in `certificates`."""

    def __init__(self, plane: ControlPlane, folder: Path, port: int) -> None:
        self._root = f"https://127.0.0.1:{port}"
        self._authority = base64.b64encode((plane.folder / "pki/ca.crt").read_bytes()).decode()
        self.certificates = folder / "certs"
        self.certificates.mkdir(parents=True)
        for of in ("crt", "key"):
            shutil.copy(plane.folder / f"pki/apiserver.{of}", self.certificates / f"tls.{of}")

    def client(self, path: str) -> dict[str, str]:
        """How the API server reaches one."""
        return {"url": f"{self._root}{path}", "caBundle": self._authority}

    def hooks(self, path: Path, prefix: str, is_wanted: Callable[[str], bool]) -> list[dict[str, Any]]:
        """A file's webhook configurations, with those of the wanted paths."""
        found = list(yaml.safe_load_all(path.read_text()))
        for one in found:
            one["metadata"]["name"] = f"{prefix}-{one['metadata']['name']}"
            kept = [(hook, str(hook["clientConfig"]["service"]["path"])) for hook in one["webhooks"]]
            one["webhooks"] = [{**hook, "clientConfig": self.client(where)} for hook, where in kept if is_wanted(where)]
        return found


def installed(plane: ControlPlane, items: list[dict[str, Any]]) -> None:
    """Apply objects; returns when the kinds among them are served."""
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(items))
    for item in items:
        if item["kind"] == "CustomResourceDefinition":
            until(lambda name=item["metadata"]["name"]: _is_served(plane, name), 60.0, 0.1)


def _is_served(plane: ControlPlane, kind: str) -> bool:
    conditions = plane.get("customresourcedefinition", kind).get("status", {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def taken(plane: ControlPlane, items: list[dict[str, Any]], *options: str) -> bool:
    """Apply objects; False where their webhook does not answer yet, for the API server has just heard of it."""
    try:
        plane.kubectl("apply", "--server-side", *options, "-f", "-", stdin=yaml.safe_dump_all(items))
    except AssertionError as error:
        if "failed calling webhook" not in str(error):
            raise
        return False
    return True
