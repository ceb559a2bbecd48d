"""The templates: where they are found, how they are compiled, and what may be put into them.

Decides nothing of what is rendered. A wheel carries the templates inside the package; a checkout has them beside it.

Invariant: only text made by quoting.py gets into a template's output; anything else is a TypeError, not YAML.
"""

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined, Template

from reconciler.rendering.quoting import Quoted, block, quoted

JOB, SERVICE, CONFIG_MAP = "job/job.yaml.j2", "job/service.yaml.j2", "job/configmap.yaml.j2"
JOB_SET, POD_GROUP = "job/jobset.yaml.j2", "job/podgroup.yaml.j2"
SENTINEL, README = "branch/sentinel.yaml.j2", "branch/README.md.j2"
NAMES = (JOB, JOB_SET, SERVICE, CONFIG_MAP, POD_GROUP, SENTINEL, README)
"""All templates there are."""


def folder() -> Traversable:
    """The folder of the templates: the package's own copy, else the checkout's."""
    packaged = files("reconciler").joinpath("_packaged", "templates")
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[2] / "templates"


def _only_quoted(value: object) -> Quoted:
    if not isinstance(value, Quoted):
        raise TypeError(f"a template prints a value that was not quoted ({type(value).__name__}); use `| q` or `| block(n)`")
    return value


def environment(sources: Mapping[str, str]) -> Environment:
    """Templates by name, with our two filters: `q` (on one line) and `block(indent)` (what follows `key:`)."""
    made = Environment(  # noqa: S701 - HTML escapes would be wrong in YAML; `finalize` refuses all that is not quoted
        loader=DictLoader(dict(sources)),
        undefined=StrictUndefined,
        finalize=_only_quoted,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters["q"] = quoted
    made.filters["block"] = block
    return made


@lru_cache(maxsize=1)
def _compiled() -> dict[str, Template]:
    place = folder()
    made = environment({name: place.joinpath(*name.split("/")).read_text(encoding="utf-8") for name in NAMES})
    return {name: made.get_template(name) for name in NAMES}


def fill(name: str, values: Mapping[str, Any]) -> str:
    """A template's text with its values. Raises KeyError for no template of ours, UndefinedError for a missing value."""
    return _compiled()[name].render(values)
