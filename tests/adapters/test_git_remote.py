"""Fetching from and pushing to a real Git server, over HTTP and by path: races, refusals, lost answers."""

import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from reconciler.adapters.git import BareClone
from reconciler.ports import PushOutcome, RefUpdate, Refused, Transient
from tests.githttp import GitServer, commit_files, install_hook, run_git, serving
from tests.waiting import until

WHEN = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
DONE = PushOutcome(done=True, raced=False, refusals={})
RACED = PushOutcome(done=False, raced=True, refusals={})


@dataclass(frozen=True)
class World:
    """A remote with `main`, `status` and `region/eu`, all at `first`, and a clone that has fetched them."""

    server: GitServer
    url: str
    bare: Path
    folder: Path
    clone: BareClone
    first: str

    def another(self, name: str, timeout_seconds: float = 60.0) -> BareClone:
        return BareClone(self.url, self.folder / name, timeout_seconds=timeout_seconds)

    def child(self, text: str, parent: str | None = None) -> str:
        return child(self.clone, parent or self.first, text)

    def tips(self) -> Mapping[str, str]:
        listed = run_git(self.bare, "for-each-ref", "--format=%(refname:strip=2) %(objectname)", "refs/heads")
        return dict(line.rsplit(" ", 1) for line in listed.splitlines())


def child(clone: BareClone, parent: str, text: str) -> str:
    tree = clone.write_tree(parent, {"manifests/job.yaml": clone.write_blob(text.encode())})
    return clone.commit(tree, [parent], f"{text}\n", WHEN)


