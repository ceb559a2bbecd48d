"""`stage dataset` and `stage evict`, as they run in a task's pod and in an attempt's, over folders of this machine."""

from pathlib import Path

import pytest

from reconciler.app import open_bulk
from reconciler.model.progress import last_progress
from reconciler.model.staged import read_marker
from reconciler.ports import Refused
from tests.cli.world import Command


@pytest.fixture
def source(folder: Path) -> str:
    (folder / "ds/im age").mkdir(parents=True)
    (folder / "ds/im age/part 1").write_bytes(b"12345")
    (folder / "ds/im age-21k").mkdir()
    (folder / "ds/im age-21k/other").write_bytes(b"not of it")
    return f"file://{folder}/ds/im%20age"


def test_a_copy_of_a_region_gets_its_marker(command: Command, source: str, folder: Path) -> None:
    said = command.done("stage", "dataset", source, f"file://{folder}/region/staged/x@1/")
    assert (folder / "region/staged/x@1/part 1").read_bytes() == b"12345"
    marker = read_marker((folder / "region/staged/x@1.json").read_bytes())
    assert marker is not None
    assert (marker.source, marker.objects, marker.size_bytes) == (f"{source}/", 1, 5)
    assert [path.name for path in (folder / "region/staged").iterdir() if path.name not in ("x@1", "x@1.json")] == []
    progress = last_progress(said)
    assert progress is not None
    assert (progress.objects_done, progress.objects_total, progress.bytes_done, progress.bytes_sent) == (1, 1, 5, 5)
    assert said.splitlines()[-1] == f"{source} is at file://{folder}/region/staged/x@1/: 1 objects, 5 B; 5 B of it sent now"


def test_a_volume_gets_its_data_and_no_marker(command: Command, source: str, folder: Path) -> None:
    (folder / "volume").mkdir()
    (folder / "data").symlink_to(folder / "volume")
    command.done("stage", "dataset", source, f"file://{folder}/data")
    assert [path.name for path in (folder / "volume").iterdir()] == ["part 1"]
    assert sorted(path.name for path in folder.iterdir()) == ["data", "ds", "volume"]
    assert "0 B of it sent now" in command.done("stage", "dataset", source, f"file://{folder}/data")


def test_a_marker_as_one_likes(command: Command, source: str, folder: Path) -> None:
    command.done("stage", "dataset", source, f"file://{folder}/plain", "--no-marker")
    assert not (folder / "plain.json").exists()


def test_a_rate_is_a_number_of_bytes(command: Command, source: str, folder: Path) -> None:
    (folder / "rate").write_text("soon")
    ended = command("stage", "dataset", source, f"file://{folder}/x", "--rate-file", f"{folder}/rate")
    assert ended.code == 2
    assert "write bytes a second there" in ended.err
    command.done("stage", "dataset", source, f"file://{folder}/x", "--rate", "100000", "--rate-file", f"{folder}/no-such")


def test_a_copy_is_evicted(command: Command, source: str, folder: Path) -> None:
    command.done("stage", "dataset", source, f"file://{folder}/x")
    (folder / "x/an/empty/folder").mkdir(parents=True)
    assert command.done("stage", "evict", f"file://{folder}/x") == f"file://{folder}/x is removed: 1 objects, 5 B\n"
    assert sorted(path.name for path in folder.iterdir()) == ["ds"]


@pytest.mark.parametrize("uri", ["gs://b/x", "file://elsewhere/x", "s3:///x", "here"])
def test_what_is_no_end_is_refused(uri: str) -> None:
    with pytest.raises(Refused, match="give file:///folder or s3://bucket/folder"):
        open_bulk(uri, {}, "SOURCE_")


OPENED = {
    "its own": ({"SOURCE_AWS_ENDPOINT_URL_S3": "http://a:1", "AWS_ENDPOINT_URL_S3": "http://b:1"}, "http://a:1"),
    "the common one": ({"TARGET_AWS_ENDPOINT_URL_S3": "http://a:1", "AWS_ENDPOINT_URL_S3": "http://b:1"}, "http://b:1"),
}


@pytest.mark.parametrize(("environment", "endpoint"), OPENED.values(), ids=OPENED.keys())
def test_an_end_is_opened_by_its_variables(environment: dict[str, str], endpoint: str) -> None:
    keys = {"SOURCE_AWS_ACCESS_KEY_ID": "one", "SOURCE_AWS_SECRET_ACCESS_KEY": "s", "SOURCE_AWS_REGION": "eu-west-1"}
    end = open_bulk("s3://bucket/a%20b/", {**environment, **keys}, "SOURCE_")
    assert end.identity == (endpoint, "one")  # type: ignore[attr-defined]
    assert end.uri == "s3://bucket/a b/"
    end.close()


def test_half_a_pair_of_keys_is_refused() -> None:
    with pytest.raises(Refused, match="only one is set"):
        open_bulk("s3://bucket/x/", {"TARGET_AWS_ACCESS_KEY_ID": "one"}, "TARGET_")
