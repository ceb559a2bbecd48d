"""The kubelet of these tests on a real control plane: real programs, whose ends, deaths and words reach the API server."""

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.documents import reader
from reconciler.adapters.local import NodeSpec, shim
from reconciler.model.region import Region
from reconciler.rendering.manifest import render_job
from tests.adapters.local.real import is_running
from tests.e2e.control_plane import ControlPlane, region
from tests.e2e.kubelet import Machines, machines, nodes_of
from tests.e2e.world import GPU, Team, job_of
from tests.rendering.builders import rendering
from tests.waiting import until

EXAMPLE = Path(__file__).parents[2] / "jobs-repo-example"
REGION = EXAMPLE / "regions/eu-west.yaml"
STAGE_IMAGE = "registry.example.com/ml/reconciler:1"
ENDED = ("Succeeded", "Failed")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A region of its own, without nodes of kwok's."""
    with region(tmp_path_factory.mktemp("kubelet"), "ku") as up:
        yield up


@pytest.fixture(scope="module")
def nodes(plane: ControlPlane) -> Iterator[Machines]:
    """The nodes of an example region."""
    images = ("reg.example.com/*", "registry.example.com/ml/*")
    with machines(plane, nodes_of(REGION), images=images, environment={"BROUGHT": "by the image"}) as up:
        yield up


@pytest.fixture
def own(team: Team, nodes: Machines) -> "Own":
    return Own(team, nodes)


@dataclass(frozen=True)
class Own:
    """A test's own namespace, and what it does there."""

    team: Team
    nodes: Machines

    def kubectl(self, *words: str, stdin: Any = None) -> str:
        return self.team.plane.kubectl("-n", self.team.namespace, *words, stdin=stdin)

    def pod(self, script: str, name: str = "p", **spec: Any) -> None:
        """A pod of nobody's, that runs this shell script."""
        finalizers = spec.pop("finalizers", [])
        metadata = {"name": name, "finalizers": finalizers}
        spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 30, "containers": [main(script)], **spec}
        self.team.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def release(self, job: str) -> None:
        """Let a Job run that was born suspended and gated."""
        self.kubectl("patch", "job", job, "-p", '{"spec":{"suspend":false}}')
        wanted = self.team.job(job)["spec"]["completions"]
        pods = until(lambda: found if len(found := self.pods_of(job)) == wanted else None)
        for pod in pods:
            self.kubectl("patch", "pod", pod["metadata"]["name"], "--type=merge", "-p", '{"spec":{"schedulingGates":null}}')

    def pods_of(self, job: str) -> list[dict[str, Any]]:
        return list(json.loads(self.kubectl("get", "pods", "-l", f"job-name={job}", "-o", "json"))["items"])

    def get(self, name: str = "p") -> dict[str, Any]:
        return self.team.plane.get("pod", name, self.team.namespace)

    def state(self, name: str = "p", container: str = "main") -> dict[str, Any]:
        """The container's state, {} before it has one."""
        status = self.get(name)["status"]
        both = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
        return next((one["state"] for one in both if one["name"] == container), {})

    def end(self, name: str = "p", within: float = 30.0) -> dict[str, Any]:
        """How the program ended, once it has."""
        found: dict[str, Any] = until(lambda: self.state(name).get("terminated"), within, 0.1)
        return found

    def finished(self, job: str, within: float = 60.0) -> str:
        """The condition by which the Job is over."""

        def over() -> str | None:
            conditions = self.team.job(job)["status"].get("conditions", [])
            return next((one["type"] for one in conditions if one["type"] in ("Complete", "Failed")), None)

        return until(over, within, 0.2)

    def logged(self, words: str, name: str = "p", within: float = 20.0) -> str:
        """The program's words, once these are among them."""

        def said() -> str | None:
            if "running" not in self.state(name) and "terminated" not in self.state(name):
                return None
            found = self.log_file(name)
            return found.read_text() if found.exists() and words in found.read_text() else None

        return until(said, within, 0.1)

    def log_file(self, name: str = "p") -> Path:
        return self.folder(name) / "log"

    def folder(self, name: str = "p", container: str = "main") -> Path:
        return self.nodes.folder / "pods" / str(self.get(name)["metadata"]["uid"]) / "containers" / container

    def program(self, name: str = "p") -> int:
        """The pid of the pod's program."""

        def pid() -> int | None:
            claim = self.folder(name) / "claim"
            below = shim.descendants(json.loads(claim.read_text())["pid"]) if claim.exists() else []
            return below[0] if below else None

        return until(pid)

    def is_gone(self, name: str = "p") -> bool:
        return not self.kubectl("get", "pod", name, "--ignore-not-found", "-o", "name")


