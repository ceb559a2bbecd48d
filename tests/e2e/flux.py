"""Flux's source and kustomize controllers as processes beside a region's control plane, with their definitions installed."""

from contextlib import AbstractContextManager
from pathlib import Path

from tests.e2e.control_plane import ControlPlane, built, free_ports
from tests.e2e.engines import Processes, installed

NAMESPACE = "flux-system"

RECEIVER = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: receivers.notification.toolkit.fluxcd.io}
spec:
  group: notification.toolkit.fluxcd.io
  scope: Namespaced
  names: {kind: Receiver, listKind: ReceiverList, plural: receivers, singular: receiver}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [resources, secretRef, type]
            properties:
              type: {type: string, enum: [generic, generic-hmac, github, gitlab]}
              secretRef: {type: object, required: [name], properties: {name: {type: string}}}
              resources:
                type: array
                minItems: 1
                items:
                  type: object
                  required: [kind, name]
                  properties: {apiVersion: {type: string}, kind: {type: string}, name: {type: string}}
"""
"""What of the notification-controller's definition our object uses; the controller itself cannot be had here."""


class FluxEngine:
    """Flux for one region. `start` brings it up, `stop` ends it; it may be started again."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._plane = plane
        self._folder = folder
        self._programs = built("flux")
        self._ports = dict(zip(("store", "source", "source-ready", "apply", "apply-ready"), free_ports(5), strict=True))
        (folder / "artifacts").mkdir(parents=True, exist_ok=True)
        environment = {"KUBECONFIG": str(plane.kubeconfig), "RUNTIME_NAMESPACE": NAMESPACE}
        self.processes = Processes(folder, environment)

    def install(self) -> None:
        """The definitions of its kinds, and its namespace."""
        self._plane.kubectl("apply", "--server-side", "-f", str(self._programs / "crds"))
        self._plane.kubectl("apply", "-f", "-", stdin=RECEIVER)
        self._plane.kubectl("create", "namespace", NAMESPACE)

    def start(self) -> None:
        """Both controllers; returns when they are ready."""
        address = {name: f"127.0.0.1:{port}" for name, port in self._ports.items()}
        hurried = ["--enable-leader-election=false", "--interval-jitter-percentage=0", "--requeue-dependency=2s"]
        source = self._programs / "source-controller"
        storage = [f"--storage-path={self._folder / 'artifacts'}", f"--storage-addr={address['store']}"]
        advertised = f"--storage-adv-addr={address['store']}"
        self.processes.start("source-controller", [source, *hurried, *storage, advertised, *self._heard("source")])
        self.processes.start("kustomize-controller", [self._programs / "kustomize-controller", *hurried, *self._heard("apply")])
        for name in ("source-ready", "apply-ready"):
            self.processes.until_ready(f"http://{address[name]}/readyz")

    def _heard(self, name: str) -> list[str]:
        ports = self._ports
        return [f"--metrics-addr=127.0.0.1:{ports[name]}", f"--health-addr=127.0.0.1:{ports[f'{name}-ready']}"]

    def stop(self) -> None:
        """End both."""
        self.processes.stop()


def start_flux(plane: ControlPlane, folder: Path) -> AbstractContextManager[FluxEngine]:
    """Flux in a region, up; ended afterwards."""
    return installed(FluxEngine(plane, folder))
