"""The agent makes the same of an object with and without what is left out of it."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from reconciler.adapters.kube.slim import is_doubtful, names_a_queue, slim
from reconciler.agent.accounts import account
from reconciler.agent.nodes import NodeRules
from reconciler.agent.pods import report_pod
from reconciler.agent.workloads import report_attempt
from reconciler.model.names import LABEL_ATTEMPT
from reconciler.ports import ClusterState, KubeObject
from tests.agent import test_accounts, test_pods, test_workloads
from tests.agent.objects import ATTEMPT, make_job, make_pod, make_state, queued_job
from tests.agent.region import Region, job_of, runs

NOISE = {"managedFields": [{"manager": "x"}], "selfLink": "x", "annotations": {"example.com/x": "y"}}


def noisy(item: KubeObject) -> dict[str, Any]:
    """The object with more in it than anybody reads."""
    found = deepcopy(dict(item))
    found["metadata"] = {**NOISE, **found["metadata"]}
    found["spec"] = found["spec"] if found.get("spec", {}) is None else {**found.get("spec", {}), "volumes": [{"name": "x"}]}
    return found


def slimmed(state: ClusterState) -> ClusterState:
    kinds = {"nodes": "Node", "pods": "Pod", "workloads": "Job"}
    parts = {name: [slim(kind, noisy(item)) for item in getattr(state, name)] for name, kind in kinds.items()}
    return replace(state, **parts)


@pytest.mark.parametrize("case", test_accounts.CASES.values(), ids=test_accounts.CASES.keys())
def test_the_books_are_the_same(case: test_accounts.Case) -> None:
    state = make_state(nodes=[case.node], pods=case.pods, priority_values=case.priorities)
    assert account(slimmed(state), NodeRules()) == account(state, NodeRules())


@pytest.mark.parametrize("case", test_pods.CASES.values(), ids=test_pods.CASES.keys())
def test_what_is_said_of_a_pod_of_ours_is_the_same(case: test_pods.Case) -> None:
    pod = deepcopy(case.pod)
    pod["metadata"].setdefault("labels", {})[LABEL_ATTEMPT] = ATTEMPT
    assert report_pod(slim("Pod", noisy(pod))) == report_pod(pod)


@pytest.mark.parametrize("case", test_workloads.CASES.values(), ids=test_workloads.CASES.keys())
def test_what_is_said_of_an_attempt_is_the_same(case: test_workloads.Case) -> None:
    seen = test_workloads.see(case.jobs, case.pods, case.entry, case.granted)
    objects = tuple(slim("Job", noisy(item)) for item in seen.objects)
    thin = replace(seen, objects=objects, pods=tuple(slim("Pod", noisy(pod)) for pod in seen.pods))
    assert report_attempt(thin, is_left_over=False) == report_attempt(seen, is_left_over=False)


def course(*, thin: bool, **settings: Any) -> tuple[Mapping[str, Any], list[str]]:
    """A region's life: what its last report says, and all that its agent has asked of the cluster."""
    region = Region(**settings)
    read = region.wire.read
    if thin:
        region.wire.read = lambda: slimmed(read())  # type: ignore[method-assign]
    region.turn()
    jobs = {"gang-a1": job_of("gang-a1", size=3, grace=100, says=runs(600)), "short-a1": job_of("short-a1", says=runs(5, code=3))}
    region.render(*jobs.values(), job_of("waits-a1"), job_of("gone-a1", says=runs(600, stop=20)))
    region.grant("gang-a1", "short-a1", "gone-a1")
    region.advance(200)
    region.grant("gang-a1", "short-a1")
    region.advance(10)
    region.patch(jobs["gang-a1"], {"spec": {"suspend": True}})
    region.advance(40)
    return region.report().model_dump(exclude={"sent_at", "incarnation", "summary"}), region.wire.requests


@pytest.mark.parametrize("deadman", [False, True])
def test_a_regions_course_is_the_same(*, deadman: bool) -> None:
    found = course(thin=True, deadman=deadman)
    assert found == course(thin=False, deadman=deadman)
    assert (found[1].count("patch Job") > 6) is deadman, "where Kubernetes ends what runs, that is put off"


DOUBTFUL = {
    "made by one of ours": (make_pod(owner="u1"), True),
    "made by another": (make_pod(owner="u2"), False),
    "held by our gate": (make_pod(owner="u2", gates=("gpu-reconciler.dev/grant",)), True),
    "held by another's": (make_pod(owner="u2", gates=("example.com/wait",)), False),
    "with our label": (make_pod(attempt=ATTEMPT), True),
    "an orphan that one of ours made": (
        {"metadata": {"name": "p", "labels": {"batch.kubernetes.io/controller-uid": "u1"}}, "spec": {}},
        True,
    ),
    "nobody's": ({"metadata": {"name": "p"}}, False),
}


@pytest.mark.parametrize(("pod", "want"), DOUBTFUL.values(), ids=DOUBTFUL.keys())
def test_pods_that_may_be_ours(pod: KubeObject, want: bool) -> None:
    assert is_doubtful(slim("Pod", pod), {"u1"}) is want


def test_where_kueue_has_a_part() -> None:
    for enqueued in (False, True):
        assert names_a_queue(slim("Job", queued_job(enqueued=enqueued)))
    assert not names_a_queue(slim("Job", make_job()))
