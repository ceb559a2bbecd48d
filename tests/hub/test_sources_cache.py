"""What is remembered between calls shows in the time only; and one bad file among many changes nothing else."""

import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.adapters.documents import reader
from reconciler.hub.sources import ParseCache, Sources, read_sources
from reconciler.model.base import Model
from reconciler.model.job import JobSpec
from reconciler.ports import EntryKind, Transient
from tests.examples import examples
from tests.hub.main_branch import Main, job

M = TypeVar("M", bound=Model)


@dataclass
class Counting:
    """The real reader, and how often it was asked."""

    asked: list[str] = field(default_factory=list)

    def read_job(self, body: bytes, path: str) -> JobSpec:
        self.asked.append(path)
        return reader.read_job(body, path)

    def read_config(self, kind: type[M], body: bytes, path: str) -> M:
        self.asked.append(path)
        return reader.read_config(kind, body, path)

    def locate(self, body: bytes, path: str, pointer: Sequence[str | int]) -> tuple[int, int]:
        self.asked.append(path)
        return reader.locate(body, path, pointer)


def world() -> Main:
    """Something of everything: sound files, broken ones, two of one id, a broken limit, a remark."""
    return Main.of(
        {
            "policy.yaml": "limits: {max_nodes: 8}\napproval: {regions: [mars]}\n",
            "regions/eu.yaml": "name: eu\n",
            "regions/us.yaml": "name: [\n",
            "jobs/nlp/a.yaml": job("llm-a"),
            "jobs/nlp/b.yaml": job("llm-b", "gpus: 8"),
            "jobs/nlp/c.yaml": job("llm-c"),
            "jobs/nlp/c2.yaml": job("llm-c"),
            "jobs/nlp/d.yaml": job("llm-d", "nodes: 9"),
            "jobs/e.yaml": job("llm-e"),
            "README.md": "hello",
        }
    )


def test_what_did_not_change_is_neither_read_nor_understood_again() -> None:
    main, documents = world(), Counting()
    first = read_sources(main.entries, main.read, main.size, {}, main.cache, documents)
    assert set(documents.asked) == main.entries.keys() - {"README.md", "jobs/e.yaml"}
    main.asked.clear()
    documents.asked.clear()
    second = read_sources(dict(main.entries), main.read, main.size, first.in_force, main.cache, documents)
    assert second == first
    assert (main.asked, documents.asked) == ([], [])
    assert second.fleet is first.fleet
    assert all(second.jobs[key] is file for key, file in first.jobs.items())


def test_one_change_costs_one_file() -> None:
    main, documents = world(), Counting()
    first = read_sources(main.entries, main.read, main.size, {}, main.cache, documents)
    documents.asked.clear()
    main.put("jobs/nlp/a.yaml", job("llm-a", "nodes: 2"))
    read_sources(main.entries, main.read, main.size, first.in_force, main.cache, documents)
    assert documents.asked == ["jobs/nlp/a.yaml"]


def test_the_same_bytes_at_two_paths_are_two_files() -> None:
    main = Main.of({"jobs/nlp/a.yaml": job()})
    main.sources()
    main.put("jobs/vision/a.yaml", job())
    assert {key.team for key in main.sources().jobs} == {"nlp", "vision"}


def test_the_cache_never_outgrows_the_tree() -> None:
    main = world()
    for number in range(20):
        main.put("jobs/nlp/a.yaml", job("llm-a", f"nodes: {number + 1}", "gpus: 1"))
        main.put("jobs/nlp/d.yaml", job("llm-d", f"nodes: {number + 9}"))
        main.put("regions/eu.yaml", f"name: eu\ndescription: {number}. try\n")
        main.put(f"docs/{number}.md", "x")
        main.sources()
    for number in range(20):
        main.remove(f"docs/{number}.md")
    main.sources()
    now = {(path, entry.oid) for path, entry in main.entries.items()} | set(main.in_force.items())
    assert main.cache.jobs.keys() | main.cache.configs.keys() | main.cache.verdicts.keys() <= now
    assert {blob for blob, _ in main.cache.positions} <= now
    assert main.cache.places.keys() <= main.entries.keys()


