"""Files of a region's branch that belong to no attempt."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import kubernetes_validate
import pytest
import yaml

from reconciler.rendering.branch import METADATA_PATH, SENTINEL_NAMESPACE, hydrator_metadata, region_readme, sentinel
from reconciler.rendering.manifest import problems

WHEN = datetime(2026, 5, 1, 14, 0, tzinfo=timezone(timedelta(hours=2)))
SAID: dict[str, Any] = {
    "repo_url": "https://git.example.com/ml/jobs.git",
    "author": "José <jose@example.com>",
    "date": WHEN,
    "subject": 'say "hi"',
}


@pytest.mark.parametrize("region", ["eu", "no", "0", "r" * 63])
def test_the_sentinel_is_one_object_that_names_its_region(region: str) -> None:
    parsed = yaml.safe_load(sentinel(region))
    assert parsed["data"] == {"region": region}
    assert parsed["metadata"]["namespace"] == SENTINEL_NAMESPACE
    assert kubernetes_validate.validate(parsed, "1.36", strict=True)
    assert problems(sentinel(region)) == []


def test_two_regions_on_one_cluster_have_two_sentinels() -> None:
    assert yaml.safe_load(sentinel("eu"))["metadata"]["name"] != yaml.safe_load(sentinel("us"))["metadata"]["name"]


def test_the_hydrators_metadata() -> None:
    written = hydrator_metadata("a" * 40, **SAID, body="line\nline\n")
    assert json.loads(written) == {
        "repoURL": "https://git.example.com/ml/jobs.git",
        "drySha": "a" * 40,
        "author": "José <jose@example.com>",
        "date": "2026-05-01T12:00:00Z",
        "subject": 'say "hi"',
        "body": "line\nline\n",
    }
    assert "body" not in json.loads(hydrator_metadata("a" * 40, **SAID))
    assert not METADATA_PATH.endswith((".yaml", ".yml", ".json"))


def test_a_subject_that_is_no_unicode_is_no_error() -> None:
    assert json.loads(hydrator_metadata("a" * 40, **{**SAID, "subject": b"caf\xe9".decode("utf-8", "surrogateescape")}))[
        "subject"
    ]


def test_a_date_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        hydrator_metadata("a" * 40, **{**SAID, "date": datetime(2026, 5, 1, tzinfo=UTC).replace(tzinfo=None)})


def test_the_read_me_says_what_the_branch_is_and_stays_the_same() -> None:
    text = region_readme("eu-west").decode()
    assert text.startswith('# What runs in "eu-west"\n')
    assert "Do not edit" in text
    assert region_readme("eu-west") == region_readme("eu-west")
