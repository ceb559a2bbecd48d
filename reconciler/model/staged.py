"""The marker of a staged copy: the object `<folder>.json` beside it, written last. Without it, what is there is a part."""

from datetime import datetime
from typing import Literal

from pydantic import Field, ValidationError

from reconciler.model.base import Model

STAGED = "staged/"
"""Below a region's store: `staged/<dataset>@<version>/…` and the markers beside them."""
MARKER_SUFFIX = ".json"
NOTE_SUFFIX = ".staging"
"""Beside a copy that is being made: what its worker must know when it starts anew."""


class StagedCopy(Model):
    """What was copied, and that all of it was there."""

    schema_version: Literal[1] = 1
    source: str
    """URI of the folder that it is a copy of."""
    objects: int = Field(ge=0)
    """Without the empty objects that stand for folders."""
    size_bytes: int = Field(ge=0)
    listing_digest: str
    """SHA-256 of the keys and sizes: the copy's listing has the same."""
    source_digest: str
    """SHA-256 of the keys, sizes and ETags that the source had: names the version that was copied."""
    finished_at: datetime


def read_marker(body: bytes) -> StagedCopy | None:
    """What a marker says; None for what is none: nobody can know then what should be there."""
    try:
        return StagedCopy.model_validate_json(body)
    except ValidationError:
        return None
