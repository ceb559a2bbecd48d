"""Files of a region's branch that belong to no attempt: the sentinel, the read-me, the hydrator's metadata."""

import json
from datetime import UTC, datetime

from reconciler.model import names
from reconciler.rendering import templates

SENTINEL_NAMESPACE = "gpu-reconciler"
SENTINEL_PATH = "manifests/_sentinel.yaml"
README_PATH = "README.md"
METADATA_PATH = "hydrator.metadata"
"""Without a suffix that Argo CD would read as a manifest."""


def sentinel_name(region: str) -> str:
    """Name of a region's sentinel, so that two regions may share a cluster."""
    return f"sentinel-{region}"


def sentinel(region: str) -> bytes:
    """manifests/_sentinel.yaml: the object that keeps the folder from ever being empty."""
    values = {
        "name": sentinel_name(region),
        "namespace": SENTINEL_NAMESPACE,
        "labels": {names.LABEL_MANAGED: names.MANAGED_BY},
        "region": region,
    }
    return templates.fill(templates.SENTINEL, values).encode()


def region_readme(region: str) -> bytes:
    """README.md of a region's branch, for who comes upon it. It never changes, so it is written once."""
    return templates.fill(templates.README, {"region": region}).encode()


def hydrator_metadata(dry_sha: str, *, repo_url: str, author: str, date: datetime, subject: str, body: str = "") -> bytes:
    """hydrator.metadata, as Argo CD's source hydrator writes it and gitops-promoter reads it.

    `author` as in Git (`Name <address>`), `date` (aware) and `subject` of the commit of main; an empty `body` is left out,
    as they do. Text that is not Unicode comes out as replacement characters on their side, never as an error here.
    """
    if date.tzinfo is None:
        raise ValueError("a date without a time zone is no point in time")
    said = {
        "repoURL": repo_url,
        "drySha": dry_sha,
        "author": author,
        "date": date.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "subject": subject,
        "body": body,
    }
    return (json.dumps({key: value for key, value in said.items() if value}, indent=2) + "\n").encode()
