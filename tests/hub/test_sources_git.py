"""Main as Git itself holds it: links, submodules, odd names, renames, a rewritten history; and a folder not yet committed."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reconciler.adapters.documents import reader
from reconciler.adapters.git import BareClone
from reconciler.adapters.work_tree import read_folder
from reconciler.hub.repo_files import may_matter
from reconciler.hub.sources import Documents, ParseCache, Sources, read_sources
from reconciler.model.names import JobKey
from tests.githttp import commit_files, run_git, serving, tree_of
from tests.hub.main_branch import job, told

KEY = JobKey("nlp", "llm-a")
DOCUMENTS: Documents = reader


@dataclass
class Repository:
    """A remote over HTTP and the hub's clone of it."""

    bare: Path
    clone: BareClone
    cache: ParseCache = field(default_factory=ParseCache)
    in_force: dict[str, str] = field(default_factory=dict)

    def blob(self, body: str) -> str:
        return run_git(self.bare, "hash-object", "-w", "--stdin", body=body.encode())

    def commit(self, entries: dict[str, tuple[str, str]]) -> None:
        """A commit of path → (mode, object id), without parents."""
        made = run_git(self.bare, "commit-tree", "-m", "change", tree_of(self.bare, entries))
        run_git(self.bare, "update-ref", "refs/heads/main", made)

    def sources(self) -> Sources:
        main = self.clone.fetch()["main"]
        found = read_sources(self.clone.files(main), self.clone.read, self.clone.size, self.in_force, self.cache, DOCUMENTS)
        self.in_force = dict(found.in_force)
        return found


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    with serving(tmp_path / "served") as server:
        bare = server.create("jobs")
        yield Repository(bare, BareClone(server.url("jobs"), tmp_path / "clone"))


def test_only_regular_files_in_their_places_are_read(repository: Repository) -> None:  # SE-3
    good, target = repository.blob(job()), repository.blob("../../secrets.yaml")
    large = repository.blob(job() + "#" * 1_000_000)
    repository.commit(
        {
            "jobs/nlp/a.yaml": ("100644", good),
            "jobs/nlp/executable.yaml": ("100755", repository.blob(job("llm-b"))),
            "jobs/x.yaml": ("120000", target),
            "jobs/nlp/linked.yaml": ("120000", target),
            "jobs/sub": ("160000", "1" * 40),
            "jobs/nlp/large.yaml": ("100644", large),
            "jobs/nlp/line\nend.yaml": ("100644", good),
            "jobs/nlp/latin\udce9.yaml": ("100644", good),
            "jobs/nlp/traversal.yaml": ("100644", repository.blob(job("../../main"))),
            "secrets.yaml": ("100644", repository.blob("password: x")),
        }
    )
    sources = repository.sources()
    assert sources.jobs.keys() == {KEY, JobKey("nlp", "llm-b")}
    assert told(sources) == [
        "jobs/nlp/large.yaml:0:0: TooLarge",
        "jobs/nlp/latin\\xe9.yaml:0:0: BadPath",
        "jobs/nlp/line\\nend.yaml:0:0: BadPath",
        "jobs/nlp/linked.yaml:0:0: NotAFile",
        "jobs/nlp/traversal.yaml:1:9: BadPattern",
        "jobs/sub:0:0: NotAFile",
        "jobs/x.yaml:0:0: NotAFile",
    ]
    assert sources.broken == {
        "jobs/nlp/large.yaml": None,
        "jobs/nlp/latin\\xe9.yaml": KEY,
        "jobs/nlp/line\\nend.yaml": KEY,
        "jobs/nlp/linked.yaml": None,
        "jobs/nlp/traversal.yaml": None,
        "jobs/x.yaml": None,
    }


def test_region_files_that_git_would_choke_on_are_refused(repository: Repository) -> None:  # GM-9
    names = ["eu", "eu/west", "a b", "x.lock", "..", "a~1", "-x", "HEAD", "欧洲", "a" * 240, "EU"]
    repository.commit({f"regions/{name}.yaml": ("100644", repository.blob(f"name: {name}\n")) for name in names})
    sources = repository.sources()
    assert sources.fleet.regions.keys() == {"eu"}
    assert {problem.path for problem in sources.problems} == {f"regions/{name}.yaml" for name in names[1:]}
    assert {problem.code for problem in sources.problems} == {"BadName", "Misplaced"}


def test_a_renamed_file_is_the_same_job(repository: Repository) -> None:  # GM-7
    commit_files(repository.bare, "main", {"jobs/nlp/a.yaml": job().encode()})
    before = repository.sources().jobs[KEY]
    commit_files(repository.bare, "main", {"jobs/nlp/b/c.yaml": job().encode()})
    after = repository.sources()
    assert after.jobs.keys() == {KEY}
    assert (after.jobs[KEY].run_hash, after.jobs[KEY].blob) == (before.run_hash, before.blob)
    commit_files(repository.bare, "main", {"jobs/nlp/c.yaml": job().replace("1.4", "1.5").encode()})
    assert repository.sources().jobs[KEY].run_hash != before.run_hash


def test_a_rewritten_history_with_the_same_files_says_the_same(repository: Repository) -> None:  # GM-3
    files = {"jobs/nlp/a.yaml": job().encode(), "regions/eu.yaml": b"name: eu\n"}
    commit_files(repository.bare, "main", files)
    before = repository.sources()
    commit_files(repository.bare, "main", files, orphan=True)
    assert repository.sources() == before


def test_the_version_before_outlives_a_rewritten_history(repository: Repository) -> None:
    commit_files(repository.bare, "main", {"regions/eu.yaml": b"name: eu\n"})
    before = repository.sources()
    commit_files(repository.bare, "main", {"regions/eu.yaml": b"name: [\n"}, orphan=True)
    repository.cache = ParseCache()
    after = repository.sources()
    assert after.fleet.regions == before.fleet.regions
    assert after.in_force == before.in_force


def test_a_folder_says_what_its_commit_will_say(repository: Repository, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    files = {
        "jobs/nlp/a.yaml": job(),
        "jobs/nlp/bad.yaml": "x: [",
        "jobs/nlp/b.yaml": job("llm-b", "nodes: 9"),
        "policy.yaml": "limits: {max_nodes: 8}\n",
        "regions/eu.yaml": "name: eu\n",
        "docs/large.txt": "x" * 100_000,
    }
    for path, body in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(body)
    (folder / "jobs/nlp/link.yaml").symlink_to("../../policy.yaml")
    (folder / os.fsdecode(b"jobs/nlp/latin\xe9.yaml")).write_text(job("llm-c"))
    tree = read_folder(folder, may_matter)
    before = read_sources(tree.entries, tree.read, tree.size, {}, ParseCache(), DOCUMENTS)
    environment = {**os.environ, "GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@example.com"}
    for command in (
        ["init", "-q", "-b", "main"],
        ["add", "-A"],
        ["commit", "-q", "-m", "x"],
        ["push", "-q", str(repository.bare), "main"],
    ):
        subprocess.run(
            ["git", "-c", "user.name=x", "-c", "user.email=x@example.com", *command], cwd=folder, check=True, env=environment
        )
    assert repository.sources() == before
    assert len(before.problems) == 4
    assert before.jobs.keys() == {KEY}