def main(script: str, **more: Any) -> dict[str, Any]:
    """A container that runs this script; Kubernetes takes a `$` of ours for its own unless there are two."""
    command = ["/bin/sh", "-c", script.replace("$", "$$")]
    return {"name": "main", "image": "reg.example.com/x:1", "command": command, **more}


def job(name: str, script: str, **more: Any) -> dict[str, Any]:
    """A Job as it is rendered, with this script."""
    made = job_of(name, **more)
    made["spec"]["template"]["spec"]["containers"][0] |= {"command": main(script)["command"]}
    return made


@dataclass(frozen=True)
class Ends:
    script: str
    want_code: int
    want_job: str


ENDS = {
    "it ends well": Ends("exit 0", 0, "Complete"),
    "it ends with a code of its own": Ends("exit 3", 3, "Failed"),
    "it is killed": Ends("kill -9 $$", 137, "Failed"),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS.keys())
def test_how_a_job_ends(own: Own, case: Ends) -> None:
    own.team.held(job("j", f"echo devices $CUDA_VISIBLE_DEVICES; {case.script}"))
    own.release("j")
    assert own.finished("j") == case.want_job
    (pod,) = own.pods_of("j")
    end = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert end["exitCode"] == case.want_code
    assert pod["status"]["phase"] == ("Succeeded" if case.want_code == 0 else "Failed")
    assert own.kubectl("logs", pod["metadata"]["name"]).startswith("devices ")
    assert not pod["metadata"].get("finalizers"), "the Job's controller has counted it"


def test_a_suspended_job_may_save_its_work_within_its_grace(own: Own, tmp_path: Path) -> None:
    own.team.held(job("j", f'trap "echo saved >{tmp_path}/end; exit 5" TERM; echo up; while :; do sleep 0.05; done'))
    own.release("j")
    (name,) = [pod["metadata"]["name"] for pod in own.pods_of("j")]
    own.logged("up", name)
    own.kubectl("patch", "job", "j", "-p", '{"spec":{"suspend":true}}')
    until(lambda: own.is_gone(name))
    assert (tmp_path / "end").read_text() == "saved\n"


def test_a_program_that_will_not_end_is_killed_after_its_grace_and_not_before(own: Own) -> None:
    script = 'trap "echo heard" TERM; echo up; while :; do sleep 0.05; done'
    own.pod(script, terminationGracePeriodSeconds=3, finalizers=["example.com/hold"])
    own.logged("up")
    program = own.program()
    before = time.monotonic()
    own.kubectl("delete", "pod", "p", "--wait=false")
    own.logged("heard")
    assert is_running(program)
    assert own.end()["exitCode"] == 137
    assert time.monotonic() - before >= 3
    assert not is_running(program)
    assert own.get()["status"]["phase"] == "Failed"
    until(lambda: own.get()["metadata"]["deletionGracePeriodSeconds"] == 0)
    assert own.get()["metadata"]["finalizers"] == ["example.com/hold"]
    assert own.log_file().read_text().count("heard") == 1
    own.kubectl("patch", "pod", "p", "-p", '{"metadata":{"finalizers":null}}')
    until(own.is_gone)


def test_a_program_that_ends_within_its_grace_is_waited_for_no_longer(own: Own) -> None:
    own.pod('trap "exit 5" TERM; echo up; while :; do sleep 0.05; done', terminationGracePeriodSeconds=600)
    own.logged("up")
    own.kubectl("delete", "pod", "p", "--wait=false")
    until(own.is_gone)


