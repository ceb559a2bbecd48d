"""What a job must keep to beside its own schema: teams, datasets and limits that others declare."""

import pytest

from reconciler.model.names import JobKey
from tests.hub.main_branch import Main, job, only, told

KEY = JobKey("nlp", "llm-a")
A = "jobs/nlp/a.yaml"
REGIONS = {"regions/eu.yaml": "name: eu\n", "regions/us.yaml": "name: us\n"}
DATASET = "name: corpus\nuri: s3://data-eu/corpus/\nreplicas:\n- region: eu\n- {region: us, uri: s3://data-us/corpus}\n"

HELD_TO = {
    "a priority above the limit": ("priority: high", {"policy.yaml": "limits: {max_priority: 50}"}, "4:1: LimitExceeded"),
    "a priority by number above it": ("priority: 51", {"policy.yaml": "limits: {max_priority: 50}"}, "4:1: LimitExceeded"),
    "a priority that nobody wrote": ("nodes: 1", {"policy.yaml": "limits: {max_priority: 49}"}, "1:1: LimitExceeded"),
    "a priority of just the limit": ("priority: 50", {"policy.yaml": "limits: {max_priority: 50}"}, None),
    "too many nodes": ("nodes: 9", {"policy.yaml": "limits: {max_nodes: 8}"}, "4:1: LimitExceeded"),
    "too long a run": ("max_runtime_seconds: 61", {"policy.yaml": "limits: {max_runtime_seconds: 60}"}, "4:1: LimitExceeded"),
    "no limit of its own": ("nodes: 1", {"policy.yaml": "limits: {max_runtime_seconds: 60}"}, None),
    "an overlay": ("pod_overlay: {dnsPolicy: None}", {}, "4:1: LimitExceeded"),
    "an overlay of a team that may": ("pod_overlay: {dnsPolicy: None}", {"policy.yaml": "limits: {overlay_teams: [nlp]}"}, None),
    "a variable that we set ourselves": ("env: {ATTEMPT: mine}", {}, "4:7: ReservedName"),
    "a variable of its own": ("env: {ATTEMPTS: mine}", {}, None),
    "a label in our own domain": ("labels: {gpu-reconciler.dev/job: x}", {}, "4:10: ReservedName"),
    "an image of a preparation that is none": ("prepare: {image: 'x:y:z:', command: [a]}", {}, "4:11: BadImage"),
    "a dataset that nobody declares": ("dataset: {name: corpse}", {}, "4:11: UnknownDataset"),
    "a dataset in a list": ("dataset:\n- s3://b/x/\n- {name: corpus}\n- {name: other}", {}, "7:4: UnknownDataset"),
    "a dataset that says where it is": ("dataset: {name: other, uri: 's3://b/x/'}", {}, None),
    "a dataset by its address alone": ("dataset: s3://b/x/", {}, None),
    "a dataset by a copy's address": ("dataset: {name: corpus, uri: 's3://data-us/corpus/'}", {}, None),
    "a dataset with another address": ("dataset: {name: corpus, uri: 's3://data-us/corpse/'}", {}, "4:25: DatasetMismatch"),
    "a dataset whose file is broken": (
        "dataset: {name: other, uri: 's3://b/x/'}",
        {"datasets/other.yaml": "name: [\n"},
        "4:11: DatasetUnreadable",
    ),
    "checkpoints where nothing of ours can copy them": ("checkpoint_path: gs://b/x/", {}, "4:1: UnsupportedStore"),
    "a dataset in a folder from there": ("dataset: {uri: 'https://b/x/', mount_path: /d}", {}, "4:11: UnsupportedStore"),
    "a dataset that its program opens by itself": ("dataset: {uri: 'gs://b/x/'}", {}, None),
    "a denied region, misspelt": ("denied_regions: [us, euu]", {}, "4:22: UnknownRegion"),
    "a denied region that is not ours": ("denied_regions: [mars]", {}, None),
    "an allowed region that is not ours (PL-9)": ("allowed_regions: [mars]", {}, None),
    "a team that nobody declares": ("nodes: 1", {"teams/nlpp.yaml": "name: nlpp\n"}, "0:0: UnknownTeam"),
    "a team that is declared": ("nodes: 1", {"teams/nlp.yaml": "name: nlp\n"}, None),
    "a team whose file is broken": ("nodes: 1", {"teams/nlp.yaml": "name: [\n"}, "0:0: TeamUnreadable"),
    "a team where only a misnamed one is declared": ("nodes: 1", {"teams/NLP.yaml": "name: nlp\n"}, "0:0: UnknownTeam"),
}


@pytest.mark.parametrize("case", HELD_TO)
def test_a_job_is_held_to_what_others_declare(case: str) -> None:
    line, files, problem = HELD_TO[case]
    main = Main.of(REGIONS | {"datasets/corpus.yaml": DATASET, A: job("llm-a", line)} | files)
    sources = main.sources()
    assert [text for text in told(sources) if text.startswith("jobs/")] == ([f"{A}:{problem}"] if problem else [])
    assert sources.jobs.keys() == (set() if problem else {KEY})
    assert sources.broken == ({A: KEY} if problem else {})
    assert main.sources() == sources


def test_an_allowed_region_that_is_probably_misspelt_is_told_and_refuses_nothing() -> None:
    sources = Main.of(REGIONS | {A: job("llm-a", "allowed_regions: [uss, mars]")}).sources()
    assert told(sources) == [f"{A}:4:19: UnknownRegion"]
    assert only(sources).todo == "did you mean `us`?"
    assert sources.jobs.keys() == {KEY}
    assert sources.broken == {}


def test_what_is_wrong_says_numbers_and_what_to_do() -> None:
    main = Main.of(
        {"policy.yaml": "limits: {max_nodes: 8, max_priority: 40}\n", A: job("llm-a", "nodes: 9", "dataset: {name: corpuss}")}
    )
    main.put("datasets/corpus.yaml", DATASET)
    assert [f"{problem.what}; {problem.todo}" for problem in main.sources().problems if problem.path == A] == [
        "priority is 50, the policy allows 40; ask for at most 40",
        "nodes is 9, the policy allows 8; ask for at most 8",
        "there is no dataset `corpuss`; did you mean `corpus`?",
    ]


def test_a_change_of_the_rules_is_applied_to_files_that_did_not_change() -> None:
    main = Main.of({A: job("llm-a", "nodes: 9"), "jobs/nlp/b.yaml": job("llm-b")})
    assert main.sources().jobs.keys() == {KEY, JobKey("nlp", "llm-b")}
    main.put("policy.yaml", "limits: {max_nodes: 8}\n")
    assert main.sources().jobs.keys() == {JobKey("nlp", "llm-b")}
    main.put("teams/vision.yaml", "name: vision\n")
    assert main.sources().jobs == {}
    main.remove("policy.yaml")
    main.remove("teams/vision.yaml")
    assert main.sources().jobs.keys() == {KEY, JobKey("nlp", "llm-b")}


def test_without_teams_a_new_folder_is_a_new_team() -> None:
    main = Main.of({A: job()})
    assert main.sources().fleet.teams.keys() == {"nlp"}
    main.put("jobs/vision/a.yaml", job())
    sources = main.sources()
    assert sources.fleet.teams.keys() == {"nlp", "vision"}
    assert sources.jobs.keys() == {KEY, JobKey("vision", "llm-a")}
