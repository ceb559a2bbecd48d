"""The step that brings a checkpoint, as a process with little memory, against a real S3 server; killed in the middle, and again."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.adapters.throttle import throttled
from tests.agent.stage import layouts
from tests.e2e.s3 import S3Server, s3_server
from tests.waiting import until

NAME = "checkpoints"
MIB = 1024**2
MEMORY = 300_000_000
LARGE = 600 * MIB
"""Three parts, as a store copies them by itself; twice the memory of the step."""
STEP = f"""
import resource
resource.setrlimit(resource.RLIMIT_DATA, ({MEMORY}, {MEMORY}))
from reconciler.cli import main
main()
"""
CUT = "epoch=9-step=90.ckpt"
SMALL = {
    "step-20/model.safetensors": layouts.tensors(9 * MIB),
    "step-20/_COMPLETE": b"",
    CUT: layouts.archive(9 * MIB)[:-1],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as up:
        up.make_bucket(NAME)
        with closing(up.client()) as client:
            with (up.folder.parent / "large").open("w+b") as large:
                large.truncate(LARGE)
                large.seek(LARGE // 2)
                large.write(b"in the middle")
                large.seek(0)
                client.upload_fileobj(large, NAME, "llm/a1/step-20/optimizer.bin")
            for key, body in SMALL.items():
                client.put_object(Bucket=NAME, Key=f"llm/a1/{key}", Body=body)
        yield up


def begun(server: S3Server, endpoint: str, attempt: str) -> "subprocess.Popen[str]":
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(sys.path),
        **server.environment,
        "AWS_ENDPOINT_URL_S3": endpoint,
    }
    words = ["stage", "checkpoint", f"s3://{NAME}/llm/a1/", f"s3://{NAME}/llm/{attempt}/"]
    return subprocess.Popen([sys.executable, "-c", STEP, *words], env=environment, stdout=subprocess.PIPE, text=True)


def ended(step: "subprocess.Popen[str]") -> list[str]:
    said, _ = step.communicate(timeout=300)
    assert step.returncode == 0, said
    return said.splitlines()


def check_whole(folder: Path) -> None:
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert there == {"step-20/optimizer.bin", "step-20/model.safetensors", "step-20/_COMPLETE"}
    assert (folder / "step-20/model.safetensors").read_bytes() == SMALL["step-20/model.safetensors"]
    with (folder / "step-20/optimizer.bin").open("rb") as large:
        assert large.seek(0, os.SEEK_END) == LARGE
        large.seek(LARGE // 2)
        assert large.read(13) == b"in the middle"
    assert unfinished(folder.parent.parent) == []


def unfinished(bucket: Path) -> list[Path]:
    return [path for path in bucket.glob(".sgwtmp/multipart/**/*") if path.is_file()]


def test_a_checkpoint_larger_than_memory_is_copied_inside_the_store(server: S3Server) -> None:
    with throttled(server.endpoint) as way:
        said = ended(begun(server, way.url, "a2"))
        received = way.received_bytes
    assert [line for line in said if not line.startswith("progress ")] == [
        f"{CUT} is not whole and was passed over: {CUT}: the directory at the end of the archive is missing",
        f"step-20 is at s3://{NAME}/llm/a2/ (3 objects, 609 MiB copied)",
    ]
    assert said[0].startswith("progress ")
    check_whole(server.folder / NAME / "llm/a2")
    assert 0 < received < MIB, "heads, ends and listings"


def test_killed_in_the_middle_it_goes_on(server: S3Server) -> None:
    for life in range(3):
        step = begun(server, server.endpoint, "a3")
        until(lambda: unfinished(server.folder / NAME) or step.poll() is not None, 60.0, 0.02)  # noqa: B023 - called at once
        assert step.poll() is None or life
        step.send_signal(signal.SIGKILL)
        step.communicate(timeout=60)
        marker = server.folder / NAME / "llm/a3/step-20/_COMPLETE"
        assert not marker.exists() or life
    assert ended(begun(server, server.endpoint, "a3"))[-1].startswith(f"step-20 is at s3://{NAME}/llm/a3/")
    check_whole(server.folder / NAME / "llm/a3")
