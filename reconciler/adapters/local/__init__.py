"""A region on one machine: cluster, sync engine and the two ways to run containers."""

from reconciler.adapters.local.nodes import NodeSpec
from reconciler.adapters.local.process_runtime import ProcessRuntime, ProcessSettings
from reconciler.adapters.local.region import LocalCluster, Settings, kept_record
from reconciler.adapters.local.shim import say_alive
from reconciler.adapters.local.simulated_runtime import SimulatedRuntime
from reconciler.adapters.local.sync import LocalSync

__all__ = [
    "LocalCluster",
    "LocalSync",
    "NodeSpec",
    "ProcessRuntime",
    "ProcessSettings",
    "Settings",
    "SimulatedRuntime",
    "kept_record",
    "say_alive",
]
