"""JSON merge patch (RFC 7396) on values that are never changed in place.

What the patch does not touch is shared between the old value and the new one, so that every stored version of an object
may be handed out without a copy. Invariant: neither argument is changed.
"""

from collections.abc import Mapping
from typing import Any


def merged(target: Any, patch: Any) -> Any:
    """`patch` over `target`: maps key by key, `None` removes a key, anything else replaces what was there."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
