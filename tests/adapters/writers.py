"""Programs that write to a file store until something stops them; `test_file_store_races` looks at what they leave.

`python -m tests.adapters.writers VERB FOLDER [LINE KEY ETAG]`
"""

import os
import signal
import sys
import threading
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import Any

from reconciler.adapters import file_store, folders
from reconciler.adapters.file_store import FileStore
from reconciler.ports import Conflict

KEYS = [f"regions/{name}/report.json" for name in ("eu", "us", "ap")]


def whole(number: int) -> bytes:
    """A body of some 100 kB that tells whether all of it is there."""
    content = f"{number} ".encode() * (10_000 + number % 7_000)
    return sha256(content).hexdigest().encode() + b"\n" + content


def is_whole(body: bytes) -> bool:
    digest, _, content = body.partition(b"\n")
    return sha256(content).hexdigest().encode() == digest


def write_on(folder: Path) -> None:
    """Replace objects without end, and say so after each."""
    store, number = FileStore(folder), 0
    while True:
        key = KEYS[number % len(KEYS)]
        try:
            store.put(key, whole(number), expect=store.etag(key))
        except Conflict:
            pass  # another writer was quicker
        else:
            print(number, flush=True)
        number += 1


def die_at_line(folder: Path, last: int, key: str, etag: str) -> None:
    """One write, killed as the `last`-th line of the store's code is about to run."""
    store, lines = FileStore(folder), 0

    def count(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in (file_store.__file__, folders.__file__):
            return None
        if event == "line":
            lines += 1
            if lines == last:
                os.kill(os.getpid(), signal.SIGKILL)
        return count

    sys.settrace(count)
    store.put(key, b"new", expect=etag or None)


def fork_in_the_lock(folder: Path) -> None:
    """Write while another part of the program forks a child that lives on, then write again."""
    store, replace = FileStore(folder, lock_wait_seconds=1.0), os.replace
    stay, leave = os.pipe()
    children = []

    def forking(*args: Any, **kwargs: Any) -> None:
        replace(*args, **kwargs)
        child = os.fork()
        if not child:
            os.close(leave)
            os.read(stay, 1)  # until the parent has ended
            os._exit(0)
        children.append(child)

    os.replace = forking
    store.put("first", b"1", expect=None)
    os.replace = replace
    store.put("second", b"2", expect=None)
    os.close(leave)
    for child in children:
        os.waitpid(child, 0)


def race(folder: Path, barrier: Any, name: str, rounds: int) -> dict[str, list[int]]:
    """In each round all racers create one object, then all replace it; the rounds that this one won."""
    store = FileStore(folder)
    won: dict[str, list[int]] = {"create": [], "replace": [], "count": []}
    for number in range(rounds):
        key = f"rounds/{number}"
        for kind in ("create", "replace"):
            etag = store.etag(key)
            barrier.wait(60)
            try:
                store.put(key, f"{kind} by {name}".encode(), expect=etag)
            except Conflict:
                pass
            else:
                won[kind].append(number)
            barrier.wait(60)
    for _ in range(rounds):
        won["count"].append(_count_on(store))
    return won


def _count_on(store: FileStore) -> int:
    """Add one to the number in an object, however often others come between."""
    while True:
        stored = store.get("counter")
        number = int(stored.body) + 1 if stored else 1
        try:
            store.put("counter", str(number).encode(), expect=stored.etag if stored else None)
        except Conflict:
            continue
        return number


def race_in_a_program(folder: Path, barrier: Any, name: str, rounds: int, answers: Any) -> None:
    answers.put((name, race(folder, barrier, name, rounds)))


if __name__ == "__main__":
    verb, folder, *more = sys.argv[1:]
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(3)), daemon=True).start()  # never outlive the test
    if verb == "write-on":
        write_on(Path(folder))
    elif verb == "die-at-line":
        die_at_line(Path(folder), int(more[0]), *more[1:])
    else:
        fork_in_the_lock(Path(folder))
