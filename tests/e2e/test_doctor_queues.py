"""What doctor finds of a real Kueue, and that what it says to do mends it."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.kube.access import from_kubeconfig
from reconciler.adapters.kube.connection import Connection
from reconciler.adapters.kube.doctor import ClusterSeen, Wanted, deployment, look
from reconciler.commands.findings import Finding
from reconciler.commands.findings_kueue import of_queues
from reconciler.model.names import GRANT_CHECK
from reconciler.model.region import Region
from tests.e2e.control_plane import ControlPlane, built, region
from tests.e2e.kueue import GRANT, Queue, kueue
from tests.e2e.world import Team
from tests.waiting import until

QUEUED = Region.model_validate({"name": "eu", "profile": {"queues": {"research": "gpus"}}})


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with region(tmp_path_factory.mktemp("queues")) as up:
        yield up


@pytest.fixture(scope="module")
def with_kueue(plane: ControlPlane) -> Iterator[ControlPlane]:
    """The region, from its second test on with Kueue."""
    with kueue(plane):
        yield plane


def found(plane: ControlPlane, *teams: str) -> list[Finding]:
    clock, nowhere = SystemClock(), deployment("nowhere", "x")
    connection, wanted = Connection(from_kubeconfig(plane.kubeconfig, None), clock, 10.0), Wanted((), nowhere, nowhere, ())

    def whole() -> ClusterSeen | None:
        """For a moment after its kinds were installed, lists of them are refused."""
        seen = look(connection, clock, wanted)
        return None if seen.unread else seen

    seen = until(whole, 60.0, 0.5)
    return list(of_queues(seen, QUEUED, teams))


def mend(plane: ControlPlane, fix: str) -> None:
    """Do what a finding says, as a person would: copied into a shell."""
    path = os.pathsep.join([str(built("kubestack")), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(plane.kubeconfig)}
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", fix], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, f"{fix}\n{done.stderr}"


def checks_of(plane: ControlPlane, queue: Queue) -> list[str]:
    return [one["name"] for one in plane.get("clusterqueue", queue.name)["spec"]["admissionChecksStrategy"]["admissionChecks"]]


def test_a_region_without_kueue(plane: ControlPlane) -> None:
    assert [finding.code for finding in found(plane, Team(plane, "early").namespace)] == ["KueueMissing"]


def test_queues_that_are_missing_and_one_without_the_check(with_kueue: ControlPlane) -> None:
    one, other = Team(with_kueue, "one"), Team(with_kueue, "other").namespace
    assert [finding.code for finding in found(with_kueue, one.namespace, other)] == ["QueueMissing"]
    queue = Queue(one, 8, checks=())
    missing, unchecked = found(with_kueue, one.namespace, other)
    assert missing.what.endswith(f"in {other}")
    assert unchecked.code == "QueueWithoutGrantCheck"
    mend(with_kueue, unchecked.fix)
    assert found(with_kueue, one.namespace) == []
    assert checks_of(with_kueue, queue) == [GRANT_CHECK]
    queue.remove()


def test_a_check_of_somebody_elses_is_made_anew_and_other_checks_stay(with_kueue: ControlPlane) -> None:
    one = Team(with_kueue, "shared")
    machines = {**GRANT, "metadata": {"name": "machines"}, "spec": {"controllerName": "example.com/machines"}}
    with_kueue.kubectl("apply", "-f", "-", stdin=machines)
    queue = Queue(one, 8, checks=())
    queue.change(admissionChecksStrategy={"admissionChecks": [{"name": "machines"}]})
    with_kueue.kubectl("delete", "admissioncheck", GRANT_CHECK)
    with_kueue.kubectl("apply", "-f", "-", stdin={**GRANT, "spec": {"controllerName": "example.com/other"}})
    (foreign,) = found(with_kueue, one.namespace)
    mend(with_kueue, foreign.fix)
    assert found(with_kueue, one.namespace) == []
    assert checks_of(with_kueue, queue) == ["machines", GRANT_CHECK]
