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
SelfFence = Annotated[
    int | None,
    typer.Option(
        "--self-fence",
        metavar="SECONDS",
        min=15,
        max=86_400,
        help="Without a renewal of its lease for so long, it stops all jobs; else 240, or here as the region's file says.",
    ),
]
FenceKill = Annotated[
    int | None,
    typer.Option(
        "--fence-kill",
        metavar="SECONDS",
        min=1,
        max=3600,
        help="The grace that pods get then, at most; else 30, or as the region's file says.",
    ),
]
Deadman = Annotated[
    bool | None,
    typer.Option(
        "--deadman/--no-deadman",
        help="Let Kubernetes itself end the jobs when the agent is gone; else not, or as the region's file says.",
    ),
]
Report = Annotated[
    float | None,
    typer.Option(
        "--report",
        metavar="SECONDS",
        min=1,
        max=28_800,
        help="How often it reports at least: in a third of the region's unknown_seconds or sooner; else every 10 s.",
    ),
]
Listen = Annotated[str | None, typer.Option("--listen", metavar="HOST:PORT", help="Answer /healthz and /readyz there.")]
Look = Annotated[
    float | None, typer.Option("--look", metavar="SECONDS", min=0.1, max=60, help="How often it looks at its cluster.")
]
Probes = Annotated[bool, typer.Option("--probe/--no-probe", help="Measure the links to the other regions' stores.")]
GpuResource = Annotated[str, typer.Option("--gpu-resource", metavar="NAME", help="What counts GPUs.")]
GpuLabel = Annotated[str, typer.Option("--gpu-label", metavar="KEY", help="The node label that names the GPU's model.")]
Pullable = Annotated[
    list[str] | None, typer.Option("--image", metavar="PATTERN", help="Images that can be pulled on this machine; else all.")
]
Job = Annotated[str, typer.Argument(metavar="JOB", help="team/job_id, or the job_id where one team has it.")]
