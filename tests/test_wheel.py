"""Installed as a wheel, without a checkout beside it, the command works: schemas, templates and the example are in the package."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.slow


def _run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The wheel, unpacked into a folder of its own that stands before everything else on the path."""
    folder = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    _run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", site, wheel, cwd=folder)
    return folder, {"PYTHONPATH": str(site), "PYTHONSAFEPATH": "1"}


def test_the_package_is_the_wheels_own(installed: tuple[Path, dict[str, str]]) -> None:
    folder, environment = installed
    where = _run(sys.executable, "-c", "import reconciler; print(reconciler.__file__)", cwd=folder, **environment)
    assert where.startswith(str(folder / "site"))


def test_a_jobs_repository_is_made_validated_and_planned(installed: tuple[Path, dict[str, str]]) -> None:
    folder, environment = installed
    command = (sys.executable, "-m", "reconciler.cli")
    _run(*command, "init", folder / "jobs", cwd=folder, **environment)
    (folder / "jobs" / "jobs" / "vision" / "norway.yaml").unlink()  # the example's broken file
    _run(*command, "validate", folder / "jobs", cwd=folder, **environment)
    planned = _run(*command, "plan", folder / "jobs", "--job", "corpus-pretrain", cwd=folder, **environment)
    assert "eu-west" in planned


def test_schemas_are_printed_from_the_package(installed: tuple[Path, dict[str, str]]) -> None:
    folder, environment = installed
    printed = _run(sys.executable, "-m", "reconciler.cli", "schema", "job", cwd=folder, **environment)
    assert printed == (ROOT / "schemas" / "job.schema.json").read_text(encoding="utf-8")


def test_manifests_are_rendered_from_the_packaged_templates(installed: tuple[Path, dict[str, str]]) -> None:
    folder, environment = installed
    script = (
        "from reconciler.model.job import JobSpec; from reconciler.model.region import Region;"
        "from reconciler.rendering.manifest import Rendering, render_checked;"
        "spec = JobSpec.model_validate({'job_id': 'a', 'gpu': {'count': 1}, 'image': 'x:1'});"
        "print(render_checked(Rendering('t', spec, Region(name='eu'), 'a-abcdef-a1', 1, 'abcdef', (), None, None, 's:1', ())).decode())"
    )
    assert "kind: Job" in _run(sys.executable, "-c", script, cwd=folder, **environment)
