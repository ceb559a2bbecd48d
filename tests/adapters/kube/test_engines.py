"""Which words of an API server speak against an object, whichever engine passes them on."""

import pytest

from reconciler.adapters.kube.engines import is_of_quota, is_verdict

_PATCH = 'Patch "https://10.96.0.1:443/apis/batch/v1/namespaces/a/jobs/x?fieldManager=f&force=true": '
NO_ANSWER = {
    "a connection that was lost": f"{_PATCH}http2: client connection lost",
    "a pipe that broke": f"{_PATCH}write tcp 10.0.0.1:1->10.96.0.1:443: write: broken pipe",
    "an authority that is not known": f"{_PATCH}x509: certificate signed by unknown authority",
    "a socket that is closed": f"{_PATCH}use of closed network connection",
    "a server that goes": f"{_PATCH}http2: server sent GOAWAY and closed the connection",
    "a request that was taken back": f"{_PATCH}net/http: request canceled (Client.Timeout exceeded while awaiting headers)",
    "a failure of the transport that nobody has listed": f"{_PATCH}some failure of tomorrow",
    "a read that failed": 'failed to get API group resources: Get "https://10.96.0.1:443/apis/batch/v1": some failure',
    "an address without quotes": "Post https://10.96.0.1:443/api/v1: some failure",
    "a connection that was lost, alone": "http2: client connection lost",
    "an authority that is not known, alone": "x509: certificate signed by unknown authority",
    "a pipe that broke, alone": "write: broken pipe",
    "a socket that is closed, alone": "use of closed network connection",
    "a server that goes, alone": "received GOAWAY",
    "a request that was taken back, alone": "request canceled while waiting for connection",
    "a stream that broke": "stream error: stream ID 5; INTERNAL_ERROR; received from peer",
    "a webhook without pods": 'no endpoints available for service "policy"',
    "an account that is not known": "the server has asked for the client to provide credentials",
    "an account that is not known, in the server's word": "Unauthorized",
    "a proxy without a server": 'an error on the server ("502 Bad Gateway") has prevented the request from succeeding',
}
VERDICTS = {
    "a value that is not allowed": 'Job.batch "x" is invalid: spec.completions: Invalid value: -1',
    "a value that quotes a failure": (
        'Job.batch "x" is invalid: spec.template.spec.containers[0].env[0].name: Invalid value: '
        '"EOF": a valid name; Get "https://example.com" was its value'
    ),
    "a value that quotes a quota": 'Job.batch "x" is invalid: spec.a: Invalid value: "a is forbidden: exceeded quota"',
    "a right that is missing": 'jobs.batch "x" is forbidden: User "u" cannot create resource "jobs" in the namespace "a"',
    "a policy": "jobs.batch \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
    "a webhook that refuses": 'admission webhook "v.example.com" denied the request: images of this registry are Unauthorized here',
    "a value of the wrong type": "failed to create typed patch object (a/x): .spec.x: expected numeric, got string",
    "a kind that is not there": 'no matches for kind "JobSet" in version "v1"',
}
QUOTAS = {
    "a quota that is full": (
        'jobs.batch "x" is forbidden: exceeded quota: small, requested: count/jobs.batch=1, used: count/jobs.batch=1, limited: 1'
    ),
    "a quota that is not counted yet": 'jobs.batch "x" is forbidden: status unknown for quota: small, resources: count/jobs.batch',
}


@pytest.mark.parametrize("message", NO_ANSWER.values(), ids=NO_ANSWER.keys())
def test_a_lost_answer_is_no_verdict(message: str) -> None:
    assert not is_verdict(message)


@pytest.mark.parametrize("message", VERDICTS.values(), ids=VERDICTS.keys())
def test_a_refusal_is_a_verdict(message: str) -> None:
    assert is_verdict(message)
    assert not is_of_quota(message)


@pytest.mark.parametrize("message", QUOTAS.values(), ids=QUOTAS.keys())
@pytest.mark.parametrize("reason", ["", "Forbidden"])
def test_a_quota_is_no_verdict_whichever_reason_is_given(message: str, reason: str) -> None:
    assert is_of_quota(message)
    assert not is_verdict(message, reason)


def test_a_reason_counts_more_than_words() -> None:
    assert is_verdict("EOF", "Invalid")
    assert not is_verdict("spec.x: Invalid value", "StorageReadError")
