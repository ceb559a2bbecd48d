"""What main wants of jobs, and when main is not to be believed."""

from collections.abc import Mapping
from datetime import datetime, timedelta

import pytest

from reconciler.hub.intents import NOTHING_REJECTED, MainSeen, intent_for, surely_gone, suspicion_of
from reconciler.hub.ledger import HubFile, Ledger, Rejected, RejectedFile, Suspicion
from reconciler.model.names import JobKey
from reconciler.model.reasons import Why, because
from reconciler.model.record import JobRecord, Phase, Source
from reconciler.planning.records import with_condition
from tests.builders import NOW, make_record, make_spec
from tests.hub.main_branch import Main, job

TEAM = "team-a"
COMMIT, OTHER = "a" * 40, "b" * 40
LATER = NOW + timedelta(minutes=5)


def key(job_id: str) -> JobKey:
    return JobKey(TEAM, job_id)


def path(job_id: str) -> str:
    return f"jobs/{TEAM}/{job_id}.yaml"


def recorded(job_id: str, phase: Phase = Phase.RUNNING, *, gone: bool = False) -> JobRecord:
    source = None if gone else Source(path=path(job_id), blob="b")
    return make_record(spec=make_spec(job_id), phase=phase, source=source)


def ledger(*records: JobRecord, suspicion: Suspicion | None = None) -> Ledger:
    return Ledger({record.key: record for record in records}, {}, HubFile(main=COMMIT, suspicion=suspicion), Rejected(), {}, {})


def main(*job_ids: str, more: Mapping[str, str] | None = None) -> Main:
    return Main.of({path(job_id): job(job_id) for job_id in job_ids} | dict(more or {}))


def names(count: int, start: int = 0) -> list[str]:
    return [f"job-{number}" for number in range(start, start + count)]


def doubt(
    known: Ledger, files: Main, commit: str | None = OTHER, *, rewound: bool = False, empty: bool = False
) -> Suspicion | None:
    return suspicion_of(known, files.sources(), MainSeen(commit, rewound, empty), LATER)


# ---- thresholds ---------------------------------------------------------------------------------------------------

DISAPPEARANCES: dict[str, tuple[int, int, str, bool]] = {
    "3 of 10, which is many but few": (3, 10, "", False),
    "3 of 4": (3, 4, "", False),
    "4 of 19": (4, 19, "", True),
    "4 of 20, exactly a fifth": (4, 20, "", False),
    "4 of 21, less than a fifth": (4, 21, "", False),
    "5 of 24": (5, 24, "", True),
    "5 of 25, exactly a fifth": (5, 25, "", False),
    "40 of 199": (40, 199, "", True),
    "40 of 200": (40, 200, "", False),
    "one of 10 where none may go": (1, 10, "{disappearance_jobs: 0, disappearance_share: 0.0}", True),
    "none of 10 where none may go": (0, 10, "{disappearance_jobs: 0, disappearance_share: 0.0}", False),
    "9 of 10 where all may go": (9, 10, "{disappearance_share: 1.0}", False),
    "9 of 10 where ten may go": (9, 10, "{disappearance_jobs: 10}", False),
}


@pytest.mark.parametrize(("gone", "live", "thresholds", "suspicious"), DISAPPEARANCES.values(), ids=DISAPPEARANCES)
def test_more_than_a_few_and_more_than_a_share_are_an_accident(gone: int, live: int, thresholds: str, suspicious: bool) -> None:
    files = main(*names(live - gone, gone), more={"policy.yaml": f"thresholds: {thresholds}\n"} if thresholds else {})
    found = doubt(ledger(*map(recorded, names(live))), files)
    assert found == (Suspicion(main=OTHER, kind="gone", gone=gone, live=live, since=LATER) if suspicious else None)


