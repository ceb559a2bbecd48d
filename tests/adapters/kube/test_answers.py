"""What each answer, or half of one, means; and that nothing is sent twice."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.ports import Conflict, ObjectRef, Refused, Transient
from tests.adapters.kube.answering import Raw, Server, answering, drip, hang_up, http, page, status
from tests.waiting import until

JOB = ObjectRef("Job", "team", "train", "u1", "7")
NEW = {"metadata": {"name": "train", "uid": "u1", "resourceVersion": "8"}}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with answering(tmp_path) as made:
        yield made


@dataclass(frozen=True)
class Case:
    answer: Raw
    error: type[Exception]
    words: str


CASES = {
    "the server is busy": Case(status(429, "too many requests"), Transient, "429, too many requests"),
    "a time-out there": Case(status(504, "Timeout: request did not complete"), Transient, "504"),
    "an internal error, such as of a webhook": Case(
        status(500, "failed calling webhook"), Transient, "500, failed calling webhook"
    ),
    "a proxy without a server": Case(http(502, "<html>\nBad  Gateway</html>"), Transient, "502, <html> Bad Gateway</html>"),
    "a proxy's own page": Case(http(200, "<html>log in</html>"), Transient, "no JSON object"),
    "a list instead of an object": Case(http(200, []), Transient, "no JSON object"),
    "half of an answer": Case(http(200, {"metadata": {}}, more=100), Transient, "no answer"),
    "no answer": Case(hang_up, Transient, "no answer"),
    "something that is not HTTP": Case(lambda connection: connection.sendall(b"SSH-2.0\r\n"), Transient, "no answer"),
    "an answer that does not end": Case(drip, Transient, "not complete after 0.5 s"),
    "another version": Case(status(409, "the object has been modified"), Conflict, "has been modified"),
    "it is gone": Case(status(404, "not found"), Conflict, "not there any more"),
    "another object of the name": Case(status(422, "field is immutable", "metadata.uid"), Conflict, "immutable"),
    "an invalid change": Case(status(422, "field is immutable", "spec.selector"), Refused, "422.*compare its version"),
    "a request that is not understood": Case(status(400, "bad request"), Refused, "400, bad request"),
    "no right": Case(status(403, "cannot patch"), Refused, "403, cannot patch; .*allow patch there in the role"),
    "not known": Case(status(401, "Unauthorized"), Refused, "401.*renew the token"),
    "elsewhere": Case(http(307, "", headers="Location: https://127.0.0.1:1/\r\n"), Refused, "redirection: name the API server"),
    "a failure in an unknown form": Case(http(403, {"odd": 1}), Refused, "no reason given"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_an_answer_to_a_patch(server: Server, case: Case) -> None:
    server.answers = [case.answer, http(200, NEW)]
    with pytest.raises(case.error, match=case.words):
        server.cluster(request_seconds=0.5).patch(JOB, {"spec": {}})
    assert len(server.asked) == 1, "what was asked once is not asked again"


UNASKED = {
    "busy, and told when to ask again": http(429, {}, headers="Retry-After: 0\r\nConnection: close\r\n"),
    "away, and told when to ask again": http(503, {}, headers="Retry-After: 0\r\nConnection: close\r\n"),
    "moved": http(301, "", headers="Location: /elsewhere\r\nConnection: close\r\n"),
    "no answer": hang_up,
}


@pytest.mark.parametrize("answer", UNASKED.values(), ids=UNASKED.keys())
def test_a_read_is_not_sent_again_by_itself_and_follows_nobody(server: Server, answer: Raw) -> None:
    server.answers = [answer, http(200, {"kind": "NodeList", "items": []})]
    with pytest.raises((Transient, Refused)):
        server.cluster(request_seconds=0.5).read()
    assert len(server.asked) == 1


def test_what_a_patch_says(server: Server) -> None:
    server.answers = [http(200, NEW)]
    assert server.cluster().patch(JOB, {"spec": {"suspend": False}}) == ObjectRef("Job", "team", "train", "u1", "8")
    head, _, body = server.asked[0].rpartition("\n")
    assert head.startswith("PATCH /apis/batch/v1/namespaces/team/jobs/train?timeout=5s HTTP/1.1")
    assert {"content-type: application/merge-patch+json", "authorization: bearer secret-word"} <= set(head.lower().splitlines())
    assert body == '{"spec":{"suspend":false},"metadata":{"uid":"u1","resourceVersion":"7"}}'


DELETIONS = {
    "it ends": [http(200, {})],
    "it was gone": [status(404, "not found")],
    "another has its name now": [status(409, "uid differs"), http(200, {"metadata": {"uid": "u2"}})],
    "it went meanwhile": [status(409, "uid differs"), status(404, "not found")],
}


@pytest.mark.parametrize("answers", DELETIONS.values(), ids=DELETIONS.keys())
def test_a_deletion_succeeds(server: Server, answers: list[Raw]) -> None:
    server.answers = list(answers)
    server.cluster().delete(JOB, None)
    assert server.answers == []
    assert '"preconditions":{"uid":"u1"},"propagationPolicy":"Background"' in server.asked[0]


def test_a_deletion_that_lost_to_another_write_is_not_taken_for_done(server: Server) -> None:
    server.answers = [status(409, "try again"), http(200, {"metadata": {"uid": "u1"}})]
    with pytest.raises(Transient, match="try again"):
        server.cluster().delete(JOB, 5)
    assert '"gracePeriodSeconds":5' in server.asked[0]


def read_of(*pods: Raw) -> list[Raw]:
    """The answers to a read, with these for the pods."""
    no_job_sets = status(404, "the server could not find the requested resource")
    return [page("Node"), page("Namespace"), page("PriorityClass"), page("Job"), no_job_sets, *pods]


def test_a_read_goes_through_all_pages_and_asks_for_pods_last(server: Server) -> None:
    pods = [{"metadata": {"name": f"p{number}", "managedFields": [{}]}} for number in range(3)]
    server.answers = read_of(page("Pod", *pods[:2], following="next/="), page("Pod", pods[2]))
    state = server.cluster(page=2).read()
    assert [pod["metadata"] for pod in state.pods] == [{"name": "p0"}, {"name": "p1"}, {"name": "p2"}]
    assert {pod["kind"] for pod in state.pods} == {"Pod"}
    paths = [request.split()[1].removesuffix("&timeout=5s") for request in server.asked]
    assert paths == [
        "/api/v1/nodes?limit=2",
        "/api/v1/namespaces?limit=2",
        "/apis/scheduling.k8s.io/v1/priorityclasses?limit=2",
        "/apis/batch/v1/jobs?limit=2&labelSelector=app.kubernetes.io%2Fmanaged-by%3Dgpu-reconciler",
        "/apis/jobset.x-k8s.io/v1alpha2?timeout=5s",
        "/api/v1/pods?limit=2",
        "/api/v1/pods?limit=2&continue=next%2F%3D",
    ]


def test_a_list_whose_pages_expire_is_begun_anew(server: Server) -> None:
    pod = {"metadata": {"name": "p"}}
    gone = status(410, "the provided continue parameter is too old")
    server.answers = read_of(page("Pod", pod, following="a"), gone, page("Pod", pod, following="b"), page("Pod", pod))
    assert len(server.cluster().read().pods) == 2
    server.answers = read_of(*[page("Pod", pod, following="a"), gone] * 3)
    with pytest.raises(Transient, match="expired 3 times"):
        server.cluster().read()
    assert server.answers == []


def test_a_list_that_is_none(server: Server) -> None:
    server.answers = [http(200, {"kind": "Status"})]
    with pytest.raises(Transient, match="the answer is Status, not a list"):
        server.cluster().read()


def test_a_connection_that_was_closed_meanwhile_is_made_anew(server: Server) -> None:
    server.answers = [http(200, NEW, headers=""), http(200, NEW)]
    cluster = server.cluster()
    cluster.patch(JOB, {})
    until(lambda: server.closed)
    cluster.patch(JOB, {})
    assert len(server.asked) == 2


def test_a_log_of_a_pod_without_main_container(server: Server) -> None:
    server.answers = [http(200, {"spec": {"containers": [{"name": "first"}, {"name": "other"}]}}), http(200, "wörld")]
    assert server.cluster().log_tail("team", "p", 5) == "wörld"[-4:]
    assert "container=first&tailLines=1&" in server.asked[1]


def test_a_record_that_was_emptied_reads_as_no_bytes(server: Server) -> None:
    metadata = {"resourceVersion": "3"}
    for item in (
        {"metadata": metadata},
        {"metadata": metadata, "binaryData": None},
        {"metadata": metadata, "data": {"record": "x"}},
    ):
        server.answers = [http(200, item)]
        found = server.cluster().read_record()
        assert found is not None
        assert (found.body, found.etag) == (b"", "3")
