"""What Flux and Argo CD do to jobs that our agent releases: each is made once, let alone, pruned, and never runs twice.

The cases T1 to T10 that were once tried by hand on both engines, now with hub and agent deciding.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from reconciler.model.record import JobRecord, Phase
from tests.e2e.fleet.up import Fleet, RegionUp
from tests.e2e.person import LASTS, SLOW_TO_STOP, job_text
from tests.waiting import until

TEAM = "language"
REGIONS = {"Flux": "eu-west", "Argo CD": "ap-south"}
ENDED = (Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED)


class Site:
    """One region of the fleet, and what a person does there."""

    def __init__(self, fleet: Fleet, region: RegionUp, test: str) -> None:
        self.fleet, self.region = fleet, region
        self._test = test
        self._engine = region.engine

    def name(self, job: str) -> str:
        """A job's id that no other test has."""
        return f"{self._test}-{self._engine}-{job}"

    def path(self, job: str) -> str:
        """Its file."""
        return f"jobs/{TEAM}/{self.name(job)}.yaml"

    def text(self, job: str, script: str, **fields: Any) -> str:
        """Its file's text: it may run in this region only."""
        return job_text(self.name(job), script, allowed_regions=[self.region.name], **fields)

    def push(self, **scripts: str) -> None:
        """Push jobs: id → program."""
        self.fleet.person.push({self.path(job): self.text(job, script) for job, script in scripts.items()})

    def cancel(self, *jobs: str) -> None:
        """Remove their files."""
        self.fleet.person.push({self.path(job): None for job in jobs})

    def until_phase(self, job: str, *phases: Phase, within_seconds: float = 90.0) -> JobRecord:
        """Wait for a job."""
        return self.fleet.person.until_phase(TEAM, self.name(job), *phases, within_seconds=within_seconds)

    def running(self, job: str) -> str:
        """Wait until it runs; its attempt."""
        record = self.until_phase(job, Phase.RUNNING)
        assert record.last is not None
        return record.last.name

    def object(self, attempt: str) -> dict[str, Any] | None:
        """The attempt's Job."""
        return self.region.job(TEAM, attempt)

    def pods(self, attempt: str) -> list[str]:
        """Uids of the attempt's pods."""
        return sorted(pod["metadata"]["uid"] for pod in self.region.pods(TEAM, attempt))

    def until_gone(self, attempt: str) -> None:
        """Wait until Job and pods are away."""
        until(lambda: self.object(attempt) is None and not self.pods(attempt), 60.0, 0.2)

    def runs(self, job: str) -> list[str]:
        """The attempts whose pods ran, one for each pod."""
        return [run.attempt for run in self.fleet.witness.of(self.name(job))]

    def delete(self, attempt: str) -> None:
        """As somebody does who wants to be rid of it."""
        self.region.kubectl("delete", "job", attempt, "-n", TEAM, "--wait=false")

    def until_made_again(self, attempt: str, uid: str) -> dict[str, Any]:
        """Let the engine look until the Job is there under another uid."""

        def found() -> dict[str, Any] | None:
            self.region.reconcile()
            job = self.object(attempt)
            return job if job is not None and job["metadata"]["uid"] != uid else None

        return until(found, 60.0, 1.0)


@pytest.fixture(params=REGIONS.values(), ids=REGIONS.keys())
def site(fleet: Fleet, request: pytest.FixtureRequest) -> Site:
    """One region of each engine."""
    test = request.node.originalname.removeprefix("test_")[:3].strip("_").replace("_", "")
    return Site(fleet, fleet.regions[request.param], test)


@pytest.fixture
def quiet_hub(fleet: Fleet) -> Iterator[Callable[[], None]]:
    """Stops the hub's time when called; it goes on afterwards at the latest."""
    frozen = []

    def freeze() -> None:
        fleet.hub.freeze(on=True)
        frozen.append(True)

    yield freeze
    if frozen:
        fleet.hub.freeze(on=False)


def essence(job: dict[str, Any] | None) -> tuple[Any, ...]:
    """What of a Job an engine could change."""
    assert job is not None
    metadata = job["metadata"]
    return metadata["uid"], metadata["generation"], metadata["labels"], metadata["annotations"], job["spec"]