@pytest.fixture(autouse=True)
def _plain_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture(params=["over HTTP", "by path"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    with serving(tmp_path / "served") as server:
        bare = server.create("jobs")
        first = commit_files(bare, "main", {"jobs/a.yaml": b"a", "manifests/_sentinel.yaml": b"s"})
        for branch in ("status", "region/eu"):
            run_git(bare, "update-ref", f"refs/heads/{branch}", first)
        url = server.url("jobs") if request.param == "over HTTP" else str(bare)
        clone = BareClone(url, tmp_path / "clone")
        clone.fetch()
        yield World(server, url, bare, tmp_path, clone, first)


# ---- compare and swap ---------------------------------------------------------------------------------------------

Case = tuple[str, str | None, str | None, PushOutcome]
ONE_BRANCH: dict[str, Case] = {
    "moved from where it is": ("region/eu", "first", "new", DONE),
    "made where there is none": ("region/us", None, "new", DONE),
    "deleted where it is": ("region/eu", "first", None, DONE),
    "already there": ("region/eu", "first", "first", DONE),
    "already gone": ("region/us", "first", None, DONE),
    "moved from where it is not": ("region/eu", "other", "new", RACED),
    "moved but gone": ("region/us", "first", "new", RACED),
    "made but there": ("region/eu", None, "new", RACED),
    "deleted but moved": ("region/eu", "other", None, RACED),
}


@pytest.mark.parametrize("case", ONE_BRANCH.values(), ids=ONE_BRANCH)
def test_a_branch_moves_only_from_its_old_commit(world: World, case: Case) -> None:
    branch, old, new, want = case
    commits = {"first": world.first, "new": world.child("new"), "other": world.child("other"), None: None}
    before = world.tips()
    outcome = world.clone.push([RefUpdate(branch, commits[old], commits[new])])
    assert outcome == want
    moved = {name: oid for name, oid in {**before, branch: commits[new]}.items() if oid is not None}
    assert world.tips() == (moved if want.done else before)


def test_one_stale_branch_of_four_moves_none(world: World) -> None:
    new, other = world.child("new"), world.child("other")
    run_git(world.bare, "update-ref", "refs/heads/old", world.first)
    before = world.tips()
    updates = [
        RefUpdate("status", world.first, new),
        RefUpdate("region/eu", other, new),
        RefUpdate("region/us", None, new),
        RefUpdate("old", world.first, None),
    ]
    assert world.clone.push(updates) == RACED
    assert world.tips() == before


def test_many_branches_move_together(world: World) -> None:
    updates = [RefUpdate(f"region/r{number}", None, world.child(str(number))) for number in range(20)]
    updates.append(RefUpdate("status", world.first, world.child("status")))
    assert world.clone.push(updates) == DONE
    assert {update.branch: update.new for update in updates}.items() <= world.tips().items()
    assert world.clone.fetch() == world.tips()


def test_of_two_writers_exactly_one_wins_each_round(world: World) -> None:
    writers = [world.another("one"), world.another("two")]
    for number in range(5):
        tip = world.tips()["status"]
        for writer in writers:
            writer.fetch()
        news = [child(writer, tip, f"{name} in round {number}") for name, writer in zip("ab", writers, strict=True)]
        updates = [[RefUpdate("status", tip, new), RefUpdate(f"round/{number}", None, new)] for new in news]
        outcomes = at_once([partial(writer.push, move) for writer, move in zip(writers, updates, strict=True)])
        assert sorted(outcome == DONE for outcome in outcomes) == [False, True]
        assert RACED in outcomes
        won = news[outcomes.index(DONE)]
        assert (world.tips()["status"], world.tips()[f"round/{number}"]) == (won, won)


def at_once(calls: Sequence[Callable[[], PushOutcome]]) -> list[PushOutcome]:
    together = threading.Barrier(len(calls))

    def go(call: Callable[[], PushOutcome]) -> PushOutcome:
        together.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(go, calls))


def test_a_branch_that_moves_while_the_push_is_under_way_is_a_race(world: World) -> None:
    sly = world.child("sly")
    assert world.clone.push([RefUpdate("elsewhere", None, sly)]) == DONE
    install_hook(world.bare, "pre-receive", f"env -u GIT_QUARANTINE_PATH git update-ref refs/heads/status {sly}")
    outcome = world.clone.push([RefUpdate("region/eu", world.first, sly), RefUpdate("status", world.first, world.child("new"))])
    assert outcome == RACED
    assert world.tips() == {"main": world.first, "status": sly, "region/eu": world.first, "elsewhere": sly}


def test_a_lock_held_on_the_server_is_a_race_though_nothing_moved(world: World) -> None:
    lock = world.bare / "refs/heads/status.lock"
    lock.touch()
    update = RefUpdate("status", world.first, world.child("new"))
    assert world.clone.push([update]) == RACED
    lock.unlink()
    assert world.clone.push([update]) == DONE


# ---- refusals -----------------------------------------------------------------------------------------------------


def refused(outcome: PushOutcome) -> Mapping[str, str]:
    assert (outcome.done, outcome.raced) == (False, False)
    return outcome.refusals


def three(world: World) -> list[RefUpdate]:
    new = world.child("new")
    return [RefUpdate(branch, world.first, new) for branch in ("main", "status", "region/eu")]


def test_what_a_pre_receive_hook_says_of_a_branch_is_told_of_that_branch(world: World) -> None:
    says = """while read old new ref; do
        [ $ref = refs/heads/region/eu ] && { echo "region/eu is frozen until Monday" >&2; exit 1; }
    done; exit 0"""
    install_hook(world.bare, "pre-receive", says)
    before = world.tips()
    assert refused(world.clone.push(three(world))) == {"region/eu": "pre-receive hook declined: region/eu is frozen until Monday"}
    assert world.tips() == before
    assert world.clone.push(three(world)[:2]) == DONE


def test_a_pre_receive_hook_that_names_no_branch_refuses_all_of_them(world: World) -> None:
    install_hook(world.bare, "pre-receive", 'echo "the main reason: fetch first, atomic cannot lock ref" >&2; exit 1')
    told = refused(world.clone.push(three(world)))
    want = "pre-receive hook declined: the main reason: fetch first, atomic cannot lock ref"
    assert told == dict.fromkeys(("main", "status", "region/eu"), want)


def test_an_update_hook_refuses_one_branch_and_none_moves(world: World) -> None:
    install_hook(world.bare, "update", '[ "$1" = refs/heads/status ] || exit 0; printf "no\\033[31m red\\n" >&2; exit 1')
    before = world.tips()
    assert refused(world.clone.push(three(world))) == {
        "status": "hook declined: no red\nerror: hook declined to update refs/heads/status"
    }
    assert world.tips() == before


def test_of_a_long_story_the_beginning_and_the_end_are_told(world: World) -> None:
    install_hook(world.bare, "pre-receive", "echo begin >&2; seq 1 5000 | sed 's/^/region-eu /' >&2; echo end >&2; exit 1")
    told = refused(world.clone.push(three(world)))["status"]
    assert told.startswith("pre-receive hook declined: begin\n")
    assert told.endswith("\nend")
    assert len(told) <= 2_000


SERVER_RULES: dict[str, tuple[str, Callable[[World], RefUpdate], str]] = {
    "no deletions": ("receive.denyDeletes", lambda world: RefUpdate("status", world.first, None), "deletion prohibited"),
    "no rewinding": (
        "receive.denyNonFastForwards",
        lambda world: RefUpdate("status", world.first, world.clone.commit(world.clone.root_of(world.first), [], "x", WHEN)),
        "non-fast-forward",
    ),
}


@pytest.mark.parametrize("case", SERVER_RULES.values(), ids=SERVER_RULES)
def test_a_rule_of_the_server_is_a_refusal_and_no_race(world: World, case: tuple[str, Callable[[World], RefUpdate], str]) -> None:
    setting, update, words = case
    run_git(world.bare, "config", setting, "true")
    told = refused(world.clone.push([update(world)]))
    assert list(told) == ["status"]
    assert words in told["status"]


def test_a_race_comes_before_a_refusal(world: World) -> None:
    install_hook(world.bare, "pre-receive", "env -u GIT_QUARANTINE_PATH git update-ref -d refs/heads/status; exit 1")
    assert world.clone.push([RefUpdate("status", world.first, world.child("new"))]) == RACED


@pytest.mark.parametrize("branch", ["region/eu/west", "region"])
def test_a_branch_beside_its_own_folder_is_refused_and_never_tried_for_ever(world: World, branch: str) -> None:
    told = refused(world.clone.push([RefUpdate(branch, None, world.child("new"))]))
    assert "region/eu" in told[branch]


@pytest.mark.parametrize(
    "branch", ["", "a b", "x.lock", "..", "a~1", "-x", "HEAD", "a//b", "/a", "a/", "a\nb", "é" * 150, "a\udcff"]
)
def test_a_branch_that_git_does_not_take_is_refused_before_anything_is_sent(world: World, branch: str) -> None:
    with pytest.raises(Refused, match="no branch named"):
        world.clone.push([RefUpdate("status", world.first, world.child("new")), RefUpdate(branch, None, world.first)])
    assert world.tips()["status"] == world.first


def test_a_server_without_atomic_pushes_is_refused_with_what_to_do(world: World) -> None:
    run_git(world.bare, "config", "receive.advertiseAtomic", "false")
    with pytest.raises(Refused, match=r"does not support --atomic push.*use a server with atomic pushes"):
        world.clone.push([RefUpdate("status", world.first, world.child("new"))])
    assert world.tips()["status"] == world.first


def test_mistakes_of_the_caller_are_no_outcome(world: World) -> None:
    new = world.child("new")
    with pytest.raises(ValueError, match="twice"):
        world.clone.push([RefUpdate("status", world.first, new), RefUpdate("status", None, new)])
    with pytest.raises(ValueError, match="no full object id"):
        world.clone.push([RefUpdate("status", world.first[:7], new)])
    with pytest.raises(ValueError, match="no commit"):
        world.clone.push([RefUpdate("status", world.first, world.clone.root_of(new))])
    with pytest.raises(Transient, match="cannot be had"):
        world.clone.push([RefUpdate("status", world.first, "1" * 40)])
    assert world.clone.push([]) == DONE


# ---- the line -----------------------------------------------------------------------------------------------------


def test_a_remote_that_is_down_is_transient_and_all_goes_on_when_it_is_back(world: World) -> None:
    update = RefUpdate("status", world.first, world.child("new"))
    away = world.bare.with_name("away")
    world.server.stop()
    world.bare.rename(away)
    error = Transient if world.url.startswith("http") else Refused
    for ask in (world.clone.heads, world.clone.fetch, lambda: world.clone.push([update])):
        with pytest.raises(error):
            ask()
    away.rename(world.bare)
    world.server.start()
    assert world.clone.push([update]) == DONE
    assert world.clone.fetch() == world.clone.heads() == world.tips()


def test_a_push_whose_answer_is_lost_is_done_when_the_branches_say_so(tmp_path: Path) -> None:
    with serving(tmp_path / "served") as server:
        bare = server.create("jobs")
        first = commit_files(bare, "main", {"a": b"a"})
        clone = BareClone(server.url("jobs"), tmp_path / "clone")
        clone.fetch()
        server.lose_replies.set()
        updates = [RefUpdate("status", None, first), RefUpdate("main", first, child(clone, first, "new"))]
        assert clone.push(updates) == DONE
        install_hook(bare, "pre-receive", "exit 1")
        with pytest.raises(Transient, match="pushing to"):
            clone.push([RefUpdate("status", first, None)])
        assert set(clone.heads()) == {"main", "status"}


@pytest.mark.parametrize("hook", ["pre-receive", "post-receive"])
def test_a_push_that_hangs_is_ended_and_judged_by_the_branches(world: World, hook: str) -> None:
    gate, reached = world.folder / "gate", world.folder / "reached"
    os.mkfifo(gate)
    install_hook(world.bare, hook, f"touch {reached}; read line < {gate}")
    hasty = world.another("hasty", timeout_seconds=1.0)
    hasty.fetch()
    update = RefUpdate("status", world.first, child(hasty, world.first, "new"))
    if hook == "post-receive":
        assert hasty.push([update]) == DONE
    else:
        with pytest.raises(Transient, match="took too long"):
            hasty.push([update])
        assert world.tips()["status"] == world.first
    assert reached.exists()
    if world.url.startswith("http"):
        gate.write_text("go on\n")
        # The server goes on by itself: the push may still come true, which the next lease notices.
        until(lambda: world.tips()["status"] == update.new)


@pytest.mark.parametrize("login", [None, ("robot", "wr0ng-Secret")])
def test_who_is_not_let_in_is_refused_and_no_secret_is_told(tmp_path: Path, login: tuple[str, str] | None) -> None:
    with serving(tmp_path / "served", login=("robot", "s3cret/Word!")) as server:
        bare = server.create("jobs")
        first = commit_files(bare, "main", {"a": b"a"})
        shut_out = BareClone(server.url("jobs", login), tmp_path / "out")
        for ask in (shut_out.heads, shut_out.fetch, lambda: shut_out.push([RefUpdate("status", None, None)])):
            with pytest.raises(Refused, match="give valid credentials") as told:
                ask()
            assert f"http://127.0.0.1:{server.port}/jobs.git" in str(told.value)
            assert "wr0ng" not in str(told.value)
        let_in = BareClone(server.url("jobs", ("robot", "s3cret/Word!")), tmp_path / "in")
        assert let_in.fetch() == let_in.heads() == {"main": first}
        written = [path.read_bytes() for path in (tmp_path / "in").rglob("*") if path.is_file()]
        assert written
        assert not [body for body in written if b"s3cret" in body or b"robot" in body]


def test_a_repository_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "served") as server:
        for url in (server.url("nowhere"), str(tmp_path / "nowhere"), "nonsense://127.0.0.1/x"):
            with pytest.raises(Refused, match=r"check the URL|give a URL"):
                BareClone(url, tmp_path / "clone").heads()


