"""What the platform's files declare together: regions, links, datasets, teams, policy, settings.

Decides which version of each file is in force (main's where it is valid, else the one before) and what they say about
each other that must be a mistake. What regions have free at the moment is not here.

Invariant: a broken file takes nothing out of force that was in force before, and never touches another file.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from reconciler.hub.reading import Access, Blob, Broken, FileCache, Finding, config_at
from reconciler.hub.repo_files import SUFFIX, Kind, Place, did_you_mean, place_of, printable
from reconciler.model.base import Model
from reconciler.model.fleet import Confirmation, Dataset, Link, Links, Team
from reconciler.model.policy import Policy, Settings
from reconciler.model.problem import Problem
from reconciler.model.region import Region
from reconciler.ports import EntryKind, Transient, TreeEntry

M = TypeVar("M", bound=Model)

Slot = tuple[Kind, str]
"""What a file declares: its kind, and its name where there are several of the kind."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Everything that is declared beside jobs. `links` are directed: a symmetric one stands there both ways."""

    regions: Mapping[str, Region]
    links: Mapping[tuple[str, str], Link]
    datasets: Mapping[str, Dataset]
    teams: Mapping[str, Team]
    policy: Policy
    settings: Settings


@dataclass(frozen=True, slots=True)
class Word:
    """A person's word of a region that is not heard of. It holds while `epoch` is that of the last lease that was held there."""

    file: str
    says: Literal["lost", "forget"]
    region: str
    epoch: int
    force: bool = False
    by: str = "a person"
    blob: str = ""
    """Of its file."""


@dataclass(frozen=True, slots=True)
class Found:
    """One entry of the tree that declares something, or fails to."""

    path: str
    entry: TreeEntry
    place: Place


@dataclass(frozen=True, slots=True)
class Declared:
    """The versions in force."""

    values: Mapping[Slot, Model]
    in_force: Mapping[Slot, Blob]
    current: frozenset[Slot]
    """Those of which main's own version is in force."""
    unread: frozenset[Slot]
    """What main declares, or tries to, without any version in force: neither main's nor an earlier one is valid."""
    problems: tuple[Problem, ...]

    def all_of(self, kind: type[M]) -> dict[str, M]:
        """Values of one model, by name."""
        return {name: value for (_, name), value in self.values.items() if isinstance(value, kind)}

    def known(self, kind: Kind) -> frozenset[str]:
        """Names that main declares, whether their file can be read or not; '' for files whose name is none."""
        return frozenset(name for each, name in (*self.values, *self.unread) if each is kind)

    @property
    def confirmed(self) -> frozenset[str]:
        """Commits of main that a person has confirmed."""
        found = (value.main for value in self.values.values() if isinstance(value, Confirmation))
        return frozenset(main for main in found if main is not None)

    @property
    def words(self) -> tuple[Word, ...]:
        """What people have said of regions, by the files' names."""
        slots = sorted(slot for slot, value in self.values.items() if isinstance(value, Confirmation))
        said = [(slot[1], self.in_force[slot][1], self.values[slot]) for slot in slots]
        return tuple(
            Word(f"{name}{SUFFIX}", value.says, value.region, value.epoch, value.force, value.by or "a person", blob)
            for name, blob, value in said
            if isinstance(value, Confirmation) and value.says is not None and value.region is not None and value.epoch is not None
        )


def declared(found: Iterable[Found], previous: Mapping[str, str], access: Access, cache: FileCache) -> Declared:
    """The version in force of each file. `previous`: path → blob of the versions that were in force before."""
    slots: dict[Slot, list[Found]] = {}
    for each in sorted(found, key=lambda one: one.path):
        slots.setdefault((each.place.kind, each.place.name), []).append(each)
    values: dict[Slot, Model] = {}
    in_force: dict[Slot, Blob] = {}
    failed: list[Slot] = []
    problems: list[Problem] = []
    for slot, files in sorted(slots.items()):
        main = _candidate(files, access, cache, problems.append)
        if main is None:
            failed.append(slot)
        else:
            in_force[slot], values[slot] = main
    current = frozenset(in_force)
    before = _by_slot(previous) if failed else {}
    for slot in failed:
        earlier = _earlier(before[slot], slots[slot][0], access, cache, problems.append) if slot in before else None
        if earlier is not None:
            in_force[slot], values[slot] = before[slot], earlier
    unread = frozenset(slot for slot in failed if slot not in in_force)
    return Declared(values, in_force, current, unread, tuple(problems))


