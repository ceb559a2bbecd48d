"""What a job's images mean for its placement: whether they exist, whether they are still being looked up, how long they take.

Decides what a registry's word is worth in a region. One that is down has said nothing, so nothing follows from it; what it said
before stays. That our login may not pull an image says nothing of a region that has a login, or a mirror, of its own.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from reconciler.model.job import JobSpec
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.region import Region
from reconciler.planning.filters import Refusal
from reconciler.planning.image_facts import ImageFacts
from reconciler.planning.snapshot import JobView, Snapshot

HOLD_SECONDS: Final = 30.0
"""A job waits so long at most for the first answer of its images' registries."""


def images_of(spec: JobSpec, kept: str | None = None) -> tuple[str, ...]:
    """The images that its pods are made from. `kept`: the program's, as the run's first attempt had it."""
    first = kept or spec.image
    second = spec.prepare.image if spec.prepare is not None else None
    return (first,) if second is None or second == first else (first, second)


def unasked(job: JobView, snapshot: Snapshot, now: datetime) -> Reason | None:
    """Why the job waits a moment for what its images' names stand for; None where it need not, or has waited long enough."""
    if snapshot.images is None or not snapshot.asks_images:
        return None
    for image in images_of(job.spec, job.kept_image):
        facts = snapshot.images.get(image)
        if facts is None:  # seen for the first time in this pass: it is asked for after it
            return because(Why.IMAGE_UNASKED, image=image)
        if facts.wanted_since is not None and (now - facts.wanted_since).total_seconds() < HOLD_SECONDS:
            return because(Why.IMAGE_UNASKED, image=image)
    return None


def image_refusal(job: JobView, region: Region, snapshot: Snapshot) -> Refusal | None:
    """Why the region cannot pull the job's images; None where it can, or nobody knows."""
    for image in images_of(job.spec, job.kept_image) if snapshot.images else ():
        facts = snapshot.images.get(image) if snapshot.images else None
        if facts is None:
            continue
        if facts.missing:
            return Refusal(because(Why.IMAGE_MISSING, image=image, words=facts.missing), ever=True)
        if facts.forbidden and not _has_its_own_way(region):
            return Refusal(because(Why.IMAGE_FORBIDDEN, image=image, words=facts.forbidden), ever=True)
    return None


def _has_its_own_way(region: Region) -> bool:
    return region.registry_mirror is not None or bool(region.profile.image_pull_secrets)


def image_share(job: JobView, region: str, snapshot: Snapshot) -> float | None:
    """The share of the program's image that the region's mirror has; None where that is not known."""
    facts = (snapshot.images or {}).get(job.image)
    if facts is None or not facts.size_bytes or region not in facts.there:
        return None
    return min(1.0, facts.there[region] / facts.size_bytes)


def image_seconds(images: Mapping[str, ImageFacts] | None, regions: Mapping[str, Region]) -> Mapping[str, Mapping[str, float]]:
    """What fetching each image takes in each region: what its mirror is not known to have, at the rate that is declared for the
    mirror. Where a size or that rate is not known there is no figure."""
    found: dict[str, Mapping[str, float]] = {}
    for image, facts in (images or {}).items():
        size = facts.size_bytes
        if size is not None:
            found[image] = {
                name: max(0, size - facts.there.get(name, 0)) * 8 / (region.registry_mirror_gbit_per_second * 1e9)
                for name, region in regions.items()
                if region.registry_mirror_gbit_per_second
            }
    return found