STATUSES = {
    401: Refused,
    403: Refused,
    404: Refused,
    410: Refused,
    429: Transient,
    500: Transient,
    502: Transient,
    503: Transient,
}


@pytest.mark.parametrize(("status", "error"), STATUSES.items())
def test_a_forge_that_says_no_is_told_from_one_that_is_unwell(tmp_path: Path, status: int, error: type[Exception]) -> None:
    with serving(tmp_path / "served") as server:
        first = commit_files(server.create("jobs"), "main", {"a": b"a"})
        clone = BareClone(server.url("jobs"), tmp_path / "clone")
        clone.fetch()
        server.answer_only = status
        for ask in (clone.heads, clone.fetch, lambda: clone.push([RefUpdate("status", None, first)])):
            with pytest.raises(error, match=rf"http://127\.0\.0\.1:{server.port}/jobs\.git"):
                ask()
        server.answer_only = None
        assert clone.push([RefUpdate("status", None, first)]) == DONE


def test_who_may_only_read_is_refused_when_pushing(tmp_path: Path) -> None:
    with serving(tmp_path / "served") as server:
        bare = server.create("jobs")
        first = commit_files(bare, "main", {"a": b"a"})
        run_git(bare, "config", "http.receivepack", "false")
        clone = BareClone(server.url("jobs"), tmp_path / "clone")
        clone.fetch()
        with pytest.raises(Refused, match="let this account read and write"):
            clone.push([RefUpdate("status", None, first)])