def test_only_jobs_that_a_missing_file_would_stop_are_counted() -> None:
    over = [recorded(f"old-{number}", Phase.SUCCEEDED) for number in range(50)]
    leaving = [recorded(f"left-{number}", Phase.STOPPING, gone=True) for number in range(50)]
    known = ledger(*map(recorded, names(19)), *over, *leaving)
    found = doubt(known, main(*names(15, 4)))
    assert found is not None
    assert (found.gone, found.live) == (4, 19)
    assert doubt(known, main(*names(19))) is None


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase not in (Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED)])
def test_whatever_is_not_over_is_live(phase: Phase) -> None:
    assert doubt(ledger(*[recorded(name, phase) for name in names(10)]), main(*names(6, 4))) is not None


def test_jobs_that_went_one_commit_after_the_other_are_no_accident() -> None:
    gone = [recorded(name, Phase.STOPPING, gone=True) for name in names(3)]
    assert doubt(ledger(*gone, *map(recorded, names(7, 3))), main(*names(4, 6))) is None


# ---- main itself --------------------------------------------------------------------------------------------------


def test_a_main_that_is_gone_is_not_believed() -> None:
    assert doubt(ledger(recorded("one")), main(), None) == Suspicion(main="", kind="unreadable", gone=1, live=1, since=LATER)


def test_a_main_without_any_file_of_ours_is_not_believed_though_only_one_job_went() -> None:
    found = doubt(ledger(recorded("one")), main(more={"README.md": "x"}), empty=True)
    assert found is not None
    assert found.kind == "unreadable"


def test_the_last_job_may_go_like_any_other_and_all_at_once_may_not() -> None:
    region = {"regions/eu.yaml": "name: eu\nsync_engine: local\n"}
    assert doubt(ledger(recorded("one")), main(more=region)) is None
    assert doubt(ledger(recorded("one"), recorded("two", Phase.FAILED)), main(more=region)) is None
    found = doubt(ledger(recorded("one"), recorded("two")), main(more=region))
    assert found is not None
    assert found.kind == "unreadable"


def test_where_nothing_is_live_nothing_is_lost() -> None:
    assert doubt(ledger(recorded("one", Phase.SUCCEEDED)), main(), None) is None
    assert doubt(ledger(recorded("one", Phase.FAILED)), main()) is None
    assert doubt(ledger(), main(), None) is None


def test_a_main_whose_files_are_all_broken_is_not_taken_for_an_empty_one() -> None:
    broken = {path(name): "job_id: [\n" for name in names(10)}
    assert doubt(ledger(*map(recorded, names(10))), main(more=broken)) is None


REWOUND: dict[str, tuple[Main, bool]] = {
    "one job went": (main("one"), True),
    "one job would run otherwise": (main("one", more={path("two"): job("two").replace("1.4", "1.3")}), True),
    "nothing that runs changes": (main("one", "two"), False),
    "a job came": (main("one", "two", "three"), False),
    "only its priority changes": (main("one", more={path("two"): job("two", "priority: 7")}), False),
}


@pytest.mark.parametrize(("files", "suspicious"), REWOUND.values(), ids=REWOUND)
def test_a_rewound_main_is_not_believed_where_it_would_stop_or_change_something(files: Main, suspicious: bool) -> None:
    known = ledger(*(real(name) for name in ("one", "two")))
    found = doubt(known, files, rewound=True)
    assert (found is not None) is suspicious
    assert found is None or found.kind == "rewound"


def real(job_id: str) -> JobRecord:
    """A record with the very hash that the file's job has."""
    spec = main(job_id).sources().jobs[key(job_id)].spec
    return make_record(spec=spec, phase=Phase.RUNNING, source=Source(path=path(job_id), blob="b"))


# ---- confirming ---------------------------------------------------------------------------------------------------


def test_a_person_confirms_the_commit_that_is_doubted() -> None:
    before = Suspicion(main=OTHER, kind="gone", gone=5, live=10, since=NOW)
    known = ledger(*map(recorded, names(10)), suspicion=before)
    assert doubt(known, main(*names(5, 5)), "c" * 40) == before
    confirmed = {"confirmations/x.yaml": f'main: "{OTHER}"\n'}
    assert doubt(known, main(*names(5, 5), more=confirmed), "c" * 40) is None
    wrong = {"confirmations/x.yaml": f'main: "{"d" * 40}"\n'}
    assert doubt(known, main(*names(5, 5), more=wrong), "c" * 40) == before


