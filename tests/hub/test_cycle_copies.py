"""Copies that a region's store has lost after they were brought: what its agent lists counts, not what a task once said."""

from typing import Any

import pytest

from reconciler.model.attempt import State
from reconciler.model.record import JobRecord, Phase
from reconciler.model.report import CacheListing, CacheReport, WorkloadReport
from tests.hub.rig import Rig
from tests.hub.test_cycle_staging import (
    CORPUS,
    SPACES,
    THERE,
    USABLE,
    done,
    finish,
    job,
    limit,
    other_dataset,
    rig,
    say,
    task_work,
    tasks,
)
from tests.hub.words import running, succeeded

__all__ = ["rig"]
GB = 10**9
EU = "s3://bucket-eu"
HOUR = 3600.0


def copy(objects: int, *, subject: str = "corpus@7", marked: bool = True) -> CacheReport:
    """A copy of 100 objects of 1 GB of which so many are there."""
    total = 100 if marked else 0
    uri = f"{EU}/staged/{subject}/"
    sizes = {"size_bytes": objects * GB, "size_bytes_total": total * GB}
    return CacheReport(subject=subject, uri=uri, objects=objects, objects_total=total, **sizes)


def lists(rig: Rig, *copies: CacheReport, works: tuple[WorkloadReport, ...] = (), age: float = 5.0, **listing: Any) -> None:
    """eu reports a listing of its store, begun `age` seconds ago."""
    told = CacheListing(**{"url": EU, "age_seconds": age, **listing})
    rig.cycle()
    rig.tell("eu", *works, namespaces=SPACES, caches=copies, caches_listed=told)
    rig.settle()


def task(rig: Rig, subject: str = "corpus@7") -> JobRecord:
    (found,) = [one for one in tasks(rig) if one.stage is not None and one.stage.subject == subject]
    return found


def share(rig: Rig) -> float | None:
    found = task(rig).stage
    assert found is not None
    return found.found.share if found.found is not None else None


def affinity(rig: Rig, job_id: str) -> float:
    terms = rig.placement(job_id)["decision"]["chosen"]["terms"]
    return next(float(term["value"]) for term in terms if term["name"] == "data affinity")


def brought(rig: Rig) -> None:
    """llm-a has had its data brought to eu, and runs there; an hour has passed."""
    job(rig, allowed_regions=["eu"])
    done(rig)
    assert rig.attempt().state is State.GRANTED
    rig.clock.seconds += HOUR
    rig.tell_again("us")
    rig.tell_again("ap")
    say(rig, running(rig.attempt().name))


def runs(rig: Rig, job_id: str = "llm-a") -> tuple[WorkloadReport, ...]:
    return (running(rig.attempt(job_id).name),)


LOSSES: dict[str, tuple[CacheReport, float]] = {
    "the copy job exited after 57 of 100 objects, and wrote no marker": (copy(57, marked=False), 0.57),
    "the cache evicted 30 objects an hour later": (copy(70), 0.7),
}


@pytest.mark.parametrize("case", LOSSES)
def test_a_copy_that_lost_something_counts_as_what_is_left_and_the_rest_is_brought_again(rig: Rig, case: str) -> None:  # OS-5
    cache, left = LOSSES[case]
    brought(rig)
    lists(rig, cache, works=runs(rig))
    assert (rig.attempt().state, rig.granted("eu")) == (State.RUNNING, [rig.attempt().name]), "what runs is left alone"
    assert (task(rig).phase, share(rig)) == (Phase.SUCCEEDED, left)
    rig.job("llm-b", dataset={"name": "corpus", "mount_path": "/data"}, allowed_regions=["eu"])
    rig.settle()
    assert affinity(rig, "llm-b") == left
    assert rig.placement("llm-b")["decision"]["chosen"]["move_bytes"] == round((1 - left) * 100 * GB)
    assert rig.attempt("llm-b").state is State.STAGING
    worker = task(rig).current
    assert worker is not None
    assert (worker.number, worker.name in rig.granted("eu")) == (2, True)
    assert rig.attempt("llm-b").name not in rig.granted("eu")
    done(rig)
    assert rig.attempt("llm-b").name in rig.granted("eu"), "that listing is from before it was brought again"
    assert (rig.attempt("llm-b").dataset_uris, share(rig)) == ((THERE,), None)


