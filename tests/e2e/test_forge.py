"""Review by pull requests on a real Gitea: what a person sees there, says there, and what the hub makes of it."""

import hashlib
import hmac
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from reconciler.model.attempt import State
from reconciler.model.record import Phase
from tests.builders import TEAM
from tests.e2e.forge_world import BOT, OWNER, ForgeWorld
from tests.e2e.gitea import Gitea, Repository, serving
from tests.hub.words import job_file
from tests.waiting import until

FILE = f"jobs/{TEAM}/llm-a.yaml"


@pytest.fixture(scope="module")
def gitea(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gitea]:
    with serving(tmp_path_factory.mktemp("forge") / "gitea") as up:
        yield up


@pytest.fixture
def world(gitea: Gitea, tmp_path: Path) -> Iterator[ForgeWorld]:
    made = ForgeWorld(gitea, tmp_path)
    made.tell("eu", "us")
    try:
        yield made
    finally:
        made.stop()


def phase(world: ForgeWorld, wanted: Phase, job_id: str = "llm-a") -> None:
    until(lambda: (record := world.record(job_id)) is not None and record.phase is wanted, 40.0, 0.2)


# ---- proposals ----------------------------------------------------------------------------------------------------


def test_a_placement_is_reviewed_merged_by_another_and_its_approval_is_written_down(world: ForgeWorld) -> None:
    world.start()
    world.webhooks()
    until(lambda: world.repository.text("placements", "README.md"), 40.0, 0.2)
    rule = {
        "rule_name": "placements",
        "enable_push": True,
        "enable_push_whitelist": True,
        "push_whitelist_usernames": [BOT],
        "required_approvals": 1,
    }
    world.gitea.do(OWNER, "POST", f"{world.repository.api}/branch_protections", rule)
    for name in ("alice", "carol"):
        world.gitea.person(name)
        world.gitea.do(OWNER, "PUT", f"{world.repository.api}/collaborators/{name}", {"permission": "write"})
    world.push({FILE: job_file()})
    pull = world.proposal()
    assert pull["user"]["login"] == BOT
    assert pull["title"] == f"Place {TEAM}/llm-a in eu (8 GPUs, price unknown)"
    for words in ("| `eu` | **chosen** |", "| `us` | runner-up |", "0.5 × ", "To say yes:", "To say no:"):
        assert words in pull["body"]
    assert world.merge(pull["number"], "carol")[0] == 405, "nobody has approved it yet"
    world.gitea.do("alice", "POST", f"{world.repository.api}/pulls/{pull['number']}/reviews", {"event": "APPROVED", "body": "ok"})
    until(lambda: world.merge(pull["number"], "carol")[0] == 200, 20.0, 0.5)
    phase(world, Phase.STARTING)
    attempt = until(
        lambda: last if (last := getattr(world.record(), "last", None)) is not None and last.approved_by else None, 40.0, 0.2
    )
    assert (attempt.approved_by, attempt.approved_in, attempt.state) == (("alice", "carol"), pull["number"], State.GRANTED)
    told = subprocess.run(
        [sys.executable, "-m", "reconciler.cli", "why", "llm-a", "--repo", world.repository.url(BOT, world.token)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert f"{attempt.name} was approved by alice, carol in pull request {pull['number']}" in told
    assert world.token not in world.log.read_text()


def test_new_facts_change_the_pull_request_in_place_and_nothing_new_changes_nothing(world: ForgeWorld) -> None:
    world.start()
    world.push({FILE: job_file()})
    pull = world.proposal()
    calls = until(lambda: len(made) if (made := world.gitea.calls(BOT)) and made[-1].startswith("POST") else 0)
    cycles = (world.health() or {})["cycles"]
    until(lambda: (world.health() or {})["cycles"] > cycles + 10, 40.0, 0.2)
    assert world.gitea.calls(BOT)[calls:] == [], "an idle loop asks nothing"
    world.push({FILE: job_file(nodes=2)})
    until(lambda: "16 GPUs" in world.pull(pull["number"])["title"], 30.0, 0.2)
    assert len(world.repository.pulls(base="placements")) == 1
    assert "2 × 8 = 16 GPUs" in world.pull(pull["number"])["body"]


def test_closing_it_is_a_no_that_stays_until_the_job_is_changed(world: ForgeWorld) -> None:
    world.start()
    world.webhooks()
    world.push({FILE: job_file()})
    pull = world.proposal()
    world.close(pull["number"])
    phase(world, Phase.HELD)
    until(lambda: f"proposals/{TEAM}/llm-a" not in str(world.gitea.do(OWNER, "GET", f"{world.repository.api}/branches")), 20.0)
    world.kill()
    world.start()
    world.push({f"jobs/{TEAM}/other.yaml": job_file("other")})
    world.proposal(job_id="other")
    assert [one["state"] for one in world.repository.pulls(base="placements")] == ["closed", "open"]
    world.push({FILE: job_file(image="reg.example.com/other:2")})
    second = world.proposal()
    assert second["number"] > pull["number"], "new inputs get a pull request of their own"
    assert world.pull(pull["number"])["state"] == "closed"
    phase(world, Phase.PROPOSED)


def test_it_is_closed_when_its_job_goes(world: ForgeWorld) -> None:
    world.start()
    world.push({FILE: job_file(), f"jobs/{TEAM}/other.yaml": job_file("other")})
    pull, other = world.proposal(), world.proposal(job_id="other")
    world.push({FILE: None})
    until(lambda: world.pull(pull["number"])["state"] == "closed", 30.0, 0.2)
    phase(world, Phase.CANCELLED)
    assert world.pull(other["number"])["state"] == "open"


def test_a_hub_that_dies_at_any_time_leaves_one_pull_request_a_proposal(world: ForgeWorld) -> None:
    jobs = [f"job-{number}" for number in range(6)]
    world.start()
    world.push({f"jobs/{TEAM}/{job}.yaml": job_file(job, gpus=2) for job in jobs})
    until(lambda: world.repository.pulls(base="placements"), 40.0, 0.02)
    world.kill()
    world.start()
    for job in jobs:
        world.proposal(job_id=job)
    heads = [pull["head"]["label"] for pull in world.repository.pulls(base="placements")]
    assert sorted(heads) == [f"proposals/{TEAM}/{job}" for job in jobs]


def test_many_proposals_cost_little_more_than_a_call_each(world: ForgeWorld) -> None:
    world.start()
    until(lambda: world.repository.text("placements", "README.md"), 40.0, 0.2)
    before = len(world.gitea.calls(BOT))
    jobs = [f"job-{number:02}" for number in range(8)]
    world.push({f"jobs/{TEAM}/{job}.yaml": job_file(job, gpus=2) for job in jobs})
    until(lambda: len(world.repository.pulls("open", "placements")) == len(jobs), 60.0, 0.2)
    calls = world.gitea.calls(BOT)[before:]
    looks = [call for call in calls if call.startswith("GET ")]  # two a look; on a slow machine jobs may come in two cycles
    assert len(looks) <= 4, calls
    assert len(calls) - len(looks) <= len(jobs), calls


def test_without_the_forge_placements_that_need_no_approval_go_on_and_its_trouble_is_told(world: ForgeWorld) -> None:
    text = world.repository.text("main", "reconciler.yaml") or ""
    world.push({"policy.yaml": POLICY_SOME, "reconciler.yaml": text.replace(world.gitea.url, "http://127.0.0.1:9")})
    world.start()
    world.push({FILE: job_file(), f"jobs/{TEAM}/dear.yaml": job_file("dear", priority=900)})
    phase(world, Phase.STARTING)
    phase(world, Phase.PROPOSED, "dear")
    assert "got no answer" in until(lambda: world.troubles().get("ForgeUnreachable"), 40.0, 0.2)
    world.push({"reconciler.yaml": text})
    world.proposal(job_id="dear")
    until(lambda: "ForgeUnreachable" not in world.troubles(), 60.0, 0.5)


POLICY_SOME = "approval: {priority_at_least: 900}\nthresholds: {report_fresh_seconds: 86400}\n"


def test_without_a_token_the_hub_works_and_says_what_is_missing(world: ForgeWorld) -> None:
    world.start(RECONCILER_FORGE_TOKEN="")
    world.push({FILE: job_file()})
    phase(world, Phase.PROPOSED)
    assert "set RECONCILER_FORGE_TOKEN" in until(lambda: world.troubles().get("ForgeRefused"), 40.0, 0.2)
    assert world.repository.pulls() == []


def test_a_token_that_is_wrong_is_a_trouble_and_is_not_told(world: ForgeWorld) -> None:
    world.start(RECONCILER_FORGE_TOKEN="not-a-token-of-anybody")
    world.push({FILE: job_file()})
    phase(world, Phase.PROPOSED)
    assert "401" in until(lambda: world.troubles().get("ForgeRefused"), 40.0, 0.2)
    assert "not-a-token-of-anybody" not in world.log.read_text()


# ---- pull requests on main ----------------------------------------------------------------------------------------


def open_pull(world: ForgeWorld, who: str, head: str, title: str = "a change") -> int:
    said = {"head": head, "base": "main", "title": title, "body": ""}
    return int(world.gitea.do(who, "POST", f"{world.repository.api}/pulls", said)["number"])


def verdict(world: ForgeWorld, commit: str, state: str) -> str:
    return until(lambda: found[1] if (found := world.repository.status(commit)) and found[0] == state else None, 40.0, 0.2)


def test_a_broken_file_fails_with_line_and_column_and_its_mending_brings_the_plan(world: ForgeWorld) -> None:
    world.start()
    world.webhooks()
    commit = world.push({FILE: "job_id: llm-a\ngpu: {count: 8, model: A100-80GB}\nimage: [1]\n"}, branch="add-llm")
    number = open_pull(world, OWNER, "add-llm")
    words = verdict(world, commit, "failure")
    assert words.startswith(f"{FILE}:3:8: ")
    comment = world.repository.comments(number)[0]
    assert comment["user"]["login"] == BOT
    assert f"`{FILE}:3:8`" in comment["body"]
    commit = world.push({FILE: job_file()}, branch="add-llm")
    assert verdict(world, commit, "success") == f"{TEAM}/llm-a would be proposed in eu"
    comments = world.repository.comments(number)
    assert [each["id"] for each in comments] == [comment["id"]], "it is edited in place"
    assert re.search(rf"\| `{TEAM}/llm-a` \| new \| would be proposed in eu \| \d{{4}}-", comments[0]["body"])
    assert "No other job would wait longer." in comments[0]["body"]


def test_who_would_wait_longer_is_named(world: ForgeWorld) -> None:
    world.tell("eu", "us", used=8)
    world.push({FILE: job_file()})
    world.start()
    phase(world, Phase.PENDING)
    commit = world.push({f"jobs/{TEAM}/urgent.yaml": job_file("urgent", priority=900)}, branch="urgent")
    number = open_pull(world, OWNER, "urgent")
    world.webhooks()
    world.push({"README.md": "words\n"})
    assert verdict(world, commit, "success").startswith(f"{TEAM}/urgent would be Pending")
    body = world.repository.comments(number)[0]["body"]
    row = next(line for line in body.splitlines() if line.startswith(f"| `{TEAM}/llm-a`"))
    assert row.endswith(f"; behind `{TEAM}/urgent` |")


def test_a_fork_without_rights_is_read_and_gets_its_answer(world: ForgeWorld, tmp_path: Path) -> None:
    gitea = world.gitea
    world.start()
    world.webhooks()
    stranger = gitea.person("mallory")
    name = world.repository.name
    gitea.do(stranger, "POST", f"{world.repository.api}/forks", {})
    fork = Repository(gitea, stranger, name, tmp_path)
    until(lambda: gitea.ask(stranger, "GET", f"{fork.api}/branches/main")[0] == 200, 20.0, 0.2)
    evil = "![x](https://evil.example.com) @ops <!-- gpu-reconciler:check --> | `"
    said = f"job_id: '{evil}'\nimage: reg.example.com/x:1\n"
    steals = "forge: {kind: gitea, url: 'http://127.0.0.1:9', repository: a/b}\nstore: {url: 'file:///tmp/elsewhere'}\n"
    commit = fork.push(stranger, {FILE: said, "reconciler.yaml": steals}, "change", "main")
    number = open_pull(world, stranger, f"{stranger}:change")
    assert (
        gitea.ask(stranger, "POST", f"{world.repository.api}/statuses/{commit}", {"state": "success", "context": "x"})[0] == 403
    )
    verdict(world, commit, "failure")
    comment = world.repository.comments(number)[0]["body"]
    assert "](https://evil" not in comment
    assert "@ops" not in comment
    assert comment.count("<!--") == 1
    assert FILE in comment
    assert world.proposal_numbers() == []
    assert gitea.calls(BOT), "the forge of main is asked, not that of the pull request"


def test_a_fork_cannot_pass_for_a_proposal(world: ForgeWorld, tmp_path: Path) -> None:
    gitea = world.gitea
    world.start()
    world.webhooks()
    world.push({FILE: job_file()})
    pull = world.proposal()
    stranger = gitea.person("mallory")
    gitea.do(stranger, "POST", f"{world.repository.api}/forks", {"name": f"{world.repository.name}-x"})
    fork = Repository(gitea, stranger, f"{world.repository.name}-x", tmp_path)
    until(lambda: gitea.ask(stranger, "GET", f"{fork.api}/branches/placements")[0] == 200, 20.0, 0.2)
    fork.push(stranger, {f"{TEAM}/x.yaml": "a: 1\n"}, f"proposals/{TEAM}/llm-a-x", "placements")
    said = {"head": f"{stranger}:proposals/{TEAM}/llm-a-x", "base": "placements", "title": "x", "body": pull["body"]}
    forged = gitea.do(stranger, "POST", f"{world.repository.api}/pulls", said)["number"]
    gitea.do(stranger, "PATCH", f"{world.repository.api}/pulls/{forged}", {"state": "closed"})
    world.push({f"jobs/{TEAM}/other.yaml": job_file("other")})
    world.proposal(job_id="other")
    record = world.record()
    assert record is not None
    assert record.phase is Phase.PROPOSED


# ---- webhooks -----------------------------------------------------------------------------------------------------


def test_signed_deliveries_wake_the_hub_and_others_are_refused(world: ForgeWorld) -> None:
    world.start(poll_seconds=3000)
    until(lambda: (world.health() or {})["last_end"] in ("nothing to publish", "idle"), 40.0, 0.2)
    wrong = world.webhooks("another secret")
    world.gitea.do(OWNER, "POST", f"{world.repository.api}/hooks/{wrong}/tests")
    body = b"{}"
    signature = hmac.new(b"another secret", body, hashlib.sha256).hexdigest()
    url = f"http://127.0.0.1:{world.port}/webhooks/gitea"
    assert requests.post(url, body, headers={"X-Gitea-Signature": signature}, timeout=10).status_code == 401
    world.gitea.do(OWNER, "DELETE", f"{world.repository.api}/hooks/{wrong}")
    world.webhooks()
    world.push({FILE: job_file()})
    world.proposal()
