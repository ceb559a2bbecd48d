"""Waiting for a condition, by asking again; nothing in the tests sleeps for a guessed time."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T | None], within_seconds: float = 20.0, every_seconds: float = 0.02) -> T:
    """Ask `condition` until it answers something true, and return that; AssertionError after `within_seconds`."""
    pause = threading.Event()
    deadline = time.monotonic() + within_seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_seconds} s: {condition}")
        pause.wait(every_seconds)
