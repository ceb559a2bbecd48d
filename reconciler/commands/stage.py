"""`reconciler stage`: the step before a program that brings its checkpoint, run in the attempt's pod; and `prune`.

Decides who copies: of an Indexed Job the pod of index 0; the others wait until it says that it is done, for so long at most.
What is copied, and when a checkpoint is complete, is for agent/stage.
"""

import os
import threading
from pathlib import Path
from shlex import quote
from typing import Final
from urllib.parse import unquote, urlsplit

from reconciler.agent.stage.checkpoints.retention import prune as prune_below
from reconciler.agent.stage.checkpoints.seeding import Seeded, seed
from reconciler.agent.stage.checkpoints.word import is_said, say_seeded
from reconciler.app import open_store
from reconciler.commands import screen
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
    into = _opened(target, make=True)
    if into is None:
        raise Refused(f"{target} cannot be made; check `checkpoint_path`")
    if index not in {None, "0"}:
        _wait(*into, source, wait_seconds)
        screen.say("the first node has brought what there is to go on from")
        return
    found = _opened(source, make=False)
    seeded = seed(*found, *into) if found is not None else Seeded(None)
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
    found = _opened(uri, make=False)
    if found is None or not _is_there(uri, *found):
        raise Refused(f"there is nothing at {quote(uri)}; give the folder in which the checkpoints stand")
    pruned = prune_below(*found, keep)
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


def _is_there(uri: str, store: ObjectStore, name: str) -> bool:
    parts = urlsplit(uri)
    folder = parts.scheme == "file" and Path(unquote(parts.path)).is_dir()
    return folder or next(iter(store.list(f"{name}/" if name else "")), None) is not None


def _opened(uri: str, *, make: bool) -> tuple[ObjectStore, str] | None:
    """The store around a folder's URI, and the folder's name in it; None for a folder of this machine that is not there.

    Raises Refused for what is no URI of a folder.
    """
    parts = urlsplit(uri)
    if parts.scheme not in _SCHEMES or (parts.scheme == "s3" and not parts.netloc):
        raise Refused(f"{quote(uri)} is no folder in a store; give file:///folder or s3://bucket/folder")
    above, _, name = parts.path.rstrip("/").rpartition("/")
    if parts.scheme == "file" and not make and not Path(unquote(above)).is_dir():
        return None
    address = StoreAddress.model_construct(url=f"{parts.scheme}://{parts.netloc}{above or '/'}", endpoint=None, location=None)
    return open_store(address), unquote(name)
