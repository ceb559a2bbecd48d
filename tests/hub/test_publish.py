"""What is pushed: one atomic push, deterministic bytes, messages for people, and nothing where nothing changed."""

import json
import re
from pathlib import Path

import pytest

from reconciler.hub.outputs import SUBJECT_LIMIT, manifests_summed_up, message, summed_up
from reconciler.hub.publish import Cycle, Publication
from reconciler.hub.results import Ended
from reconciler.model.policy import Branches
from reconciler.model.record import Phase
from reconciler.ports import RefUpdate
from tests.builders import NOW, TEAM
from tests.hub.rig import REPO_URL, Rig
from tests.hub.words import FILES, job_file, region_file, succeeded

BRANCHES = Branches()


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path)
    made.tell("eu")
    made.tell("us")
    return made


# ---- one push -----------------------------------------------------------------------------------------------------


def test_the_ledger_placements_proposals_and_manifests_go_in_one_atomic_push(rig: Rig) -> None:
    rig.put(
        {
            "policy.yaml": "approval: {teams: [team-b]}\n",
            "jobs/team-b/x.yaml": job_file("x"),
            f"jobs/{TEAM}/y.yaml": job_file("y"),
        }
    )
    rig.cycle(Ended.PUBLISHED)
    (push,) = rig.git.pushes
    assert {update.branch for update in push} == {"status", "placements", "region/eu", "region/us", "proposals/team-b/x"}
    assert all(update.old is None for update in push)
    rig.tell("eu", succeeded(rig.attempt("y").name))
    rig.cycle(Ended.PUBLISHED)
    assert {update.branch: update.old is not None for update in rig.git.pushes[1]} == {"status": True, "region/eu": True}


def test_every_branch_moves_only_from_where_it_was_seen(rig: Rig) -> None:
    rig.job("one")
    rig.settle()
    before = rig.tips()
    rig.job("two")
    rig.cycle(Ended.PUBLISHED)
    for update in rig.git.pushes[-1]:
        assert update.old == before[update.branch]
        assert rig.tip(update.branch) == update.new


def test_a_cycle_without_a_change_makes_no_commit_and_no_push(rig: Rig) -> None:
    rig.job()
    rig.settle()
    tips, pushes = rig.tips(), len(rig.git.pushes)
    rig.clock.seconds += 6
    assert rig.cycle().ended is Ended.QUIET
    rig.put({"notes.md": "not ours\n"})
    rig.settle()
    assert len(rig.git.pushes) == pushes
    assert {branch: tip for branch, tip in rig.tips().items() if branch != "main"} == {
        branch: tip for branch, tip in tips.items() if branch != "main"
    }


def test_a_branch_that_does_not_change_gets_no_commit(rig: Rig) -> None:
    rig.job()
    rig.settle()
    us = rig.tip("region/us")
    rig.job("two", gpus=1, allowed_regions=["eu"])
    rig.settle()
    assert rig.tip("region/us") == us


# ---- the same bytes -----------------------------------------------------------------------------------------------


def whole_life(rig: Rig) -> dict[str, str]:
    """A few things happen; every tree of every branch after it."""
    rig.put({"policy.yaml": "approval: {teams: [team-b]}\n", "jobs/team-b/x.yaml": job_file("x", gpus=2)})
    rig.job("one")
    rig.settle()
    rig.put({f"jobs/{TEAM}/bad.yaml": "job_id: bad\n", f"jobs/{TEAM}/big.yaml": job_file("big", gpus=64)})
    rig.clock.seconds += 30
    rig.tell_running("eu")
    rig.tell("us")
    rig.settle()
    rig.remove("one")
    rig.settle()
    repository = rig.repository
    return {branch: str(repository[tip].tree_id) for branch, tip in rig.tips().items()}


def test_the_same_inputs_give_the_same_trees_byte_for_byte(tmp_path: Path) -> None:
    trees = []
    for name in ("one", "two"):
        rig = Rig(tmp_path / name)
        for region in ("eu", "us"):
            rig.tell(region)
        trees.append((whole_life(rig), rig.tips()))
    assert trees[0] == trees[1], "and the same commits, for the time is passed in"


