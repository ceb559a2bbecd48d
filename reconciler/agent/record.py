"""What the agent must not forget, kept in the region's own Kubernetes: which attempts were released, epoch, last renewal.

Decides its form only; when something is written into it is decided by decide.py and lease.py. Pure.

Invariants: an attempt stands here before it is released, so one that stands here counts as released, whatever became of the
request; the grants' (term, version) and the epoch never fall; what cannot be read whole is not read at all.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from reconciler.agent.reading import Key

_FORM: Final = 1
LARGEST: Final = 900_000
"""Bytes; a ConfigMap holds 1 MiB in all."""
FULL: Final = 700_000
"""Bytes with which nothing more is released: the rest is for the indexes of what runs. About 7000 attempts of usual names."""


ANYBODY: Final = "*"
"""Among the agents that a record names: there may have been others before, for the record is an older agent's."""
_REMEMBERED: Final = 40
"""Agents that are kept in mind; a new one with each start."""


class Broken(Exception):
    """The record cannot be read: it was cut, edited, or written by a newer agent."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One attempt that was released, or was about to be."""

    uid: str
    """Of the object that it is bound to, for good."""
    generation: int
    """That object's generation after our own writes to its spec; one that is further has been changed by somebody else."""
    nodes: int
    """Pods that must end well."""
    done: frozenset[int] = frozenset()
    """Indexes of the pods that were seen to end with exit code 0; those pods may be gone since."""
    maker: str = ""
    """The uid of the Job that makes its pods, where the object makes that Job; '' until it is known, and where it makes none."""
    maker_generation: int = 0
    """That Job's, from when it was bound: one that has another was suspended and resumed, or is no more as it was made."""

    @property
    def pods_from(self) -> str:
        """The uid of what makes its pods, as far as that is known."""
        return self.maker or self.uid


@dataclass(frozen=True, slots=True)
class Renewal:
    """When the last renewal was sent that the store acknowledged. `monotonic` (seconds) holds within one `boot` only."""

    sent_at: datetime
    monotonic: float
    boot: str
    lasts_seconds: float | None = None
    """From its sending until everything is stopped, as the lease said then; None where an older agent wrote it."""
    number: int | None = None
    """The lease's, which rises with every renewal; None where an older agent wrote it."""


def newer(one: Renewal | None, other: Renewal | None) -> Renewal | None:
    """The later of two renewals, by the one clock within a boot, else by the wall; None where there is none."""
    if one is None or other is None:
        return one or other
    if one.boot and one.boot == other.boot:
        return max(one, other, key=lambda renewal: renewal.monotonic)
    return max(one, other, key=lambda renewal: renewal.sent_at)


@dataclass(frozen=True, slots=True)
class Record:
    """The agent's memory."""

    epoch: int = 0
    """Of the lease under which this region runs; 0 before the first."""
    fenced: bool = False
    """Whether the agent has begun to stop everything since the last renewal."""
    renewal: Renewal | None = None
    seen: tuple[int, int] = (0, 0)
    """Term and version of the newest grants that were acted upon."""
    attempts: Mapping[Key, Entry] = field(default_factory=dict)
    agents: tuple[str, ...] = (ANYBODY,)
    """The agents of this cluster, each written down before it takes the lease; the newest last."""


def with_agent(agents: Iterable[str], incarnation: str) -> tuple[str, ...]:
    """The agents with one more, if it is not among them."""
    known = tuple(agents)
    return known if incarnation in known else (*known[1 - _REMEMBERED :], incarnation)


def encode(record: Record) -> bytes:
    """The record as JSON; equal records give equal bytes."""
    renewal = record.renewal
    said = {
        "form": _FORM,
        "epoch": record.epoch,
        "fenced": record.fenced,
        "renewal": renewal and _said_of(renewal),
        "seen": list(record.seen),
        "agents": list(record.agents),
        "attempts": {
            str(key): [entry.uid, entry.generation, entry.nodes, written_indexes(entry.done), *_maker(entry)]
            for key, entry in sorted(record.attempts.items())
        },
    }
    return json.dumps(said, separators=(",", ":"), sort_keys=True).encode()


def decode(body: bytes) -> Record:
    """The record that was written as `body`. Raises Broken."""
    try:
        said = json.loads(body)
        if said["form"] != _FORM:
            raise Broken(f"it has form {said['form']}, this agent knows {_FORM}; run the agent that wrote it")
        term, version = said["seen"]
        return Record(
            epoch=_number(said["epoch"]),
            fenced=bool(said["fenced"]),
            renewal=_renewal(said["renewal"]),
            seen=(_number(term), _number(version)),
            attempts=dict(_attempts(said["attempts"])),
            agents=tuple(map(str, said.get("agents", (ANYBODY,)))),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Broken(f"it is not a record of an agent ({type(error).__name__}: {error})") from error


def _maker(entry: Entry) -> tuple[str, int] | tuple[()]:
    return (entry.maker, entry.maker_generation) if entry.maker else ()


def joining(incarnations: Iterable[str]) -> bytes:
    """What stands in the record's place before there is one: which agents of this cluster have tried to take the lease."""
    return json.dumps({"form": _FORM, "joining": list(incarnations)}, separators=(",", ":")).encode()


def joined(body: bytes) -> tuple[str, ...] | None:
    """The agents that `joining` named; None where that is not what stands there."""
    try:
        said = json.loads(body)
        named = said["joining"] if said.keys() == {"form", "joining"} else None
    except (ValueError, TypeError, AttributeError, KeyError):
        return None
    return tuple(map(str, named)) if isinstance(named, list) else None


def _number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a whole number from 0 up")
    return value


def _said_of(renewal: Renewal) -> list[Any]:
    return [renewal.sent_at.isoformat(), renewal.monotonic, renewal.boot, renewal.lasts_seconds, renewal.number]


def _renewal(said: Any) -> Renewal | None:
    if said is None:
        return None
    sent_at, monotonic, boot, *more = said
    lasts, number = (*more, None, None)[:2]
    when = datetime.fromisoformat(sent_at)
    if when.tzinfo is None:
        raise ValueError(f"{sent_at!r} has no time zone")
    return Renewal(when, float(monotonic), str(boot), None if lasts is None else float(lasts), number and _number(number))


def _attempts(said: Mapping[str, Any]) -> Iterable[tuple[Key, Entry]]:
    for name, (uid, generation, nodes, done, *maker) in said.items():
        namespace, attempt = name.split("/")
        made_by, made_at = maker or ("", 0)
        if not (namespace and attempt and isinstance(uid, str) and isinstance(made_by, str)):
            raise ValueError(f"{name!r} names no attempt")
        entry = Entry(uid, _number(generation), _number(nodes), parse_indexes(done), made_by, _number(made_at))
        yield Key(namespace, attempt), entry


def parse_indexes(written: str) -> frozenset[int]:
    """Indexes in the short form of a Job's status: `0,2-4`. Raises ValueError."""
    found: set[int] = set()
    for run in filter(None, written.split(",")):
        first, _, last = run.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def written_indexes(indexes: Iterable[int]) -> str:
    """The reverse of `parse_indexes`."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
