"""Declarations of main: which version is in force, what they say of each other, and what jobs must keep to."""

import pytest

from reconciler.hub.fleet import directed
from reconciler.hub.reading import LARGEST_BYTES
from reconciler.model.fleet import Links
from reconciler.model.names import JobKey
from reconciler.model.policy import Policy
from reconciler.ports import EntryKind
from tests.hub.main_branch import Main, blob_id, job, only, told

KEY = JobKey("nlp", "llm-a")
A = "jobs/nlp/a.yaml"
EU, US = "name: eu\ncompliance: [gdpr]\n", "name: us\n"
REGIONS = {"regions/eu.yaml": EU, "regions/us.yaml": US}
DATASET = "name: corpus\nuri: s3://data-eu/corpus/\nreplicas:\n- region: eu\n- {region: us, uri: s3://data-us/corpus}\n"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_everything_that_is_declared_is_in_the_fleet() -> None:
    main = Main.of(
        REGIONS
        | {
            "links.yaml": "links:\n- {source: eu, target: us, usd_per_gb: 0.02}\n",
            "datasets/corpus.yaml": DATASET,
            "teams/nlp.yaml": "name: nlp\nweight: 2\n",
            "policy.yaml": "limits: {max_nodes: 8}\n",
            "reconciler.yaml": "intervals: {push_seconds: 5}\n",
            "confirmations/may.yaml": f'main: "{COMMIT}"\nby: Ada Example\n',
            A: job(),
        }
    )
    sources = main.sources()
    fleet = sources.fleet
    assert sources.problems == ()
    assert fleet.regions.keys() == {"eu", "us"}
    assert fleet.regions["eu"].compliance == ("gdpr",)
    assert {way: link.usd_per_gb for way, link in fleet.links.items()} == {("eu", "us"): 0.02}
    assert fleet.datasets["corpus"].replicas[1].region == "us"
    assert fleet.teams["nlp"].weight == 2
    assert (fleet.policy.limits.max_nodes, fleet.settings.intervals.push_seconds) == (8, 5)
    assert sources.confirmations == {COMMIT}
    assert sources.in_force == {path: entry.oid for path, entry in main.entries.items() if path != A}
    assert sources.unread == frozenset()


def test_what_is_not_declared_is_as_by_default() -> None:
    fleet = Main.of({A: job()}).sources().fleet
    assert fleet.policy == Policy()
    assert fleet.settings.branches.status == "status"
    assert (fleet.regions, fleet.links, fleet.datasets) == ({}, {}, {})


def test_a_symmetric_link_holds_both_ways() -> None:
    ways = directed(Links.model_validate({"links": [{"source": "eu", "target": "us", "rtt_ms": 90, "symmetric": True}]}))
    assert {way: (link.source, link.target, link.rtt_ms) for way, link in ways.items()} == {
        ("eu", "us"): ("eu", "us", 90),
        ("us", "eu"): ("us", "eu", 90),
    }


# ---- broken declarations ------------------------------------------------------------------------------------------