def test_the_order_in_which_files_came_does_not_show(tmp_path: Path) -> None:
    files = {f"jobs/{TEAM}/{name}.yaml": job_file(name, gpus=1) for name in ("c", "a", "b")}
    found = []
    for number, order in enumerate((files, dict(reversed(files.items())))):
        rig = Rig(tmp_path / str(number))
        for region in ("eu", "us"):
            rig.tell(region)
        rig.put(order)
        rig.settle()
        found.append({branch: rig.tree(branch) for branch in ("status", "placements", "region/eu", "region/us")})
    assert found[0] == found[1]


def test_what_a_restarted_hub_finds_is_what_it_would_write_but_for_its_term(rig: Rig) -> None:
    whole_life(rig)
    tips, before = rig.tips(), rig.tree("status")
    rig.restart()
    rig.settle()
    after = rig.tree("status")
    assert {branch for branch, tip in rig.tips().items() if tips[branch] != tip} == {"status"}
    assert {path for path in before | after if before.get(path) != after.get(path)} == {"hub.json"}


# ---- what stands on the branches ----------------------------------------------------------------------------------


def test_the_status_branch_has_the_ledger_and_pages_and_no_history_of_main(rig: Rig) -> None:
    rig.put({f"jobs/{TEAM}/bad.yaml": "job_id: bad\n"})
    rig.job()
    rig.settle()
    tree = rig.tree("status")
    assert set(tree) == {
        "README.md",
        "fleet.json",
        "hub.json",
        "rejected.json",
        f"jobs/{TEAM}/llm-a.json",
        *(f"inforce/{path}" for path in FILES),
    }
    assert {path: oid for path, oid in rig.tree("main").items() if path in FILES} == {
        path.removeprefix("inforce/"): oid for path, oid in tree.items() if path.startswith("inforce/")
    }
    root = rig.messages("status")[-1]
    assert "Reconciler-Cycle" in root
    assert all("change" not in text.splitlines() for text in rig.messages("status")), "an orphan: nothing of main is below it"


def test_fleet_json_tells_what_the_last_decisions_saw(rig: Rig) -> None:
    rig.job()
    rig.settle()
    fleet = json.loads(rig.text("status", "fleet.json") or "")
    assert fleet["regions"]["eu"]["summary"]["gpu_free"] == 16
    assert fleet["regions"]["eu"]["sequence"] == 1
    rig.tell_again("eu")
    rig.settle()
    assert json.loads(rig.text("status", "fleet.json") or "") == fleet


def test_a_region_branch_names_the_commit_of_main_that_it_follows_from(rig: Rig) -> None:
    main = rig.job()
    rig.settle()
    said = json.loads(rig.text("region/eu", "hydrator.metadata") or "")
    assert (said["drySha"], said["repoURL"]) == (main, REPO_URL)
    assert said["author"] == "Someone <someone@example.com>"


def test_a_placement_says_why(rig: Rig) -> None:
    rig.job()
    rig.settle()
    decision = rig.placement()["decision"]
    assert decision["chosen"]["region"] == "eu"
    assert [one["region"] for one in decision["runners_up"]] == ["us"]
    assert len(decision["inputs"]) == 16
    text = rig.text("placements", f"{TEAM}/llm-a.yaml") or ""
    assert text.startswith("#")


# ---- messages -----------------------------------------------------------------------------------------------------

TRAILERS = re.compile(r"Reconciler-Cycle: [0-9a-f]{16}\nReconciler-Main: [0-9a-f]{40}(\nReconciler-Region: (eu|us|eu-west))?\n\Z")


def test_every_commit_says_what_happened_and_from_what_it_follows(rig: Rig) -> None:
    main = rig.job()
    rig.settle()
    for branch in ("status", "placements", "region/eu"):
        newest = rig.messages(branch)[0]
        assert f"{TEAM}/llm-a" in newest or "llm-a-" in newest
        assert f"Reconciler-Main: {main}" in newest
        assert TRAILERS.search(newest)
    assert "Reconciler-Region: eu\n" in rig.messages("region/eu")[0]
    assert "Reconciler-Region" not in rig.messages("status")[0]


