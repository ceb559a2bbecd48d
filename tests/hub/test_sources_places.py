"""Which files of main are read, which are refused for their place or name, which are none of our business."""

import pytest

from reconciler.hub.repo_files import Kind, Place, may_matter, named_job, path_of, place_of
from reconciler.model.base import matches_name
from reconciler.ports import EntryKind, TreeEntry

FILE, LINK, SUBMODULE = EntryKind.FILE, EntryKind.LINK, EntryKind.SUBMODULE


def at(path: str, kind: EntryKind = FILE) -> Place | None:
    return place_of(path, TreeEntry("0" * 40, kind))


READ = {
    "a job in its team's folder": ("jobs/nlp/a.yaml", Kind.JOB, "nlp"),
    "a job anywhere below it": ("jobs/nlp/2026/may/a.yml", Kind.JOB, "nlp"),
    "a job in JSON": ("jobs/nlp/a.json", Kind.JOB, "nlp"),
    "a job whose file is named in another script": ("jobs/nlp/欧洲 ü.yaml", Kind.JOB, "nlp"),
    "a team named as a branch of ours": ("jobs/status/a.yaml", Kind.JOB, "status"),
    "a region": ("regions/eu-north.yaml", Kind.REGION, "eu-north"),
    "a region named as a branch of ours": ("regions/status.yaml", Kind.REGION, "status"),
    "a region of 63 letters": (f"regions/{'a' * 63}.yaml", Kind.REGION, "a" * 63),
    "the links": ("links.yaml", Kind.LINKS, ""),
    "a dataset": ("datasets/corpus-a.yaml", Kind.DATASET, "corpus-a"),
    "a team": ("teams/nlp.yaml", Kind.TEAM, "nlp"),
    "the policy": ("policy.yaml", Kind.POLICY, ""),
    "the settings": ("reconciler.yaml", Kind.SETTINGS, ""),
    "a confirmation, by any name": ("confirmations/May Cleanup.yaml", Kind.CONFIRMATION, "May Cleanup"),
}


@pytest.mark.parametrize("case", READ)
def test_read(case: str) -> None:
    path, kind, name = READ[case]
    assert at(path) == Place(kind, name)
    assert may_matter(path)


PASSED_OVER = {
    "a file of another tool": ".github/workflows/ci.yaml",
    "another tool's settings": "mkdocs.yml",
    "a document at the top": "README.md",
    "a document named as a declaration": "policy.md",
    "a document among jobs": "jobs/nlp/README.md",
    "a placeholder": "regions/.gitkeep",
    "a hidden job": "jobs/nlp/.draft.yaml",
    "a job in a hidden folder": "jobs/nlp/.archive/a.yaml",
    "a script beside a job": "jobs/nlp/train.py",
    "lines of JSON beside a job": "jobs/nlp/sample.jsonl",
    "a backup": "jobs/nlp/a.yaml.bak",
    "a file without an ending": "jobs/nlp/Makefile",
    "another folder": "docs/jobs/nlp/a.yaml",
    "a folder named as a file of ours": "policy/a.yaml",
    "a file named as a folder of ours": "jobs",
}


@pytest.mark.parametrize("case", PASSED_OVER)
def test_passed_over(case: str) -> None:
    assert at(PASSED_OVER[case]) is None


