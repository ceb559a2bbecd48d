"""How far a staging task has come. Its worker prints it as a line of its log, the agent reports it, the ledger keeps it."""

from typing import Final

from pydantic import Field, ValidationError

from reconciler.model.base import Model

MARK: Final = "progress "
"""What such a line of the log begins with; its JSON follows."""


class Progress(Model):
    """Objects and bytes of a transfer."""

    objects_done: int = Field(ge=0)
    """There, and checked."""
    objects_total: int = Field(ge=0)
    bytes_done: int = Field(ge=0)
    """Of objects that are there, and parts that are; what the last start found counts as well."""
    bytes_total: int = Field(ge=0)
    bytes_sent: int = Field(default=0, ge=0)
    """Sent over the link by this start of the worker."""
    bytes_per_second: float = Field(default=0.0, ge=0)
    """Over the last seconds."""


def progress_line(progress: Progress) -> str:
    """The line that tells it."""
    return MARK + progress.model_dump_json()


def last_progress(log: str) -> Progress | None:
    """What the newest whole line of a log's end says; None where none does. A line that is cut at the front is passed over."""
    for line in reversed(log.splitlines()):
        if line.startswith(MARK):
            try:
                return Progress.model_validate_json(line.removeprefix(MARK))
            except ValidationError:
                continue
    return None
