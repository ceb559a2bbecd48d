"""The common ground of everything that is written to Git or to the store.

Models are frozen, refuse unknown fields and convert nothing (a string is never read as a number). What they accept is
what their JSON Schema accepts; rules between fields stand in the model that owns the fields.
"""

import re
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, Strict, StringConstraints

# `$(?!\n)`: Python's `$` would let a trailing newline through, and ECMA readers of the schema know no `\Z`.
END = r"$(?!\n)"


class Model(BaseModel):
    """Base of every published value."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        regex_engine="python-re",
        use_attribute_docstrings=True,
        hide_input_in_errors=True,  # a value may be a secret
        ser_json_timedelta="float",
    )


T = TypeVar("T")

Many = Annotated[tuple[T, ...], Strict(False)]
"""A list in the file, a tuple in memory."""

_NAME = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?" + END
_JOB_ID = r"^[a-z0-9]([a-z0-9-]{0,126}[a-z0-9])?" + END

Name = Annotated[
    str,
    StringConstraints(pattern=_NAME),
    Field(description="Lower-case letters, digits and `-`; at most 63; starts and ends with a letter or digit"),
]
"""A region, team, dataset, node pool, queue: whatever becomes a branch, folder, namespace or label."""

JobId = Annotated[
    str,
    StringConstraints(pattern=_JOB_ID),
    Field(description="Lower-case letters, digits and `-`; at most 128; starts and ends with a letter or digit"),
]

Text = Annotated[str, StringConstraints(max_length=1024, pattern=r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*" + END)]
"""A few words for people."""

Line = Annotated[str, StringConstraints(max_length=253, pattern=r"^[^\x00-\x1f\x7f]+" + END)]
"""One line without control characters."""

Quantity = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9]{1,15}(\.[0-9]{1,9})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?" + END),
    Field(description="A Kubernetes quantity as a string, of at most 15 digits", examples=["64Gi", "500m", "96"]),
]

Uri = Annotated[
    str,
    StringConstraints(pattern=r"^(s3|gs|file|https)://[^\s\x00-\x1f\x7f]+" + END, max_length=1024),
    Field(
        description="Where it is: s3://bucket/path/, gs://…, https://… or file:///folder/",
        examples=["s3://data-eu/corpus/"],
    ),
]

Image = Annotated[
    str,
    StringConstraints(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._:/@-]{0,511}" + END),
    Field(
        description="An image reference, best by digest",
        examples=["reg.example.com:5000/team/train:1.4", "reg.example.com/team/train@sha256:" + "0" * 64],
    ),
]

EnvName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}" + END),
    Field(description="The name of an environment variable: letters, digits and `_`"),
]
MountPath = Annotated[
    str,
    StringConstraints(pattern=r"^(/(?!\.{1,2}(/|$))[^/:\x00-\x1f\x7f]+)+/?" + END, max_length=512),
    Field(description="An absolute path in the container, without `.` or `..`", examples=["/data"]),
]
LabelValue = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?" + END)]
LabelKey = Annotated[
    str,
    StringConstraints(
        pattern=r"^(?=.{1,316}$)([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?"
        r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?" + END
    ),
    Field(description="A Kubernetes label key: a name, or a domain, `/` and a name"),
]

Seconds = Annotated[int, Field(ge=1, le=366 * 24 * 3600, description="Seconds")]
Fraction = Annotated[float, Field(ge=0, le=1)]
Usd = Annotated[float, Field(ge=0, le=1_000_000, description="US dollars")]


def matches_name(text: str) -> bool:
    """Whether `text` may name a region, team or dataset (one rule for all of them)."""
    return re.search(_NAME, text) is not None


def plain(model: BaseModel) -> dict[str, Any]:
    """A model as JSON values, without the fields that hold their default."""
    return model.model_dump(mode="json", exclude_defaults=True)
