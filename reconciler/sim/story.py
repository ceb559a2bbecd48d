"""The story of a history: a time line in plain words, for a person who wants to know what went wrong."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reconciler.sim.happenings import Happening
from reconciler.sim.judge import Run, Violation
from reconciler.sim.world import World


@dataclass(frozen=True, slots=True)
class Story:
    """What happened under a seed. `lines`: seconds from the beginning, and words."""

    seed: int
    kind: str
    """What was broken; '' where nothing was."""
    words: str
    lines: tuple[tuple[float, str], ...]
    happenings: tuple[Happening, ...]
    drawn: int
    """How many happenings the seed has; `happenings` are those that matter."""

    def __str__(self) -> str:
        """The time line."""
        head = f"seed {self.seed}: {self.kind or 'all is well'} ({len(self.happenings)} of {self.drawn} happenings)"
        return "\n".join([head, *(f"  {stamp(at)} {words}" for at, words in self.lines)])


def stamp(seconds: float) -> str:
    """`00:05:12.3`."""
    minutes, rest = divmod(seconds, 60.0)
    return f"{int(minutes) // 60:02}:{int(minutes) % 60:02}:{rest:04.1f}"


def told(world: World, seed: int, found: Violation | None, happenings: Sequence[Happening], drawn: int) -> Story:
    """The story of a world that has come to its end."""
    now = world.agenda.seconds
    lines = [*world.story, *(line for runs in world.judge.runs.values() for run in runs for line in _of_run(run, now))]
    lines.sort(key=lambda line: line[0])
    if found is not None:
        lines.append((now, f"VIOLATION {found.kind}: {found.words}"))
    kind, words = (found.kind, found.words) if found is not None else ("", "")
    return Story(seed, kind, words, tuple(lines), tuple(happenings), drawn)


def _of_run(run: Run, now: float) -> Iterator[tuple[float, str]]:
    what = f"{run.attempt}, pod {run.index}, in {run.region}"
    yield run.started, f"    [{what} runs]"
    if run.told_at is not None:
        yield run.told_at, f"    [{what} is told to end]"
    if run.ends is not None and run.ends <= now:
        yield run.ends, f"    [{what} has ended, with {run.code}]"
