"""A staging task: what is brought to a region before a job's GPUs are held, or returned when it is done. In the ledger it is a
job of the hub's own."""

from datetime import datetime
from typing import Annotated, Final, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from reconciler.model.base import END, Many, Model, Name, Uri

IMAGE_SCHEME: Final = "docker://"
ImageUri = Annotated[str, StringConstraints(pattern=f"^{IMAGE_SCHEME}[^\\s\\x00-\\x1f\\x7f]+" + END, max_length=1024)]
_DIGITS: Final = 12
"""Of a digest, for people."""


class CopyFound(Model):
    """What a listing of the region's store showed of a copy that had been complete, and was no more."""

    share: float = Field(ge=0, le=1)
    """Of its bytes, what was there."""
    at: datetime
    """The listing was not begun before, by the hub's clock."""


class StageTask(Model):
    """One copy of one version of a dataset, or one image in the mirror, in one region, for all jobs there that want it; or one of
    the outputs that an attempt wrote, or the checkpoint that one goes on from."""

    kind: Literal["dataset", "image", "evict", "results", "checkpoint"] = "dataset"
    """Bring a dataset; have the region's mirror fetch an image; remove the dataset that was brought; return an output; copy a
    checkpoint to the attempt that goes on from it."""
    subject: str
    """Of what it is a copy: `<dataset>@<version>`; an image by its digest, without its tag; `<attempt>@output-<number>`;
    `<attempt>@checkpoint`, of the attempt that goes on."""
    region: Name
    """Where it is brought, and where its worker runs. Of a checkpoint the region of the store that all attempts of a job write it
    to, wherever they run."""
    source_region: Name | Literal[""] = ""
    """'' of an image: its registry is in no region, so the task holds nothing of any link."""
    source_uri: Uri | ImageUri
    """Of an image: `docker://` and its subject."""
    target_uri: Uri | ImageUri
    """Of an image: `docker://` and the region's mirror."""
    size_bytes: int | None = Field(default=None, ge=0)
    """As declared, or as the image's registry says; None where nobody has said."""
    ahead_for: Many[str] = ()
    """Jobs, as `<team>/<job_id>`, for which it was begun before any of them had a place; empty of all other tasks."""
    price_usd: float | None = Field(default=None, ge=0)
    """Of the transfer, as estimated; None where the link's price is not known."""
    estimated_seconds: float | None = Field(default=None, ge=0)
    """Until all of it is there, as believed when it was decided, behind or beside what the link carried then; None: not noted."""
    estimated_bytes_per_second: int | None = Field(default=None, ge=0)
    """What our transfers together were believed to get of the link then."""
    found: CopyFound | None = None
    """Of a dataset: what was left of the copy when it was last seen to lack something."""

    @model_validator(mode="after")
    def _an_image_is_in_no_region(self) -> Self:
        is_image = self.kind == "image"
        if (self.source_region == "") != is_image:
            raise ValueError("`source_region` is needed, but of an image, which has none")
        if any(uri.startswith(IMAGE_SCHEME) != is_image for uri in (self.source_uri, self.target_uri)):
            raise ValueError(f"`source_uri` and `target_uri` begin with {IMAGE_SCHEME} of images, and of nothing else")
        return self

    @property
    def what(self) -> str:
        """What it brings, in words; of an image's digest the first digits."""
        if self.kind == "checkpoint":
            return what_of_checkpoint(self.subject.partition("@")[0])
        if self.kind != "image":
            return self.subject
        name, _, digest = self.subject.partition("@")
        kind, _, digits = digest.partition(":")
        return f"image {name}@{kind}:{digits[:_DIGITS]}"

    @property
    def source(self) -> str:
        """From where, in words: a region, or an image's registry."""
        return self.source_region or self.source_uri.removeprefix(IMAGE_SCHEME).partition("/")[0]


def what_of_checkpoint(attempt: str) -> str:
    """What is copied for an attempt, in words."""
    return f"the checkpoint that {attempt} goes on from"


class Return(Model):
    """An output that an attempt writes to its own region's store, and that a task returns to where it is asked for."""

    output: int = Field(ge=0)
    """Which of the job's, from 0."""
    written_uri: Uri
    """Where the program writes it."""
    region: Name
    """In whose store it is asked for."""


class TransferEstimate(Model):
    """What a transfer was believed to take, kept beside what it took."""

    at: datetime
    """From when the seconds count: when the task's present run began."""
    source_region: Name
    seconds: float = Field(ge=0)
    """Until all of it is there, behind or beside what else the link carried."""
    bytes_per_second: int = Field(ge=0)
    """What our transfers together would get of the link."""
    size_bytes: int | None = Field(default=None, ge=0)
    """As declared."""
