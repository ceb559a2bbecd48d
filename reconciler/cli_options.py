"""Options that several verbs of the command have."""

from typing import Annotated

import typer

Repo = Annotated[
    str | None,
    typer.Option(
        "--repo",
        metavar="URL",
        envvar="RECONCILER_REPO",
        help="The jobs repository; else the origin of the clone one stands in.",
    ),
]
AgentStore = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="The hub's store; must be given with --engine, else as reconciler.yaml says."),
]
Store = Annotated[str | None, typer.Option("--store", metavar="URL", help="The hub's store; else as reconciler.yaml says.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, in a stable form.")]
Job = Annotated[str, typer.Argument(metavar="JOB", help="team/job_id, or the job_id where one team has it.")]
