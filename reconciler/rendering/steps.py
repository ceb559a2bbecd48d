"""What runs in a pod before the program: bring datasets, seed the checkpoint, prepare.

Decides order and content of the init containers. They run one after the other and before the program, and ask for no
more than it does, so they cost nothing in the accounts. They come before every sidecar, whose requests would otherwise
be added to theirs.

Left to the worker behind `reconciler stage`: what a complete copy is. Of an indexed Job every pod runs the seeding step;
the worker of index 0 (JOB_COMPLETION_INDEX) copies, the others wait until it is complete.
"""

from typing import Any

from reconciler.model.image_ref import through_mirror
from reconciler.model.pods import MAIN, literal
from reconciler.model.region import Region, StoreAddress
from reconciler.rendering.environment import secret_variables
from reconciler.rendering.rendering import Rendering, canonical
from reconciler.rendering.volumes import brought_datasets, dataset_volume, is_of_the_program

SEED, PREPARE, FETCH = "seed-checkpoint", "prepare", "fetch-dataset"

ONLY_FIRST_NODE = '[ "$JOB_COMPLETION_INDEX" = 0 ] || exit 0; exec "$@"'
"""The shell's script around `prepare` on several nodes; the command comes as arguments, so nothing in it is quoted."""

_OF_THE_PROGRAM = ("workingDir", "env", "envFrom", "resources", "volumeMounts", "securityContext")

Container = dict[str, Any]


def is_step(name: str) -> bool:
    """Whether a container of that name is one of ours."""
    return name in {SEED, PREPARE} or name.startswith(FETCH + "-")


def steps(rendering: Rendering, main: Container) -> list[Container]:
    """The init containers, in order. `main` is the program's container as it will be."""
    return [*_fetching(rendering, main), *_seeding(rendering, main), *_preparing(rendering, main)]


def _staging(
    rendering: Rendering, main: Container, name: str, arguments: tuple[str, ...], store: StoreAddress | None
) -> Container:
    """`store`: whose address it needs; it is asked by what the job's secrets and the region's profile give it."""
    asked = main["resources"]
    image = rendering.region.profile.stage_image or rendering.stage_image
    elsewhere = [mount for mount in main.get("volumeMounts", ()) if not is_of_the_program(mount["name"])]
    return {
        "name": name,
        "image": through_mirror(image, rendering.region.registry_mirror),
        "command": ["reconciler", "stage", *map(literal, arguments)],
        "env": _opening(rendering, store),
        "resources": {kind: _without_devices(amounts) for kind, amounts in asked.items() if kind in {"requests", "limits"}},
        "volumeMounts": elsewhere,
    }


def _without_devices(amounts: dict[str, Any]) -> dict[str, Any]:
    return {name: amount for name, amount in amounts.items() if name in {"cpu", "memory", "ephemeral-storage"}}


def _opening(rendering: Rendering, store: StoreAddress | None) -> list[dict[str, Any]]:
    """What opens the store: its address, what the region gives to every program, the job's secrets; no more of the job's.

    What the region gives is meant for its own store, or for all: the address of another region's store goes before it.
    """
    address = {name: {"name": name, "value": literal(value)} for name, value in _address(store).items()}
    given: dict[str, dict[str, Any]] = {}
    for partial in rendering.regional_pods:
        for container in partial.get("containers", ()):
            if container.get("name", MAIN) == MAIN:
                given |= {variable["name"]: canonical(variable) for variable in container.get("env", ())}
    found = address | given if store == rendering.region.object_store else given | address
    return list((found | {variable["name"]: variable for variable in secret_variables(rendering)}).values())


def _address(store: StoreAddress | None) -> dict[str, str]:
    """Where a store answers; SDKs of S3 read these variables."""
    if store is None or not store.url.startswith("s3://"):
        return {}
    said = {"AWS_ENDPOINT_URL_S3": store.endpoint, "AWS_REGION": store.location}
    return {name: value for name, value in said.items() if value is not None}


def _own(region: Region, uri: str) -> StoreAddress | None:
    """The region's own store, if the URI is in its bucket."""
    store = region.object_store
    return store if store is not None and _bucket(uri) == _bucket(store.url) else None


def _bucket(uri: str) -> list[str]:
    return uri.split("/", 3)[:3]


def _fetching(rendering: Rendering, main: Container) -> list[Container]:
    found = []
    for index, path in brought_datasets(rendering):
        arguments = ("dataset", rendering.dataset_uris[index], f"file://{path}")
        step = _staging(rendering, main, f"{FETCH}-{index}", arguments, _own(rendering.region, arguments[1]))
        step["volumeMounts"].append({"name": dataset_volume(index), "mountPath": path})
        found.append(step)
    return found


def _seeding(rendering: Rendering, main: Container) -> list[Container]:
    if rendering.seeded_from is None or rendering.checkpoint is None:
        return []
    arguments = ("checkpoint", rendering.seeded_from, rendering.checkpoint)
    # A bucket of that name may be several regions': then the region's own is meant, as everywhere.
    store = _own(rendering.region, rendering.seeded_from) or _own(rendering.region, rendering.checkpoint)
    return [_staging(rendering, main, SEED, arguments, store or rendering.checkpoint_store)]


def _preparing(rendering: Rendering, main: Container) -> list[Container]:
    prepare = rendering.spec.prepare
    if prepare is None:
        return []
    command = list(prepare.command)
    if rendering.has_peers:
        command = ["/bin/sh", "-c", ONLY_FIRST_NODE, PREPARE, *command]
    image = main["image"] if prepare.image is None else through_mirror(prepare.image, rendering.region.registry_mirror)
    like_the_program = {field: main[field] for field in _OF_THE_PROGRAM if field in main}
    return [{"name": PREPARE, "image": image, "command": command, **like_the_program}]
