"""Jobs of main: taken, refused, doubled, moved; each file by its own merits."""

import pytest

from reconciler.hub.reading import LARGEST_BYTES
from reconciler.model.names import JobKey
from reconciler.ports import EntryKind
from tests.hub.main_branch import JOB, Main, job, only, told

KEY = JobKey("nlp", "llm-a")
A = "jobs/nlp/a.yaml"
GOOD = {"jobs/nlp/good.yaml": job("good"), "jobs/vision/good.yaml": job("good")}
GOOD_KEYS = {JobKey("nlp", "good"), JobKey("vision", "good")}


def test_jobs_are_known_by_team_and_id() -> None:
    main = Main.of(GOOD | {"jobs/nlp/deep/er/x.json": '{"job_id": "llm-a", "gpu": {"count": 0}, "image": "a"}'})
    sources = main.sources()
    assert sources.jobs.keys() == GOOD_KEYS | {KEY}
    assert (sources.problems, sources.broken, sources.conflicts) == ((), {}, {})
    found = sources.jobs[KEY]
    assert (found.key, found.path, found.blob) == (KEY, "jobs/nlp/deep/er/x.json", main.entries["jobs/nlp/deep/er/x.json"].oid)
    assert found.spec.job_id == "llm-a"
    assert sources.fleet.teams.keys() == {"nlp", "vision"}


