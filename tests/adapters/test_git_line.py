"""The line to a real Git server: down, slow, cut, shut; and what is fetched over it."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.adapters.git import BareClone
from reconciler.ports import RefUpdate, Refused, Transient
from tests.adapters.gitworld import DONE, WHEN, Branches, child, hide_own_settings, three_branches
from tests.githttp import commit_files, install_hook, run_git, serving
from tests.waiting import until


@pytest.fixture(autouse=True)
def _plain_git(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_own_settings(monkeypatch)


@pytest.fixture(params=[True, False], ids=["over HTTP", "by path"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Branches]:
    with three_branches(tmp_path, over_http=request.param) as made:
        yield made


# ---- the line -----------------------------------------------------------------------------------------------------


def test_a_remote_that_is_down_is_transient_and_all_goes_on_when_it_is_back(world: Branches) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize("hook", ["pre-receive", "post-receive"])
def test_a_push_that_hangs_is_ended_and_judged_by_the_branches(world: Branches, hook: str) -> None:
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


@pytest.mark.parametrize("hook", ["pre-receive", "post-receive"])
def test_a_server_that_dies_under_a_push_is_judged_by_the_branches(world: Branches, hook: str) -> None:
    install_hook(world.bare, hook, "kill -9 $PPID")
    updates = [RefUpdate("status", world.first, world.child("new")), RefUpdate("region/us", None, world.first)]
    if hook == "post-receive":
        assert world.clone.push(updates) == DONE
    else:
        before = world.tips()
        with pytest.raises(Transient, match="pushing to"):
            world.clone.push(updates)
        assert world.tips() == before


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


def test_heads_fetch_nothing(world: Branches) -> None:
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


def test_a_main_that_was_rewritten_is_fetched_and_the_old_one_stays_readable(world: Branches) -> None:
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


def test_branches_come_go_and_change_places_with_folders(world: Branches) -> None:
    run_git(world.bare, "update-ref", "-d", "refs/heads/region/eu")
    run_git(world.bare, "update-ref", "refs/heads/region/eu/west", world.first)
    run_git(world.bare, "update-ref", "refs/heads/odd\udcffé", world.first)
    run_git(world.bare, "tag", "v1", world.first)
    want = dict.fromkeys(("main", "status", "region/eu/west", "odd\udcffé"), world.first)
    assert world.clone.heads() == want
    assert world.clone.fetch() == want
    assert run_git(world.folder / "clone", "tag") == ""
