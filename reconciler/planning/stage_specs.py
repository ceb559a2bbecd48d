"""What a staging task runs: the worker's command, what opens the stores, and where. Pure.

Invariant: the spec of a task depends on nothing but the task, the declared stores, its priority and the worker's image.
"""

from collections.abc import Mapping

from reconciler.model.identity import run_hash
from reconciler.model.job import JobSpec
from reconciler.model.job_parts import Gpu, Resources, SecretUse
from reconciler.model.names import LABEL_STAGE, PACE_FILE, PACE_FOLDER, STAGING_TEAM
from reconciler.model.pods import literal
from reconciler.model.record import Source
from reconciler.model.region import StoreAddress
from reconciler.model.stage import IMAGE_SCHEME, StageTask
from reconciler.planning.lifecycle import Wanted
from reconciler.planning.stage_names import key_of

RETRIES = 3
"""Failures of a worker that a run of a task survives; each goes on where the one before was."""
_PACED = ("--rate", "0", "--rate-file", f"{PACE_FOLDER}/{PACE_FILE}")
"""Nothing is copied before the agent has said how quickly."""


def spec_of(task: StageTask, stores: Mapping[str, StoreAddress], priority: int, image: str) -> JobSpec:
    """The task's job. `stores`: the regions' own; `priority`: of the most urgent job that waits for it."""
    source, target = stores.get(task.source_region), stores.get(task.region)
    command: tuple[str, ...]
    at_source = "SOURCE_"
    if task.kind == "evict":
        source, command = None, ("reconciler", "stage", "evict", literal(task.target_uri))
        does = f"Removes {task.subject} from {task.region}."
    elif task.kind == "image":  # no link is held for it, so it has no pace; what opens the mirror is the region's to say
        source = target = None
        image_ref, mirror = (uri.removeprefix(IMAGE_SCHEME) for uri in (task.source_uri, task.target_uri))
        command = ("reconciler", "stage", "image", literal(image_ref), "--mirror", literal(mirror))
        does = f"Has the mirror of {task.region} fetch {task.what}."
    elif task.kind == "checkpoint":  # inside one store, so it has no pace
        target, at_source = None, ""
        command = ("reconciler", "stage", "checkpoint", literal(task.source_uri), literal(task.target_uri))
        does = f"Copies {task.what}, in the store of {task.region}."
    else:
        command = ("reconciler", "stage", task.kind, literal(task.source_uri), literal(task.target_uri), *_PACED)
        does = f"Brings {task.subject} from {task.source_region} to {task.region}."
    return JobSpec(
        job_id=key_of(task).job_id,
        task_type="staging",
        communication_mode="none",
        gpu=Gpu(count=0),
        resources=Resources(cpu="1", memory="2Gi"),
        image=image,
        command=command,
        env=_address(at_source, source) | _address("TARGET_", target),
        secrets=(*_secrets(at_source, source), *_secrets("TARGET_", target)),
        allowed_regions=(task.region,),
        priority=priority,
        retries=RETRIES,
        labels={LABEL_STAGE: task.kind},
        description=does,
    )


def _address(prefix: str, store: StoreAddress | None) -> dict[str, str]:
    if store is None:
        return {}
    said = {f"{prefix}AWS_ENDPOINT_URL_S3": store.endpoint, f"{prefix}AWS_REGION": store.location}
    return {name: value for name, value in said.items() if value is not None}


def _secrets(prefix: str, store: StoreAddress | None) -> tuple[SecretUse, ...]:
    if store is None or store.secret is None:
        return ()
    keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    return tuple(SecretUse(name=store.secret, key=key, env=prefix + key) for key in keys)


def wanted_task(task: StageTask, stores: Mapping[str, StoreAddress], priority: int, image: str) -> Wanted:
    """A task that is new, as `admit` takes it."""
    return wanted_of(spec_of(task, stores, priority, image))


def wanted_of(spec: JobSpec) -> Wanted:
    """A task's spec, as `advance` and `admit` take it."""
    hashed = run_hash(STAGING_TEAM, spec)
    return Wanted(spec, Source(path="", blob=hashed), hashed)