def test_t1_created_once_and_never_touched_again(site: Site) -> None:
    site.push(long=LASTS.format(seconds=25))
    attempt = site.running("long")
    before, pods = essence(site.object(attempt)), site.pods(attempt)
    site.push(one=LASTS.format(seconds=1))
    site.push(two=LASTS.format(seconds=1))
    site.region.reconcile()
    for job in ("one", "two"):
        site.until_phase(job, Phase.SUCCEEDED)
    assert essence(site.object(attempt)) == before
    assert site.pods(attempt) == pods
    site.until_phase("long", Phase.SUCCEEDED)
    assert site.runs("long") == [attempt]


def test_t2_what_the_agent_writes_stays(site: Site) -> None:
    site.fleet.person.push({site.path("job"): site.text("job", LASTS.format(seconds=20), max_runtime_seconds=500)})
    attempt = site.running("job")
    released = site.object(attempt)
    assert released is not None
    assert (released["spec"]["suspend"], 400 < released["spec"]["activeDeadlineSeconds"] <= 500) == (False, True)
    site.region.reconcile()
    site.push(other=LASTS.format(seconds=1))
    site.until_phase("other", Phase.SUCCEEDED)
    assert essence(site.object(attempt)) == essence(released)


def test_t3_a_cancelled_job_is_pruned_with_all_that_is_its_own(site: Site) -> None:
    files = [{"path": "/job/a.txt", "content": "hello"}]
    site.fleet.person.push({site.path("job"): site.text("job", LASTS.format(seconds=300), files=files, nodes=1)})
    attempt = site.running("job")
    assert len([each for each in site.region.ours("jobs,configmaps") if each.endswith(attempt)]) == 2
    site.cancel("job")
    site.until_phase("job", Phase.CANCELLED)
    site.until_gone(attempt)
    until(lambda: not [each for each in site.region.ours("jobs,configmaps") if each.endswith(attempt)], 30.0, 0.2)
    assert site.runs("job") == [attempt]


def test_t4_one_bad_file_among_nine_good_ones_holds_nobody_up(site: Site) -> None:
    bad = site.name("bad")
    rule = f"!has(object.metadata.annotations) || object.metadata.annotations['gpu-reconciler.dev/job-id'] != '{bad}'"
    site.region.kubectl("apply", "-f", "-", stdin=_policy(f"no-{bad}", rule, "not this one"))
    good = [f"good{number}" for number in range(9)]
    site.fleet.person.push(
        {
            site.path(job): site.text(job, LASTS.format(seconds=1), gpu={"count": 0}, resources={"cpu": "1"})
            for job in [*good, "bad"]
        }
    )
    refused = site.until_phase("bad", Phase.IMPOSSIBLE)  # no other region is allowed
    assert (len(refused.attempts), "not this one" in (refused.why.text if refused.why else "")) == (1, True)
    for job in good:
        site.until_phase(job, Phase.SUCCEEDED)
    assert site.runs("bad") == []
    site.region.kubectl("delete", "validatingadmissionpolicybindings,validatingadmissionpolicies", f"no-{bad}")


def _policy(name: str, rule: str, words: str) -> str:
    return f"""\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: {name}}}
spec:
  matchConstraints:
    resourceRules: [{{apiGroups: [batch], apiVersions: [v1], operations: [CREATE], resources: [jobs]}}]
  validations: [{{expression: "{rule}", message: "{words}"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: {name}}}
spec: {{policyName: {name}, validationActions: [Deny]}}
"""


def test_t5_the_last_job_of_a_region_is_pruned_and_the_sentinel_stays(site: Site) -> None:
    until(lambda: site.fleet.person.manifests(site.region.name) == [], 60.0, 0.5)
    site.push(last=LASTS.format(seconds=300))
    attempt = site.running("last")
    assert site.fleet.person.manifests(site.region.name) == [attempt]
    site.cancel("last")
    site.until_phase("last", Phase.CANCELLED)
    site.until_gone(attempt)
    assert site.fleet.person.manifests(site.region.name) == []
    sentinel = site.region.kubectl("get", "configmaps", "-n", "gpu-reconciler", "-o", "name")
    assert "sentinel" in sentinel