def test_a_later_deletion_shortens_the_grace(own: Own) -> None:
    own.pod("trap 'echo heard' TERM; echo up; while :; do sleep 0.05; done", terminationGracePeriodSeconds=600)
    own.logged("up")
    program = own.program()
    own.kubectl("delete", "pod", "p", "--wait=false")
    own.logged("heard")
    own.kubectl("delete", "pod", "p", "--wait=false", "--grace-period=1")
    until(own.is_gone)
    assert not is_running(program)


def test_a_pod_that_is_removed_by_force_loses_its_program(own: Own) -> None:
    own.pod("trap '' TERM; echo up; while :; do sleep 0.05; done")
    own.logged("up")
    program, folder = own.program(), own.folder().parents[1]
    own.kubectl("delete", "pod", "p", "--wait=false", "--grace-period=0", "--force")
    until(lambda: not is_running(program))
    until(lambda: not folder.exists())


def test_steps_come_in_order_and_a_sidecar_runs_beside(own: Own) -> None:
    work = {"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}
    steps = [main(f"echo {at} >>$POD_ROOT/scratch/order", **work) | {"name": f"step-{at}"} for at in (1, 2)]
    sidecar = main("trap 'exit 0' TERM; while :; do sleep 0.05; done") | {"name": "side", "restartPolicy": "Always"}
    own.pod(
        "",
        initContainers=[*steps, sidecar],
        containers=[main("cat $POD_ROOT/scratch/order", **work)],
        volumes=[{"name": "scratch", "emptyDir": {}}],
    )
    assert own.end()["exitCode"] == 0
    assert own.kubectl("logs", "p", "-c", "main") == "1\n2\n"
    until(lambda: own.get()["status"]["phase"] == "Succeeded")
    assert [own.state(container=name)["terminated"]["exitCode"] for name in ("step-1", "step-2", "side")] == [0, 0, 0]


def test_a_step_that_fails_fails_the_pod(own: Own) -> None:
    own.pod("echo never", initContainers=[main("exit 9") | {"name": "step"}])
    until(lambda: own.get()["status"]["phase"] == "Failed")
    assert own.state(container="step")["terminated"]["exitCode"] == 9
    assert own.state() == {"waiting": {"reason": "PodInitializing"}}


def test_what_the_api_server_holds_reaches_the_program(own: Own) -> None:
    own.kubectl("create", "secret", "generic", "key", "--from-literal=token=s3cret")
    own.kubectl("create", "configmap", "texts", "--from-literal=run.sh=echo run")
    projected = [
        {"configMap": {"name": "texts", "items": [{"key": "run.sh", "path": "deep/run.sh"}]}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]
    volumes = [
        {"name": "key", "secret": {"secretName": "key"}},
        {"name": "texts", "configMap": {"name": "texts"}},
        {"name": "all", "projected": {"sources": projected}},
    ]
    mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
    token = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "key", "key": "token"}}}
    where = {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    script = """
set -e; cd $POD_ROOT; echo $TOKEN $NODE $BROUGHT; cat key/token; echo; sh texts/run.sh; sh all/deep/run.sh; cat all/name; echo
cut -d. -f2 var/run/secrets/kubernetes.io/serviceaccount/token | tr _- /+ | sed 's/$/===/' | base64 -d 2>/dev/null || true
"""
    own.pod("", containers=[main(script, env=[token, where], volumeMounts=mounts)], volumes=volumes)
    assert own.end()["exitCode"] == 0
    said = own.kubectl("logs", "p").splitlines()
    assert said[:5] == [f"s3cret {own.get()['spec']['nodeName']} by the image", "s3cret", "run", "run", "p"]
    assert f"system:serviceaccount:{own.team.namespace}:default" in said[5]


def test_a_secret_that_is_not_there_is_waited_for(own: Own) -> None:
    env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "late", "key": "token"}}}]
    own.pod("", containers=[main("echo $TOKEN", env=env)])
    waiting = {"reason": "CreateContainerConfigError", "message": 'secret "late" not found'}
    until(lambda: own.state() == {"waiting": waiting})
    own.kubectl("create", "secret", "generic", "late", "--from-literal=token=here")
    assert own.end()["exitCode"] == 0
    assert own.kubectl("logs", "p") == "here\n"


