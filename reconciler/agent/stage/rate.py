"""Holding a transfer to a rate that may change while it runs.

Decides how long to wait after bytes have come; who set the rate, and why, is the hub's. Invariant: over any time no more passes
than the rates then in force allow, and one piece and a tenth of a second's worth; a rate of 0 lets nothing pass.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from reconciler.ports import Refused

Pause = Callable[[float], object]
"""Waits for so many seconds."""
LOOK_SECONDS: Final = 1.0
"""Between two looks at the file."""
_BURST_SECONDS: Final = 0.1
_LONGEST_PAUSE: Final = 0.5


def rate_from(fixed: float | None, file: Path | None, monotonic: Callable[[], float]) -> Callable[[], float | None]:
    """What the rate is at the moment, in bytes a second; None: no limit. A file that is empty or absent leaves it to `fixed`.

    What is returned raises Refused where the file holds anything but a number.
    """
    read_at, now = -LOOK_SECONDS, fixed

    def rate() -> float | None:
        nonlocal read_at, now
        if file is not None and monotonic() - read_at >= LOOK_SECONDS:
            read_at = monotonic()
            now = _in_file(file, fixed)
        return now

    return rate


def _in_file(file: Path, fixed: float | None) -> float | None:
    try:
        text = file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return fixed
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{file} cannot be read ({type(error).__name__}); write bytes per second into it") from error
    if not text:
        return fixed
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise Refused(f"{file} does not hold a rate; write bytes per second into it")
    return found


def paced(rate: Callable[[], float | None], monotonic: Callable[[], float], pause: Pause) -> Callable[[int], None]:
    """Tell it of bytes as they come: it returns when the next may."""
    owed, at = 0.0, monotonic()

    def took(count: int) -> None:
        nonlocal owed, at
        owed += count
        while True:
            allowed, now = rate(), monotonic()
            passed, at = now - at, now
            if allowed is None:
                owed = 0.0
                return
            owed = max(owed - allowed * passed, -allowed * _BURST_SECONDS)
            if owed < 1:  # a fraction of a byte may be too short a time for a clock
                return
            pause(min(owed / allowed, _LONGEST_PAUSE) if allowed else _LONGEST_PAUSE)

    return took