REFUSED = {
    "a job without a team": ("jobs/a.yaml", FILE, "Misplaced", ""),
    "a team that is no name": ("jobs/NLP_team/a.yaml", FILE, "BadName", ""),
    "a team with a dot": ("jobs/nlp.eu/a.yaml", FILE, "BadName", ""),
    "a team above the repository": ("jobs/../a.yaml", FILE, "BadName", ""),
    "a path with a line end": ("jobs/nlp/a\n.yaml", FILE, "BadPath", "nlp"),
    "an ending with a line end": ("jobs/nlp/a.yaml\n", FILE, "BadPath", "nlp"),
    "a path that is no UTF-8": ("jobs/nlp/a\udcff.yaml", FILE, "BadPath", "nlp"),
    "a path that is written backwards": ("jobs/nlp/\u202elmay.a.yaml", FILE, "BadPath", "nlp"),
    "a link": ("jobs/nlp/a.yaml", LINK, "NotAFile", "nlp"),
    "a link straight below jobs": ("jobs/x.yaml", LINK, "NotAFile", ""),
    "a link to a folder": ("jobs/nlp/shared", LINK, "NotAFile", "nlp"),
    "a region that is a link": ("regions/eu.yaml", LINK, "NotAFile", "eu"),
    "a policy that is a link": ("policy.yaml", LINK, "NotAFile", ""),
    "a submodule": ("jobs/sub", SUBMODULE, "NotAFile", ""),
    "a submodule in a team's folder": ("jobs/nlp/sub", SUBMODULE, "NotAFile", "nlp"),
    "a submodule in a region's place": ("regions/eu.yaml", SUBMODULE, "NotAFile", "eu"),
    "an ending in capitals": ("jobs/nlp/a.YAML", FILE, "BadPath", "nlp"),
    "a misspelt ending": ("jobs/nlp/a.ymal", FILE, "BadPath", "nlp"),
    "a region in JSON": ("regions/eu.json", FILE, "BadPath", "eu"),
    "a policy with the short ending": ("policy.yml", FILE, "BadPath", ""),
    "a region below a region": ("regions/eu/west.yaml", FILE, "Misplaced", ""),
    "a region with a space": ("regions/a b.yaml", FILE, "BadName", ""),
    "a region that git takes for a lock": ("regions/x.lock.yaml", FILE, "BadName", ""),
    "a region above the folder": ("regions/...yaml", FILE, "BadName", ""),
    "a region with a revision's sign": ("regions/a~1.yaml", FILE, "BadName", ""),
    "a region that looks like an option": ("regions/-x.yaml", FILE, "BadName", ""),
    "a region in capitals": ("regions/HEAD.yaml", FILE, "BadName", ""),
    "a region that differs by case only": ("regions/EU.yaml", FILE, "BadName", ""),
    "a region in another script": ("regions/欧洲.yaml", FILE, "BadName", ""),
    "a region in digits of another script": ("regions/٣.yaml", FILE, "BadName", ""),
    "a region of 64 letters": (f"regions/{'a' * 64}.yaml", FILE, "BadName", ""),
    "a region of 300 letters": (f"regions/{'a' * 300}.yaml", FILE, "BadName", ""),
    "a region whose name ends in a line end": ("regions/eu\n.yaml", FILE, "BadPath", ""),
    "a misspelt policy": ("Policy.yaml", FILE, "Misplaced", ""),
    "a policy in the plural": ("policys.yaml", FILE, "Misplaced", ""),
    "a misspelt links file": ("link.yaml", FILE, "Misplaced", ""),
    "a folder in the singular": ("job/nlp/a.yaml", FILE, "Misplaced", "nlp"),
    "a folder in capitals": ("Regions/eu.yaml", FILE, "Misplaced", "eu"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_for_place_or_name(case: str) -> None:
    path, kind, code, name = REFUSED[case]
    place = at(path, kind)
    assert place is not None
    assert place.problem is not None
    assert (place.problem.code, place.name) == (code, name)
    assert str(place.problem).isprintable()
    assert (place.problem.line, place.problem.column) == (0, 0)
    assert place.problem.what
    assert place.problem.todo
    assert len(str(place.problem)) < 600
    assert may_matter(path)


@pytest.mark.parametrize("case", REFUSED)
def test_no_name_leaves_that_is_not_safe(case: str) -> None:
    path, kind, _, _ = REFUSED[case]
    place = at(path, kind)
    assert place is not None
    assert place.name == "" or matches_name(place.name)


def test_what_to_do_names_the_right_path() -> None:
    todo = {
        path: place.problem.todo
        for path in ("job/nlp/a.yaml", "Policy.yaml", "jobs/a.yaml")
        if (place := at(path)) and place.problem
    }
    assert todo == {
        "job/nlp/a.yaml": "rename it to jobs/nlp/a.yaml",
        "Policy.yaml": "rename it to policy.yaml",
        "jobs/a.yaml": "move it to jobs/<team>/a.yaml",
    }


@pytest.mark.parametrize("case", [case for case in READ if READ[case][1] is not Kind.JOB])
def test_each_declaration_stands_at_one_path(case: str) -> None:
    path, kind, name = READ[case]
    assert path_of(kind, name) == path


NAMED = {
    "a plain file": (b"job_id: llm-a\ngpu: {count: 8}\n", "llm-a"),
    "a file with a fault elsewhere": (b"gpu: {count: [}\n\tjob: x\njob_id: llm-a # mine\nimage: x: y\n", "llm-a"),
    "quoted": (b"'job_id' : \"llm-a\"\r\nx: 1\r\n", "llm-a"),
    "with a byte-order mark": (b"\xef\xbb\xbfjob_id: llm-a\n", "llm-a"),
    "in Latin-1": (b"owner: Jos\xe9\njob_id: llm-a\n", "llm-a"),
    "JSON on many lines": (b'{\n  "gpu": {"count": 8},\n  "job_id": "llm-a",\n', "llm-a"),
    "JSON on one line": (b'{"job_id":"llm-a","gpu":{}}', "llm-a"),
    "a label of the same name": (b"labels:\n  job_id: other\njob_id: llm-a\n", "llm-a"),
    "the same id twice": (b"job_id: llm-a\njob_id: llm-a\n", "llm-a"),
    "two ids": (b"job_id: llm-a\njob_id: llm-b\n", None),
    "an id that is none": (b"job_id: LLM A\n", None),
    "an id above the folder": (b"job_id: ../../main\n", None),
    "an id of too many letters": (b"job_id: " + b"a" * 129 + b"\n", None),
    "another field": (b"my_job_id: llm-a\njob_ids: llm-b\n", None),
    "a comment": (b"# job_id: llm-a\n", None),
    "UTF-16": ("job_id: llm-a\n".encode("utf-16"), None),
    "nothing": (b"", None),
}


@pytest.mark.parametrize("case", NAMED)
def test_the_job_that_a_broken_file_names(case: str) -> None:
    body, job_id = NAMED[case]
    assert named_job(body) == job_id