def test_people_are_told_that_it_was_lost_and_is_brought_again(rig: Rig) -> None:
    brought(rig)
    lists(rig, copy(70), works=runs(rig))
    lost, said = task(rig).why, "of corpus@7, which had been brought to eu, 70 % is left in the store there"
    assert lost is not None
    assert (lost.code, lost.text.startswith(said)) == ("CopyLost", True)
    assert any(said in line for line in rig.messages("status")), "the commit says why"
    job(rig, "llm-b", allowed_regions=["eu"])
    assert (rig.record("llm-b").why, task(rig).why) == (lost, lost)
    assert task(rig).current is not None
    assert said in rig.page()


def test_all_is_well_and_nothing_is_said(rig: Rig) -> None:
    brought(rig)
    before = rig.tips()
    lists(rig, copy(100), works=runs(rig))
    rig.settle()
    assert rig.tips() == before
    job(rig, "llm-b", allowed_regions=["eu"])
    assert (rig.attempt("llm-b").state, affinity(rig, "llm-b")) == (State.GRANTED, 1.0)


def test_a_part_is_not_copied_from(rig: Rig) -> None:
    rig.put(
        {"links.yaml": "links: [{source: ap, target: eu, gbit_per_second: 10}, {source: eu, target: us, gbit_per_second: 10}]\n"}
    )
    brought(rig)
    lists(rig, copy(100), works=runs(rig))
    job(rig, "llm-b", allowed_regions=["us"])
    assert rig.attempt("llm-b").state is State.STAGING, "from eu, which has it"
    rig.remove("llm-b")
    lists(rig, copy(99), works=runs(rig))
    job(rig, "llm-c", allowed_regions=["us"])
    assert rig.record("llm-c").waits["us"].code == "DataUnreachable"


def test_what_is_missing_comes_by_the_way_that_is_best_now(rig: Rig) -> None:
    brought(rig)
    lists(rig, copy(70), works=runs(rig))
    rig.put({"datasets/corpus.yaml": CORPUS.replace("{region: ap}", "{region: us}")})
    rig.put({"links.yaml": "links: [{source: us, target: eu, gbit_per_second: 10}]\n"})
    job(rig, "llm-b", allowed_regions=["eu"])
    again = task(rig)
    assert again.stage is not None
    assert (again.stage.source_region, again.stage.size_bytes, share(rig)) == ("us", 100 * GB, 0.7)
    assert again.current is not None
    assert again.current.bytes_per_second == USABLE


def test_nobody_who_waits_is_let_run_on_a_copy_that_is_gone(rig: Rig) -> None:
    other_dataset(rig, "small", 20)
    rig.job("llm-a", dataset=[{"name": "corpus"}, {"name": "small"}], allowed_regions=["eu"])
    rig.settle()
    first, second = task(rig).current, task(rig, "small@1").current
    assert first is not None
    assert second is not None
    goes_on = task_work(running(second.name))
    say(rig, task_work(succeeded(first.name)), goes_on)
    rig.clock.seconds += HOUR
    say(rig, goes_on)
    lists(rig, works=(goes_on,))
    again = task(rig).current
    assert again is not None, "its job waits for the other still, and by then needs this one again"
    say(rig, task_work(succeeded(second.name)), task_work(running(again.name)))
    assert rig.attempt().state is State.STAGING
    say(rig, task_work(succeeded(again.name)))
    assert rig.granted("eu") == [rig.attempt().name]


