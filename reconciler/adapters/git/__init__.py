"""One Git remote, seen through a bare clone of our own."""

from reconciler.adapters.git.clone import BareClone

__all__ = ["BareClone"]
