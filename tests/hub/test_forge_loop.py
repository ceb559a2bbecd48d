"""Proposals and their pull requests: what people see, what they say by ending one, and how often the forge is asked."""

from pathlib import Path

import pytest

from reconciler.forge_port import PullState
from reconciler.hub.forge_loop import BACK_OFF_SECONDS, UPKEEP_SECONDS
from reconciler.hub.results import Ended
from reconciler.model.attempt import State
from reconciler.model.record import Phase
from reconciler.ports import Refused
from tests.builders import TEAM
from tests.githttp import run_git
from tests.hub.forge_rig import FORGE, ForgeRig
from tests.hub.words import SETTINGS

PROPOSAL = f"proposals/{TEAM}/llm-a"
LOOK_SECONDS = 300


@pytest.fixture
def rig(tmp_path: Path) -> ForgeRig:
    return ForgeRig(tmp_path)


def troubles(rig: ForgeRig) -> dict[str, str]:
    """What the status branch says of the forge."""
    return {one.code: one.what for one in rig.hub_file().troubles if one.subject == "forge"}


# ---- what people see ----------------------------------------------------------------------------------------------


def test_a_proposal_gets_one_pull_request_that_says_where_why_and_what_to_do(rig: ForgeRig) -> None:
    number = rig.proposed()
    pull = rig.forge.pulls[number]
    assert (pull.head, pull.base) == (PROPOSAL, "placements")
    assert pull.title.startswith(f"Place {TEAM}/llm-a in eu (8 GPUs, ")
    for words in (
        "| asks for | 1 × 8 = 8 GPUs of A100-80GB |",
        "| price | ",
        "| data to move | 0 B |",
        "| start | 2026-05-01 12:00 |",
        "| `eu` | **chosen** | ",
        "| `us` | runner-up | ",
        "0.3 × 1.00 idle",
        "**To say yes:** merge this pull request.",
        "**To say no:** close this pull request unmerged.",
    ):
        assert words in pull.body
    assert len(rig.forge.pulls) == 1


def test_new_facts_change_it_in_place(rig: ForgeRig) -> None:
    number = rig.proposed()
    rig.job(nodes=2)
    rig.both()
    assert rig.asked().count(f"update {number}") == 1
    assert "16 GPUs" in rig.forge.only().title


def test_what_a_person_writes_there_stays_until_the_facts_change(rig: ForgeRig) -> None:
    number = rig.proposed()
    mark = rig.forge.only().body.splitlines()[0]
    rig.forge.people_edit(number, title="mine", body=f"{mark}\nmy notes")
    rig.loop.tell()
    rig.both()
    assert rig.forge.only().title == "mine"
    rig.job(nodes=2)
    rig.both()
    assert "my notes" not in rig.forge.only().body


def test_a_person_s_change_of_the_branch_is_said_there(rig: ForgeRig) -> None:
    rig.proposed()
    rig.edit_placement(branch=PROPOSAL, region="us")
    rig.both()
    assert rig.forge.only().title.startswith(f"Place {TEAM}/llm-a in us")
    assert "A person changed the file on this branch" in rig.forge.only().body


def test_it_is_closed_when_its_job_goes(rig: ForgeRig) -> None:
    number = rig.proposed()
    rig.remove("llm-a")
    rig.both()
    assert rig.forge.pulls[number].state is PullState.CLOSED


def test_one_that_a_person_opened_is_taken_over(rig: ForgeRig) -> None:
    rig.job()
    rig.settle()
    rig.forge.add(PROPOSAL, "placements")
    rig.both()
    assert rig.forge.only().title.startswith(f"Place {TEAM}/llm-a in eu")


# ---- what people say ----------------------------------------------------------------------------------------------


def test_closing_it_is_a_no_that_stays_through_restarts_until_the_job_is_changed(rig: ForgeRig) -> None:
    number = rig.proposed()
    rig.forge.people_close(number)
    rig.loop.tell()
    rig.both()
    assert rig.record().phase is Phase.HELD
    assert PROPOSAL not in rig.tips()
    rig.restart()
    rig.loop = rig.another_loop()
    rig.both()
    assert (rig.record().phase, rig.forge.heads()) == (Phase.HELD, [])
    rig.job(image="reg.example.com/other:2")
    rig.both()
    assert rig.record().phase is Phase.PROPOSED
    assert rig.forge.only().number != number


def test_a_no_that_nobody_told_of_is_found_by_looking_now_and_then(rig: ForgeRig) -> None:
    number = rig.proposed()
    rig.forge.people_close(number)
    rig.both()
    assert rig.record().phase is Phase.PROPOSED
    rig.clock.seconds += LOOK_SECONDS
    rig.tell_again("eu")
    rig.both()
    assert rig.record().phase is Phase.HELD