def test_an_image_that_cannot_be_pulled(own: Own) -> None:
    own.pod("", containers=[main("") | {"image": "registry.example.com/typo/trian:1.4"}])

    def waits(reason: str) -> dict[str, str] | None:
        waiting: dict[str, str] = own.state().get("waiting", {})
        return waiting if waiting.get("reason") == reason else None

    assert "failed to resolve reference" in until(lambda: waits("ErrImagePull"))["message"]
    assert "Back-off pulling image" in until(lambda: waits("ImagePullBackOff"), 30, 0.2)["message"]
    assert own.get()["status"]["phase"] == "Pending"
    told = json.loads(own.kubectl("get", "events", "--field-selector=type=Warning,involvedObject.name=p", "-o", "json"))["items"]
    assert [one["message"].split(":")[0] for one in told if one["reason"] == "Failed"] == ["Failed to pull image"]
    own.kubectl("delete", "pod", "p", "--wait=false")
    until(own.is_gone)


def test_more_gpus_than_are_free_are_not_given(own: Own) -> None:
    """Who binds a pod by hand asks no scheduler."""
    node = own.nodes.nodes[0].name
    own.pod("", name="one", nodeName=node, containers=[main("sleep 600", resources={"limits": {GPU: "6"}})])
    until(lambda: "running" in own.state("one"))
    own.pod("", name="two", nodeName=node, containers=[main("true", resources={"limits": {GPU: "3"}})])
    status = until(lambda: found if (found := own.get("two")["status"])["phase"] == "Failed" else None)
    assert status["reason"] == "UnexpectedAdmissionError"
    assert "Requested: 3, Available: 2" in status["message"]
    own.kubectl("delete", "pod", "one", "--wait=false", "--grace-period=0", "--force")
    own.pod("", name="three", nodeName=node, containers=[main("echo $CUDA_VISIBLE_DEVICES", resources={"limits": {GPU: "8"}})])
    assert own.end("three")["exitCode"] == 0
    assert own.kubectl("logs", "three") == "0,1,2,3,4,5,6,7\n"


LOGS = {
    "all": ((), "one\ntwo\nthree\nfour"),
    "the last lines": (("--tail=2",), "three\nfour"),
    "no lines": (("--tail=0",), ""),
    "more lines than there are": (("--tail=99",), "one\ntwo\nthree\nfour"),
    "the first bytes": (("--limit-bytes=5",), "one\nt"),
    "the first bytes of the last lines": (("--tail=2", "--limit-bytes=3"), "thr"),
    "followed to its end": (("-f",), "one\ntwo\nthree\nfour"),
}


def test_logs(own: Own) -> None:
    own.pod("printf 'one\\ntwo\\nthree\\nfour'")
    own.end()
    assert {name: own.kubectl("logs", "p", *words) for name, (words, _) in LOGS.items()} == {
        name: want for name, (_, want) in LOGS.items()
    }
    with pytest.raises(AssertionError, match="timestamps cannot be had"):
        own.kubectl("logs", "p", "--timestamps")


