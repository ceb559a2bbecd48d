"""Verbs for whoever runs a region: its agent, what its cluster needs, what is wrong there. Part of the command; see cli.py."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from reconciler.cli_options import (
    AgentStore,
    AsJson,
    Deadman,
    FenceKill,
    GpuLabel,
    GpuResource,
    Listen,
    Look,
    Probes,
    Pullable,
    Repo,
    Report,
    SelfFence,
    Store,
)


def agent(  # noqa: PLR0913, PLR0917 - a verb's options are its arguments
    region: Annotated[str, typer.Argument(metavar="REGION", help="As declared in regions/REGION.yaml.")],
    engine: Annotated[
        Literal["flux", "argocd"] | None, typer.Option("--engine", help="Serve a cluster, which this engine syncs.")
    ] = None,
    store: AgentStore = None,
    look: Look = None,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", metavar="FILE", help="With --engine; else as a pod of the cluster.")
    ] = None,
    context: Annotated[
        str | None, typer.Option("--context", metavar="NAME", help="Of the kubeconfig; else its current one.")
    ] = None,
    listen: Listen = None,
    gpu_resource: GpuResource = "nvidia.com/gpu",
    gpu_label: GpuLabel = "nvidia.com/gpu.product",
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="DIR", help="Without --engine: where the region keeps its objects.")
    ] = None,
    repo: Repo = None,
    self_fence: SelfFence = None,
    fence_kill: FenceKill = None,
    report: Report = None,
    deadman: Deadman = None,
    image: Pullable = None,
    probe: Probes = True,
) -> None:
    """Run a region's agent until SIGTERM: of a cluster with --engine; else of one on this machine, of processes."""
    from reconciler.agent.nodes import NodeRules
    from reconciler.agent.settings import Times
    from reconciler.commands import agent as verb

    times = Times(self_fence, fence_kill, deadman, report)
    if engine is None:
        verb.agent(region, store, look, verb.Local(repo, folder, image or [], times, probe))
        return
    nodes = NodeRules(gpu_resource=gpu_resource, gpu_label=gpu_label)
    verb.agent_in_cluster(region, store, look, verb.InCluster(engine, kubeconfig, context, listen, nodes, times, probe))


def bootstrap(  # noqa: PLR0913 - a verb's options are its arguments
    region: Annotated[str, typer.Argument(metavar="REGION", help="As declared in regions/REGION.yaml.")],
    *,
    engine: Annotated[
        Literal["flux", "argocd"] | None, typer.Option("--engine", help="The region's sync engine; else as its file says.")
    ] = None,
    repo: Repo = None,
    store: Store = None,
    image: Annotated[str | None, typer.Option("--image", metavar="IMAGE", help="The agent's; it has this command.")] = None,
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", metavar="NAME", help="For jobs, besides those of main's teams.")
    ] = None,
    public: Annotated[bool, typer.Option("--public", help="The repository is read without credentials.")] = False,
    receiver: Annotated[bool, typer.Option("--receiver", help="Also what lets a hub announce pushes from outside.")] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write files there; else all is printed.")] = None,
) -> None:
    """Print what a region's cluster needs: namespaces, the agent with its rights, the sync engine's objects."""
    from reconciler.commands import bootstrap as verb
    from reconciler.commands.repository import chosen

    asked = verb.Asked(region, chosen(repo), engine, store, image, namespace or (), public=public, receiver=receiver)
    verb.bootstrap(asked, out)


def doctor(  # noqa: PLR0913 - a verb's options are its arguments
    region: Annotated[str, typer.Argument(metavar="REGION", help="As declared in regions/REGION.yaml.")],
    *,
    engine: Annotated[
        Literal["flux", "argocd"] | None, typer.Option("--engine", help="The region's sync engine; else as its file says.")
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", metavar="FILE", help="Else KUBECONFIG, or in a pod its own account.")
    ] = None,
    context: Annotated[
        str | None, typer.Option("--context", metavar="NAME", help="Of the kubeconfig; else its current one.")
    ] = None,
    repo: Repo = None,
    store: Store = None,
    json: AsJson = False,
) -> None:
    """Find what would go wrong in a region's cluster, and say how it is mended; exit code 1 if anything is."""
    from reconciler.commands import doctor as verb
    from reconciler.commands.repository import chosen

    verb.doctor(verb.Asked(region, chosen(repo), engine, store, kubeconfig, context), json=json)