def many_proposed(rig: ForgeRig, count: int) -> dict[str, int]:
    """So many jobs that wait for a person, and their pull requests."""
    rig.jobs(*(f"job-{at}" for at in range(count)), gpus=1)
    rig.both()
    return {str(one.head).rpartition("/")[2]: number for number, one in rig.forge.pulls.items()}


def held(rig: ForgeRig) -> list[str]:
    return sorted(str(key) for key, record in rig.records().items() if record.phase is Phase.HELD)


def look(rig: ForgeRig) -> None:
    rig.loop.tell()
    rig.both()


def test_many_that_are_closed_at_once_are_no_no_until_people_say_so_one_by_one(rig: ForgeRig) -> None:
    numbers = many_proposed(rig, 8)
    for number in numbers.values():
        rig.forge.people_close(number)
    look(rig)
    rig.loop = rig.another_loop()
    look(rig)
    assert held(rig) == []
    assert "8 of 8 pull requests of proposals were closed at once" in troubles(rig)["ForgeSuspicious"]
    assert "restore `placements`" in troubles(rig)["ForgeSuspicious"]
    assert len(rig.forge.pulls) == 8, "nor is another one opened"
    for number in numbers.values():
        rig.forge.people_edit(number, state=PullState.OPEN)
    look(rig)
    assert troubles(rig) == {}
    for job in ("job-0", "job-1", "job-2", "job-3"):
        rig.forge.people_close(numbers[job])
        rig.loop.tell()
        rig.loop.turn()
        rig.clock.seconds += 2
    rig.both()
    assert held(rig) == [f"{TEAM}/job-{at}" for at in range(4)]
    assert troubles(rig) == {}


def test_a_branch_that_is_deleted_is_a_no_though_many_were_closed(rig: ForgeRig) -> None:
    numbers = many_proposed(rig, 5)
    for number in numbers.values():
        rig.forge.people_close(number)
    look(rig)
    rig.move(f"proposals/{TEAM}/job-0", None)
    look(rig)
    assert held(rig) == [f"{TEAM}/job-0"]


def test_a_few_that_are_closed_at_once_are_a_no(rig: ForgeRig) -> None:
    numbers = many_proposed(rig, 4)
    for job in ("job-0", "job-1", "job-2"):
        rig.forge.people_close(numbers[job])
    look(rig)
    assert held(rig) == [f"{TEAM}/job-{at}" for at in range(3)]


def test_a_listing_that_does_not_reach_back_opens_nothing_that_may_have_been_closed(rig: ForgeRig) -> None:
    number = rig.proposed()
    rig.forge.people_close(number)
    for _ in range(2):
        rig.clock.seconds += 7200
        rig.forge.people_close(rig.forge.add(None, "placements"))
    rig.forge.most = 2
    rig.tell_again("eu")
    rig.tell_again("us")
    look(rig)
    assert (len(rig.forge.pulls), rig.forge.heads()) == (3, [])
    assert "1 proposals get no pull request" in " ".join(one.what for one in rig.hub.board.heard.troubles)
    rig.job("fresh")
    rig.both()
    assert rig.forge.heads() == [f"proposals/{TEAM}/fresh"], "of one that was decided later it is known"


def test_a_no_counts_though_the_mark_was_taken_away(rig: ForgeRig) -> None:
    number = rig.proposed()
    rig.forge.people_close(number, body="")
    rig.loop.tell()
    rig.both()
    assert (rig.record().phase, len(rig.forge.pulls)) == (Phase.HELD, 1)


def test_a_merge_is_an_approval_and_who_gave_it_is_written_down(rig: ForgeRig) -> None:
    number = rig.proposed()
    rig.merge_proposal()
    rig.forge.people_merge(number, "alice", "carol")
    rig.both()
    attempt = rig.attempt()
    assert (attempt.state, attempt.approved_by, attempt.approved_in) == (State.GRANTED, ("alice", "carol"), number)
    assert any(f"{TEAM}/llm-a was approved by alice, carol" in message for message in rig.messages("status"))
    assert len(rig.asked()) <= 4
    rig.both()
    assert rig.asked() == [], "what is known is not asked again"


def test_a_merge_with_another_region_is_written_down_where_it_went(rig: ForgeRig) -> None:
    number = rig.proposed()
    rig.merge_proposal(region="us")
    rig.forge.people_merge(number, "alice")
    rig.both()
    attempt = rig.attempt()
    assert (attempt.region, attempt.approved_by) == ("us", ("alice", "carol"))
    assert rig.record().attempts[0].approved_by == ()


def test_a_forge_that_learns_of_the_merge_later_is_asked_again(rig: ForgeRig) -> None:
    number = rig.proposed()
    rig.merge_proposal(delete=False)
    rig.both()
    assert rig.attempt().approved_by == ()
    rig.forge.people_merge(number, "alice")
    rig.both(times=6)
    assert rig.attempt().approved_by == ("alice", "carol")


