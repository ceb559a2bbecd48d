"""Templates: where they come from, and that nothing gets into them but quoted text."""

import shutil
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from reconciler.rendering import templates

ROOT = Path(__file__).parents[2]


def rendered(source: str, **values: object) -> str:
    return templates.environment({"t": source}).get_template("t").render(values)


def test_all_there_are_and_no_more() -> None:
    there = {path.relative_to(ROOT / "templates").as_posix() for path in (ROOT / "templates").rglob("*.j2")}
    ours = {name for name in there if name.startswith(("job/", "branch/"))}
    assert ours == set(templates.NAMES)


def test_a_checkout_has_them_beside_the_package() -> None:
    assert Path(str(templates.folder())) == ROOT / "templates"


def test_a_wheel_has_them_inside_and_those_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "reconciler"
    shutil.copytree(ROOT / "templates", package / "_packaged" / "templates")
    monkeypatch.setattr(templates, "files", lambda _: package)
    assert Path(str(templates.folder())) == package / "_packaged" / "templates"


def test_a_value_that_was_not_quoted_is_refused() -> None:
    assert rendered("a: {{ x | q }}", x="y: z") == 'a: "y: z"'
    for value in ("text", 1, None, True):
        with pytest.raises(TypeError, match="not quoted"):
            rendered("a: {{ x }}", x=value)


def test_text_that_was_changed_after_quoting_is_refused_as_well() -> None:
    with pytest.raises(TypeError, match="not quoted"):
        rendered("a: {{ (x | q) ~ y }}", x="a", y="b")
    with pytest.raises(TypeError, match="not quoted"):
        rendered("a: {{ x | q | upper }}", x="a")


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises((UndefinedError, TypeError)):
        rendered("a: {{ gone | q }}")
    with pytest.raises(UndefinedError):
        rendered("{% if gone %}{% endif %}")


def test_a_value_is_never_read_as_a_template() -> None:
    assert rendered("a: {{ x | q }}", x="{{ 7 * 7 }}{% raw %}") == 'a: "{{ 7 * 7 }}{% raw %}"'


def test_no_template_of_another_name() -> None:
    with pytest.raises(KeyError):
        templates.fill("job/../job/job.yaml.j2", {})
