"""Gangs: what a region with Volcano gets, and what every other region does not."""

from typing import Any

import pytest
import yaml

from reconciler.model.names import ANNOTATION_QUEUE
from reconciler.rendering.check import object_problems, problems
from reconciler.rendering.manifest import render_checked
from tests.rendering.builders import PLAIN, job, objects, region, rendering

VOLCANO = region(PLAIN, profile={"gang": "volcano", "queues": {"research": "gpu-research"}})
GROUP = "scheduling.k8s.io/group-name"


def made(nodes: int, **more: Any) -> tuple[str, dict[str, Any]]:
    one = rendering(job(nodes=nodes, communication_mode="sync", **more), VOLCANO)
    return one.attempt, objects(render_checked(one))


@pytest.mark.parametrize("nodes", [1, 4])
def test_all_pods_of_an_attempt_are_one_gang(nodes: int) -> None:
    attempt, found = made(nodes)
    template = found["Job"]["spec"]["template"]
    assert found["PodGroup"]["spec"] == {"minMember": nodes}
    assert found["PodGroup"]["metadata"]["name"] == attempt == template["metadata"]["annotations"][GROUP]
    assert template["spec"]["schedulerName"] == "volcano"


def test_the_queue_is_volcanos_and_not_kueues() -> None:
    _, found = made(2, queue="research")
    assert found["PodGroup"]["spec"]["queue"] == "gpu-research"
    assert ANNOTATION_QUEUE not in found["Job"]["metadata"]["annotations"]


def test_a_scheduler_that_the_region_names_is_kept() -> None:
    where = region(PLAIN, profile={"gang": "volcano", "scheduler_name": "volcano-batch"})
    found = objects(render_checked(rendering(job(nodes=2), where)))
    assert found["Job"]["spec"]["template"]["spec"]["schedulerName"] == "volcano-batch"


@pytest.mark.parametrize("gang", ["none", "native"])
def test_elsewhere_there_is_none(gang: str) -> None:
    found = objects(render_checked(rendering(job(nodes=2), region(PLAIN, profile={"gang": gang}))))
    assert set(found) == {"Job", "Service"}
    assert GROUP not in found["Job"]["spec"]["template"]["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    {
        "a group that waits for more pods than there are": (
            lambda found: found["PodGroup"]["spec"].update(minMember=3),
            "PodGroup: spec.minMember: is the number of the Job's pods",
        ),
        "pods of no group": (
            lambda found: found["Job"]["spec"]["template"]["metadata"]["annotations"].pop(GROUP),
            f"Job: spec.template.metadata.annotations.{GROUP}: names the PodGroup",
        ),
        "pods of another's group": (
            lambda found: found["Job"]["spec"]["template"]["metadata"]["annotations"].update({GROUP: "another"}),
            f"Job: spec.template.metadata.annotations.{GROUP}: names the PodGroup",
        ),
        "a field that Volcano would drop": (
            lambda found: found["PodGroup"]["spec"].update(minmember=2),
            "PodGroup: spec.minmember",
        ),
    }.values(),
)
def test_a_gang_that_would_never_start_is_not_printed(spoil: Any, words: str) -> None:
    _, found = made(2)
    assert object_problems(list(found.values())) == []
    spoil(found)
    assert any(words in said for said in problems(yaml.safe_dump_all(found.values()).encode()))
