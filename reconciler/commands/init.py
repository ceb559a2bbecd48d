"""`reconciler init`: a new jobs repository, as a copy of the example that comes with the program."""

from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path
from urllib.parse import quote

from reconciler.commands import screen, user_git
from reconciler.commands.ends import BadInput
from reconciler.ports import Refused

EXAMPLE = "jobs-repo-example"
STORES = "file:///srv/gpu-demo"
"""What every address of the example begins with."""
SAMPLES = {"eu-corpus": "eu-west", "photos": "us-east", "web-crawl": "us-east"}
"""The example's datasets, and the regions whose stores have them."""


def example() -> Path:
    """The folder of the example: the package's own copy, else the checkout's."""
    packaged = files("reconciler").joinpath("_packaged", EXAMPLE)
    if packaged.is_dir():
        with as_file(packaged) as folder:
            return folder
    return Path(__file__).resolve().parents[2] / EXAMPLE


def init(folder: Path, local: Path | None) -> None:
    """Make a jobs repository in a new or empty folder, and say what to do next. `local`: the folder for its stores."""
    make_repository(folder, local)
    screen.say(f"{folder} is a jobs repository now, with one commit on main; its README.md says what is in it")
    screen.say(f"next: `reconciler validate {folder}`, `reconciler plan {folder}`, or push it to where your hub looks")


def _samples(local: Path) -> Iterator[tuple[Path, str]]:
    """File and text: a few small files for each dataset of the example, so that there is something to bring."""
    for dataset, region in SAMPLES.items():
        for number in range(1, 6):
            yield local / "stores" / region / "datasets" / dataset / f"part {number}.txt", f"{dataset}, part {number} of 5\n"


def make_repository(folder: Path, local: Path | None) -> None:
    """A jobs repository in a new or empty folder, with one commit. Raises BadInput and Refused."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} is there and not empty", "name a new folder")
    source = example()
    stores = STORES if local is None else f"file://{quote(str(local.absolute()))}"
    try:
        for file in sorted(path for path in source.rglob("*") if path.is_file()):
            target = folder / file.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(file.read_text("utf-8").replace(STORES, stores), "utf-8")
        for target, text in _samples(local) if local is not None else ():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
    except OSError as error:
        raise Refused(f"{error.filename or folder} cannot be written: {error.strerror}; name a folder that can") from error
    user_git.first_commit(folder, "Begin a jobs repository")