def test_a_log_is_followed_while_the_program_runs(own: Own, tmp_path: Path) -> None:
    own.pod(f"echo first; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo last")
    own.logged("first")
    plane = own.team.plane
    kubectl = [str(plane._programs / "kubectl"), f"--kubeconfig={plane.kubeconfig}", "-n", own.team.namespace]
    with subprocess.Popen([*kubectl, "logs", "-f", "p"], stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "first\n"
        (tmp_path / "go").touch()
        assert following.stdout.read() == "last\n"
    assert following.returncode == 0


def test_ends_are_told_to_an_api_server_that_was_away(own: Own, tmp_path: Path) -> None:
    own.pod(f"echo up; until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 4")
    own.logged("up")
    program = own.program()
    plane = own.team.plane
    plane.stop("kube-apiserver")
    try:
        (tmp_path / "go").touch()
        until(lambda: not is_running(program))
    finally:
        plane.start_api()
    assert own.end()["exitCode"] == 4
    assert own.nodes.ready() == sorted(node.name for node in own.nodes.nodes)


@pytest.mark.timeout(240)
def test_programs_run_on_when_their_kubelet_is_killed(own: Own, tmp_path: Path) -> None:
    def waits_for(word: str, code: int) -> str:
        return f"echo up; until [ -e {tmp_path}/{word} ]; do sleep 0.05; done; exit {code}"

    for name, code in (("a", 0), ("b", 7)):
        own.pod(waits_for(name, code), name)
        own.logged("up", name)
    program, before = own.program("a"), own.state("a")
    own.nodes.kill()
    try:
        # It ends while nobody looks.
        (tmp_path / "b").touch()
        until(lambda: not own.nodes.ready(), 120, 0.5)
        assert "running" in own.state("b"), "what was last said of it"
        assert is_running(program)
    finally:
        own.nodes.start()
    assert own.end("b")["exitCode"] == 7
    assert own.program("a") == program
    until(lambda: {one["type"]: one["status"] for one in own.get("a")["status"]["conditions"]}["Ready"] == "True")
    assert own.state("a") == before
    (tmp_path / "a").touch()
    assert own.end("a")["exitCode"] == 0
    assert own.log_file("a").read_text() == "up\n", "started once"


def test_nodes_are_as_they_are_declared(plane: ControlPlane, nodes: Machines, tmp_path: Path) -> None:
    spot = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
    declared = NodeSpec(
        "odd-1", gpus=4, product="NVIDIA-H100-80GB-HBM3", taints=[spot], extended={"rdma/hca": 8}, labels={"rack": "r1"}
    )
    with machines(plane, [declared], tmp_path / "odd") as odd:
        node = plane.get("node", "odd-1")
        assert node["spec"]["taints"] == [spot]
        assert {key: node["status"]["allocatable"][key] for key in (GPU, "rdma/hca")} == {GPU: "4", "rdma/hca": "8"}
        assert {"rack": "r1", f"{GPU}.product": "NVIDIA-H100-80GB-HBM3"}.items() <= node["metadata"]["labels"].items()
        assert odd.ready() == ["odd-1"]
    plane.kubectl("delete", "node", "odd-1")
    assert nodes.ready() == ["a100-1", "a100-2", "l4-1"]


def rendered(own: Own, file: str, changes: Mapping[str, Any], **said: Any) -> str:
    """Apply an example job as it is rendered for the example region; returns its attempt's name."""
    spec = reader.read_job((EXAMPLE / "jobs" / file).read_bytes(), file)
    where = reader.read_config(Region, REGION.read_bytes(), REGION.name)
    spec = spec.model_copy(update=dict(changes))
    one = rendering(spec, where, team=own.team.namespace, gpu_products=("A100-80GB",), stage_image=STAGE_IMAGE, **said)
    own.kubectl("apply", "-f", "-", stdin=render_job(one).decode())
    until(lambda: own.team.job(one.attempt).get("status", {}).get("conditions"))
    own.release(one.attempt)
    return one.attempt


def test_an_example_job_crashes_and_goes_on_from_its_checkpoint(own: Own, tmp_path: Path) -> None:
    changes = {"checkpoint_path": f"{tmp_path.as_uri()}/line-fit/"}
    first = rendered(own, "language/line-fit.yaml", changes)
    assert own.finished(first) == "Failed"
    (pod,) = own.pods_of(first)
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    kept = tmp_path / "line-fit/a1"
    assert sorted(mark.parent.name for mark in kept.glob("step-*/_COMPLETE")) == [f"step-{at}" for at in range(1, 6)]

    second = rendered(own, "language/line-fit.yaml", changes, number=2, seeded_from=f"{kept.as_uri()}/")
    assert own.finished(second) == "Complete"
    (pod,) = own.pods_of(second)
    assert [one["name"] for one in pod["status"]["initContainerStatuses"]] == ["seed-checkpoint"]
    assert "going on from step-5" in own.kubectl("logs", pod["metadata"]["name"], "-c", "main")
    assert (tmp_path / "line-fit/a2/step-12/_COMPLETE").exists()


def test_an_example_job_on_two_nodes_meets(own: Own) -> None:
    attempt = rendered(own, "language/all-reduce.yaml", {})
    assert own.finished(attempt) == "Complete"
    pods = {pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]: pod for pod in own.pods_of(attempt)}
    assert len({pod["spec"]["nodeName"] for pod in pods.values()}) == 2
    last = own.kubectl("logs", pods["1"]["metadata"]["name"], "--tail=1")
    assert last == "round 10: rank 1 heard 110\n"