DISPROVES_NOTHING: dict[str, tuple[tuple[CacheReport, ...], dict[str, Any]]] = {
    "a listing from before the copy was there": ((copy(57),), {"age": HOUR + 1}),
    "one that may be from before, for nobody knows how long its report was on its way": ((copy(57),), {"age": HOUR - 20}),
    "an old one": ((copy(57),), {"age": 2 * HOUR}),
    "one that leaves copies out, and does not name it": ((), {"left_out": 1}),
    "one of another store": ((), {"url": "s3://bucket-new"}),
}


@pytest.mark.parametrize("case", DISPROVES_NOTHING)
def test_what_is_not_known_disproves_nothing(rig: Rig, case: str) -> None:
    copies, listing = DISPROVES_NOTHING[case]
    brought(rig)
    lists(rig, *copies, works=runs(rig), **listing)
    assert share(rig) is None
    job(rig, "llm-b", allowed_regions=["eu"])
    assert rig.attempt("llm-b").state is State.GRANTED


def test_a_region_that_does_not_say_what_it_has_disproves_nothing(rig: Rig) -> None:
    brought(rig)
    rig.tell("eu", *runs(rig), namespaces=SPACES, caches=(), caches_listed=None)
    rig.settle()
    rig.tell_again("eu")
    rig.settle()
    assert share(rig) is None


def test_a_hub_that_begins_anew_remembers_what_is_lost_but_believes_no_report_that_it_finds(rig: Rig) -> None:
    brought(rig)
    rig.tell("eu", *runs(rig), namespaces=SPACES, caches=(copy(70),), caches_listed=CacheListing(url=EU, age_seconds=5.0))
    rig.git, rig.hub = rig.another_hub()
    rig.settle()
    rig.clock.seconds += 16
    rig.settle()
    assert share(rig) is None, "the report may have stood there for long"
    rig.tell_again("eu")
    rig.settle()
    assert share(rig) == 0.7
    rig.restart()
    rig.settle()
    job(rig, "llm-b", allowed_regions=["eu"])
    assert (share(rig), rig.attempt("llm-b").state) == (0.7, State.STAGING)


def test_what_somebody_puts_back_is_there_again(rig: Rig) -> None:
    brought(rig)
    lists(rig, copy(70), works=runs(rig))
    rig.clock.seconds += 300
    lists(rig, copy(100), works=runs(rig))
    assert (share(rig), task(rig).why is not None and task(rig).why.code) == (None, "Succeeded")  # type: ignore[union-attr]
    job(rig, "llm-b", allowed_regions=["eu"])
    assert rig.attempt("llm-b").state is State.GRANTED


def test_a_copy_that_is_gone_need_not_be_removed(rig: Rig) -> None:
    brought(rig)
    finish(rig, "llm-a")
    lists(rig)
    limit(rig, "50G")
    assert (task(rig).phase, rig.granted("eu")) == (Phase.SUCCEEDED, []), "no worker is sent to remove nothing"


def test_what_is_left_of_a_copy_is_removed_where_it_is_too_much(rig: Rig) -> None:
    brought(rig)
    finish(rig, "llm-a")
    lists(rig, copy(70))
    limit(rig, "70G")
    assert rig.granted("eu") == []
    limit(rig, "69G")
    worker = task(rig).current
    assert worker is not None
    assert task(rig).spec.command == ("reconciler", "stage", "evict", THERE)
    say(rig, task_work(succeeded(worker.name)))
    job(rig, "llm-b", allowed_regions=["eu"])
    assert affinity(rig, "llm-b") == 0.0, "nothing is left after that"


def test_who_comes_meanwhile_waits_for_what_is_missing_only(rig: Rig) -> None:
    brought(rig)
    lists(rig, copy(70), works=runs(rig))
    job(rig, "llm-b", allowed_regions=["eu"], gpus=1)
    job(rig, "llm-c", allowed_regions=["eu"], gpus=1)
    assert rig.placement("llm-c")["decision"]["chosen"]["move_bytes"] == 30 * GB
    assert rig.attempt("llm-c").stages == rig.attempt("llm-b").stages
