"""The verbs of `reconciler stage` that move bulk, and their options."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from reconciler.registry_port import PLATFORM

Rate = Annotated[
    float | None, typer.Option("--rate", metavar="BYTES_PER_SECOND", min=0, help="Never faster than that; 0: pause.")
]
RateFile = Annotated[
    Path | None, typer.Option("--rate-file", metavar="PATH", help="A file that says the rate, read again while it runs.")
]


def dataset(  # noqa: PLR0913, PLR0917 - a verb's options are its arguments
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="s3://bucket/prefix/ or file:///folder/.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The same; a folder of its own.")],
    rate: Rate = None,
    rate_file: RateFile = None,
    link: Annotated[
        Literal["source", "target"], typer.Option("--link", help="Which end is across the link: there the rate is kept.")
    ] = "source",
    marker: Annotated[
        bool | None,
        typer.Option(
            "--marker/--no-marker",
            help="Write TARGET.json beside a complete copy; else only where TARGET is no mounted or linked folder.",
        ),
    ] = None,
    size_check: Annotated[
        bool, typer.Option("--size-check", help="Objects of the right size are right: for stores whose ETags are no checksums.")
    ] = False,
) -> None:
    """Copy a dataset from store to store; only what is missing is sent. SOURCE_AWS_… and TARGET_AWS_… open the two ends."""
    from reconciler.commands.stage_bulk import How
    from reconciler.commands.stage_bulk import dataset as run

    run(source, target, How(rate, rate_file, link, marker, by_size=size_check))


def results(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="What an attempt wrote: s3://bucket/prefix/ or file:///folder/.")
    ],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Where it is asked for.")],
    rate: Rate = None,
    rate_file: RateFile = None,
) -> None:
    """Return what an attempt wrote to where it is asked for, if anything; TARGET.json says then that it is whole."""
    from reconciler.commands.stage_bulk import How
    from reconciler.commands.stage_bulk import dataset as run

    run(source, target, How(rate, rate_file, marker=True, may_be_empty=True))


def evict(target: Annotated[str, typer.Argument(metavar="TARGET", help="The folder of a staged copy.")]) -> None:
    """Remove a staged copy: first what says that it is complete, then all that is there. TARGET_AWS_… opens it."""
    from reconciler.commands.stage_bulk import evict as run

    run(target)


def image(
    reference: Annotated[str, typer.Argument(metavar="REF", help="The image.")],
    mirror: Annotated[str, typer.Option("--mirror", metavar="HOST[:PORT]", help="The region's pull-through registry.")],
    rate: Rate = None,
    rate_file: RateFile = None,
    platform: Annotated[str, typer.Option("--platform", metavar="OS/ARCH", help="Of an image of several.")] = PLATFORM,
) -> None:
    """Have a region's mirror fetch an image before any node asks for it."""
    from reconciler.commands.stage_image import image as run

    run(reference, mirror, rate, rate_file, platform)