def test_a_call_that_failed_half_way_spoils_nothing() -> None:
    main = world()
    gone = main.blobs.pop(main.entries["jobs/nlp/d.yaml"].oid)
    with pytest.raises(Transient):
        main.sources()
    main.blobs[main.entries["jobs/nlp/d.yaml"].oid] = gone
    assert main.sources() == world().sources()


FILES = st.sampled_from(
    [
        "jobs/nlp/a.yaml",
        "jobs/nlp/b.yml",
        "jobs/vision/a.yaml",
        "jobs/x.yaml",
        "jobs/NLP/a.yaml",
        "regions/eu.yaml",
        "regions/us.yaml",
        "regions/a b.yaml",
        "policy.yaml",
        "policy.yml",
        "links.yaml",
        "teams/nlp.yaml",
        "datasets/corpus.yaml",
        "confirmations/c.yaml",
    ]
)
BODIES = st.sampled_from(
    [
        job("llm-a"),
        job("llm-a", "nodes: 9"),
        job("llm-b", "dataset: {name: corpus}"),
        job("llm-b", "denied_regions: [euu]"),
        "x: [",
        "name: eu\n",
        "name: us\n",
        "name: nlp\nregions: [eu]\n",
        "name: corpus\nuri: s3://b/c/\nreplicas: [{region: eu}]\n",
        "limits: {max_nodes: 8}\n",
        "links: [{source: eu, target: us}]\n",
        f"main: '{'a' * 40}'\n",
        "",
    ]
)
KINDS = st.sampled_from([EntryKind.FILE] * 6 + [EntryKind.LINK, EntryKind.SUBMODULE])
COMMITS = st.lists(st.dictionaries(FILES, st.tuples(BODIES, KINDS), max_size=10), min_size=1, max_size=4)


def commit(main: Main, files: dict[str, tuple[str, EntryKind]], *, backwards: bool = False) -> None:
    main.entries.clear()
    for path, (body, kind) in sorted(files.items(), reverse=backwards):
        main.put(path, body, kind)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(commits=COMMITS)
def test_neither_order_nor_memory_shows_in_the_answer(commits: list[dict[str, tuple[str, EntryKind]]]) -> None:
    remembering, forgetful = Main(), Main()
    for files in commits:
        commit(remembering, files)
        commit(forgetful, files, backwards=True)
        forgetful.cache = ParseCache()
        found = remembering.sources()
        assert forgetful.sources() == found
        check_sound(found)


def check_sound(found: Sources) -> None:
    """What holds of every answer."""
    assert list(found.problems) == sorted(found.problems)
    assert not found.jobs.keys() & found.conflicts.keys()
    told = {problem.path for problem in found.problems}
    assert found.broken.keys() <= told
    assert {path for paths in found.conflicts.values() for path in paths} <= told
    assert all(len(paths) > 1 for paths in found.conflicts.values())
    assert all(file.path not in found.broken and file.key == key for key, file in found.jobs.items())
    assert not found.unread & found.in_force.keys()
    assert set(found.fleet.regions) == {path[8:-5] for path in found.in_force if path.startswith("regions/")}


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(files=st.dictionaries(FILES, BODIES, max_size=10), junk=st.binary(max_size=200))
def test_a_bad_job_changes_nothing_for_the_others(files: dict[str, str], junk: bytes) -> None:
    alone, beside = Main.of(files), Main.of(files)
    beside.put("jobs/zoo/bad.yaml", b"\xff" + junk)
    before, after = alone.sources(), beside.sources()
    assert after.broken.keys() - before.broken.keys() == {"jobs/zoo/bad.yaml"}
    assert (after.jobs, after.conflicts, after.in_force) == (before.jobs, before.conflicts, before.in_force)
    own = tuple(problem for problem in after.problems if problem.path != "jobs/zoo/bad.yaml")
    assert own == before.problems
    teams = {name: team for name, team in after.fleet.teams.items() if name != "zoo"}
    assert replace(after.fleet, teams=teams) == before.fleet


def test_a_job_is_small_in_memory() -> None:
    main = Main.of({f"jobs/nlp/{number}.yaml": job(f"llm-{number}", f"owner: Person {number}") for number in range(400)})
    main.sources()
    main.cache = ParseCache()
    tracemalloc.start()
    try:
        found = main.sources()
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(found.jobs) == 400
    assert used / 400 < 8 * 1024, "80 MB for 10,000 jobs"
