"""The verbs that make one commit on main: of a job, of a region, of a doubt. Registered by cli.py."""

from typing import Annotated

import typer

from reconciler.cli_options import Job, Repo, Store

RegionName = Annotated[str, typer.Argument(metavar="REGION", help="As its file is called: regions/REGION.yaml.")]


def cancel(job: Job, repo: Repo = None) -> None:
    """Remove a job's file from main; what runs is stopped."""
    from reconciler.commands.cancel import cancel as run
    from reconciler.commands.repository import chosen

    run(chosen(repo), job)


def rerun(job: Job, repo: Repo = None) -> None:
    """Run a job again that has ended."""
    from reconciler.commands.repository import chosen
    from reconciler.commands.rerun import rerun as run

    run(chosen(repo), job)


def release(job: Job, repo: Repo = None) -> None:
    """Let a job go on that is held, or that waits for its lost region."""
    from reconciler.commands.release import release as run
    from reconciler.commands.repository import chosen

    run(chosen(repo), job)


def confirm(
    sha: Annotated[str, typer.Argument(metavar="SHA", help="The commit of main, as `reconciler status` shows it.")],
    repo: Repo = None,
) -> None:
    """Confirm a change of main that looks like an accident."""
    from reconciler.commands.confirm import confirm as run
    from reconciler.commands.repository import chosen

    run(chosen(repo), sha)


def cordon(region: RegionName, repo: Repo = None) -> None:
    """Give a region no new jobs; what runs there goes on."""
    from reconciler.commands.cordon import cordon as run
    from reconciler.commands.repository import chosen

    run(chosen(repo), region)


def uncordon(region: RegionName, repo: Repo = None) -> None:
    """Give a region new jobs again; it is drained no more."""
    from reconciler.commands.cordon import uncordon as run
    from reconciler.commands.repository import chosen

    run(chosen(repo), region)


def drain(
    region: RegionName,
    by: Annotated[str | None, typer.Option("--by", metavar="WHEN", help="As 2026-05-01T14:00:00Z.")] = None,
    within: Annotated[str | None, typer.Option("--in", metavar="TIME", help="From now on, as 2h.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would leave how.")] = False,
    repo: Repo = None,
    store: Store = None,
) -> None:
    """Empty a region by some moment; show how each job leaves it. Without a moment: only show."""
    from reconciler.adapters.clock import SystemClock
    from reconciler.commands import drain as verb
    from reconciler.commands.repository import chosen

    until = verb.moment(by, within, SystemClock().now())
    verb.drain(chosen(repo), region, until, store, dry_run=dry_run)


def lost(region: RegionName, repo: Repo = None) -> None:
    """Say that a silent region really is down, where the hub doubts itself."""
    from reconciler.commands.region_words import lost as run
    from reconciler.commands.repository import chosen

    run(chosen(repo), region)


def forget(
    region: RegionName,
    force: Annotated[
        bool, typer.Option("--force", help="Also where something may still run there: you take the risk of two copies.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --force: do not ask.")] = False,
    repo: Repo = None,
) -> None:
    """Say that a region never comes back: its jobs end there as lost, and go on elsewhere."""
    from reconciler.commands.region_words import forget as run
    from reconciler.commands.repository import chosen

    run(chosen(repo), region, force=force, yes=yes)
