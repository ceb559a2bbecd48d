"""The command `reconciler`: its verbs and their options. What a verb does is in `commands`, imported when it is called.

Exit codes: 0 done; 1 what was named or written is wrong, or did not end well; 2 it could not be done here or now.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from reconciler.cli_cluster import agent, bootstrap, doctor
from reconciler.cli_edits import cancel, confirm, cordon, drain, forget, lost, release, rerun, uncordon
from reconciler.cli_options import AsJson, Job, Repo, Store
from reconciler.cli_stage import dataset, evict, image, results
from reconciler.commands import ends

app = typer.Typer(
    name="reconciler",
    help="Places GPU jobs over several regions from a Git repository.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
stage_app = typer.Typer(help="Bring data before a program starts; run inside pods.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(stage_app, name="stage")

AnyJob = Annotated[str | None, typer.Argument(metavar="[JOB]", help="team/job_id, or the job_id where one team has it.")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and end the program with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # what a terminal cannot show is shown escaped
            stream.reconfigure(errors="backslashreplace")
    sys.exit(ends.guarded(lambda: app(args=None if arguments is None else list(arguments), prog_name="reconciler")))


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    local: Annotated[Path | None, typer.Option("--local", metavar="ROOT", help="Keep the stores below this folder.")] = None,
) -> None:
    """Make a jobs repository, as a copy of the example."""
    from reconciler.commands.init import init as run

    run(folder, local)


@app.command()
def validate(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="[PATHS]...", help="Files or folders; else where one stands.")
    ] = None,
    form: Annotated[
        Literal["text", "json", "github", "sarif"], typer.Option("--format", help="How problems are printed.")
    ] = "text",
) -> None:
    """Say what is wrong with job files, or with a whole repository. Needs no Git."""
    from reconciler.commands.validate import validate as run

    run(paths or [], form)


@app.command()
def plan(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="The working tree of a jobs repository.")] = Path(),
    repo: Repo = None,
    store: Store = None,
    job: Annotated[str | None, typer.Option("--job", metavar="JOB", help="Only this one.")] = None,
    json: AsJson = False,
) -> None:
    """Show what would be decided if this working tree were main."""
    from reconciler.commands import plan as verb
    from reconciler.commands.screen import say_json

    answer = verb.plan_of(folder, repo, store, job)
    say_json(verb.as_value(answer)) if json else verb.show(answer)


@app.command()
def why(job: Job, repo: Repo = None, json: AsJson = False) -> None:
    """Explain one job: phase, regions, decision, attempts, problems."""
    from reconciler.commands import reading

    reading.why(repo, job, json=json)


@app.command()
def status(
    job: AnyJob = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on, and show each change.")] = False,
    repo: Repo = None,
    json: AsJson = False,
) -> None:
    """Show all jobs, or one: phase, region, GPUs, and why."""
    from reconciler.commands import reading

    if watch:
        reading.watch(repo, job, json=json)
    else:
        reading.status(repo, job, json=json)


@app.command()
def accuracy(
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="As 7d, or 2026-05-01; else all that the ledger has.")
    ] = None,
    repo: Repo = None,
    json: AsJson = False,
) -> None:
    """Show how far estimates of starts, ends and transfers were off."""
    from reconciler.commands import reading

    reading.accuracy(repo, since, json=json)


@app.command()
def logs(
    job: Job,
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="DIR", help="Of a region on this machine: whole logs.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the program has ended; needs --folder.")] = False,
    attempt: Annotated[int | None, typer.Option("--attempt", metavar="N", help="Of this attempt; else of the newest.")] = None,
    repo: Repo = None,
) -> None:
    """Show what a job's program wrote."""
    from reconciler.commands import reading

    reading.logs(repo, job, attempt, folder, follow=follow)


@app.command()
def submit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A job's file.")],
    team: Annotated[
        str | None, typer.Option("--team", metavar="TEAM", help="Whose job it is; else by the file's folder.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the job's end; exit code 1 unless it succeeds.")] = False,
    repo: Repo = None,
) -> None:
    """Commit a job's file to main."""
    from reconciler.commands.repository import chosen
    from reconciler.commands.submit import submit as run

    run(chosen(repo), file, team, wait=wait)


for verb in (cancel, rerun, release, confirm, cordon, uncordon, drain, lost, forget):
    app.command()(verb)


@app.command()
def hub(
    folder: Annotated[Path, typer.Option("--folder", metavar="DIR", help="Where the hub keeps its clone.")],
    repo: Repo = None,
    store: Store = None,
    listen: Annotated[str | None, typer.Option("--listen", metavar="HOST:PORT", help="Hear webhooks and /healthz there.")] = None,
    poll: Annotated[
        float | None, typer.Option("--poll", metavar="SECONDS", min=0.1, max=3600, help="Else as reconciler.yaml says.")
    ] = None,
) -> None:
    """Run the hub until SIGTERM. Webhook secrets come from RECONCILER_WEBHOOK_SECRETS, separated by commas."""
    from reconciler.commands.hub import hub as run
    from reconciler.commands.repository import chosen

    run(chosen(repo), folder, store, listen, poll)


app.command()(agent)


@app.command()
def demo(
    folder: Annotated[Path | None, typer.Option("--folder", metavar="DIR", help="A new folder for all of it.")] = None,
    cut: Annotated[
        str | None, typer.Option("--cut", metavar="REGION", help="Show what happens when this region is cut off, and comes back.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Stay up afterwards, to push jobs to.")] = False,
) -> None:
    """Run the example jobs on this machine: a hub, three regions, a Git repository. Ends by itself."""
    from reconciler.commands.demo_stage import new_folder

    if cut is None:
        from reconciler.commands.demo import demo as run

        run(folder or new_folder(), keep=keep)
    else:
        from reconciler.commands.demo_cut import demo_cut

        demo_cut(folder or new_folder(), cut, keep=keep)


@stage_app.command()
def checkpoint(
    source: Annotated[str, typer.Argument(metavar="SRC", help="URI below which an earlier attempt's checkpoints are.")],
    target: Annotated[str, typer.Argument(metavar="DST", help="URI of this attempt's own folder.")],
) -> None:
    """Copy the newest complete checkpoint of an earlier attempt."""
    from reconciler.commands.stage import checkpoint as run

    run(source, target)


@stage_app.command()
def prune(
    uri: Annotated[str, typer.Argument(metavar="URI", help="The folder in which the checkpoints stand.")],
    keep: Annotated[int, typer.Option("--keep", metavar="N", min=1, help="How many of the newest complete ones stay.")],
) -> None:
    """Delete older complete checkpoints; never the newest complete one, and nothing incomplete."""
    from reconciler.commands.stage import prune as run

    run(uri, keep)


stage_app.command()(dataset)
stage_app.command()(evict)
stage_app.command()(image)
stage_app.command()(results)
app.command()(bootstrap)
app.command()(doctor)


@app.command()
def schema(kind: Annotated[str | None, typer.Argument(metavar="[KIND]", help="Left out: the kinds are listed.")] = None) -> None:
    """Print the JSON Schema of a kind of file."""
    from reconciler.commands.schema import schema as run

    run(kind)


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        number = installed("gpu-reconciler")
    except PackageNotFoundError:  # run from a checkout
        number = "0.1.0+checkout"
    sys.stdout.write(f"{number}\n")


if __name__ == "__main__":
    main()
