"""`reconciler stage`: the step before a program that brings its checkpoint, run in the attempt's pod; and `prune`.

Decides who copies: of an Indexed Job the pod of index 0; the others wait until it says that it is done, for so long at most.
Source and target are opened with the plain variables, in a pod or in a staging task. What is copied, and when a checkpoint is
complete, is for agent/stage.
"""

import os
import threading
from pathlib import Path
from shlex import quote
from typing import Final
from urllib.parse import unquote, urlsplit

from reconciler.adapters.clock import SystemClock
from reconciler.agent.stage.checkpoints.retention import prune as prune_in
from reconciler.agent.stage.checkpoints.seeding import seed
from reconciler.agent.stage.checkpoints.word import is_said, say_seeded
from reconciler.app import open_store
from reconciler.bulk_port import BulkStore
from reconciler.commands import screen
from reconciler.commands.stage_bulk import is_volume, opened
from reconciler.model.progress import progress_line
from reconciler.model.region import StoreAddress
from reconciler.ports import ObjectStore, Refused, Transient

INDEX: Final = "JOB_COMPLETION_INDEX"
WAIT_SECONDS: Final = 3600.0
"""Longer than any start time-out that makes sense; the hub ends a start that takes longer."""
_LOOK_SECONDS: Final = 2.0
_SCHEMES: Final = ("file", "s3")


def checkpoint(source: str, target: str, wait_seconds: float = WAIT_SECONDS) -> None:
    """Bring the newest complete checkpoint below one URI to another. Raises Refused and Transient.

    Nothing there to go on from is no error: the program then begins anew.
    """
    index = os.environ.get(INDEX)
    into = _beside(target)
    if index not in {None, "0"}:
        _wait(*into, source, wait_seconds)
        screen.say("the first node has brought what there is to go on from")
        return
    with opened(source, "") as one, opened(target, "", inside=is_volume(target)) as other:
        seeded = seed(one, other, SystemClock(), lambda progress: screen.say(progress_line(progress)))
    if index is not None:
        say_seeded(*into, source, seeded.checkpoint)
    for name, what in seeded.passed_over.items():
        screen.say(f"{name} is not whole and was passed over: {what}")
    if seeded.checkpoint is None:
        screen.say(f"there is no complete checkpoint at {source}: the program begins anew")
    else:
        copied = f"{seeded.copied_objects} objects, {screen.size(seeded.copied_bytes)}"
        screen.say(f"{seeded.checkpoint} is at {target} ({copied} copied)")


def prune(uri: str, keep: int) -> None:
    """Delete the complete checkpoints below a URI but for the newest so many. Raises Refused and Transient."""
    with opened(uri, "") as store:
        if not _is_there(uri, store):
            raise Refused(f"there is nothing at {quote(uri)}; give the folder in which the checkpoints stand")
        pruned = prune_in(store, keep)
    for name, what in pruned.damaged.items():
        screen.say(f"{name} is not whole and was left: {what}")
    screen.say(f"kept: {', '.join(pruned.kept) or 'there is no complete checkpoint'}")
    screen.say(f"removed: {', '.join(pruned.removed) or 'nothing'} ({screen.size(pruned.removed_bytes)})")


def _wait(into: ObjectStore, prefix: str, source: str, wait_seconds: float) -> None:
    pause = threading.Event()
    for _ in range(max(1, round(wait_seconds / _LOOK_SECONDS))):
        if is_said(into, prefix, source):
            return
        pause.wait(_LOOK_SECONDS)
    raise Transient(f"the first node has not brought the checkpoint within {wait_seconds:g} s")


def _is_there(uri: str, store: BulkStore) -> bool:
    parts = urlsplit(uri)
    folder = parts.scheme == "file" and Path(unquote(parts.path)).is_dir()
    return folder or next(iter(store.list()), None) is not None


def _beside(uri: str) -> tuple[ObjectStore, str]:
    """The store around a folder's URI, which is made, and the folder's name in it. Raises Refused for what is no such URI."""
    parts = urlsplit(uri)
    if parts.scheme not in _SCHEMES or (parts.scheme == "s3" and not parts.netloc):
        raise Refused(f"{quote(uri)} is no folder in a store; give file:///folder or s3://bucket/folder")
    above, _, name = parts.path.rstrip("/").rpartition("/")
    address = StoreAddress.model_construct(url=f"{parts.scheme}://{parts.netloc}{above or '/'}", endpoint=None, location=None)
    return open_store(address), unquote(name)
