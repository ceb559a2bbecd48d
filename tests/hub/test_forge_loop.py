"""Proposals and their pull requests: what people see, what they say by ending one, and how often the forge is asked."""

from pathlib import Path

import pytest

from reconciler.forge_port import PullState
from reconciler.hub.forge_loop import BACK_OFF_SECONDS
from reconciler.hub.results import Ended
from reconciler.model.attempt import State
from reconciler.model.record import Phase
from reconciler.ports import Refused
from tests.builders import TEAM
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
