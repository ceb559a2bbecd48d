"""`reconciler stage`: the step before a program that brings its checkpoint or its data, run inside the attempt's pod.

Decides who copies: of an Indexed Job the pod of index 0; the others wait until what it copies is complete, for so long at most.
What is copied, and when a checkpoint is complete, is for agent/stage.
"""

import os
import threading
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from reconciler.agent.stage.checkpoint import is_seeded, seed
from reconciler.agent.stage.dataset import fetch
from reconciler.app import open_store
from reconciler.commands import screen
from reconciler.model.region import StoreAddress
from reconciler.ports import ObjectStore, Refused, Transient

INDEX: Final = "JOB_COMPLETION_INDEX"
WAIT_SECONDS: Final = 3600.0
"""Longer than any start time-out that makes sense; the hub ends a start that takes longer."""
_LOOK_SECONDS: Final = 2.0


def checkpoint(source: str, target: str, wait_seconds: float = WAIT_SECONDS) -> None:
    """Bring the newest complete checkpoint below one URI to another. Raises Refused and Transient.

    Nothing there to go on from is no error: the program then begins anew.
    """
    found = _opened(source, make=False)
    if found is None:
        screen.say(f"there is no checkpoint at {source}: the program begins anew")
        return
    into = _opened(target, make=True)
    if into is None:
        raise Refused(f"{target} cannot be made; check `checkpoint_path`")
    if os.environ.get(INDEX, "0") != "0":
        _wait(found, into, wait_seconds)
        screen.say("the first node has brought the checkpoint")
        return
    seeded = seed(*found, *into)
    if seeded.checkpoint is None:
        screen.say(f"there is no complete checkpoint at {source}: the program begins anew")
    else:
        copied = f"{seeded.copied_objects} objects, {screen.size(seeded.copied_bytes)}"
        screen.say(f"{seeded.checkpoint} is at {target} ({copied} copied)")


def dataset(source: str, target: str) -> None:
    """Bring a dataset into a folder of this machine (`file:///data`). Raises Refused and Transient."""
    found, into = _opened(source, make=False), urlsplit(target)
    if found is None:
        raise Refused(f"there is nothing at {source}; check the dataset's URI")
    if into.scheme != "file":
        raise Refused(f"{target} is no folder of this machine; give file:///folder")
    fetched = fetch(*found, Path(unquote(into.path)))
    whole = f"{fetched.objects} objects, {screen.size(fetched.size)}"
    screen.say(f"{source} is in {unquote(into.path)}: {whole}; {screen.size(fetched.fetched_size)} of it fetched now")


def _wait(found: tuple[ObjectStore, str], into: tuple[ObjectStore, str], wait_seconds: float) -> None:
    pause = threading.Event()
    for _ in range(max(1, round(wait_seconds / _LOOK_SECONDS))):
        if is_seeded(*found, *into):
            return
        pause.wait(_LOOK_SECONDS)
    raise Transient(f"the first node has not brought the checkpoint within {wait_seconds:g} s")


def _opened(uri: str, *, make: bool) -> tuple[ObjectStore, str] | None:
    """The store around a folder's URI, and the folder's name in it; None for a folder of this machine that is not there."""
    parts = urlsplit(uri)
    above, _, name = parts.path.rstrip("/").rpartition("/")
    if parts.scheme == "file" and not make and not Path(unquote(above)).is_dir():
        return None
    address = StoreAddress.model_construct(url=f"{parts.scheme}://{parts.netloc}{above or '/'}", endpoint=None, location=None)
    return open_store(address), unquote(name)
