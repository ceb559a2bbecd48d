"""A ledger that was set back, deleted or rewritten is not believed: nothing runs again, no name is given twice."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.hub.ledger import Corrupt
from reconciler.hub.results import Ended
from reconciler.model.grants import LEDGER_MARK_KEY, LedgerMark
from reconciler.model.names import manifest_path
from reconciler.model.record import Phase
from reconciler.ports import Refused, Transient
from tests.builders import TEAM
from tests.githttp import run_git
from tests.hub.rig import Rig
from tests.hub.words import FILES, succeeded

pytestmark = pytest.mark.slow


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """One job has ended, another runs."""
    rig = Rig(tmp_path)
    rig.tell("eu")
    rig.settle()
    rig.job("done", gpus=1)
    rig.settle()
    rig.tell("eu", succeeded(rig.attempt("done").name))
    rig.settle()
    assert rig.record("done").phase is Phase.SUCCEEDED
    rig.placed("llm-a", gpus=1)
    return rig


def mark(rig: Rig) -> str | None:
    found = rig.store.inner.get(LEDGER_MARK_KEY)
    return None if found is None else LedgerMark.model_validate_json(found.body).commit


def told(rig: Rig) -> str:
    with pytest.raises(Corrupt) as caught:
        rig.hub.cycle()
    return str(caught.value)


def _set_back(rig: Rig) -> str:
    return run_git(rig.bare, "rev-parse", "status~3").strip()


def _rewritten(rig: Rig) -> str:
    tree = run_git(rig.bare, "rev-parse", "status^{tree}").strip()
    return run_git(rig.bare, "commit-tree", tree, "-m", "squashed").strip()


def test_the_mark_follows_the_ledger(rig: Rig) -> None:
    assert mark(rig) == rig.tip("status")
    rig.job("more", gpus=1)
    rig.settle()
    assert mark(rig) == rig.tip("status")


def test_a_cycle_with_nothing_new_asks_nothing_about_it(rig: Rig) -> None:
    rig.settle()
    rig.store.asked.clear()
    rig.tell_again("eu")
    rig.settle()
    assert not [what for what in rig.store.asked if LEDGER_MARK_KEY in what]


FOR_A_PERSON = {
    "rewritten": (_rewritten, False),
    "rewritten, and the hub starts anew": (_rewritten, True),
    "set back, and the hub starts with an empty clone": (_set_back, True),
    "deleted, and the hub starts with an empty clone": (lambda _: None, True),
}


@pytest.mark.parametrize(("accident", "restart"), FOR_A_PERSON.values(), ids=FOR_A_PERSON)
def test_a_ledger_that_lost_something_is_not_believed_until_it_is_back(
    rig: Rig, accident: Callable[[Rig], str | None], restart: bool
) -> None:
    good, granted, manifests = rig.tip("status"), rig.granted("eu"), rig.manifests("eu")
    rig.move("status", accident(rig))
    others = {name: commit for name, commit in rig.tips().items() if name not in ("status", "main")}
    if restart:
        rig.restart()
    words = told(rig)
    assert f"git push --force <remote> {good}:refs/heads/status" in words
    rig.job("new", gpus=1)
    told(rig)
    assert {name: commit for name, commit in rig.tips().items() if name not in ("status", "main")} == others
    assert (rig.granted("eu"), rig.manifests("eu")) == (granted, manifests), "what runs keeps its right to run"
    rig.move("status", good)
    rig.settle()
    assert rig.record("done").phase is Phase.SUCCEEDED
    assert len(rig.record("done").attempts) == 1
    assert rig.record("new").phase is Phase.STARTING


@pytest.mark.parametrize("accident", [_set_back, lambda _: None], ids=["set back", "deleted"])
def test_a_ledger_that_only_lost_commits_is_put_back(rig: Rig, accident: Callable[[Rig], str | None]) -> None:
    good, before = rig.tip("status"), rig.record("done")
    rig.move("status", accident(rig))
    first, *_ = rig.settle()
    assert [words for words in first.troubles if f"it is at {good} again" in words]
    assert rig.tip("status") == good
    assert (rig.record("done"), rig.record("llm-a").phase) == (before, Phase.RUNNING)
    rig.job("new", gpus=1)
    rig.settle()
    assert rig.record("new").phase is Phase.STARTING


def test_a_ledger_under_another_name_goes_on_there(rig: Rig) -> None:
    """Whoever names another branch in reconciler.yaml finds the ledger there; named back, it goes on where it was."""
    good = rig.tip("status")
    rig.put({"reconciler.yaml": "branches: {status: ledger}\n" + FILES["reconciler.yaml"]})
    rig.settle()
    assert run_git(rig.bare, "merge-base", str(good), "ledger") == good
    assert rig.granted("eu") == [rig.attempt("llm-a").name]


def test_a_name_that_was_a_mistake_is_mended_on_main(rig: Rig) -> None:
    """The names are those of main as it is now, also where no ledger stands under them."""
    rig.restart()  # with an empty clone nothing is put back
    good = rig.tip("status")
    rig.move("status", None)
    rig.put({"reconciler.yaml": "branches: {status: ledger}\n" + FILES["reconciler.yaml"]})
    assert "the branch ledger is gone" in told(rig)
    rig.put({"reconciler.yaml": FILES["reconciler.yaml"]})
    rig.move("status", good)
    rig.job("new", gpus=1)
    rig.settle()
    assert rig.record("new").phase is Phase.STARTING


def test_a_person_may_have_the_hub_go_on_with_what_is_left(rig: Rig) -> None:
    rig.move("status", _rewritten(rig))
    told(rig)
    rig.store.inner.delete(LEDGER_MARK_KEY)
    rig.settle()
    assert mark(rig) == rig.tip("status")
    assert rig.record("llm-a").phase is Phase.RUNNING


def test_a_commit_on_top_is_believed(rig: Rig) -> None:
    commit = rig.put({"notes.md": "seen by me"}, "status")
    rig.settle()
    assert mark(rig) == commit


def test_a_hub_that_takes_over_believes_what_the_other_wrote(rig: Rig) -> None:
    _, second = rig.another_hub()
    assert second.cycle().ended is Ended.STANDBY
    rig.job("more", gpus=1)
    rig.settle()
    rig.hub.resign()
    rig.hub = second
    rig.cycle(Ended.STANDBY)
    rig.clock.seconds += 1
    rig.job("still-more", gpus=1)
    rig.settle()
    assert rig.record("still-more").phase is not Phase.IMPOSSIBLE
    assert mark(rig) == rig.tip("status")


def test_a_mark_that_another_hub_moved_meanwhile_is_read_anew(rig: Rig) -> None:
    """Two hubs that both believe to lead: the one that was slower looks again, and goes on."""
    old = mark(rig)
    commit = rig.put({"notes.md": "the other hub"}, "status")
    found = rig.store.inner.get(LEDGER_MARK_KEY)
    assert found is not None
    rig.store.inner.put(LEDGER_MARK_KEY, LedgerMark(commit=commit).model_dump_json().encode(), expect=found.etag)
    rig.settle()
    assert mark(rig) == rig.tip("status") != old


@pytest.mark.parametrize("when", ["fails", "fails_put"])
def test_a_store_that_does_not_answer_is_no_accident(rig: Rig, when: str) -> None:
    rig.job("more", gpus=1)
    rig.cycle(Ended.PUBLISHED)
    getattr(rig.store, when)[LEDGER_MARK_KEY] = Transient("timed out")
    with pytest.raises(Transient):
        rig.hub.cycle()
    getattr(rig.store, when).clear()
    rig.settle()
    assert mark(rig) == rig.tip("status")


def test_an_answer_that_was_lost_is_no_accident(rig: Rig) -> None:
    rig.job("more", gpus=1)
    rig.cycle(Ended.PUBLISHED)
    rig.store.lose_answers[LEDGER_MARK_KEY] = Transient("timed out")
    with pytest.raises(Transient):
        rig.hub.cycle()
    rig.store.lose_answers.clear()
    rig.settle()
    assert mark(rig) == rig.tip("status")


def test_a_mark_that_cannot_be_read_is_for_a_person(rig: Rig) -> None:
    found = rig.store.inner.get(LEDGER_MARK_KEY)
    assert found is not None
    rig.store.inner.put(LEDGER_MARK_KEY, b"{", expect=found.etag)
    rig.restart()
    with pytest.raises(Refused, match=LEDGER_MARK_KEY):
        rig.hub.cycle()


# ---- one record that is gone --------------------------------------------------------------------------------------


@pytest.mark.parametrize("restart", [False, True], ids=["the same hub", "a hub that starts"])
def test_a_job_that_runs_and_whose_record_is_gone_is_left_alone(rig: Rig, restart: bool) -> None:
    path = f"jobs/{TEAM}/llm-a.json"
    good, attempt = rig.text("status", path), rig.attempt("llm-a").name
    rig.tell("us")
    rig.put({path: None}, "status")
    if restart:
        rig.restart()
    rig.settle()
    assert rig.text("status", path) is None
    assert (rig.granted("eu"), rig.granted("us")) == ([attempt], []), "it runs where it ran, and nowhere else"
    assert f"{path} on the status branch cannot be used: it is gone; restore it: `git checkout " in rig.page()
    assert rig.unusable() == (path,)
    rig.put({path: good}, "status")
    rig.settle()
    assert (rig.record("llm-a").phase, rig.attempt("llm-a").name) == (Phase.RUNNING, attempt)
    assert rig.unusable() == ()


def test_a_job_that_has_ended_and_whose_record_is_gone_does_not_run_again(rig: Rig) -> None:
    path = f"jobs/{TEAM}/done.json"
    good = rig.text("status", path)
    rig.put({path: None}, "status")
    for number in range(3):
        rig.job("llm-a", gpus=1, description=f"{number}")
        rig.settle()
        rig.restart()
    rig.settle()
    assert rig.text("status", path) is None
    assert "done" not in " ".join(rig.granted("eu"))
    assert rig.unusable() == (path,)
    rig.put({path: good}, "status")
    rig.settle()
    assert (rig.record("done").phase, rig.unusable()) == (Phase.SUCCEEDED, ())
    assert mark(rig) == rig.tip("status")


def test_a_record_that_was_set_back_by_a_revert_releases_nothing_twice(rig: Rig) -> None:
    path = f"jobs/{TEAM}/done.json"
    good = rig.text("status", path)
    started = next(
        body
        for commit in run_git(rig.bare, "rev-list", "status", "--", path).split()
        if '"phase": "Starting"' in (body := run_git(rig.bare, "show", f"{commit}:{path}"))
    )
    rig.put({path: started}, "status")
    rig.settle()
    assert "done" not in " ".join([*rig.granted("eu"), *rig.manifests("eu")])
    assert f"{path} on the status branch cannot be used: it was set back" in rig.page()
    rig.job("other", gpus=1)
    rig.settle()
    assert rig.record("other").phase is Phase.STARTING, "and everybody else goes on"
    rig.restart()
    rig.settle()
    assert "done" not in " ".join([*rig.granted("eu"), *rig.manifests("eu")])
    rig.put({path: good}, "status")
    rig.settle()
    assert (rig.record("done").phase, len(rig.record("done").attempts)) == (Phase.SUCCEEDED, 1)


@pytest.mark.parametrize("job_id", ["7b", "a-rather-long-name-of-a-job-that-must-be-shortened-to-fit", "x-x12345678"])
def test_a_record_is_missed_whatever_the_job_is_called(rig: Rig, job_id: str) -> None:
    rig.job(job_id, gpus=1)
    rig.settle()
    attempt = rig.attempt(job_id).name
    rig.put({f"jobs/{TEAM}/{job_id}.json": None}, "status")
    rig.settle()
    assert rig.text("status", f"jobs/{TEAM}/{job_id}.json") is None
    assert attempt in rig.granted("eu")


def test_a_job_whose_name_begins_alike_is_another_job(rig: Rig) -> None:
    rig.job("llm", gpus=1)
    rig.job("llm-a-abcdef-a1", gpus=1)
    rig.settle()
    assert rig.record("llm").phase is Phase.STARTING
    assert rig.record("llm-a-abcdef-a1").phase is Phase.STARTING


def test_what_runs_without_a_record_and_without_a_file_runs_on_and_is_told(rig: Rig) -> None:
    attempt, record = rig.attempt("llm-a").name, rig.text("status", f"jobs/{TEAM}/llm-a.json")
    rig.put({f"jobs/{TEAM}/llm-a.json": None}, "status")
    rig.remove("llm-a")
    told = rig.settle()[-1].troubles
    assert [words for words in told if f"{manifest_path(TEAM, attempt)} stands on region/eu and no record knows it" in words]
    assert rig.granted("eu") == [attempt]
    rig.put({f"jobs/{TEAM}/llm-a.json": record}, "status")
    rig.settle()
    assert (rig.record("llm-a").phase, rig.granted("eu")) == (Phase.STOPPING, [])
