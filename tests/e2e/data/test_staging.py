"""Staging over a real link: killed five times it ends byte-equal and sends little again; it keeps its rate, and uses it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.agent.stage.transfer.work import Options, in_flight_limit
from reconciler.model.staged import read_marker
from tests.e2e.data.conftest import LARGE_BYTES, MIDDLE_BYTES, SMALL, SMALL_BYTES
from tests.e2e.data.rig import MB, Rig, killed_at, same_bytes, told
from tests.waiting import until

SPAN_SECONDS = 3.0
LINK_SHARE = 0.8
"""A reservation is that much of a link at most."""

BASE_MIB = 160
"""What Python, its libraries and a listing of 10,000 objects take."""

CASES = {
    "one object of 2 GiB": ("large", 1, LARGE_BYTES, 20 * MB),
    "10,000 objects of 50 kB": ("many", SMALL, SMALL * SMALL_BYTES, 5 * MB),
}


@pytest.mark.parametrize(("name", "objects", "size", "rate"), CASES.values(), ids=CASES.keys())
def test_a_dataset_comes_at_its_rate_and_survives_five_kills(rig: Rig, name: str, objects: int, size: int, rate: int) -> None:
    rig.link.shape(int(rate / LINK_SHARE))
    arguments = [f"s3://data/{name}", f"s3://region/staged/{name}@1/", "--rate", str(rate)]
    with rig.meter() as meter:
        worker = rig.worker(*arguments)
        progress = worker.wait()
    assert (progress.objects_done, progress.bytes_done) == (progress.objects_total, progress.bytes_total)
    whole = rig.source.folder / "data" / name
    assert same_bytes(whole, rig.target.folder / f"region/staged/{name}@1")
    start, end = meter.busy()
    body = 0.98 * progress.bytes_total / (end - start)
    most = meter.most_over(SPAN_SECONDS)
    told(f"{name}: memory", f"{worker.peak_mib:.0f} MiB at most")
    told(f"{name}: throughput, at {rate / MB:g} MB/s reserved", f"{body / MB:.2f} MB/s of data, {body / rate:.1%}")
    told(f"{name}: most over any {SPAN_SECONDS:g} s, headers and all", f"{most / MB:.2f} MB/s, {most / rate:.1%}")

    arguments[1] = f"s3://region/staged/{name}@2/"
    with rig.meter() as killed:
        total = killed_at(rig, killed, arguments, [share * meter.total for share in (0.15, 0.3, 0.45, 0.6, 0.75)])
    assert same_bytes(whole, rig.target.folder / f"region/staged/{name}@2")
    again = total - meter.total
    held = in_flight_limit(Options(), rate, copies=False)
    told(f"{name}: killed five times, sent again", f"{again / MB:.1f} MB; in flight five times at most {5 * held / MB:.1f} MB")
    marker = read_marker((rig.target.folder / f"region/staged/{name}@2.json").read_bytes())
    assert marker is not None
    assert marker.objects == progress.objects_total
    _leaves_nothing(rig.target.folder / "region/staged")
    assert again <= 5 * held
    assert worker.peak_mib <= BASE_MIB + 2 * held / 2**20
    assert most <= rate
    assert body >= 0.9 * rate


def _leaves_nothing(staged: Path) -> None:
    assert [path.name for path in staged.iterdir() if path.name.endswith(".staging")] == []
    assert list(staged.parent.glob(".sgwtmp/multipart/*/*")) == []


def test_a_new_rate_holds_while_it_runs(rig: Rig, tmp_path: Path) -> None:
    rig.link.shape(25 * MB)
    file = tmp_path / "rate"
    file.write_text(str(16 * MB))
    with rig.meter() as meter:
        worker = rig.worker("s3://data/middle", "s3://region/staged/middle@1/", "--rate-file", str(file))
        try:
            until(lambda: meter.total > 60 * MB, 60.0, 0.05)
            file.write_text(str(4 * MB))
            changed = meter.samples[-1][0] - meter.samples[0][0]
            until(lambda: meter.samples[-1][0] - meter.samples[0][0] > changed + 12, 60.0, 0.05)
            paused = meter.samples[-1][0] - meter.samples[0][0]
            slow = meter.most_over(SPAN_SECONDS, after=changed + 2)
            before = meter.total
            file.write_text("0")
            until(lambda: meter.samples[-1][0] - meter.samples[0][0] > paused + 6, 60.0, 0.05)
            quiet = meter.most_over(SPAN_SECONDS, after=paused + 2)
            file.write_text(str(16 * MB))
            worker.wait()
        finally:
            worker.kill()
    told("middle: 16 MB/s, then 4, then 0", f"at most {slow / MB:.2f} MB/s from 2 s after the change, then {quiet / MB:.3f} MB/s")
    assert before < meter.total
    assert 2 * MB <= slow <= 4 * MB
    assert quiet < 0.1 * MB
    assert same_bytes(rig.source.folder / "data/middle", rig.target.folder / "region/staged/middle@1")


def test_it_is_as_quick_as_rclone(rig: Rig) -> None:
    width = 25 * MB
    rig.link.shape(width)
    rates: dict[str, list[float]] = {"ours": [], "rclone": []}
    runs: dict[str, Callable[[str], float]] = {
        "ours": lambda to: _ours(rig, to),
        "rclone": lambda to: rig.rclone("data/middle", f"region/{to}"),
    }
    for turn in range(2):
        for who, run in runs.items():
            rates[who].append(run(f"race/{who}-{turn}"))
    best = {who: max(found) for who, found in rates.items()}
    told("300 MB on a link of 25 MB/s, no rate", f"{best['ours'] / MB:.2f} MB/s; rclone {best['rclone'] / MB:.2f} MB/s")
    assert best["ours"] >= 0.9 * best["rclone"]


def _ours(rig: Rig, to: str) -> float:
    with rig.meter() as meter:
        progress = rig.worker("s3://data/middle", f"s3://region/{to}/").wait()
    assert progress.bytes_total == MIDDLE_BYTES
    return meter.rate()
