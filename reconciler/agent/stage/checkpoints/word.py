"""The first node's word to the others that the checkpoint is there, as an object in the attempt's own folder.

The others cannot see it from the listings: which checkpoint was taken is known to who has read it, and there may be none.
"""

import json
from typing import Final

from reconciler.ports import Conflict, ObjectStore

_NAME: Final = ".seeded.json"


def say_seeded(target: ObjectStore, target_prefix: str, source: str, checkpoint: str | None) -> None:
    """Say that what was to be brought from `source` (a URI) is there; `checkpoint` None: there was nothing. May be repeated.

    Raises Transient and Refused.
    """
    key = _key(target_prefix)
    body = json.dumps({"schema_version": 1, "source": source, "checkpoint": checkpoint}, sort_keys=True).encode()
    try:
        target.put(key, body, expect=target.etag(key))
    except Conflict:  # the same said by another pod of the same index
        if target.etag(key) is None:
            raise


def is_said(target: ObjectStore, target_prefix: str, source: str) -> bool:
    """Whether the first node has said so, of this source. Raises Transient, Refused."""
    stored = target.get(_key(target_prefix))
    if stored is None:
        return False
    try:
        said = json.loads(stored.body)
    except ValueError:
        return False
    return isinstance(said, dict) and said.get("source") == source


def _key(prefix: str) -> str:
    return f"{prefix}/{_NAME}" if prefix and not prefix.endswith("/") else prefix + _NAME
