"""One Git remote, seen through a bare clone of our own."""

from reconciler.adapters.git.clone import BareClone
from reconciler.adapters.git.folder import INNER

__all__ = ["INNER", "BareClone"]
