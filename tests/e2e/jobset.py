"""JobSet's controller beside a region's control plane, as a process on loopback."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from tests.e2e.control_plane import ControlPlane, built, free_ports
from tests.e2e.engines import Processes
from tests.e2e.loopback import Controller, Webhooks, installed, taken
from tests.waiting import until

API = "jobset.x-k8s.io/v1alpha2"


@contextmanager
def job_sets(plane: ControlPlane) -> Iterator[Controller]:
    """JobSets at work in a region. Its webhook for pods is left out: it does something only where a set asks for it."""
    programs, folder = built("jobset"), plane.folder / "jobset"
    webhook, metrics, health = free_ports(3)
    webhooks = Webhooks(plane, folder, webhook)
    running = Processes(folder, {"KUBECONFIG": str(plane.kubeconfig)})
    config = folder / "config.json"
    certificates = str(webhooks.certificates)
    said = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": f"127.0.0.1:{metrics}", "certDir": certificates},
        "webhook": {"host": "127.0.0.1", "port": webhook, "certDir": certificates},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
    }
    config.write_text(json.dumps(said))
    installed(plane, [yaml.safe_load((programs / "config/crd/bases/jobset.x-k8s.io_jobsets.yaml").read_text())])
    controller = Controller("jobset", running, [programs / "jobset", f"--config={config}"], health)
    try:
        controller.start()
        installed(
            plane, webhooks.hooks(programs / "config/webhook/manifests.yaml", "jobset", lambda path: path.endswith("-jobset"))
        )
        until(lambda: taken(plane, [_probe()], "--dry-run=server"), 60.0, 0.2)
        yield controller
    finally:
        controller.stop()


def _probe() -> dict[str, Any]:
    spec: dict[str, Any] = {"suspend": True, "replicatedJobs": []}
    return {"apiVersion": API, "kind": "JobSet", "metadata": {"name": "probe", "namespace": "default"}, "spec": spec}
