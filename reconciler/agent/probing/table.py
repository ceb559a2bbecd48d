"""The table of links as the hub has written it, and which of its links an agent measures.

A table that is broken or cannot be read is told, and the last one stays in force.
"""

from collections.abc import Mapping
from typing import TypeAlias

from pydantic import ValidationError

from reconciler.model.link_table import LINKS_KEY, LinkLine, LinkTable
from reconciler.ports import ObjectStore, Refused

Way: TypeAlias = tuple[str, str]
"""A directed link: (source, target)."""


def newer_table(store: ObjectStore, etag: str | None) -> tuple[LinkTable, str] | None:
    """The table and its ETag where it is another than the one of `etag`; None where it is not, or there is none.

    Raises Transient, and Refused for one that is broken.
    """
    found = store.etag(LINKS_KEY)
    stored = store.get(LINKS_KEY) if found is not None and found != etag else None
    if stored is None:
        return None
    try:
        return LinkTable.model_validate_json(stored.body), stored.etag
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise Refused(f"it is broken at {'.'.join(map(str, first['loc'])) or 'its beginning'}: {first['msg']}") from None


def lines_of(region: str, table: LinkTable) -> Mapping[Way, LinkLine]:
    """The links that a region's agent measures: from and to it, where the other region has a store."""
    return {
        (line.source, line.target): line
        for line in table.links
        if line.source != line.target and region in (line.source, line.target) and other_end(region, line) in table.stores
    }


def other_end(region: str, line: LinkLine) -> str:
    """The region at the other end of one of its links."""
    return line.source if line.target == region else line.target
