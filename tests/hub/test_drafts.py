"""What the renderer refuses is a region's no for that job: the job goes elsewhere, or is told why it can go nowhere."""

from pathlib import Path

import pytest

from reconciler.model.record import Phase
from tests.builders import TEAM
from tests.hub.rig import Rig, two_regions
from tests.hub.words import job_file, region_file

SHARED = [{"kind": "shared", "mount_path": "/shared"}]
CLAIM = "profile: {shared_claim: fast}\n"


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """eu is cheaper than us."""
    return two_regions(tmp_path)


def refusals(rig: Rig, job_id: str = "llm-a") -> dict[str, str]:
    return {region: why.text for region, why in rig.record(job_id).waits.items()}


def test_a_job_goes_where_its_manifest_can_be_made(rig: Rig) -> None:
    rig.put({"regions/us.yaml": region_file("us", 2.0, CLAIM)})
    rig.job("plain", gpus=1)
    rig.job(gpus=1, volumes=SHARED)
    rig.settle()
    assert (rig.attempt("plain").region, rig.attempt().region, rig.attempt().number) == ("eu", "us", 1)
    assert "shared_claim" in str(rig.placement()["decision"]["refused"]["eu"])


def test_a_job_that_no_region_can_make_is_told_why_and_holds_up_nobody(rig: Rig) -> None:
    rig.jobs("one", "two", gpus=1, volumes=SHARED)
    rig.job("plain", gpus=1)
    rig.settle()
    assert rig.record("plain").phase is Phase.STARTING
    for name in ("one", "two"):
        record = rig.record(name)
        assert (record.phase, record.attempts) == (Phase.IMPOSSIBLE, ())
        assert record.why is not None
        assert "the region has no shared file system" in record.why.text
        assert set(refusals(rig, name)) == {"eu", "us"}


def test_it_is_placed_once_a_region_is_mended_and_not_before(rig: Rig) -> None:
    rig.job(gpus=1, volumes=SHARED)
    rig.settle()
    rig.job("plain", gpus=1)
    rig.settle()
    assert rig.record().phase is Phase.IMPOSSIBLE
    rig.put({"regions/us.yaml": region_file("us", 2.0, CLAIM)})
    rig.settle()
    assert (rig.record().phase, rig.attempt().region) == (Phase.STARTING, "us")


def test_it_is_placed_once_the_job_is_mended(rig: Rig) -> None:
    rig.job(gpus=1, volumes=SHARED)
    rig.settle()
    rig.job(gpus=1)
    rig.settle()
    assert (rig.record().phase, rig.attempt().region) == (Phase.STARTING, "eu")


def test_a_broken_edit_of_a_job_that_cannot_be_made_ends_no_cycle(rig: Rig) -> None:
    rig.job(gpus=1, volumes=SHARED)
    rig.settle()
    rig.put({f"jobs/{TEAM}/llm-a.yaml": "job_id: [\n"})
    rig.settle()
    rig.restart()
    rig.settle()
    assert rig.record().phase is Phase.IMPOSSIBLE


def test_what_cannot_be_made_is_not_even_proposed(rig: Rig) -> None:
    rig.put({"policy.yaml": "approval: {always: true}\n", "regions/us.yaml": region_file("us", 2.0, CLAIM)})
    rig.job(gpus=1, volumes=SHARED)
    rig.settle()
    assert (rig.record().phase, rig.attempt().region, rig.attempt().number) == (Phase.PROPOSED, "us", 1)


def test_only_the_renderer_knows_this_rule_of_overlays(rig: Rig) -> None:
    """`volumes` is allowed, and a volume of the host's needs a line of its own."""
    allowed = "overlay_allowed: [volumes]\n"
    rig.put({"policy.yaml": f"limits: {{overlay_teams: [{TEAM}]}}\n"})
    rig.put({"regions/eu.yaml": region_file("eu", 1.0, allowed), "regions/us.yaml": region_file("us", 2.0, allowed)})
    overlay = {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]}
    rig.put({f"jobs/{TEAM}/llm-a.yaml": job_file(gpus=1, pod_overlay=overlay)})
    rig.settle()
    assert (rig.record().phase, rig.record().attempts) == (Phase.IMPOSSIBLE, ())
    assert "volumes.hostPath" in refusals(rig)["eu"]


CORPUS = "name: corpus\nuri: s3://data-us/corpus/\nsize_gb: 100\nreplicas: [{region: %s}%s]\n"
ON_VOLUME = ", {region: eu, uri: 'volume:///corpus/'}"


@pytest.mark.parametrize("use", [{"name": "corpus"}, {"name": "corpus", "mount_path": "/data"}], ids=["read", "mounted"])
def test_what_one_region_has_on_a_file_system_that_it_lacks_keeps_the_job_from_no_other(rig: Rig, use: dict[str, str]) -> None:
    rig.put({"datasets/corpus.yaml": CORPUS % ("us", ON_VOLUME)})
    rig.job(gpus=1, dataset=use)
    rig.settle()
    assert (rig.attempt().region, rig.attempt().dataset_uris) == ("us", ("s3://data-us/corpus/",))


def test_it_is_placed_once_the_dataset_is_mended(rig: Rig) -> None:
    rig.put({"datasets/corpus.yaml": (CORPUS % ("eu", "")).replace("{region: eu}", ON_VOLUME[2:])})
    rig.job(gpus=1, dataset={"name": "corpus"})
    rig.settle()
    assert rig.record().phase is Phase.IMPOSSIBLE
    rig.put({"datasets/corpus.yaml": CORPUS % ("eu", "")})
    rig.settle()
    assert (rig.attempt().region, rig.attempt().dataset_uris) == ("eu", ("s3://data-us/corpus/",))
