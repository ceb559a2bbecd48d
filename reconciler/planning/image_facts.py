"""What is known of an image when a pass decides: what its name stands for, how large it is, who has it. A value, no rules."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """Of one image. All defaults: it was asked for, and nobody knows, for its registry does not answer, or not us."""

    digest: str | None = None
    """What its name stood for when it was last looked up; the same on every platform."""
    size_bytes: int | None = None
    """Compressed, as a node fetches it."""
    missing: str = ""
    """The registry's words where it is sure that there is none; else ''."""
    forbidden: str = ""
    """Its words where our login may not pull it; else ''."""
    there: Mapping[str, int] = field(default_factory=dict)
    """Region → bytes of it that the region's mirror has; a region that is not here: not known."""
    wanted_since: datetime | None = None
    """Nobody has answered yet, since then; None once somebody has, or could not."""
