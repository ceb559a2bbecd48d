"""A link that stalls, is cut, or loses answers: the copy goes on where it was, and ends byte-equal, in one and the same worker."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from reconciler.model.progress import last_progress
from tests.e2e.data.rig import MB, Worker, same_bytes, seed, told
from tests.e2e.faults.wires import Cut, Wires
from tests.e2e.s3 import ACCESS, LOCATION, SECRET, S3Server, s3_server
from tests.waiting import until

OBJECTS = {f"ds/part {number:02}": 2 * MB for number in range(20)} | {"ds/large": 60 * MB}
WHOLE = sum(OBJECTS.values())
RATE = 10 * MB
CUTS = {"refuses": Cut.REFUSED, "stalls": Cut.SILENT, "loses answers": Cut.UNANSWERED}
END = {"reads": "SOURCE_", "writes": "TARGET_"}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[S3Server, S3Server]]:
    source, target = (tmp_path_factory.mktemp(name) for name in ("source", "target"))
    seed(source, "data", OBJECTS)
    seed(target, "region", {})
    with ExitStack() as stack:
        yield stack.enter_context(s3_server(source)), stack.enter_context(s3_server(target))


@pytest.fixture(scope="module")
def wires() -> Wires:
    made = Wires()
    made.start()
    return made


@pytest.mark.parametrize("end", END.values(), ids=END.keys())
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())
def test_the_copy_goes_on_after_a_cut(
    servers: tuple[S3Server, S3Server], wires: Wires, tmp_path: Path, cut: Cut, end: str
) -> None:
    source, target = servers
    ways = {"SOURCE_": wires.way(f"{cut}-{end}-source", source.port), "TARGET_": wires.way(f"{cut}-{end}-target", target.port)}
    name = f"{cut.value}-{end.strip('_').lower()}"
    worker = _started(ways, f"s3://region/{name}/", tmp_path)
    try:
        until(lambda: _done(worker) > 0.2 * WHOLE, 60.0, 0.05)
        name_of_way = f"{cut}-{end}-{'source' if end == 'SOURCE_' else 'target'}"
        with wires.cut_off([name_of_way], cut):
            told_before = _lines(worker)
            until(lambda: _lines(worker) >= told_before + 3, 60.0, 0.1)
        progress = worker.wait(120.0)
    finally:
        worker.kill()
    again = progress.bytes_sent - WHOLE
    told(f"a link that {name}: read again", f"{again / MB:.1f} MB")
    assert same_bytes(source.folder / "data/ds", target.folder / "region" / name)
    assert (target.folder / f"region/{name}.json").exists()
    assert again <= 40 * MB, "more than was in flight"


def _lines(worker: Worker) -> int:
    """It tells its progress every three seconds."""
    return worker.log.read_text("utf-8").count("\n")


def _done(worker: Worker) -> int:
    assert worker.runs(), worker.log.read_text("utf-8")
    progress = last_progress(worker.log.read_text("utf-8"))
    return 0 if progress is None else progress.bytes_done


def _started(ways: dict[str, int], to: str, folder: Path) -> Worker:
    environment = {f"{prefix}AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}" for prefix, port in ways.items()}
    environment |= {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": LOCATION}
    command = [sys.executable, "-m", "reconciler.cli", "stage", "dataset", "s3://data/ds/", to, "--rate", str(RATE)]
    return Worker(command, environment, folder / "worker.log")
