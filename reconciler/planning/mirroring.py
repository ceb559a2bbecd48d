"""Which image a region's mirror is to fetch before an attempt may run there, so that no GPU is held while it does. Pure.

One staging task for each region and digest, whoever waits for it; what becomes of it is for staging.py.

Decides when a job waits for one. Invariants: only for an image whose content and size are known, and of which the mirror is not
known to have nearly all. A pod can pull by itself, so an image that does not come keeps no job from starting: nobody waits for
what failed a short while ago, and no run waits in a region where one of its attempts has waited in vain.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from reconciler.model.image_ref import image_problem, parse_image
from reconciler.model.names import JobKey
from reconciler.model.quantity import whole
from reconciler.model.record import JobRecord, Phase
from reconciler.model.stage import IMAGE_SCHEME, StageTask
from reconciler.planning.image_facts import ImageFacts
from reconciler.planning.kept import kept_image, pinned_image
from reconciler.planning.lifecycle import new_run
from reconciler.planning.snapshot import RegionView, Snapshot
from reconciler.planning.stage_names import key_of
from reconciler.planning.staging import unbrought, was_let_go_for

BELIEVED: Final = timedelta(hours=24)
"""A mirror that has fetched an image is believed to have it for so long: it may drop what nobody asks it for."""


def image_task(
    record: JobRecord, view: RegionView, snapshot: Snapshot, tasks: Mapping[JobKey, JobRecord], now: datetime
) -> StageTask | None:
    """The task that a job waits for if it is placed in the region now; None where it need not wait for its image.

    `tasks`: at least those that the ledger has.
    """
    mirror = view.region.registry_mirror
    if record.stage is not None or mirror is None or image_problem(f"{mirror}/a/a") is not None or not view.has_workers:
        return None
    image, facts = _image_of(record, snapshot.images or {})
    if image is None or facts.size_bytes is None:
        return None
    missing = facts.size_bytes - facts.there.get(view.region.name, 0)
    if missing < whole(snapshot.policy.thresholds.stage_images_from):
        return None
    task = StageTask(
        kind="image",
        subject=image,
        region=view.region.name,
        source_uri=f"{IMAGE_SCHEME}{image}",
        target_uri=f"{IMAGE_SCHEME}{mirror}",
        size_bytes=facts.size_bytes,
    )
    before = tasks.get(key_of(task))
    if before is not None and (_is_there(before, task, now) or unbrought([before], now)):
        return None
    return None if _waited_in_vain(record, task) else task


def _image_of(record: JobRecord, images: Mapping[str, ImageFacts]) -> tuple[str | None, ImageFacts]:
    """The program's image by its digest alone, as its next attempt pulls it, and what is known of that very content."""
    facts = images.get(kept_image(record) or record.spec.image, ImageFacts())
    current = record.current
    pulled = current.image if current is not None else pinned_image(record, images)  # of a proposal as it was pinned then
    image = parse_image(pulled) if pulled is not None else None
    if image is None or image.digest != facts.digest:
        return None, facts
    return str(image._replace(tag=None)), facts


def _is_there(record: JobRecord, task: StageTask, now: datetime) -> bool:
    """Whether that very mirror has fetched it lately."""
    ended = record.last.ended_at if record.phase is Phase.SUCCEEDED and record.last is not None else None
    same = record.stage is not None and record.stage.target_uri == task.target_uri
    return same and ended is not None and now < ended + BELIEVED


def _waited_in_vain(record: JobRecord, task: StageTask) -> bool:
    """Whether an attempt of the run was let go there for that image. Of the task that it waited for nothing may be left."""
    return any(one.region == task.region and was_let_go_for(one, task.what) for one in record.this_run)


def once_more(record: JobRecord, task: StageTask, now: datetime) -> JobRecord:
    """The record of a task that has done its work, and is to do it again."""
    spec = record.spec.model_copy(update={"rerun": record.rerun + 1})
    return new_run(record.model_copy(update={"stage": task, "spec": spec}), now)
