"""Job specs made from the model itself: whatever its types and patterns accept, not only what people would write."""

import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from hypothesis import reject
from hypothesis import strategies as st
from pydantic import StringConstraints, ValidationError
from pydantic.fields import FieldInfo

from reconciler.model import identity
from reconciler.model.base import END, Model
from reconciler.model.job import JobSpec
from reconciler.model.job_parts import DatasetUse, SecretUse, Volume

AWKWARD = (
    "12345e7", "1e3", "y", "n", "no", "on", "0o17", "0x1f", "1_000", "1:30", "~", "null", "true", "", " ", "=", "<<", "- a", "a: b", "#", "a #b",
    "%", "@x", "`id`", "'", '"', "\\", "\\n", "$VAR", "$(VAR)", "$$", "{{ 7*7 }}", "{% raw %}", "{# #}", "^lo", "^openib", "2026-03-29",
    "line\nline\n", "\n", "a\r\nb", "\t", "x\n---\nkind: Secret", "\x00", "\x07", "\x7f", "\x85", "\u2028", "\u2029", "\ufeff", "\ufffe",
    "\u202e", "\u200b", "José", "欧洲", "🜁", "\U0010ffff", "a" * 1500, "!!python/object:os.system", "&a", "*a", "| x", "> x", "? x",
)  # fmt: skip

OVERLAYS: tuple[dict[str, Any], ...] = (
    {},
    {"dnsPolicy": "Default"},
    {"containers": [{"resources": {"requests": {"cpu": "3", "memory": "7Gi"}}}]},
    {"containers": [{"name": "main", "resources": {"limits": {"memory": "1Ti", "example.com/nic": 2}}}]},
    {"containers": [{"name": "side", "image": "side:1", "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}}]},
    {"initContainers": [{"name": "daemon", "image": "d:1", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}]},
    {"initContainers": [{"name": "big", "image": "d:1", "resources": {"requests": {"cpu": "9k", "memory": "9Ti"}}}]},
    {
        "volumes": [{"name": "extra", "emptyDir": {}}],
        "containers": [{"volumeMounts": [{"name": "extra", "mountPath": "/extra"}]}],
    },
)


RENDERED_ALL_THE_SAME = frozenset({"grace_seconds", "labels", "owner", "queue", "tolerations"})
UNSEEN = (identity.RESTARTS_NOTHING - RENDERED_ALL_THE_SAME) | {"workload"}
"""Fields that no manifest shows; left out, so that the examples go to the others."""


def _constraints(metadata: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in metadata:
        if isinstance(item, FieldInfo):
            found |= _constraints(item.metadata)
        elif isinstance(item, StringConstraints):
            found |= {"pattern": item.pattern, "max": item.max_length, "min": item.min_length or 0}
        elif isinstance(item, Ge | Gt | Le | Lt | MinLen | MaxLen):
            name = {Ge: "ge", Gt: "gt", Le: "le", Lt: "lt", MinLen: "min", MaxLen: "max"}[type(item)]
            found[name] = next(iter(vars(item).values())) if hasattr(item, "__dict__") else getattr(item, item.__slots__[0])
        elif getattr(item, "pattern", None) is not None:
            found["pattern"] = item.pattern
    return {key: value for key, value in found.items() if value is not None}


def _text(rules: Mapping[str, Any]) -> st.SearchStrategy[str]:
    longest = rules.get("max")
    if "pattern" in rules:
        whole = rules["pattern"].removesuffix(END) + r"\Z"
        return st.from_regex(whole).filter(lambda text: longest is None or len(text) <= longest)
    return st.sampled_from(AWKWARD) | st.text(max_size=min(longest or 200, 200))


def _of(annotation: Any, rules: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _of(inner[0], {**_constraints(inner[1:]), **rules})
    if origin is Union or origin is types.UnionType:
        return st.one_of([_of(one, {}) if get_origin(one) is Annotated else _of(one, rules) for one in inner])
    if origin is Literal:
        return st.sampled_from(inner)
    if origin is tuple:
        return st.lists(_of(inner[0], {}), min_size=rules.get("min", 0), max_size=3)
    if origin is dict:
        return st.dictionaries(_of(inner[0], {}), _of(inner[1], {}), max_size=4)
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return raw(annotation)
    return _plain(annotation, rules)


def _plain(annotation: Any, rules: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    if annotation is str:
        return _text(rules)
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        return st.integers(rules.get("ge", 0), rules.get("le", 10**6))
    if annotation is float:
        return st.floats(rules.get("ge", 0), rules.get("le", 1e9), allow_nan=False)
    if annotation is type(None):
        return st.none()
    raise AssertionError(f"the model has a type that is not known here: {annotation}")


def _one_of(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    keep = next((name for name in names if fields.get(name) is not None), names[0])
    return {key: value for key, value in fields.items() if key == keep or key not in names}


def _dataset(fields: dict[str, Any]) -> dict[str, Any]:
    named = fields if fields.get("name") or fields.get("uri") else {**fields, "uri": "s3://b/d/"}
    return _one_of(named, "size", "size_gb") if named.get("size") is not None else named


def _volume(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "name": fields.get("name") or "claim-a"} if fields["kind"] == "claim" else {**fields, "name": None}


def _secret(fields: dict[str, Any]) -> dict[str, Any]:
    chosen = _one_of(fields, "env", "mount_path")
    return chosen if chosen.get("env") or chosen.get("mount_path") else {**chosen, "env": "TOKEN"}


def _spec(fields: dict[str, Any]) -> dict[str, Any]:
    if fields.get("launcher") == "torchrun":
        return {**fields, "command": [], "args": fields.get("args") or ["train.py"]}
    return fields


_REPAIRS: Mapping[type[Model], Callable[[dict[str, Any]], dict[str, Any]]] = {
    DatasetUse: _dataset, Volume: _volume, SecretUse: _secret, JobSpec: _spec,
}  # fmt: skip


def raw(model: type[Model]) -> st.SearchStrategy[dict[str, Any]]:
    """A model's fields as a person could write them, rules between fields met where that is easy."""
    needed: dict[str, st.SearchStrategy[Any]] = {}
    free: dict[str, st.SearchStrategy[Any]] = {}
    for name, field in model.model_fields.items():
        if model is JobSpec and name in UNSEEN:
            continue
        strategy = st.sampled_from(OVERLAYS) if name == "pod_overlay" else _of(field.annotation, _constraints(field.metadata))
        (needed if field.is_required() else free)[name] = strategy
    return st.fixed_dictionaries(needed, optional=free).map(_REPAIRS.get(model, dict))


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    """Any spec that the model accepts."""
    fields = draw(raw(JobSpec))
    try:
        return JobSpec.model_validate(fields)
    except ValidationError as error:
        # Only rules between fields (a path mounted twice) may refuse what the types and patterns gave.
        if any(problem["type"] != "value_error" for problem in error.errors()):
            raise
        reject()
