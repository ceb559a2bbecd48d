"""The object store: a lock that everybody gets, and how much a dataset is."""

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier

import pytest

from reconciler.adapters.file_store import FileStore
from reconciler.app import hub_loop
from reconciler.commands import stage_bulk
from reconciler.hub.loop import HubLoop
from reconciler.hub.results import Ended
from reconciler.ports import Refused
from tests.adapters.s3_server import App, Fault, honest, ignoring, make_bucket, moto_app, renaming_status, serving
from tests.hub.rig import Rig

# ---- OS-1 ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def app() -> App:
    return moto_app()


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def served(app: App, credentials: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Fault], str]]:
    """Names a store behind a fault, as the hub's command line does."""
    bucket = f"b-{uuid.uuid4().hex}"
    with ExitStack() as stack:
        make_bucket(stack.enter_context(serving(app)), bucket)

        def behind(fault: Fault) -> str:
            monkeypatch.setenv("RECONCILER_STORE_ENDPOINT", stack.enter_context(serving(fault(app))))
            return f"s3://{bucket}/fleet"

        yield behind


def two_at_once(rig: Rig, store: str) -> list[HubLoop | Refused]:
    """Two hubs that start at the same moment: each is ready to run, or says why it does not start."""
    together = Barrier(2)

    def start(number: int) -> HubLoop | Refused:
        together.wait()
        try:
            return hub_loop(rig.url, rig.folder / f"hub-{number}", store)
        except Refused as refused:
            return refused

    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(start, (1, 2)))


IGNORED = {
    "ignores If-None-Match and If-Match": ("If-None-Match", "If-Match"),
    "ignores If-None-Match": ("If-None-Match",),
    "ignores If-Match": ("If-Match",),
}


@pytest.mark.parametrize("case", IGNORED)
def test_no_hub_starts_on_a_store_whose_locks_everybody_gets(rig: Rig, served: Callable[[Fault], str], case: str) -> None:
    outcomes = two_at_once(rig, served(ignoring(*IGNORED[case])))
    assert [isinstance(outcome, Refused) for outcome in outcomes] == [True, True]
    for outcome in outcomes:
        assert all(f"`{header}" in str(outcome) for header in IGNORED[case])
        assert "use an object store that honours conditional writes" in str(outcome)


HONEST: dict[str, Fault] = {"412": honest, "409 in the place of 412": renaming_status(412, "409 Conflict")}


@pytest.mark.parametrize("fault", HONEST.values(), ids=HONEST)
def test_on_an_honest_store_one_of_two_leads(rig: Rig, served: Callable[[Fault], str], fault: Fault) -> None:
    loops = [outcome for outcome in two_at_once(rig, served(fault)) if isinstance(outcome, HubLoop)]
    assert len(loops) == 2
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(HubLoop.turn, loops))
    assert sorted(loop.health.last_end is Ended.STANDBY for loop in loops) == [False, True]


# ---- OS-3 ---------------------------------------------------------------------------------------------------------


def test_what_is_brought_is_the_dataset_and_not_its_namesake(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    for number in range(1203):
        store.put(f"ds/imagenet/part-{number // 100}/{number:05}", b"0123456789", expect=None)
    for number in range(7):
        store.put(f"ds/imagenet-21k/{number}", b"0" * 1000, expect=None)
    stage_bulk.dataset(f"file://{tmp_path}/ds/imagenet", f"file://{tmp_path}/two", stage_bulk.How())
    files = [file for file in (tmp_path / "two").rglob("*") if file.is_file()]
    assert (len(files), sum(file.stat().st_size for file in files)) == (1203, 12_030)