def test_a_remote_that_never_answers_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://robot:s3cret@127.0.0.1:{silent.getsockname()[1]}/jobs.git"
        clone = BareClone(url, tmp_path / "clone", timeout_seconds=0.5)
        for ask in (clone.heads, clone.fetch):
            with pytest.raises(Transient, match="took too long") as told:
                ask()
            assert "s3cret" not in str(told.value)


# ---- fetching -----------------------------------------------------------------------------------------------------


def test_heads_fetch_nothing(world: World) -> None:
    second = commit_files(world.bare, "main", {"jobs/b.yaml": b"b"})
    assert world.clone.heads() == {"main": second, "status": world.first, "region/eu": world.first}
    with pytest.raises(Transient):
        world.clone.root_of(second)
    assert world.clone.fetch()["main"] == second
    assert list(world.clone.files(second)) == ["jobs/b.yaml"]


def test_an_empty_remote_has_no_branches_and_takes_the_first(tmp_path: Path) -> None:
    with serving(tmp_path / "served") as server:
        bare = server.create("jobs")
        clone = BareClone(server.url("jobs"), tmp_path / "clone")
        assert clone.heads() == clone.fetch() == {}
        root = clone.commit(clone.write_tree(None, {}), [], "begin\n", WHEN)
        assert clone.push([RefUpdate("main", None, root), RefUpdate("status", None, root)]) == DONE
        assert clone.fetch() == {"main": root, "status": root}
        assert run_git(bare, "ls-tree", "-r", "main") == ""


