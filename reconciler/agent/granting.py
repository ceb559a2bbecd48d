"""The grants as the agent reads them from the store: cheaply, and never backwards.

Decides which body is believed; what it means is decide.py's. A body that is cut, broken, of another schema or older than one
already seen changes nothing: the last good one stays in force and the fault is shown. It never reads as "nothing is granted".
"""

from dataclasses import dataclass, replace

from pydantic import ValidationError

from reconciler.model.grants import Grants, grants_key
from reconciler.model.report import Health
from reconciler.ports import ObjectStore


@dataclass(frozen=True, slots=True)
class Known:
    """What the agent knows of its grants."""

    grants: Grants | None = None
    """The last good ones; None before the first."""
    etag: str | None = None
    """Of the body that was looked at last, good or not."""
    looked: bool = False
    """Whether the store has answered since the agent's start, if only that there are none."""
    problem: Health | None = None
    """What is wrong with the body that was looked at last."""


def is_new(store: ObjectStore, region: str, known: Known) -> bool:
    """Whether the store holds another body than the one looked at last. Raises Transient or Refused."""
    return store.etag(grants_key(region)) != known.etag


def read_grants(store: ObjectStore, region: str, known: Known, seen: tuple[int, int]) -> Known:
    """What is known after one more look. `seen`: the highest (term, version) ever acted upon. Raises Transient or Refused."""
    if known.looked and not is_new(store, region, known):
        return known
    stored = store.get(grants_key(region))
    if stored is None:
        gone = Health(code="GrantsMissing", message=f"{grants_key(region)} is not in the store any more")
        return replace(known, etag=None, looked=True, problem=gone if known.grants is not None or seen > (0, 0) else None)
    known = replace(known, etag=stored.etag, looked=True)
    try:
        grants = Grants.model_validate_json(stored.body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        at = ".".join(map(str, first["loc"])) or "the whole"
        words = f"{grants_key(region)} cannot be read ({at}: {first['msg']}); the last good version stays in force"
        return replace(known, problem=Health(code="GrantsBroken", message=words))
    problem = fault(grants, region, known.grants, seen)
    return replace(known, problem=problem) if problem is not None else replace(known, grants=grants, problem=None)


def fault(grants: Grants, region: str, last: Grants | None, seen: tuple[int, int]) -> Health | None:
    """Why well-formed grants are not to be believed; None where they are. Pure."""
    if grants.region != region:
        return Health(code="GrantsBroken", message=f"{grants_key(region)} is for region {grants.region}")
    listed = [(grant.team, grant.attempt) for grant in grants.attempts]
    if len(set(listed)) < len(listed):
        return Health(code="GrantsBroken", message=f"{grants_key(region)} lists an attempt twice")
    stamp = grants.term, grants.version
    newest = max(seen, (last.term, last.version) if last is not None else (0, 0))
    if stamp < newest:
        words = (
            f"{grants_key(region)} has term {stamp[0]}, version {stamp[1]}, older than {newest[0]}, {newest[1]}, which was acted "
            "upon; if the hub's store was set up anew, remove the agent's record in this region"
        )
        return Health(code="GrantsWentBack", message=words)
    if last is not None and stamp == (last.term, last.version) and grants != last:
        return Health(code="GrantsContradict", message=f"{grants_key(region)} changed without a new version")
    return None
