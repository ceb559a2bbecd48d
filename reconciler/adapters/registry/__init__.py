"""Image registries over HTTP, by the OCI distribution API: `RegistryClient` is the door."""

from reconciler.adapters.registry.client import RegistryClient

__all__ = ["RegistryClient"]
