"""JobSets: the same Job as ever, made by a JobSet; what holds it back is in the set, and what finds its pods is on them."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from reconciler.model import names
from reconciler.rendering.check import object_problems, problems
from reconciler.rendering.manifest import _values, render_checked, render_job
from reconciler.rendering.manifest import objects as checked_objects
from reconciler.rendering.rendering import Unrenderable
from tests.rendering.builders import PLAIN, env_of, job, objects, region, rendering

WHERE = region(PLAIN, workloads=["job", "jobset"])


def made(nodes: int = 4, **more: Any) -> tuple[str, dict[str, Any]]:
    one = rendering(
        job(workload="jobset", nodes=nodes, communication_mode="sync", launcher="torchrun", args=["t.py"], **more), WHERE
    )
    return one.attempt, objects(render_checked(one))


def inner(found: dict[str, Any]) -> dict[str, Any]:
    (only,) = found["JobSet"]["spec"]["replicatedJobs"]
    assert (only["name"], only["replicas"], only["template"].keys()) == ("w", 1, {"spec"})
    spec: dict[str, Any] = only["template"]["spec"]
    return spec


@pytest.mark.parametrize("nodes", [1, 4])
def test_it_is_the_job_of_ever_and_the_set_holds_it_back(nodes: int) -> None:
    attempt, found = made(nodes)
    as_ever = objects(render_checked(rendering(job(nodes=nodes, communication_mode="sync"), WHERE)))["Job"]["spec"]
    spec = inner(found)
    assert {key: spec[key] for key in spec if key != "template"} == {
        key: as_ever[key] for key in as_ever if key not in ("template", "suspend")
    }
    said = found["JobSet"]["spec"]
    assert (said["suspend"], said["failurePolicy"], said["network"]) == (True, {"maxRestarts": 0}, {"enableDNSHostnames": False})
    assert found["JobSet"]["metadata"]["name"] == attempt
    assert spec["template"]["spec"]["schedulingGates"] == [{"name": names.GATE}]


def test_its_labels_are_on_the_set_and_on_the_pods_and_not_on_the_job() -> None:
    _, found = made()
    ours = found["JobSet"]["metadata"]["labels"]
    assert ours[names.LABEL_MANAGED] == names.MANAGED_BY
    assert inner(found)["template"]["metadata"]["labels"] == ours
    assert "labels" not in yaml.safe_dump({**found["JobSet"]["spec"], "replicatedJobs": None})


def test_its_pods_find_the_first_by_the_name_that_the_set_gives_it() -> None:
    attempt, found = made()
    (main,) = (one for one in inner(found)["template"]["spec"]["containers"] if one["name"] == "main")
    assert env_of(main)["MASTER_ADDR"] == f"{attempt}-w-0-0.{attempt}.team-a"
    assert found["Service"]["spec"]["selector"] == {names.LABEL_ATTEMPT: attempt}


def test_a_name_that_leaves_its_pods_no_room_is_told_with_what_to_do() -> None:
    longest = rendering(job(job_id="j" * 38, workload="jobset", nodes=8), WHERE, number=9999)
    assert len(f"{longest.job_name}-7-12345") == 63
    render_checked(longest)
    for job_id in ("j" * 39, "j" * 60):
        with pytest.raises(Unrenderable, match="a JobSet of 8 nodes needs a job_id of at most 38, or `workload: job`"):
            render_job(rendering(job(job_id=job_id, workload="jobset", nodes=8), WHERE))


@pytest.mark.parametrize("nodes", [1, 4])
def test_what_is_printed_is_what_was_checked(nodes: int) -> None:
    one = rendering(job(workload="jobset", nodes=nodes, files=[{"path": "/etc/a", "content": "b"}]), WHERE)
    assert checked_objects(one, _values(one)) == list(yaml.safe_load_all(render_job(one)))


BROKEN: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a set that starts by itself": (lambda found: found["JobSet"]["spec"].update(suspend=False), "spec.suspend: must be true"),
    "one that starts again": (
        lambda found: found["JobSet"]["spec"].update(failurePolicy={"maxRestarts": 1}),
        'JobSet: spec.failurePolicy: must be {"maxRestarts": 0}',
    ),
    "one without a word on failures": (
        lambda found: found["JobSet"]["spec"].pop("failurePolicy"),
        'JobSet: spec.failurePolicy: must be {"maxRestarts": 0}',
    ),
    "two Jobs in it": (
        lambda found: found["JobSet"]["spec"]["replicatedJobs"].append(found["JobSet"]["spec"]["replicatedJobs"][0]),
        "spec.replicatedJobs: must be one, `w`, with one replica and a template",
    ),
    "a Job in it twice": (
        lambda found: found["JobSet"]["spec"]["replicatedJobs"][0].update(replicas=2),
        "spec.replicatedJobs: must be one, `w`, with one replica and a template",
    ),
    "none in it": (
        lambda found: found["JobSet"]["spec"].pop("replicatedJobs"),
        "spec.replicatedJobs: must be one, `w`, with one replica and a template",
    ),
    "our label on the Job in it": (
        lambda found: found["JobSet"]["spec"]["replicatedJobs"][0]["template"].update(metadata={"labels": {}}),
        "spec.replicatedJobs[0].template.metadata: is no field of Kubernetes here",
    ),
    "a time to live": (
        lambda found: found["JobSet"]["spec"].update(ttlSecondsAfterFinished=1),
        "spec.ttlSecondsAfterFinished: is no field of Kubernetes here",
    ),
    "pods that are tried again": (lambda found: inner(found).update(backoffLimit=3), "spec.backoffLimit: must be 0"),
    "pods without a gate": (lambda found: inner(found)["template"]["spec"].pop("schedulingGates"), "schedulingGates"),
    "another workload beside it": (
        lambda found: found.update(Job={**objects(render_job(rendering(job())))["Job"]}),
        "a file holds one JobSet or one Job",
    ),
}


@pytest.mark.parametrize(("spoil", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_rule_is_named(spoil: Callable[[dict[str, Any]], object], words: str) -> None:
    _, found = made()
    assert object_problems(list(found.values())) == []
    spoil(found)
    said = problems(yaml.safe_dump_all(found.values()).encode())
    assert any(words in one for one in said), said