BROKEN = {
    "a field that does not exist": (EU + "cordon: true\n", "3:1: UnknownField"),
    "no YAML": (EU + "a: b: c\n", "3:5: YamlSyntax"),
    "another name than its file's": ("name: us\n", "1:1: NameMismatch"),
    "a name that is none": ("name: eu/west\n", "1:7: BadPattern"),
    "nothing": ("", "0:0: EmptyFile"),
    "too large a file": (EU + "#" * LARGEST_BYTES, "0:0: TooLarge"),
    "a credential": (EU + "description: hf_ABCDEFGHIJKLMNOPQRSTUVWXYZ012345\n", "3:14: CredentialInFile"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_declaration_leaves_the_version_before_in_force(case: str) -> None:
    body, problem = BROKEN[case]
    main = Main.of(REGIONS | {A: job()})
    before = main.sources()
    main.put("regions/eu.yaml", body)
    for _ in range(2):
        sources = main.sources()
        assert told(sources) == [f"regions/eu.yaml:{problem}"]
        assert sources.fleet.regions == before.fleet.regions
        assert sources.in_force == before.in_force
        assert sources.unread == frozenset()
        assert sources.jobs.keys() == {KEY}
    main.put("regions/eu.yaml", EU + "cordoned: true\n")
    mended = main.sources()
    assert mended.problems == ()
    assert mended.fleet.regions["eu"].cordoned


REPLACED = {
    "by a link": lambda main: main.put("regions/eu.yaml", "us.yaml", EntryKind.LINK),
    "by a submodule": lambda main: main.put("regions/eu.yaml", "x", EntryKind.SUBMODULE),
    "by another ending": lambda main: main.move("regions/eu.yaml", "regions/eu.yml"),
    "by a folder of nearly the name": lambda main: main.move("regions/eu.yaml", "region/eu.yaml"),
}


@pytest.mark.parametrize("case", REPLACED)
def test_a_declaration_that_is_replaced_stays_in_force(case: str) -> None:
    main = Main.of(REGIONS)
    before = main.sources()
    REPLACED[case](main)
    sources = main.sources()
    assert only(sources).path.startswith("region")
    assert (sources.fleet.regions, sources.in_force) == (before.fleet.regions, before.in_force)


def test_a_restart_goes_on_with_the_version_in_force() -> None:
    main = Main.of(REGIONS)
    main.sources()
    main.put("regions/eu.yaml", "name: [\n")
    before = main.sources()
    restarted = Main(main.entries, main.blobs, in_force=before.in_force)
    assert restarted.sources() == before


def test_a_declaration_that_is_removed_is_gone() -> None:
    main = Main.of(REGIONS)
    main.sources()
    main.remove("regions/eu.yaml")
    sources = main.sources()
    assert sources.fleet.regions.keys() == {"us"}
    assert sources.in_force.keys() == {"regions/us.yaml"}
    main.put("regions/eu.yaml", "name: [\n")
    assert main.sources().unread == {"regions/eu.yaml"}, "what was removed does not come back as the version before"


NEVER_VALID = {
    "a region": ("regions/eu.yaml", "regions/eu.yaml"),
    "the policy": ("policy.yaml", "policy.yaml"),
    "the policy with another ending": ("policy.yml", "policy.yaml"),
    "the policy by nearly its name": ("Policy.yaml", "policy.yaml"),
    "the settings": ("reconciler.yaml", "reconciler.yaml"),
    "the links": ("links.yaml", "links.yaml"),
    "a dataset": ("datasets/corpus.yaml", "datasets/corpus.yaml"),
}


@pytest.mark.parametrize("case", NEVER_VALID)
def test_a_declaration_that_was_never_valid_is_told_apart(case: str) -> None:
    path, unread = NEVER_VALID[case]
    sources = Main.of({path: "x: 1\n", A: job()}).sources()
    assert sources.unread == {unread}
    assert sources.in_force == {}
    assert {problem.path for problem in sources.problems} == {path}
    assert sources.jobs.keys() == {KEY}


def test_a_sound_policy_beside_a_misnamed_one_is_in_force() -> None:
    sources = Main.of({"policy.yaml": "limits: {max_nodes: 8}\n", "policy.yml": "limits: {max_nodes: 9}\n"}).sources()
    assert sources.fleet.policy.limits.max_nodes == 8
    assert told(sources) == ["policy.yml:0:0: BadPath"]
    assert sources.unread == frozenset()


def test_a_version_before_that_is_lost_is_told_and_stops_nothing_else() -> None:
    main = Main.of(REGIONS)
    main.put("regions/eu.yaml", "name: [\n")
    main.in_force = {"regions/eu.yaml": "f" * 40}
    sources = main.sources()
    assert [problem.code for problem in sources.problems] == ["PreviousLost", "YamlSyntax"]
    assert sources.fleet.regions.keys() == {"us"}
    assert sources.unread == {"regions/eu.yaml"}


def test_a_version_before_that_is_not_valid_any_more_is_not_in_force() -> None:
    main = Main.of(REGIONS)
    main.put("regions/eu.yaml", "name: [\n")
    old = "name: eu\nold_field: 1\n"
    main.blobs[blob_id(old.encode())] = old.encode()
    main.in_force = {"regions/eu.yaml": blob_id(old.encode())}
    sources = main.sources()
    assert sources.unread == {"regions/eu.yaml"}
    assert {problem.code for problem in sources.problems} == {"YamlSyntax"}


LINKS = {
    "one direction twice": ("- {source: eu, target: us}\n- {source: eu, target: us}\n", ["links.yaml:3:3: DuplicateLink"]),
    "a direction that a symmetric link gives": (
        "- {source: eu, target: us, symmetric: true}\n- {source: us, target: eu}\n",
        ["links.yaml:3:3: DuplicateLink"],
    ),
    "both directions": ("- {source: eu, target: us}\n- {source: us, target: eu}\n", []),
}


@pytest.mark.parametrize("case", LINKS)
def test_a_direction_has_one_link(case: str) -> None:
    lines, problems = LINKS[case]
    assert told(Main.of(REGIONS | {"links.yaml": "links:\n" + lines}).sources()) == problems


# ---- what declarations say of each other --------------------------------------------------------------------------

REMARKS = {
    "a link to no region": ("links.yaml", "links:\n- {source: eu, target: uss}\n", "2:16: UnknownRegion", None),
    "a copy in no region": (
        "datasets/d.yaml",
        "name: d\nuri: s3://b/d/\nreplicas:\n- region: us\n- region: mars\n",
        "5:3: UnknownRegion",
        "correct it, or add regions/mars.yaml",
    ),
    "a team in no region": ("teams/nlp.yaml", "name: nlp\nregions: [eu, usa]\n", "2:15: UnknownRegion", "did you mean `us`?"),
    "an approval in no region": ("policy.yaml", "approval: {regions: [usa]}\n", "1:22: UnknownRegion", "did you mean `us`?"),
}


@pytest.mark.parametrize("case", REMARKS)
def test_an_unknown_name_is_told_and_stays_in_force(case: str) -> None:
    path, body, problem, todo = REMARKS[case]
    main = Main.of(REGIONS | {path: body})
    sources = main.sources()
    assert told(sources) == [f"{path}:{problem}"]
    assert todo is None or only(sources).todo == todo
    assert sources.in_force[path] == main.entries[path].oid
    assert main.sources() == sources


def test_unknown_teams_are_told_only_where_teams_are_declared() -> None:
    policy = {"policy.yaml": "approval: {teams: [nlpp]}\nlimits: {overlay_teams: [vision]}\n"}
    assert Main.of(policy).sources().problems == ()
    sources = Main.of(policy | {"teams/nlp.yaml": "name: nlp\n"}).sources()
    assert told(sources) == ["policy.yaml:1:20: UnknownTeam", "policy.yaml:2:26: UnknownTeam"]
    assert [problem.todo for problem in sources.problems] == ["did you mean `nlp`?", "correct it, or add teams/vision.yaml"]


def test_a_region_whose_file_is_broken_is_no_unknown_name() -> None:
    main = Main.of({"regions/eu.yaml": "name: [\n", "regions/us.yaml": US, "links.yaml": "links: [{source: eu, target: us}]\n"})
    assert {problem.path for problem in main.sources().problems} == {"regions/eu.yaml"}


def test_a_remark_on_a_version_that_main_no_longer_has_is_not_told() -> None:
    main = Main.of(REGIONS | {"teams/nlp.yaml": "name: nlp\nregions: [usa]\n"})
    assert len(main.sources().problems) == 1
    main.put("teams/nlp.yaml", "name: [\n")
    assert [problem.code for problem in main.sources().problems] == ["YamlSyntax"]