def test_a_regions_commit_tells_only_what_happened_there(tmp_path: Path) -> None:
    rig = Rig(tmp_path, files={**FILES, "regions/eu-west.yaml": region_file("eu-west", 1.0)})
    for region in ("eu", "eu-west", "us"):
        rig.tell(region)
    rig.put(
        {
            f"jobs/{TEAM}/aye.yaml": job_file("aye", allowed_regions=["eu"]),
            f"jobs/{TEAM}/bee.yaml": job_file("bee", allowed_regions=["eu-west"]),
        }
    )
    rig.settle()
    assert "bee" not in rig.messages("region/eu")[0]
    assert "bee starting" in rig.messages("region/eu-west")[0]
    assert "aye" not in rig.messages("region/eu-west")[0]


def test_a_message_never_grows_without_end(rig: Rig) -> None:
    rig.put({f"jobs/{TEAM}/{number}.yaml": job_file(f"job-{number:02}", gpus=64) for number in range(60)})
    rig.settle()
    text = rig.messages("status")[0]
    assert "… and 40 more" in text
    assert len(text.splitlines()) < 30
    assert all(record.phase is Phase.IMPOSSIBLE for record in rig.records().values())


MESSAGES: dict[str, tuple[tuple[str, list[str]], str]] = {
    "one event says it all": (("subject", ["a/b starting in eu"]), "a/b starting in eu\n\nX: 1\n"),
    "one long event": (("subject", ["a" * 100]), f"{'a' * 71}…\n\n{'a' * 100}\n\nX: 1\n"),
    "several events": (("subject", ["one", "two"]), "subject\n\none\ntwo\n\nX: 1\n"),
    "no event": (("subject", []), "subject\n\nX: 1\n"),
    "too many events": (
        ("s", list("abcdefghijklmnopqrstuvw")),
        "s\n\n" + "\n".join("abcdefghijklmnopqrst") + "\n… and 3 more\n\nX: 1\n",
    ),
}


@pytest.mark.parametrize(("said", "text"), MESSAGES.values(), ids=MESSAGES)
def test_a_message_is_a_subject_what_happened_and_trailers(said: tuple[str, list[str]], text: str) -> None:
    assert message(*said, {"X": "1", "Y": ""}) == text
    assert len(text.splitlines()[0]) <= SUBJECT_LIMIT


def test_subjects_sum_up() -> None:
    assert summed_up([]) == "Record what was seen"
    assert summed_up(["a/b starting in eu"]) == "a/b starting in eu"
    assert summed_up(["a/b failed: exit 1", "c", "d"]) == "a/b failed, and 2 more"
    added = {"manifests/t/x.yaml": b"x", "manifests/_sentinel.yaml": b"s", "README.md": b"r"}
    assert manifests_summed_up("eu", added) == "eu: add x"
    assert (
        manifests_summed_up("eu", {**added, "manifests/t/y.yaml": b"y", "manifests/t/z.yaml": None})
        == "eu: add 2 manifests; remove z"
    )
    assert manifests_summed_up("eu", {"manifests/_sentinel.yaml": b"s"}) == "eu: begin the branch"


# ---- building updates ---------------------------------------------------------------------------------------------


def publication(rig: Rig) -> Publication:
    heads = rig.git.fetch()
    return Publication(rig.git, Cycle("0" * 16, heads.get("main"), heads, BRANCHES, NOW, REPO_URL))  # type: ignore[arg-type]


def test_a_branch_that_is_added_to_twice_moves_once(rig: Rig) -> None:
    made = publication(rig)
    one, two = (rig.git.write_blob(text) for text in (b"1", b"2"))
    made.add("x", {"a": one}, "one", [])
    made.add("x", {"b": two}, "two", [])
    (update,) = made.updates
    assert set(rig.git.files(update.new)) == {"a", "b"}
    assert (update.branch, update.old, made.head("x")) == ("x", None, update.new)


def test_what_is_there_already_is_not_added(rig: Rig) -> None:
    made = publication(rig)
    made.add("main", {"reconciler.yaml": rig.tree("main")["reconciler.yaml"]}, "same", [])
    made.add("main", {"nowhere.yaml": None}, "gone already", [])
    made.remove("nowhere")
    assert made.updates == []
    made.remove("main")
    assert made.updates == [RefUpdate("main", rig.tip("main"), None)]