def test_a_confirmation_covers_no_more_than_what_was_doubted() -> None:
    before = Suspicion(main=OTHER, kind="gone", gone=5, live=10, since=NOW)
    known = ledger(*map(recorded, names(10)), suspicion=before)
    confirmed = {"confirmations/x.yaml": f'main: "{OTHER}"\n'}
    found = doubt(known, main(*names(4, 6), more=confirmed), "c" * 40)
    assert found == Suspicion(main="c" * 40, kind="gone", gone=6, live=10, since=LATER)


def test_a_rewound_main_can_be_confirmed() -> None:
    before = Suspicion(main=OTHER, kind="rewound", gone=1, live=2, since=NOW)
    known = ledger(real("one"), real("two"), suspicion=before)
    confirmed = {"confirmations/x.yaml": f'main: "{OTHER}"\n'}
    assert doubt(known, main("one", more=confirmed), rewound=True) is None


def test_an_accident_is_told_with_when_it_was_first_seen() -> None:
    before = Suspicion(main=OTHER, kind="gone", gone=5, live=10, since=NOW)
    known = ledger(*map(recorded, names(10)), suspicion=before)
    assert doubt(known, main(*names(5, 5)), "c" * 40) == before
    assert doubt(known, main(*names(6, 4)), "c" * 40) == before, "some came back"
    more = doubt(known, main(*names(3, 7)), "c" * 40)
    assert more is not None
    assert (more.main, more.since, more.gone) == ("c" * 40, LATER, 7)


def test_it_is_over_when_the_files_are_back() -> None:
    before = Suspicion(main=OTHER, kind="gone", gone=5, live=10, since=NOW)
    assert doubt(ledger(*map(recorded, names(10)), suspicion=before), main(*names(10))) is None


# ---- one job ------------------------------------------------------------------------------------------------------

GONE: dict[str, tuple[dict[str, str], bool]] = {
    "no file names it": ({}, True),
    "its file is there": ({path("one"): job("one")}, False),
    "its file moved": ({"jobs/team-a/deep/er.yaml": job("one")}, False),
    "its file is broken": ({path("one"): "job_id: one\ngpu: no\n"}, False),
    "its file is broken and names another": ({path("one"): "job_id: two\ngpu: no\n"}, False),
    "another file of its team is broken and names nothing": ({path("x"): "[\n"}, False),
    "another file of its team is broken and names it": ({path("x"): "job_id: one\ngpu: no\n"}, False),
    "another file of its team is broken and names another": ({path("x"): "job_id: two\ngpu: no\n"}, True),
    "a file of another team is broken": ({"jobs/team-b/x.yaml": "[\n"}, True),
    "two files name it": ({path("x"): job("one"), path("y"): job("one")}, False),
    "a job of another team has its id": ({"jobs/team-b/x.yaml": job("one")}, True),
    "a file of its team is where none is read": ({"jobs/one.yaml": job("one")}, True),
}


@pytest.mark.parametrize(("files", "gone"), GONE.values(), ids=GONE)
def test_a_job_is_gone_only_when_no_file_can_be_it(files: dict[str, str], gone: bool) -> None:
    sources = Main.of(files).sources()
    assert surely_gone(key("one"), recorded("one"), sources, NOTHING_REJECTED) is gone


def refused(file: str, since: datetime) -> Rejected:
    problem = RejectedFile(path=file, line=1, column=1, code="YamlSyntax", what="x", todo="y", since=since)
    return Rejected(problems=(problem,))


RENAMED: dict[str, tuple[Rejected, datetime | None, bool]] = {
    "it was not there before": (NOTHING_REJECTED, None, True),
    "it was there before, and the job was fine": (refused(path("x"), NOW), None, False),
    "both came in one step": (refused(path("x"), NOW), NOW, True),
    "it was there before the job was doubted": (refused(path("x"), NOW), LATER, False),
    "it was changed since the job was doubted": (refused(path("x"), LATER), NOW, True),
    "another file was there before": (refused(path("y"), NOW), None, True),
}