def test_an_approval_without_the_forge_is_asked_for_a_few_times_and_no_more(rig: ForgeRig) -> None:
    rig.job()
    rig.settle()
    rig.merge_proposal()
    rig.settle()
    assert rig.attempt().state is State.GRANTED
    for _ in range(12):
        rig.clock.seconds += 60
        rig.tell_again("eu")
        rig.tell_again("us")
        rig.both(times=1)
    asked = rig.asked()
    assert asked.count("ended_pulls") <= 5
    assert rig.attempt().approved_by == ()


def test_names_survive_the_process_that_heard_them(rig: ForgeRig) -> None:
    number = rig.proposed()
    rig.merge_proposal()
    rig.forge.people_merge(number, "alice")
    rig.settle()
    rig.restart()
    rig.loop = rig.another_loop()
    rig.both()
    assert rig.attempt().approved_by == ("alice", "carol")


def test_a_mark_that_was_edited_into_another_pull_request_names_nobody(rig: ForgeRig) -> None:
    number = rig.proposed()
    other = rig.proposed("other", gpus=1)
    mark = rig.forge.pulls[number].body
    rig.merge_proposal()
    rig.merge_proposal("other")
    rig.forge.people_merge(number, "alice")
    rig.forge.people_merge(other, "mallory")
    rig.forge.people_edit(number, body="")
    rig.forge.people_edit(other, body=mark)
    rig.both()
    assert rig.attempt().state is State.GRANTED
    assert rig.attempt().approved_by == ()


STRANGE = {
    "from a fork": (None, "placements"),
    "into another branch": (PROPOSAL, "main"),
    "from another branch": ("people/x", "placements"),
}


@pytest.mark.parametrize("case", STRANGE)
def test_a_pull_request_with_our_mark_is_not_ours(rig: ForgeRig, case: str) -> None:
    rig.proposed()
    head, base = STRANGE[case]
    forged = rig.forge.add(head, base, body=rig.forge.only().body)
    rig.loop.tell()
    rig.both()
    assert rig.forge.pulls[forged].state is PullState.OPEN, "it is left alone"
    rig.forge.people_close(forged)
    rig.loop.tell()
    rig.both()
    assert rig.record().phase is Phase.PROPOSED, "and says nothing"


# ---- how often the forge is asked ---------------------------------------------------------------------------------


def test_an_idle_loop_asks_nothing(rig: ForgeRig) -> None:
    rig.proposed()
    for _ in range(6):
        rig.tell_again("eu")
        rig.tell_again("us")
        rig.both(times=1, seconds=15)
    assert rig.asked() == []
    rig.loop.tell()
    rig.both()
    assert rig.asked() == ["open_pulls"]


def test_many_proposals_cost_little_more_than_a_call_each(rig: ForgeRig) -> None:
    rig.both()
    rig.asked()
    rig.jobs(*(f"job-{number}" for number in range(8)), gpus=2)
    rig.both()
    asked = rig.asked()
    assert sorted(set(asked)) == sorted(["open_pulls", "ended_pulls", *(f"open proposals/{TEAM}/job-{at}" for at in range(8))])
    assert len(asked) == 10


def test_without_a_forge_in_the_settings_nothing_is_asked(rig: ForgeRig) -> None:
    rig.put({"reconciler.yaml": SETTINGS})
    rig.job()
    rig.both()
    assert (rig.asked(), rig.opened) == ([], [])
    rig.put({"reconciler.yaml": f"{SETTINGS}{FORGE}"})
    rig.both()
    assert len(rig.forge.pulls) == 1


def test_a_hub_that_stands_by_asks_nothing(rig: ForgeRig) -> None:
    rig.proposed()
    _, other = rig.another_hub()
    assert other.cycle().ended is Ended.STANDBY
    rig.clock.seconds += 16
    other.cycle()
    assert rig.hub.cycle().ended is Ended.STANDBY
    rig.loop.tell()
    rig.loop.turn()
    assert rig.asked() == []


# ---- what goes wrong ----------------------------------------------------------------------------------------------


def test_a_silent_forge_holds_up_nothing_and_is_told_once_it_lasts(rig: ForgeRig) -> None:
    rig.both()
    rig.forge.down = True
    rig.put({"policy.yaml": "approval: {regions: [us]}\n"})
    rig.job()
    rig.both()
    assert rig.record().phase is Phase.STARTING
    rig.job("other", regions=None)
    rig.loop.tell()
    for _ in range(3):
        rig.clock.seconds += 10
        rig.tell_again("eu")
        rig.tell_again("us")
        rig.both(times=1)
    assert "no answer" in troubles(rig)["ForgeUnreachable"]
    rig.forge.down = False
    rig.clock.seconds += BACK_OFF_SECONDS[-1]
    rig.tell_again("eu")
    rig.both(times=2)
    assert troubles(rig) == {}


