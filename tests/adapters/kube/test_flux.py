"""What Flux's words mean to us: shapes taken from kustomize-controller and source-controller 1.9.6."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.kube.connection import Connection
from reconciler.adapters.kube.flux import Flux, FluxSettings, kustomization_place, source_place
from reconciler.adapters.kube.flux_status import commit_of, state_of
from reconciler.ports import Refused, SyncState, Transient
from tests.adapters.kube.answering import Server, answering, http, status

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SETTINGS = FluxSettings()
SOURCE, APPLY = source_place(SETTINGS), kustomization_place(SETTINGS)
READY = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Succeeded", "message": "stored artifact"}]}}


def failing(reason: str, message: str, **more: Any) -> dict[str, Any]:
    """An object with a `Ready` that is False, and what stands beside it."""
    beside = {"type": "Reconciling", "status": "True", "reason": "ProgressingWithRetry", "message": "…"}
    return {
        "status": {"conditions": [beside, {"type": "Ready", "status": "False", "reason": reason, "message": message}], **more}
    }


def errors(reason: str, message: str) -> Mapping[str, str]:
    return state_of((SOURCE, READY), (APPLY, failing(reason, message))).errors


TO_OBJECTS = {
    "a value of the wrong type": (
        "Job/team-a/x-a1 dry-run failed: failed to create typed patch object (team-a/x-a1): .spec.x: expected numeric, got string\n",
        "Job/team-a/x-a1",
    ),
    "a value that is not allowed": (
        'Job/team-a/x-a1 dry-run failed (Invalid): Job.batch "x-a1" is invalid: spec.completions: Invalid value: -1\n',
        "Job/team-a/x-a1",
    ),
    "a namespace that is not there": ('Job/team-zz/x-a1 not found: namespaces "team-zz" not found\n', "Job/team-zz/x-a1"),
    "an admission policy": (
        "Job/team-a/x-a1 dry-run failed (Invalid): jobs.batch \"x-a1\" is forbidden: ValidatingAdmissionPolicy 'p' denied it\n",
        "Job/team-a/x-a1",
    ),
    "a kind that may not be written": (
        'Secret/team-a/s1 dry-run failed (Forbidden): secrets "s1" is forbidden: User "u" cannot patch resource "secrets"\n',
        "Secret/team-a/s1",
    ),
    "a kind that is not there": ('JobSet/a/x dry-run failed: no matches for kind "JobSet" in version "v1"\n', "JobSet/a/x"),
    "an object of no namespace": ('Namespace/x dry-run failed (Forbidden): namespaces "x" is forbidden\n', "Namespace/x"),
    "an object refused in the second step": (
        'Job/a/x apply failed: Job.batch "x" is invalid: spec.selector: Required value\nJob/a/y created\n',
        "Job/a/x",
    ),
}


@pytest.mark.parametrize(("message", "key"), TO_OBJECTS.values(), ids=TO_OBJECTS.keys())
def test_what_speaks_against_an_object_has_its_name(message: str, key: str) -> None:
    assert errors("ReconciliationFailed", message) == {key: message.partition("\n")[0]}


TO_ENGINE = {
    "a webhook that does not answer": (
        "ReconciliationFailed",
        "Job/a/x dry-run failed (InternalError): Internal error occurred: failed calling webhook: connection refused",
    ),
    "a server that is busy": ("ReconciliationFailed", "Job/a/x dry-run failed (TooManyRequests): try again"),
    "a server that is away": (
        "ReconciliationFailed",
        'Job/a/x dry-run failed: Patch "https://10.0.0.1:443/apis/batch/v1": dial tcp 10.0.0.1:443: connect: connection refused',
    ),
    "a connection that was lost": (
        "ReconciliationFailed",
        'Job/a/x dry-run failed: Patch "https://10.96.0.1:443/apis/batch/v1/namespaces/a/jobs/x": http2: client connection lost',
    ),
    "a quota that is full": (
        "ReconciliationFailed",
        'Job/a/x dry-run failed (Forbidden): jobs.batch "x" is forbidden: exceeded quota: q, requested: count/jobs.batch=1',
    ),
    "a time-out": ("ReconciliationFailed", "Job/a/x apply failed: context deadline exceeded"),
    "a path that is not there": (
        "ArtifactFailed",
        "kustomization path not found: stat /tmp/kustomization-1/manifests: no such file or directory",
    ),
    "pruning that failed": ("PruneFailed", "delete failed, errors: jobs.batch is forbidden"),
    "an account that is not there": ("ReconciliationFailed", 'failed to build kube client: serviceaccounts "x" not found'),
}


@pytest.mark.parametrize(("reason", "message"), TO_ENGINE.values(), ids=TO_ENGINE.keys())
def test_what_speaks_against_no_object_is_kept_under_the_engines_own(reason: str, message: str) -> None:
    assert errors(reason, message) == {APPLY.key: f"{reason}: {message}"}


def test_a_file_that_is_no_yaml_has_its_path() -> None:
    message = (
        "failed to decode Kubernetes YAML from /tmp/kustomization-42/manifests/team-a/x-a1.yaml: MalformedYAMLError: yaml: line 2: "
        "did not find expected ',' or '}'\n"
    )
    assert errors("BuildFailed", message) == {"manifests/team-a/x-a1.yaml": message.strip()}


def test_words_that_only_mention_a_path_are_no_words_against_it() -> None:
    assert list(errors("ReconciliationFailed", "see /tmp/manifests/team-a/x.yaml: …")) == [APPLY.key]


def test_the_applied_commit_and_its_workloads_are_read() -> None:
    ids = (
        "team-a_x-a1_batch_Job",
        "team-a_x-a1__Service",
        "team-a_set.with.dots_jobset.x-k8s.io_JobSet",
        "gpu-reconciler_sentinel-eu__ConfigMap",
        "_cluster__role_rbac.authorization.k8s.io_ClusterRole",
        "",
    )
    applied = {
        "status": {
            "lastAppliedRevision": f"region/eu@sha1:{COMMIT}",
            "lastAttemptedRevision": "region/eu@sha1:ffff",
            "inventory": {"entries": [{"id": one, "v": "v1"} for one in ids]},
        }
    }
    found = state_of((SOURCE, READY), (APPLY, applied))
    assert found == SyncState(COMMIT, {}, frozenset({("team-a", "x-a1"), ("team-a", "set.with.dots")}))


REVISIONS = {
    "with its branch": (f"region/eu@sha1:{COMMIT}", COMMIT),
    "alone": (f"sha1:{COMMIT}", COMMIT),
    "of before Flux 2": (f"region/eu/{COMMIT}", COMMIT),
    "by SHA-256": (f"main@sha256:{COMMIT}{COMMIT[:24]}", COMMIT + COMMIT[:24]),
    "none": ("", None),
    "no commit": ("latest", None),
}


@pytest.mark.parametrize(("revision", "commit"), REVISIONS.values(), ids=REVISIONS.keys())
def test_revisions(revision: str, commit: str | None) -> None:
    assert commit_of(revision) == commit


def test_objects_that_have_no_status_yet_say_nothing() -> None:
    assert state_of((SOURCE, {}), (APPLY, {"status": {}})) == SyncState(None, {}, frozenset())


def test_a_source_that_cannot_be_fetched_is_told_of_itself() -> None:
    found = state_of((SOURCE, failing("GitOperationFailed", "failed to checkout: authentication required")), (APPLY, {}))
    assert found.errors == {SOURCE.key: "GitOperationFailed: failed to checkout: authentication required"}


# ---- asked over the wire ------------------------------------------------------------------------------------------


class At:
    """A clock that stands."""

    def now(self) -> datetime:
        return datetime(2026, 5, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with answering(tmp_path) as found:
        yield found


def flux_of(server: Server) -> Flux:
    return Flux(Connection(server.access, SystemClock(), 5.0), At())


def absent(name: str) -> Any:
    body = {"kind": "Status", "status": "Failure", "code": 404, "message": "not found", "details": {"name": name}}
    return http(404, body)


def test_missing_objects_and_a_missing_flux_are_told_apart(server: Server) -> None:
    server.answers += [absent("gpu-reconciler"), http(404, "404 page not found")]
    found = flux_of(server).state()
    assert found.commit is None
    assert "reconciler bootstrap" in found.errors[SOURCE.key]
    assert "install the engine" in found.errors[APPLY.key]


def test_a_nudge_writes_one_annotation_that_is_new_each_time(server: Server) -> None:
    server.answers.append(http(200, {"metadata": {}}))
    flux_of(server).nudge(COMMIT)
    asked = server.asked[0]
    assert asked.startswith("PATCH /apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories/gpu-reconciler?")
    assert "application/merge-patch+json" in asked
    assert asked.endswith(f'{{"reconcile.fluxcd.io/requestedAt":"2026-05-01T00:00:00+00:00 {COMMIT}"}}}}}}')


OUTCOMES = {
    "a conflict, whatever it is": (status(409, "the object has been modified"), Transient),
    "a server that is busy": (status(503, "try later"), Transient),
    "no right": (status(403, "forbidden"), Refused),
    "no such object": (absent("gpu-reconciler"), Refused),
}


@pytest.mark.parametrize(("answer", "error"), OUTCOMES.values(), ids=OUTCOMES.keys())
def test_a_nudge_that_fails_is_one_of_two_errors(server: Server, answer: Any, error: type[Exception]) -> None:
    server.answers.append(answer)
    with pytest.raises(error):
        flux_of(server).nudge(COMMIT)


@pytest.mark.parametrize(("answer", "error"), [(status(410, "gone"), Transient), (status(403, "forbidden"), Refused)])
def test_a_look_that_fails_is_one_of_two_errors(server: Server, answer: Any, error: type[Exception]) -> None:
    server.answers.append(answer)
    with pytest.raises(error):
        flux_of(server).state()
