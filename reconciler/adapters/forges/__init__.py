"""The forges that pull requests can be on, and how one is opened."""

from reconciler.adapters.forges.opening import open_forge

__all__ = ["open_forge"]
