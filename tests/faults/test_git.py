"""Our own commits: what they wake, and how much a repository grows by them."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.app import hub_server
from reconciler.hub.loop import HubLoop
from reconciler.hub.results import Ended
from reconciler.model.record import Phase
from tests.builders import TEAM, make_nodes
from tests.githttp import install_hook, run_git
from tests.hub.rig import Rig
from tests.hub.words import job_file, running, succeeded
from tests.waiting import until

SECRET = "of-the-forge"
DELIVER = """
from urllib.request import Request, urlopen
with urlopen(Request("http://127.0.0.1:{port}/webhooks/gitlab", b"{{}}", {{"X-Gitlab-Token": "{secret}"}}), timeout=20) as answer:
    print(answer.status)
"""


@contextmanager
def at_work(rig: Rig, poll_seconds: float) -> Iterator[tuple[HubLoop, int]]:
    """The hub's loop and its webhooks, as the program has them; yields the loop and the port."""
    loop = HubLoop(rig.hub, rig.clock, lambda: None)
    server = hub_server(loop, [SECRET], "127.0.0.1", 0)
    port = server.start()
    thread = threading.Thread(target=loop.run, args=(poll_seconds,), daemon=True)
    thread.start()
    try:
        yield loop, port
    finally:
        loop.stop()
        thread.join(20)
        server.stop()
    assert not thread.is_alive()


# ---- GM-5 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("poll_seconds", [3600.0, 0.2], ids=["webhooks alone", "webhooks and a poll"])
def test_our_own_push_comes_back_as_a_webhook_and_makes_no_other(rig: Rig, tmp_path: Path, poll_seconds: float) -> None:
    """The remote tells the hub of every push, the hub's own too, as a forge does."""
    delivered = tmp_path / "delivered"
    with at_work(rig, poll_seconds) as (loop, port):
        until(lambda: loop.health.last_end in (Ended.QUIET, Ended.IDLE))
        pushes = len(rig.git.pushes)
        script = tmp_path / "deliver.py"
        script.write_text(DELIVER.format(port=port, secret=SECRET), encoding="utf-8")
        install_hook(rig.bare, "post-receive", f"{sys.executable} {script} >> {delivered}")
        rig.job()
        loop.wakeups.wake()  # a person's push, of which the forge tells
        until(lambda: rig.granted("eu"))
        seen = until(lambda: delivered.exists() and delivered.read_text().split())
        assert seen == ["202"], "one push, one delivery"
        cycles = loop.health.cycles
        for _ in range(5):
            loop.wakeups.wake()
            until(lambda cycles=cycles: loop.health.cycles > cycles)
            cycles = loop.health.cycles
        assert len(rig.git.pushes) - pushes == 1
        assert loop.health.last_end in (Ended.QUIET, Ended.IDLE)
    assert delivered.read_text().split() == ["202"]


GROWTH: dict[str, tuple[int, int, int]] = {
    "each job in a push of its own": (30, 1, 8192),
    "ten jobs a push": (60, 10, 4096),
}
"""Jobs, how many of them at a time, and the bytes that each may cost packed, from its commit to its end: 8 MB for 1,000."""


def packed_bytes(rig: Rig) -> int:
    run_git(rig.bare, "gc", "--quiet", "--prune=now")
    return sum(file.stat().st_size for file in (rig.bare / "objects").rglob("*") if file.is_file())


@pytest.mark.slow
@pytest.mark.parametrize("case", GROWTH)
def test_a_repository_grows_by_a_bounded_size_a_job(rig: Rig, case: str) -> None:
    jobs, batch, most = GROWTH[case]
    rig.tell("eu", nodes=make_nodes(4))
    rig.settle()
    before = packed_bytes(rig)
    for first in range(0, jobs, batch):
        names = [f"job-{number}" for number in range(first, first + batch)]
        rig.put({f"jobs/{TEAM}/{name}.yaml": job_file(name, gpus=1, args=[f"--seed={name}"]) for name in names})
        rig.clock.seconds += 60
        rig.tell("eu", nodes=make_nodes(4))
        rig.settle()
        attempts = [rig.attempt(name).name for name in names]
        for shown in (running, succeeded):
            rig.clock.seconds += 60
            rig.tell("eu", *(shown(attempt) for attempt in attempts), nodes=make_nodes(4))
            rig.settle()
    assert [record.phase for record in rig.records().values()] == [Phase.SUCCEEDED] * jobs
    grown = packed_bytes(rig) - before
    assert 0 < grown / jobs < most, f"{grown / jobs:.0f} bytes a job"
