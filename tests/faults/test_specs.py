"""Job files as people leave them, through the whole hub: refused alone, with the place and what to do; nothing that runs is touched."""

import pytest

from reconciler.model.record import Phase
from tests.builders import TEAM
from tests.faults.bytes_in_git import commit_bytes
from tests.hub.rig import Rig
from tests.hub.words import job_file

JOB = """\
job_id: llm-a
task_type: training
communication_mode: sync
gpu: {count: 8, model: A100-80GB}
image: reg.example.com:5000/team/train:1.4
priority: 50
checkpoint_path: s3://ckpt/llm-a/
max_runtime_seconds: 86400
"""
PATH = f"jobs/{TEAM}/llm-a.yaml"
BLOCK = "gpu:\n  model: A100-80GB\n  count: 1\n  count: 8\n"
DATES = "dataset: {name: d, uri: s3://data-eu/d/, size_gb: 1, version: 2026-13-45}\n"

Told = tuple[int, int, str, str, str]
"""Line, column, code, words of what is wrong, words of what to do."""

REFUSED: dict[str, tuple[str | bytes, list[Told]]] = {
    "SP-1: an old block left in": (
        JOB.replace("gpu: {count: 8, model: A100-80GB}\n", BLOCK),
        [(7, 3, "DuplicateKey", "gpu.count is given twice, on line 6 and on line 7", "")],
    ),
    "SP-3: countries": (
        JOB + "allowed_regions: [no, se, on]\n",
        [
            (9, 19, "AmbiguousValue", "allowed_regions[0]: no is the boolean false", 'write "no" if text is meant'),
            (9, 27, "AmbiguousValue", "allowed_regions[2]: on is the boolean true", 'write "on" if text is meant'),
        ],
    ),
    "SP-3: a key": (JOB + "on: push\n", [(9, 1, "UnknownField", "on: there is no such field", "")]),
    "SP-5: an id that is a date": (
        JOB.replace("llm-a\n", "2026-03-29\n", 1),
        [(1, 9, "AmbiguousValue", "job_id: 2026-03-29 is a date", 'write "2026-03-29"')],
    ),
    "SP-5: a date that there is not": (
        JOB + DATES,
        [(9, 63, "AmbiguousValue", "dataset.version: 2026-13-45 is a date", 'write "2026-13-45"')],
    ),
    "SP-7: a line end": (JOB.replace("llm-a", "|\n  llm-a", 1), [(1, 9, "BadPattern", "ends with a line break", "")]),
    "SP-7: a space": (JOB.replace("llm-a", '"llm-a "', 1), [(1, 9, "BadPattern", "job_id: ", "")]),
    "SP-7: a digit of another script": (JOB.replace("llm-a", '"٣"', 1), [(1, 9, "BadPattern", "job_id: ", "")]),
    "SP-9: Latin-1": ((JOB + "owner: José\n").encode("latin-1"), [(9, 11, "NotUtf8", "not UTF-8", "UTF-8")]),
    "SP-9: UTF-16": (JOB.encode("utf-16"), [(1, 1, "NotUtf8", "not UTF-8", "UTF-8")]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_is_refused_alone_and_what_runs_under_its_id_is_left_alone(rig: Rig, case: str) -> None:
    body, told = REFUSED[case]
    commit_bytes(rig, {PATH: JOB})
    rig.settle()
    rig.tell_running("eu")
    rig.settle()
    before = rig.attempt()
    assert (rig.record().phase, rig.granted("eu")) == (Phase.RUNNING, [before.name])
    commit_bytes(rig, {PATH: body, f"jobs/{TEAM}/other.yaml": job_file("other", gpus=1)})
    rig.cycle()
    assert rig.record("other").phase is Phase.STARTING, "every other job is decided in the same cycle"
    rig.settle()
    problems = rig.rejected()
    assert [(one["path"], one["line"], one["column"], one["code"]) for one in problems] == [
        (PATH, line, column, code) for line, column, code, _, _ in told
    ]
    for one, (_, _, _, what, todo) in zip(problems, told, strict=True):
        assert what in one["what"]
        assert todo in one["todo"]
    assert rig.attempt() == before
    assert before.name in rig.granted("eu")
    assert before.name in rig.manifests("eu")


QUOTED = 'allowed_regions: ["no", "se", "on"]\ndataset: {name: d, uri: "s3://data-eu/d/", size_gb: 1, version: "2026-13-45"}\n'


def test_in_quotes_they_are_what_was_meant(rig: Rig) -> None:
    commit_bytes(rig, {PATH: JOB.replace("llm-a\n", '"2026-03-29"\n', 1) + QUOTED})
    rig.settle()
    record = rig.record("2026-03-29")
    assert [(one["line"], one["code"]) for one in rig.rejected()] == []
    assert record.spec.allowed_regions == ("no", "se", "on")
    assert [use.version for use in record.spec.datasets] == ["2026-13-45"]


CONVERTED = {
    "CRLF": JOB.replace("\n", "\r\n").encode(),
    "a byte-order mark": b"\xef\xbb\xbf" + JOB.encode(),
    "both": b"\xef\xbb\xbf" + JOB.replace("\n", "\r\n").encode(),
}


@pytest.mark.parametrize("case", CONVERTED)
def test_converted_line_ends_restart_nothing(rig: Rig, case: str) -> None:
    commit_bytes(rig, {PATH: JOB})
    rig.settle()
    rig.tell_running("eu")
    rig.settle()
    before, run_hash = rig.attempt(), rig.record().run_hash
    commit_bytes(rig, {PATH: CONVERTED[case]})
    rig.settle()
    assert (rig.attempt(), rig.record().run_hash, rig.record().phase) == (before, run_hash, Phase.RUNNING)
    assert rig.granted("eu") == rig.manifests("eu") == [before.name]
    assert rig.rejected() == []
