"""`reconciler bootstrap`: what a region's cluster needs, printed or written into a folder; nothing is applied here.

Decides what is taken from main (the region's file, the teams, the store) and what must be said. The objects are rendering's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.adapters.documents import reader
from reconciler.adapters.kube.argocd import ArgoCdSettings
from reconciler.adapters.kube.flux import FluxSettings
from reconciler.app import STAGE_IMAGE, policy_at, settings_at, store_address, without_credentials
from reconciler.commands import screen
from reconciler.commands.ends import BadInput
from reconciler.commands.repository import MAIN, opened
from reconciler.model.base import matches_name
from reconciler.model.names import STAGING_TEAM
from reconciler.model.policy import Settings
from reconciler.model.region import LossTimes, Region, StoreAddress
from reconciler.ports import EntryKind, GitRepository, Refused
from reconciler.rendering.bootstrap import Bootstrap, Engine, EngineNames, bootstrap_files
from reconciler.rendering.branch import SENTINEL_NAMESPACE

_TAKEN: Final = frozenset({"default", "argocd", "flux-system", SENTINEL_NAMESPACE})
"""Namespaces that no job may be given, besides Kubernetes' own."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Which region is meant, as the command line says. None: by the region's file, or by reconciler.yaml."""

    region: str
    repo: str
    engine: str | None = None
    store: str | None = None


@dataclass(frozen=True, slots=True)
class Asked(Subject):
    """What the command line says. None: by the region's file, or the default."""

    image: str | None = None
    namespaces: Sequence[str] = ()
    public: bool = False
    receiver: bool = False


@dataclass(frozen=True, slots=True)
class Declared:
    """What main says of a region: its file, the namespaces of its jobs, and the store that hub and agents share."""

    region: Region
    teams: tuple[str, ...]
    store: StoreAddress | None
    loss: LossTimes
    """The region's own times, or the policy's."""


def bootstrap(asked: Asked, out: Path | None) -> None:
    """Print the objects, or write them into a folder. Raises BadInput, Invalid, Refused and Transient."""
    with opened(asked.repo) as git:
        said = declared(git, asked.region)
    found = bootstrap_files(_wanted(asked, said))
    note = image_note(asked, said.region)
    if note:
        screen.warn(note)
    if out is None:
        screen.say("---\n".join(found.values()).rstrip("\n"))
        return
    _write(out, found)
    screen.say(f"wrote {', '.join(found)} into {out}; `kubectl apply -f {out}` applies them in this order")


def names_of(engine: Engine) -> EngineNames:
    """Where the agent looks for the engine's objects."""
    if engine == "flux":
        return EngineNames(FluxSettings().namespace, FluxSettings().source)
    return EngineNames(ArgoCdSettings().namespace, ArgoCdSettings().application)


def declared(git: GitRepository, name: str) -> Declared:
    """What main says of a region. Raises BadInput for a region that it does not declare, Invalid for a broken file."""
    heads = git.fetch()
    commit = heads.get(MAIN)
    entries = git.files(commit) if commit is not None else {}
    path = f"regions/{name}.yaml"
    entry = entries.get(path)
    if not matches_name(name) or entry is None or entry.kind is not EntryKind.FILE:
        there = ", ".join(Path(one).stem for one in entries if one.startswith("regions/")) or "none"
        raise BadInput(f"main has no {path}", f"declare the region there first; there are: {there}")
    region = reader.read_config(Region, git.read(entry.oid), path)
    loss = region.loss or policy_at(git, heads, MAIN).loss
    return Declared(region, _spaces(teams_of(entries), region), settings_at(git, heads, MAIN).store, loss)


def _spaces(teams: tuple[str, ...], region: Region) -> tuple[str, ...]:
    """The namespaces of jobs: of the teams, and where data or images can be brought to the region, of the hub's own."""
    has_workers = region.object_store is not None or region.registry_mirror is not None
    return tuple(sorted({*teams, STAGING_TEAM})) if has_workers else teams


def teams_of(entries: Mapping[str, object]) -> tuple[str, ...]:
    """The teams that have a file or a folder of jobs; each has the namespace of its name."""
    found = {file.split("/")[1] for file in entries if file.startswith("jobs/") and file.count("/") > 1}
    found |= {Path(file).stem for file in entries if file.startswith("teams/") and file.count("/") == 1}
    return tuple(sorted(team for team in found if matches_name(team)))


def engine_of(asked: str | None, region: Region) -> Engine:
    """The region's sync engine: as asked, else as its file says. Raises BadInput."""
    engine = asked or region.sync_engine
    if engine == "flux":
        return "flux"
    if engine == "argocd":
        return "argocd"
    raise BadInput(f"{region.name} is synced by {engine!r}, which needs no objects", "give --engine flux or --engine argocd")


def image_note(asked: Asked, region: Region) -> str:
    """What somebody must do about the image before anything runs, where it is not wholly named; else ''."""
    missing = [] if asked.image else ["--image (the agent)"]
    if region.profile.stage_image is None:
        missing.append(f"profile.stage_image of regions/{region.name}.yaml (the steps of jobs that bring data or checkpoints)")
    if not missing:
        return ""
    return (
        f"note: {STAGE_IMAGE} is used, which must exist where this region pulls images, for want of {' and '.join(missing)}; "
        "build it from deploy/Containerfile, push it, and name it there"
    )


def _wanted(asked: Asked, said: Declared) -> Bootstrap:
    engine = engine_of(asked.engine, said.region)
    teams = tuple(sorted({*said.teams, *asked.namespaces}))
    for team in teams:
        if not matches_name(team) or team in _TAKEN or team.startswith("kube-"):
            raise BadInput(f"{team!r} cannot be a namespace of jobs", "rename the team; system namespaces are not given to jobs")
    return Bootstrap(
        region=asked.region,
        engine=engine,
        engine_names=names_of(engine),
        repo=_reachable(asked.repo),
        store=_store(asked.store, said.store),
        image=asked.image or STAGE_IMAGE,
        teams=teams,
        profile=said.region.profile,
        workloads=said.region.workloads,
        private=not asked.public,
        receiver=asked.receiver,
        loss=said.loss,
        deadman=said.region.deadman,
    )


def _store(url: str | None, by_main: StoreAddress | None) -> StoreAddress:
    address = by_main if url is None else store_address(url, Settings())
    if address is None:
        raise BadInput("no store is named", "give --store, or `store: {url: …}` in reconciler.yaml")
    if address.url.startswith("file:"):
        raise BadInput(f"{address.url} cannot be reached from a cluster", "give --store s3://bucket/prefix")
    return address


def _reachable(url: str) -> str:
    if not url.startswith(("https://", "http://", "ssh://")):
        raise BadInput(f"{url} cannot be read from a cluster", "give --repo https://… or ssh://…")
    return without_credentials(url)


def _write(folder: Path, found: Mapping[str, str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in found.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Refused(f"{error.filename or folder} cannot be written: {error.strerror}; name a folder that can") from error