def _by_slot(previous: Mapping[str, str]) -> dict[Slot, Blob]:
    slots: dict[Slot, Blob] = {}
    for path, oid in sorted(previous.items()):
        place = place_of(path, TreeEntry(oid, EntryKind.FILE))
        if place is not None and place.problem is None:
            slots[place.kind, place.name] = (path, oid)
    return slots


def _candidate(
    files: Sequence[Found], access: Access, cache: FileCache, tell: Callable[[Problem], None]
) -> tuple[Blob, Model] | None:
    """Main's own version, where there is a file that is read and valid; what is wrong with it and with misplaced ones is told."""
    for each in files:
        if each.place.problem is not None:
            tell(each.place.problem)
    sound = next((each for each in files if each.place.problem is None), None)
    if sound is None:
        return None
    blob = (sound.path, sound.entry.oid)
    value = config_at(blob, sound.place, access, cache)
    if not isinstance(value, Broken):
        return blob, value
    for problem in value.problems:
        tell(problem)
    return None


def _earlier(blob: Blob, now: Found, access: Access, cache: FileCache, tell: Callable[[Problem], None]) -> Model | None:
    try:
        value = config_at(blob, now.place, access, cache)
    except Transient:
        # Main's own blobs are readable, so this one is gone for good (a rewritten history, a new clone).
        tell(
            Problem(
                printable(now.path), 0, 0, "PreviousLost", "the version in force before cannot be read any more", "mend this file"
            )
        )
        return None
    return None if isinstance(value, Broken) else value


def fleet_of(found: Declared, folders: Iterable[str]) -> Fleet:
    """The fleet. `folders`: those under jobs/, each of which is a team where no team is declared."""
    teams = found.all_of(Team)
    if not found.known(Kind.TEAM):
        teams = {name: Team(name=name) for name in sorted(folders)}
    policy, settings = found.values.get((Kind.POLICY, "")), found.values.get((Kind.SETTINGS, ""))
    links = found.values.get((Kind.LINKS, ""))
    return Fleet(
        regions=found.all_of(Region),
        links=directed(links) if isinstance(links, Links) else {},
        datasets=found.all_of(Dataset),
        teams=teams,
        policy=policy if isinstance(policy, Policy) else Policy(),
        settings=settings if isinstance(settings, Settings) else Settings(),
    )


def directed(links: Links) -> dict[tuple[str, str], Link]:
    """Each direction by its own."""
    ways = {(link.source, link.target): link for link in links.links}
    for link in links.links:
        if link.symmetric:
            back = link.model_copy(update={"source": link.target, "target": link.source})
            ways[link.target, link.source] = back
    return ways


def remarks(found: Declared) -> Iterator[tuple[Slot, Finding]]:
    """Names of regions and teams that nobody declares. The file stays in force: such a name only has no effect."""
    regions, teams = found.known(Kind.REGION), found.known(Kind.TEAM)
    for slot in found.current:
        value = found.values[slot]
        for pointer, name in _region_names(value):
            if name not in regions:
                yield slot, unknown(pointer, "region", name, regions)
        for pointer, name in _team_names(value) if teams else ():
            if name not in teams:
                yield slot, unknown(pointer, "team", name, teams)


def _region_names(value: Model) -> Iterator[tuple[tuple[str | int, ...], str]]:
    match value:
        case Links():
            for index, link in enumerate(value.links):
                yield ("links", index, "source"), link.source
                yield ("links", index, "target"), link.target
        case Dataset():
            yield from ((("replicas", index, "region"), replica.region) for index, replica in enumerate(value.replicas))
        case Team():
            yield from ((("regions", index), name) for index, name in enumerate(value.regions or ()))
        case Policy():
            yield from ((("approval", "regions", index), name) for index, name in enumerate(value.approval.regions))


def _team_names(value: Model) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, Policy):
        yield from ((("approval", "teams", index), name) for index, name in enumerate(value.approval.teams))
        yield from ((("limits", "overlay_teams", index), name) for index, name in enumerate(value.limits.overlay_teams))


def unknown(pointer: tuple[str | int, ...], what: str, name: str, known: Iterable[str], *, refuses: bool = False) -> Finding:
    """A name that no file declares, with the one that was probably meant."""
    meant = did_you_mean(name, known)
    todo = f"did you mean `{meant}`?" if meant else f"correct it, or add {what}s/{name}.yaml"
    return Finding(pointer, f"Unknown{what.capitalize()}", f"there is no {what} `{name}`", todo, refuses)