def test_t6_a_long_job_and_a_slow_end_delay_no_other(site: Site) -> None:
    slow = SLOW_TO_STOP.format(stop=15, seconds=300)
    site.fleet.person.push({site.path("slow"): site.text("slow", slow, grace_seconds=60)})
    slowest = site.running("slow")
    site.cancel("slow")
    until(lambda: any(pod["metadata"].get("deletionTimestamp") for pod in site.region.pods(TEAM, slowest)), 30.0, 0.1)
    site.push(next=LASTS.format(seconds=1))
    site.until_phase("next", Phase.SUCCEEDED)
    site.until_phase("slow", Phase.CANCELLED)
    (ended,), (begun,) = site.fleet.witness.of(site.name("slow")), site.fleet.witness.of(site.name("next"))
    assert ended.ended is not None
    assert begun.began < ended.ended  # it ran while the other still took its time to stop


def test_t8_without_the_engines_object_jobs_run_on_and_it_takes_them_over_again(site: Site) -> None:
    site.push(job=LASTS.format(seconds=30))
    attempt = site.running("job")
    before, pods = essence(site.object(attempt)), site.pods(attempt)
    with site.region.without_engine_object():
        assert (essence(site.object(attempt)), site.pods(attempt)) == (before, pods)
    site.region.reconcile()
    site.push(after=LASTS.format(seconds=1))
    site.until_phase("after", Phase.SUCCEEDED)
    assert site.pods(attempt) == pods
    site.until_phase("job", Phase.SUCCEEDED)
    site.until_gone(attempt)
    assert site.runs("job") == [attempt]


def test_t8b_what_an_engine_has_forgotten_is_deleted_at_the_hubs_word(site: Site) -> None:
    site.push(job=LASTS.format(seconds=300))
    attempt = site.running("job")
    with site.region.without_engine_object():
        site.cancel("job")
        site.until_phase("job", Phase.CANCELLED)
        until(lambda: site.fleet.person.manifests(site.region.name) == [], 60.0, 0.5)
        assert site.object(attempt) is not None
    site.until_gone(attempt)
    assert site.runs("job") == [attempt]


def test_t9_a_running_job_deleted_by_hand_goes_on_as_another_attempt_and_not_as_the_same(site: Site) -> None:
    slow = SLOW_TO_STOP.format(stop=3, seconds=12)
    site.fleet.person.push({site.path("job"): site.text("job", slow, grace_seconds=30)})
    attempt = site.running("job")
    before = site.object(attempt)
    assert before is not None
    site.delete(attempt)
    site.region.reconcile()
    record = site.until_phase("job", *ENDED, within_seconds=150.0)
    assert record.phase is Phase.SUCCEEDED
    assert record.attempts[0].name == attempt
    assert site.runs("job") == [each.name for each in record.attempts]


def test_t9b_a_finished_job_deleted_by_hand_comes_back_suspended_and_does_not_run(
    site: Site, quiet_hub: Callable[[], None]
) -> None:
    site.push(job=LASTS.format(seconds=4))
    attempt = site.running("job")
    quiet_hub()  # so that its manifest stays on the branch
    until(lambda: (site.object(attempt) or {}).get("status", {}).get("succeeded"), 60.0, 0.2)
    before = site.object(attempt)
    assert before is not None
    site.delete(attempt)
    until(lambda: site.object(attempt) is None or site.object(attempt)["metadata"]["uid"] != before["metadata"]["uid"], 30.0, 0.1)
    if site.region.engine == "argocd":  # without self-heal it comes back with the next commit only
        site.fleet.touch_branch(site.region.name)
    again = site.until_made_again(attempt, before["metadata"]["uid"])
    assert again["spec"]["suspend"] is True
    site.fleet.hub.freeze(on=False)
    site.until_phase("job", Phase.SUCCEEDED)
    site.until_gone(attempt)
    assert site.runs("job") == [attempt]


def test_t10_an_old_branch_put_back_starts_nothing(site: Site, quiet_hub: Callable[[], None]) -> None:
    site.push(job=LASTS.format(seconds=3))
    attempt = site.running("job")
    old = site.fleet.person.fetched(f"region/{site.region.name}")
    site.until_phase("job", Phase.SUCCEEDED)
    site.until_gone(attempt)
    quiet_hub()
    site.fleet.person.git("push", "--quiet", "--force", "origin", f"{old}:refs/heads/region/{site.region.name}")
    again = site.until_made_again(attempt, "")
    assert (again["spec"]["suspend"], site.pods(attempt)) == (True, [])
    site.fleet.hub.freeze(on=False)
    site.until_gone(attempt)
    assert site.fleet.person.manifests(site.region.name) == []
    assert site.runs("job") == [attempt]
