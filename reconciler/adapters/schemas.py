"""The published contract: one JSON Schema for each kind of file, made from the model and never by hand.

Decides the dialect and where the schemas are found; what they say is the model's. Checking a file against one is for
schema_check.py.

Invariant: a schema accepts what its model accepts, apart from rules between fields, which only the model has. Draft 07,
the newest that yaml-language-server reads: `definitions`, and no `$ref` beside other keywords (draft 07 ignores them).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from reconciler.model.base import Model
from reconciler.model.fleet import Confirmation, Dataset, Links, Team
from reconciler.model.grants import Grants, Lease
from reconciler.model.job import JobSpec
from reconciler.model.placement import Placement
from reconciler.model.policy import Policy, Settings
from reconciler.model.record import JobRecord
from reconciler.model.region import Region
from reconciler.model.report import RegionReport
from reconciler.model.result import ResultPointer

DIALECT = "http://json-schema.org/draft-07/schema#"
SUFFIX = ".schema.json"

KINDS: Mapping[str, type[Model]] = MappingProxyType(
    {
        "job": JobSpec,
        "region": Region,
        "links": Links,
        "dataset": Dataset,
        "team": Team,
        "policy": Policy,
        "settings": Settings,
        "confirmation": Confirmation,
        "placement": Placement,
        "record": JobRecord,
        "report": RegionReport,
        "grants": Grants,
        "lease": Lease,
        "result": ResultPointer,
    }
)
"""Kinds of file and what each becomes. The first eight are written by people on main, the ninth by people and the hub."""

_VALUES = frozenset({"default", "examples", "enum", "const"})
"""Keywords that hold values, not schemas."""
_PACKAGE = Path(__file__).resolve().parents[1]


def schema_of(kind: str) -> dict[str, Any]:
    """The schema of a kind of KINDS, made from its model. Raises KeyError for any other."""
    made: dict[str, Any] = _draft_07(KINDS[kind].model_json_schema(ref_template="#/definitions/{model}"))
    return {"$schema": DIALECT, "title": made.pop("title"), **made}


def published(kind: str) -> dict[str, Any]:
    """The schema of a kind as it is published: the copy in the package, else in the checkout, else made now."""
    for folder in (_PACKAGE / "_packaged" / "schemas", _checkout()):
        file = folder / (kind + SUFFIX)
        if kind in KINDS and file.is_file():
            schema: dict[str, Any] = json.loads(file.read_text("utf-8"))
            return schema
    return schema_of(kind)


def write_all(folder: Path) -> None:
    """Make `folder` hold the schema of each kind, and no others."""
    folder.mkdir(exist_ok=True)
    wanted = {kind + SUFFIX: as_text(schema_of(kind)) for kind in KINDS}
    for file in folder.glob("*" + SUFFIX):
        if file.name not in wanted:
            file.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, "utf-8")


def as_text(schema: Mapping[str, Any]) -> str:
    """A schema as its file has it."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _checkout() -> Path:
    return _PACKAGE.parent / "schemas"


def _draft_07(node: Any) -> Any:
    """A schema of pydantic's (2020-12) in the words of draft 07."""
    if isinstance(node, list):
        return [_draft_07(item) for item in node]
    if not isinstance(node, dict):
        return node
    words = {"definitions" if key == "$defs" else key: value for key, value in node.items()}
    words = {key: value if key in _VALUES else _draft_07(value) for key, value in words.items()}
    if "$ref" in words and len(words) > 1:
        words["allOf"] = [{"$ref": words.pop("$ref")}]
    if "patternProperties" in words:
        words["additionalProperties"] = False  # pydantic refuses the other keys, but does not say so in its schema
    return words


if __name__ == "__main__":
    write_all(_checkout())