def test_a_main_that_was_rewritten_is_fetched_and_the_old_one_stays_readable(world: World) -> None:
    second = commit_files(world.bare, "main", {"jobs/a.yaml": b"two"})
    world.clone.fetch()
    rewritten = commit_files(world.bare, "main", {"jobs/a.yaml": b"two"}, orphan=True)
    run_git(world.bare, "gc", "--prune=now", "--quiet")
    assert world.clone.fetch()["main"] == rewritten
    assert rewritten != second
    assert world.clone.files(second) == world.clone.files(rewritten)
    assert not world.clone.is_ancestor(second, rewritten)
    assert not world.clone.is_ancestor("1" * 40, rewritten)
    assert not world.clone.is_ancestor(rewritten, "1" * 40)
    assert world.clone.is_ancestor(world.first, second)
    assert not world.clone.is_ancestor(second, world.first)
    assert world.clone.is_ancestor(second, second)


def test_branches_come_go_and_change_places_with_folders(world: World) -> None:
    run_git(world.bare, "update-ref", "-d", "refs/heads/region/eu")
    run_git(world.bare, "update-ref", "refs/heads/region/eu/west", world.first)
    run_git(world.bare, "update-ref", "refs/heads/odd\udcffé", world.first)
    run_git(world.bare, "tag", "v1", world.first)
    want = dict.fromkeys(("main", "status", "region/eu/west", "odd\udcffé"), world.first)
    assert world.clone.heads() == want
    assert world.clone.fetch() == want
