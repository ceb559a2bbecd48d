"""What Argo CD's words mean to us: shapes taken from its application controller, 3.6.1."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.kube.argocd import ArgoCd, ArgoCdSettings, application_place
from reconciler.adapters.kube.argocd_status import state_of
from reconciler.adapters.kube.connection import Connection
from reconciler.ports import Refused, SyncState
from tests.adapters.kube.answering import Server, answering, http, status

OLD, NEW = "a" * 40, "b" * 40
APP = application_place(ArgoCdSettings())


def resource(name: str, state: str = "Synced", kind: str = "Job", group: str = "batch", **more: Any) -> dict[str, Any]:
    return {"group": group, "kind": kind, "namespace": "team-a", "name": name, "status": state, **more}


def application(sync: str, revision: str, *resources: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"status": {"sync": {"status": sync, "revision": revision}, "resources": list(resources), **more}}


def operation(phase: str, revision: str, *results: dict[str, Any], message: str = "") -> dict[str, Any]:
    return {"phase": phase, "message": message, "syncResult": {"revision": revision, "resources": list(results)}}


def failed(name: str, message: str) -> dict[str, Any]:
    return {**resource(name), "status": "SyncFailed", "hookPhase": "Failed", "message": message}


def errors(found: dict[str, Any]) -> Mapping[str, str]:
    return state_of(APP, found).errors


def history(*revisions: str) -> list[dict[str, str]]:
    return [{"revision": one} for one in revisions]


INVALID = 'Job.batch "x-a1" is invalid: spec.completions: Invalid value: -1: must be greater than or equal to 0'


def test_what_matches_is_applied_with_its_workloads() -> None:
    found = application("Synced", NEW, resource("x-a1"), resource("x-a1", kind="Service", group=""), history=history(OLD))
    assert state_of(APP, found) == SyncState(NEW, {}, frozenset({("team-a", "x-a1")}))


def test_until_it_matches_the_commit_synced_last_counts_with_all_that_it_may_have() -> None:
    found = application(
        "OutOfSync",
        NEW,
        resource("gone-a1", "OutOfSync", requiresPruning=True),
        resource("new-a1", "OutOfSync"),
        history=history(OLD),
    )
    assert state_of(APP, found) == SyncState(OLD, {}, frozenset({("team-a", "gone-a1"), ("team-a", "new-a1")}))


def test_after_a_whole_sync_what_is_still_to_be_pruned_is_not_the_commits() -> None:
    found = application("OutOfSync", NEW, resource("gone-a1", "OutOfSync", requiresPruning=True), history=history(OLD, NEW))
    assert state_of(APP, found) == SyncState(NEW, {}, frozenset())


def test_before_the_first_sync_nothing_is_applied() -> None:
    assert state_of(APP, {}) == SyncState(None, {}, frozenset())
    assert state_of(APP, application("OutOfSync", NEW)).commit is None


def test_every_object_that_was_refused_is_named() -> None:
    found = application(
        "OutOfSync",
        NEW,
        resource("x-a1", "OutOfSync"),
        resource("y-a1", "OutOfSync"),
        resource("good-a1"),
        operationState=operation(
            "Running",
            NEW,
            failed("x-a1", INVALID),
            failed("y-a1", 'jobs.batch "y-a1" is forbidden:\nValidatingAdmissionPolicy'),
            {**resource("good-a1"), "message": "job.batch/good-a1 created"},
            message="one or more synchronization tasks completed unsuccessfully. Retrying attempt #1 at 3:04PM.",
        ),
    )
    assert errors(found) == {
        "Job/team-a/x-a1": INVALID,
        "Job/team-a/y-a1": 'jobs.batch "y-a1" is forbidden: ValidatingAdmissionPolicy',
    }


def test_what_an_operation_said_of_files_that_have_left_is_forgotten() -> None:
    old = operation("Failed", OLD, failed("x-a1", INVALID), message="failed")
    assert errors(application("Synced", NEW, resource("good-a1"), operationState=old)) == {}
    still = application("OutOfSync", NEW, resource("x-a1", "OutOfSync", requiresPruning=True), resource("z"), operationState=old)
    assert "Job/team-a/x-a1" not in errors(still)


NO_VERDICTS = {
    "a webhook that did not answer": 'Internal error occurred: failed calling webhook "x": context deadline exceeded',
    "a connection that was lost": 'Patch "https://10.96.0.1:443/apis/batch/v1": http2: client connection lost',
    "a quota that is full": 'jobs.batch "x-a1" is forbidden: exceeded quota: q, requested: count/jobs.batch=1, limited: 0',
}


@pytest.mark.parametrize("words", NO_VERDICTS.values(), ids=NO_VERDICTS.keys())
def test_what_is_no_verdict_speaks_against_no_object(words: str) -> None:
    found = application(
        "OutOfSync", NEW, resource("x-a1", "OutOfSync"), operationState=operation("Running", NEW, failed("x-a1", words))
    )
    assert errors(found) == {APP.key: f"Job/team-a/x-a1: {words}"}


CONDITIONS = {
    "a file that is no YAML": (
        "ComparisonError",
        'Failed to load target state: rpc error: code = FailedPrecondition desc = Failed to unmarshal "x-a1.yaml": yaml: line 2',
        "x-a1.yaml",
    ),
    "a path that is not there": ("ComparisonError", "Failed to load target state: manifests: app path does not exist", None),
    "a branch that would wipe out all": (
        "SyncError",
        "Skipping sync attempt to [bbb]: auto-sync will wipe out all resources",
        None,
    ),
    "a destination that is not allowed": ("InvalidSpecError", "application destination server 's' and namespace ''", None),
}


@pytest.mark.parametrize(("kind", "message", "file"), CONDITIONS.values(), ids=CONDITIONS.keys())
def test_conditions(kind: str, message: str, file: str | None) -> None:
    found = application("Unknown", NEW, conditions=[{"type": kind, "message": message}])
    assert errors(found) == ({file: message} if file is not None else {APP.key: f"{kind}: {message}"})


def test_warnings_are_no_errors_and_several_errors_are_all_told() -> None:
    conditions = [
        {"type": "OrphanedResourceWarning", "message": "3 orphans"},
        {"type": "ComparisonError", "message": "a"},
        {"type": "SyncError", "message": "b"},
    ]
    assert errors(application("Unknown", NEW, conditions=conditions)) == {APP.key: "ComparisonError: a; SyncError: b"}


def test_an_operation_that_failed_as_a_whole_is_told() -> None:
    found = application("OutOfSync", NEW, operationState=operation("Error", NEW, message="cluster not found"))
    assert errors(found) == {APP.key: "Error: cluster not found"}


# ---- asked over the wire ------------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with answering(tmp_path) as found:
        yield found


def test_an_application_that_is_missing_and_an_argo_cd_that_is_missing_are_told_apart(server: Server) -> None:
    body = {"kind": "Status", "code": 404, "message": "not found", "details": {"name": "gpu-reconciler"}}
    server.answers += [http(404, body), http(404, "404 page not found")]
    argocd = ArgoCd(Connection(server.access, SystemClock(), 5.0))
    assert "reconciler bootstrap" in argocd.state().errors[APP.key]
    assert "install the engine" in argocd.state().errors[APP.key]


def test_a_nudge_asks_for_a_refresh(server: Server) -> None:
    server.answers += [http(200, {"metadata": {}}), status(403, "forbidden")]
    argocd = ArgoCd(Connection(server.access, SystemClock(), 5.0))
    argocd.nudge(NEW)
    assert server.asked[0].startswith("PATCH /apis/argoproj.io/v1alpha1/namespaces/argocd/applications/gpu-reconciler?")
    assert server.asked[0].endswith('{"metadata":{"annotations":{"argocd.argoproj.io/refresh":"normal"}}}')
    with pytest.raises(Refused):
        argocd.nudge(NEW)
