"""What `bootstrap` prints: whole, safe against every trap that doctor knows, and the same each time."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.model.region import LossTimes, Profile, StoreAddress
from reconciler.rendering.bootstrap import Bootstrap, Engine, EngineNames, agent_rights, bootstrap_files

NAMES: dict[Engine, EngineNames] = {"flux": EngineNames("flux-system", "jobs"), "argocd": EngineNames("argocd", "jobs")}


def wanted(engine: Engine = "flux", **changes: Any) -> Bootstrap:
    said: dict[str, Any] = {
        "region": "eu",
        "engine": engine,
        "engine_names": NAMES[engine],
        "repo": "https://git.example.com/ml/jobs.git",
        "store": StoreAddress(url="s3://bucket/hub", endpoint="https://s3.example.com", location="eu-1"),
        "image": "reg.example.com/reconciler:1.0",
        "teams": ("blue", "red"),
    }
    return Bootstrap(**{**said, **changes})


DEPLOYED = Path(__file__).parents[2] / "deploy" / "agent" / "deployment.yaml"


def deployed() -> str:
    """What deploy/agent has: the Deployment of a region that has to be filled in."""
    blank = wanted(region="my-region", store=StoreAddress(url="s3://my-bucket/hub"), image="reconciler")
    deployment = bootstrap_files(blank)["2-agent.yaml"].removeprefix(f"{agent_rights()}---\n")
    return f"# Region, engine and store are to be set: see kustomization.yaml.\n{deployment}"


def text_of(bootstrap: Bootstrap) -> str:
    return "---\n".join(bootstrap_files(bootstrap).values())


def objects(bootstrap: Bootstrap) -> dict[tuple[str, str, str], dict[str, Any]]:
    """All objects by kind, namespace and name."""
    found = [one for one in yaml.safe_load_all(text_of(bootstrap)) if one]
    keys = [(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in found]
    assert len(keys) == len(set(keys)), "each object stands there once"
    return dict(zip(keys, found, strict=True))


@pytest.mark.parametrize("engine", ["flux", "argocd"])
def test_the_same_region_gives_the_same_text(engine: Engine) -> None:
    assert text_of(wanted(engine)) == text_of(wanted(engine))


@pytest.mark.parametrize("engine", ["flux", "argocd"])
def test_namespaces_come_first_and_no_secret_is_written(engine: Engine) -> None:
    found = list(objects(wanted(engine)))
    assert found[:2] == [("Namespace", "", "blue"), ("Namespace", "", "red")]
    assert not [kind for kind, _, _ in found if kind == "Secret"]


@pytest.mark.parametrize("engine", ["flux", "argocd"])
def test_the_agents_rights_are_the_ones_that_are_deployed(engine: Engine) -> None:
    assert agent_rights() in text_of(wanted(engine))


def test_the_agent_is_told_where_it_is_and_keeps_no_right_that_it_does_not_need() -> None:
    pod = objects(wanted())["Deployment", "gpu-reconciler", "agent"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    asked = ["agent", "eu", "--engine", "flux", "--store", "s3://bucket/hub", "--listen", "0.0.0.0:8080"]
    assert container["args"] == [*asked, "--self-fence", "240", "--fence-kill", "30"]
    variables = {one["name"]: one["value"] for one in container["env"]}
    assert variables["RECONCILER_STORE_ENDPOINT"] == "https://s3.example.com"
    assert variables["AWS_DEFAULT_REGION"] == "eu-1"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert "cpu" not in container["resources"]["limits"], "throttling would delay the renewals of the lease"


def test_the_agent_is_told_the_regions_times() -> None:
    found = objects(wanted(loss=LossTimes(self_fence_seconds=60, fence_kill_seconds=5, grace_seconds=60), deadman=True))
    (container,) = found["Deployment", "gpu-reconciler", "agent"]["spec"]["template"]["spec"]["containers"]
    assert container["args"][-5:] == ["--self-fence", "60", "--fence-kill", "5", "--deadman"]


REPORTS = {
    5: ["--report", "1.6"],
    10: ["--report", "3.3"],
    29: ["--report", "9.6"],
    30: ["--fence-kill", "30"],
    90: ["--fence-kill", "30"],
}


@pytest.mark.parametrize(("unknown", "want"), REPORTS.items())
def test_the_agent_reports_so_often_that_three_are_missing_before_its_region_is_unknown(unknown: int, want: list[str]) -> None:
    found = objects(wanted(loss=LossTimes(unknown_seconds=unknown)))
    (container,) = found["Deployment", "gpu-reconciler", "agent"]["spec"]["template"]["spec"]["containers"]
    assert container["args"][-2:] == want


def test_flux_creates_once_prunes_and_never_kills() -> None:
    found = objects(wanted())
    spec = found["Kustomization", "flux-system", "jobs"]["spec"]
    said = {name: spec[name] for name in ("prune", "wait", "force", "deletionPolicy", "path", "serviceAccountName")}
    assert said == {
        "prune": True,
        "wait": False,
        "force": False,
        "deletionPolicy": "Orphan",
        "path": "./manifests",
        "serviceAccountName": "gpu-reconciler-applier",
    }
    assert not {"postBuild", "healthChecks", "patches", "targetNamespace"} & spec.keys()
    assert found["GitRepository", "flux-system", "jobs"]["spec"]["ref"] == {"branch": "region/eu"}


def test_flux_may_write_jobs_to_teams_and_the_sentinel_to_the_agents_namespace() -> None:
    found = objects(wanted())
    for team in ("blue", "red"):
        rules = found["Role", team, "gpu-reconciler-applier"]["rules"]
        assert [rule["resources"] for rule in rules] == [["jobs"], ["services", "configmaps"]]
    (only,) = found["Role", "gpu-reconciler", "gpu-reconciler-applier"]["rules"]
    assert only["resourceNames"] == ["sentinel-eu"]
    assert only["resources"] == ["configmaps"]


def test_argo_cd_leaves_jobs_alone_and_waits_for_none() -> None:
    found = objects(wanted("argocd"))
    application = found["Application", "argocd", "jobs"]
    spec = application["spec"]
    assert "finalizers" not in application["metadata"]
    assert spec["ignoreDifferences"] == [{"group": "batch", "kind": "Job", "jsonPointers": ["/spec"]}]
    assert spec["syncPolicy"]["automated"] == {"prune": True, "selfHeal": False, "allowEmpty": False}
    assert spec["syncPolicy"]["retry"] == {
        "limit": -1,
        "refresh": True,
        "backoff": {"duration": "5s", "factor": 1, "maxDuration": "5s"},
    }
    project = found["AppProject", "argocd", "jobs"]["spec"]
    allowed = {one["namespace"] for one in project["destinations"]}
    assert spec["destination"]["namespace"] in allowed
    assert allowed == {"gpu-reconciler", "blue", "red"}
    assert project["sourceRepos"] == [spec["source"]["repoURL"]]


def test_what_a_region_spells_in_its_own_way_is_told_to_the_agent() -> None:
    profile = Profile(gpu_resource="amd.com/gpu", gpu_label="amd.com/gpu.product-name")
    pod = objects(wanted(profile=profile))["Deployment", "gpu-reconciler", "agent"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["args"][-4:] == ["--gpu-resource", "amd.com/gpu", "--gpu-label", "amd.com/gpu.product-name"]


def test_gangs_of_volcano_may_be_applied() -> None:
    profile = Profile(gang="volcano")
    rules = objects(wanted(profile=profile))["Role", "red", "gpu-reconciler-applier"]["rules"]
    assert rules[-1]["resources"] == ["podgroups"]
    found = objects(wanted("argocd", profile=profile))
    assert {"group": "scheduling.volcano.sh", "kind": "PodGroup"} in found["AppProject", "argocd", "jobs"]["spec"][
        "namespaceResourceWhitelist"
    ]
    assert len(found["Application", "argocd", "jobs"]["spec"]["ignoreDifferences"]) == 2


def test_a_public_repository_needs_no_secret() -> None:
    assert "secretRef" in objects(wanted())["GitRepository", "flux-system", "jobs"]["spec"]
    assert "secretRef" not in objects(wanted(private=False))["GitRepository", "flux-system", "jobs"]["spec"]


def test_a_receiver_is_there_where_it_is_asked_for() -> None:
    key = ("Receiver", "flux-system", "jobs")
    assert key not in objects(wanted())
    assert objects(wanted(receiver=True))[key]["spec"]["type"] == "generic-hmac"


def test_no_text_of_a_persons_becomes_structure() -> None:
    hostile = 'https://git.example.com/x"}\n---\nkind: Secret #'
    found = objects(wanted(repo=hostile, image='a"\n- b'))
    assert found["GitRepository", "flux-system", "jobs"]["spec"]["url"] == hostile


def test_the_deployment_that_stands_in_deploy_is_the_one_that_is_printed() -> None:
    """Written anew by: python -m tests.rendering.test_bootstrap"""
    assert DEPLOYED.read_text(encoding="utf-8") == deployed()


def test_files_are_in_the_order_in_which_they_are_to_be_applied() -> None:
    assert list(bootstrap_files(wanted())) == ["1-namespaces.yaml", "2-agent.yaml", "3-flux.yaml"]
    assert list(bootstrap_files(wanted("argocd")))[-1] == "3-argocd.yaml"


if __name__ == "__main__":
    DEPLOYED.write_text(deployed(), encoding="utf-8")


def test_job_sets_may_be_applied_where_the_region_has_them() -> None:
    rules = objects(wanted(workloads=("job", "jobset")))["Role", "red", "gpu-reconciler-applier"]["rules"]
    assert ["jobsets"] in [rule["resources"] for rule in rules]
    found = objects(wanted("argocd", workloads=("job", "jobset")))
    kind = {"group": "jobset.x-k8s.io", "kind": "JobSet"}
    assert kind in found["AppProject", "argocd", "jobs"]["spec"]["namespaceResourceWhitelist"]
    assert {**kind, "jsonPointers": ["/spec"]} in found["Application", "argocd", "jobs"]["spec"]["ignoreDifferences"]
    assert "jobset" not in bootstrap_files(wanted())["3-flux.yaml"] + bootstrap_files(wanted("argocd"))["3-argocd.yaml"]