BAD = {
    "a key twice (SP-1)": (job() + "nodes: 1\nnodes: 2\n", "5:1: DuplicateKey"),
    "a word that some read as a boolean (SP-3)": (job() + "allowed_regions: [no, se]\n", "4:19: AmbiguousValue"),
    "a key that some read as a boolean (SP-3)": (job() + "on: push\n", "4:1: UnknownField"),
    "an id that is a date (SP-5)": (JOB.replace("llm-a", "2026-03-29"), "1:9: AmbiguousValue"),
    "a date that is none (SP-5)": (job() + "dataset: {name: d, uri: 's3://b/d/', version: 2026-13-45}\n", "4:47: AmbiguousValue"),
    "an id with a line end (SP-7)": (JOB.replace("llm-a", "|\n  llm-a"), "1:9: BadPattern"),
    "an id with a space at its end (SP-7)": (JOB.replace("llm-a", '"llm-a "'), "1:9: BadPattern"),
    "an id in other digits (SP-7)": (JOB.replace("llm-a", '"٣"'), "1:9: BadPattern"),
    "an id above the folder (SE-3)": (JOB.replace("llm-a", "../../main"), "1:9: BadPattern"),
    "an id that is more YAML (SE-1)": (JOB.replace("llm-a", '"a\\n---\\nkind: Secret"'), "1:9: BadPattern"),
    "an image that is more YAML (SE-1)": (
        JOB.replace("train:1.4", 'x\\n  y: z"').replace("image: ", 'image: "'),
        "3:8: BadPattern",
    ),
    "Latin-1 (SP-9)": ((job() + "owner: José\n").encode("latin-1"), "4:11: NotUtf8"),
    "UTF-16 (SP-9)": (job().encode("utf-16"), "1:1: NotUtf8"),
    "a field that does not exist": (job() + "gpus: 8\n", "4:1: UnknownField"),
    "a field that is missing": ("job_id: llm-a\ngpu: {count: 1}\n", "1:1: MissingField"),
    "a rule between fields": (job() + "launcher: torchrun\n", "4:1: RuleBroken"),
    "a line that is no YAML": (job() + "a: b: c\n", "4:5: YamlSyntax"),
    "nothing": ("", "0:0: EmptyFile"),
    "not a mapping": ("- a\n", "1:1: WrongType"),
    "a file of 256 KiB and one byte": (job() + "#" * (LARGEST_BYTES + 1 - len(JOB)), "0:0: TooLarge"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_alone(case: str) -> None:
    body, problem = BAD[case]
    main = Main.of(GOOD | {A: body})
    sources = main.sources()
    assert told(sources) == [f"{A}:{problem}"]
    assert sources.jobs.keys() == GOOD_KEYS
    assert sources.broken.keys() == {A}
    assert sources.conflicts == {}


STILL_NAMED = {
    "a fault elsewhere": (job() + "gpus: 8\n", KEY),
    "no YAML any more": (job() + "x: [\n", KEY),
    "Latin-1": ((job() + "owner: José\n").encode("latin-1"), KEY),
    "no id": ("gpu: {count: 8}\n", None),
    "two ids": (job() + "job_id: llm-b\n", None),
}


@pytest.mark.parametrize("case", STILL_NAMED)
def test_the_job_of_a_broken_file_is_still_told(case: str) -> None:
    body, key = STILL_NAMED[case]
    assert Main.of({A: body}).sources().broken == {A: key}


MISPLACED = {
    "in no team's folder": ("jobs/a.yaml", None),
    "in a folder that is no team": ("jobs/NLP/a.yaml", None),
    "under a name that cannot be shown": ("jobs/nlp/a\n.yaml", KEY),
    "under a name that is no UTF-8": ("jobs/nlp/a\udcff.yaml", KEY),
    "with another ending": ("jobs/nlp/a.YAML", KEY),
    "in a folder of nearly the name": ("job/nlp/a.yaml", KEY),
}


@pytest.mark.parametrize("case", MISPLACED)
def test_a_misplaced_file_still_tells_its_job(case: str) -> None:
    path, key = MISPLACED[case]
    sources = Main.of(GOOD | {path: job()}).sources()
    assert sources.jobs.keys() == GOOD_KEYS
    assert list(sources.broken.values()) == [key]
    assert list(sources.broken) == [only(sources).path]
    assert only(sources).path.isprintable()


def test_a_link_or_a_submodule_is_reported_and_never_read() -> None:
    main = Main.of(GOOD)
    target = main.put(A, "../../secrets.yaml", EntryKind.LINK)
    main.put("jobs/nlp/sub", "x", EntryKind.SUBMODULE)
    sources = main.sources()
    assert told(sources) == [f"{A}:0:0: NotAFile", "jobs/nlp/sub:0:0: NotAFile"]
    assert sources.broken == {A: None}
    assert sources.jobs.keys() == GOOD_KEYS
    assert target not in main.asked


def test_a_link_whose_target_reads_like_the_file_it_replaced_is_still_a_link() -> None:
    main = Main.of({A: job()})
    assert main.sources().jobs.keys() == {KEY}
    main.put(A, job(), EntryKind.LINK)
    assert main.sources().jobs == {}
    main.put(A, job())
    assert main.sources().jobs.keys() == {KEY}


def test_a_large_file_is_refused_by_its_size_and_never_read() -> None:
    main = Main.of(GOOD)
    large = main.put(A, "x")
    main.blobs[large] = b"x" * (LARGEST_BYTES + 1)
    assert told(main.sources()) == [f"{A}:0:0: TooLarge"]
    assert large not in main.asked


def test_a_file_of_just_the_limit_is_read() -> None:
    body = job() + "#" * (LARGEST_BYTES - len(JOB) - 1) + "\n"
    assert Main.of({A: body}).sources().jobs.keys() == {KEY}


SECRETS = {
    "a token in env (SE-5)": ("env: {HF_TOKEN: hf_ABCDEFGHIJKLMNOPQRSTUVWXYZ012345}", "hf_ABC"),
    "a key in a command (SE-5)": ('args: ["wandb login 0123456789abcdef0123456789abcdef01234567"]', "0123456789abcdef"),
    "a token in a comment": ("# hf_ABCDEFGHIJKLMNOPQRSTUVWXYZ012345", "hf_ABC"),
    "a token where the schema finds fault as well": ("env: {HF_TOKEN: hf_ABCDEFGHIJKLMNOPQRSTUVWXYZ012345}\ngpus: 1", "hf_ABC"),
    "a token as the id": ("job_id: hf_ABCDEFGHIJKLMNOPQRSTUVWXYZ012345", "hf_ABC"),
}


@pytest.mark.parametrize("case", SECRETS)
def test_a_credential_is_refused_and_not_repeated(case: str) -> None:
    lines, secret = SECRETS[case]
    sources = Main.of({A: job() + lines + "\n"}).sources()
    assert sources.jobs == {}
    assert sources.problems
    if not lines.startswith("job_id"):
        assert "CredentialInFile" in {problem.code for problem in sources.problems}
    assert secret not in str(sources)


SAME = {
    "CRLF and a byte-order mark (SP-9)": b"\xef\xbb\xbf" + JOB.replace("\n", "\r\n").encode(),
    "comments and another order": b"# mine\n" + b"".join(reversed(JOB.encode().splitlines(keepends=True))),
    "JSON": b'{"job_id": "llm-a", "gpu": {"count": 8, "model": "A100-80GB"}, "image": "reg.example.com:5000/team/train:1.4"}',
    "a default written out": JOB.encode() + b"nodes: 1\n",
    "what restarts nothing": JOB.encode() + b"priority: high\nmax_runtime_seconds: 60\ndescription: x\n",
}


@pytest.mark.parametrize("case", SAME)
def test_the_same_run_has_the_same_hash(case: str) -> None:
    before = Main.of({A: JOB}).sources().jobs[KEY]
    after = Main.of({A: SAME[case]}).sources().jobs[KEY]
    assert after.run_hash == before.run_hash
    assert after.blob != before.blob


def test_a_renamed_file_is_the_same_job() -> None:  # GM-7
    main = Main.of({A: job()})
    before = main.sources().jobs[KEY]
    main.move(A, "jobs/nlp/2026/b.yml")
    after = main.sources()
    assert after.jobs.keys() == {KEY}
    assert (after.jobs[KEY].run_hash, after.jobs[KEY].blob) == (before.run_hash, before.blob)
    assert after.jobs[KEY].path == "jobs/nlp/2026/b.yml"
    assert (after.broken, after.conflicts, after.problems) == ({}, {}, ())


def test_a_file_renamed_and_edited_is_an_edit_of_the_same_job() -> None:
    main = Main.of({A: job()})
    before = main.sources().jobs[KEY]
    main.remove(A)
    main.put("jobs/nlp/b.yaml", job().replace("1.4", "1.5"))
    after = main.sources().jobs[KEY]
    assert after.run_hash != before.run_hash


def test_a_file_renamed_and_broken_still_tells_its_job() -> None:
    main = Main.of({A: job()})
    main.sources()
    main.remove(A)
    main.put("jobs/nlp/b.yaml", job() + "gpus: [\n")
    after = main.sources()
    assert after.jobs == {}
    assert after.broken == {"jobs/nlp/b.yaml": KEY}


def test_a_file_moved_to_another_team_is_another_job() -> None:
    main = Main.of({A: job()})
    before = main.sources().jobs[KEY]
    main.move(A, "jobs/vision/a.yaml")
    after = main.sources().jobs
    assert after.keys() == {JobKey("vision", "llm-a")}
    assert after[JobKey("vision", "llm-a")].run_hash != before.run_hash


def test_two_files_with_one_id_are_told_on_both_and_neither_is_taken() -> None:
    main = Main.of(GOOD | {A: job(), "jobs/nlp/sub/b.yaml": "# copied\n" + job(), "jobs/vision/a.yaml": job()})
    sources = main.sources()
    assert told(sources) == [f"{A}:1:1: DuplicateJob", "jobs/nlp/sub/b.yaml:2:1: DuplicateJob"]
    assert sources.problems[0].what == "jobs/nlp/sub/b.yaml names the job `llm-a` as well"
    assert sources.conflicts == {KEY: (A, "jobs/nlp/sub/b.yaml")}
    assert sources.broken == {}
    assert sources.jobs.keys() == GOOD_KEYS | {JobKey("vision", "llm-a")}
    main.remove("jobs/nlp/sub/b.yaml")
    assert main.sources().jobs.keys() == GOOD_KEYS | {JobKey("vision", "llm-a"), KEY}


def test_five_files_with_one_id_are_told_in_short() -> None:
    sources = Main.of({f"jobs/nlp/{name}.yaml": job() for name in "abcde"}).sources()
    assert len(sources.problems) == 5
    assert sources.problems[0].what == (
        "jobs/nlp/b.yaml, jobs/nlp/c.yaml, jobs/nlp/d.yaml and 1 more names the job `llm-a` as well"
    )


def test_a_broken_copy_takes_nothing_from_the_sound_file() -> None:
    sources = Main.of({A: job(), "jobs/nlp/b.yaml": job() + "gpus: 1\n"}).sources()
    assert sources.jobs.keys() == {KEY}
    assert sources.broken == {"jobs/nlp/b.yaml": KEY}
    assert sources.conflicts == {}


def test_an_empty_main_says_nothing_and_is_no_error() -> None:
    sources = Main.of({}).sources()
    assert (sources.jobs, sources.problems, sources.broken, sources.conflicts, sources.in_force) == ({}, (), {}, {}, {})
    assert (sources.fleet.regions, sources.fleet.teams, sources.unread) == ({}, {}, frozenset())