@pytest.mark.parametrize(("rejected", "doubted", "perhaps"), RENAMED.values(), ids=RENAMED)
def test_only_a_file_that_broke_with_it_may_be_the_missing_one(
    rejected: Rejected, doubted: datetime | None, perhaps: bool
) -> None:
    record = recorded("one")
    if doubted is not None:
        record = with_condition(record, "SpecAccepted", because(Why.PERHAPS_RENAMED, path=path("x")), doubted)
    sources = Main.of({path("x"): "[\n"}).sources()
    intent = intent_for(key("one"), record, sources, None, rejected)
    assert (intent.doubt and intent.doubt.code) == ("PerhapsRenamed" if perhaps else None)
    assert surely_gone(key("one"), record, sources, rejected) is not perhaps


def test_what_a_file_says_is_wanted() -> None:
    sources = main("one").sources()
    intent = intent_for(key("one"), None, sources, None)
    assert intent.wanted is not None
    assert (intent.wanted.spec.job_id, intent.wanted.source.path, intent.doubt) == ("one", path("one"), None)


def test_a_file_that_is_gone_cancels() -> None:
    intent = intent_for(key("one"), recorded("one"), main().sources(), None)
    assert (intent.wanted, intent.doubt) == (None, None)


def test_a_job_that_went_before_stays_gone() -> None:
    gone = recorded("one", Phase.STOPPING, gone=True)
    anything = Suspicion(main=OTHER, kind="gone", gone=5, live=9, since=NOW)
    assert intent_for(key("one"), gone, main().sources(), anything).doubt is None


@pytest.mark.parametrize("known", [None, recorded("one")])
def test_two_files_with_one_id_are_told_with_both_paths(known: JobRecord | None) -> None:
    sources = Main.of({path("x"): job("one"), path("y"): job("one", "priority: 3")}).sources()
    intent = intent_for(key("one"), known, sources, None)
    assert intent.wanted is None
    assert intent.doubt is not None
    assert intent.doubt.text == f"two files name this job: {path('x')} and {path('y')}"


def test_a_broken_file_leaves_its_job_as_it_is() -> None:
    sources = Main.of({path("one"): "job_id: one\ngpu: no\n"}).sources()
    intent = intent_for(key("one"), recorded("one"), sources, None)
    assert (intent.wanted, intent.doubt and intent.doubt.code) == (None, "SpecBroken")


DOUBTED: dict[str, tuple[str, dict[str, str], str | None]] = {
    "gone, and many are": ("gone", {}, "SourceSuspicious"),
    "there, and many are gone": ("gone", {path("one"): job("one")}, None),
    "there, and main is rewound": ("rewound", {path("one"): job("one")}, "SourceSuspicious"),
    "gone, and main is rewound": ("rewound", {}, "SourceSuspicious"),
    "gone, and main cannot be read": ("unreadable", {}, "SourceSuspicious"),
}


@pytest.mark.parametrize(("kind", "files", "code"), DOUBTED.values(), ids=DOUBTED)
def test_in_doubt_nothing_stops_and_what_is_surely_meant_goes_on(kind: str, files: dict[str, str], code: str | None) -> None:
    suspicion = Suspicion.model_validate({"main": OTHER, "kind": kind, "gone": 5, "live": 9, "since": NOW})
    intent = intent_for(key("one"), recorded("one"), Main.of(files).sources(), suspicion)
    assert (intent.doubt.code if intent.doubt is not None else None) == code
    assert (intent.wanted is not None) is (code is None)


def test_in_doubt_a_job_that_nobody_knew_is_taken() -> None:
    suspicion = Suspicion(main=OTHER, kind="rewound", gone=5, live=9, since=NOW)
    assert intent_for(key("new"), None, main("new").sources(), suspicion).wanted is not None