def test_a_silent_forge_is_asked_less_and_less(rig: ForgeRig) -> None:
    rig.both()
    rig.forge.down = True
    waits = []
    for _ in range(6):
        rig.loop.tell()
        waits.append(rig.loop.turn())
        rig.clock.seconds += waits[-1]
    assert waits == [*BACK_OFF_SECONDS, *BACK_OFF_SECONDS[-1:] * 2]


def test_an_address_that_is_mended_is_tried_at_once(rig: ForgeRig) -> None:
    rig.both()
    rig.forge.down = True
    for wait in BACK_OFF_SECONDS:
        rig.loop.tell()
        assert rig.loop.turn() == wait
        rig.clock.seconds += wait - 1 if wait == BACK_OFF_SECONDS[-1] else wait
    rig.forge.down = False
    rig.tell_again("eu")
    rig.put({"reconciler.yaml": f"{SETTINGS}{FORGE.replace('ml/jobs', 'ml/other')}"})
    rig.job()
    rig.both()
    assert rig.forge.only().head == PROPOSAL


def test_one_that_is_refused_hinders_no_other_and_is_told(rig: ForgeRig) -> None:
    rig.forge.refuses = {f"open proposals/{TEAM}/job-1"}
    rig.jobs(*(f"job-{number}" for number in range(3)), gpus=2)
    rig.both()
    assert sorted(filter(None, rig.forge.heads())) == [f"proposals/{TEAM}/job-0", f"proposals/{TEAM}/job-2"]
    for _ in range(4):
        rig.clock.seconds += 5
        rig.tell_again("eu")
        rig.both(times=1)
    assert f"open proposals/{TEAM}/job-1 is not allowed" in troubles(rig)["ForgeRefused"]
    rig.forge.refuses = set()
    rig.clock.seconds += LOOK_SECONDS
    rig.tell_again("eu")
    rig.both()
    assert len(rig.forge.heads()) == 3
    assert troubles(rig) == {}


def test_a_missing_token_is_told_and_stops_nothing_else(rig: ForgeRig) -> None:
    rig.open_fails = Refused("no token for the forge; set RECONCILER_FORGE_TOKEN")
    rig.job()
    for _ in range(8):
        rig.clock.seconds += 5
        rig.tell_again("eu")
        rig.tell_again("us")
        rig.both(times=1)
    assert rig.record().phase is Phase.PROPOSED
    assert "set RECONCILER_FORGE_TOKEN" in troubles(rig)["ForgeRefused"]


@pytest.mark.parametrize("answered", range(9))
def test_a_loop_that_dies_after_any_call_is_finished_by_the_next(rig: ForgeRig, answered: int) -> None:
    rig.jobs("job-0", "job-1", "job-2", gpus=2)
    rig.both(times=1)
    rig.remove("job-0")
    rig.job("job-1", gpus=4)
    rig.jobs("job-3", "job-4", gpus=2)
    rig.settle()
    rig.asked()
    rig.forge.dies_after = answered
    rig.loop.turn()
    rig.forge.dies_after = None
    rig.loop = rig.another_loop()
    rig.both()
    wanted = [f"proposals/{TEAM}/job-{at}" for at in (1, 2, 3, 4)]
    assert sorted(filter(None, rig.forge.heads())) == wanted
    assert "(4 GPUs" in next(one.title for one in rig.forge.pulls.values() if one.head == wanted[0])
    assert rig.forge.heads(PullState.CLOSED) == [f"proposals/{TEAM}/job-0"]


# ---- what it leaves behind ----------------------------------------------------------------------------------------


def test_what_pull_requests_bring_is_packed_now_and_then(rig: ForgeRig) -> None:
    for at in range(3):
        commit = rig.put({f"jobs/{TEAM}/a.yaml": f"# {at}"}, "away")
        run_git(rig.bare, "update-ref", f"refs/pull/{rig.forge.add(None, 'main', commit=commit)}/head", commit)
    look(rig)
    objects = rig.folder / f"pulls-{rig.loops}" / "objects"
    assert list(objects.glob("??/*"))
    rig.clock.seconds += UPKEEP_SECONDS
    rig.tell_again("eu")
    look(rig)
    assert not list(objects.glob("??/*"))
    assert list(objects.glob("pack/*.pack"))


def test_it_hangs_up_when_it_ends_and_when_the_forge_is_another(rig: ForgeRig) -> None:
    rig.both()
    assert rig.forge.hung_up == 0
    rig.put({"reconciler.yaml": f"{SETTINGS}{FORGE.replace('ml/jobs', 'ml/other')}"})
    rig.both()
    assert rig.forge.hung_up == 1
    rig.loop.start()
    rig.loop.stop()
    assert rig.forge.hung_up == 2
