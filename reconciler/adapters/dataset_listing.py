"""How large a dataset is: the objects below one prefix of a store, counted.

Decides which objects belong to a dataset; what the figures mean (complete, missing, changed) is for the caller. A
dataset is a folder, never a bare prefix: `ds/imagenet` has nothing of `ds/imagenet-21k/`.
"""

from reconciler.ports import ObjectStore


def measure(store: ObjectStore, prefix: str) -> tuple[int, int]:
    """The number of objects below the folder `prefix` (with or without its last `/`; '' is all) and their bytes.

    The empty objects that some tools put in the place of folders (`prefix/`, `prefix/part/`) are not counted. An
    object whose key is `prefix` itself is not below it: the answer is then (0, 0). Raises Transient or Refused.
    """
    folder = prefix.rstrip("/")
    objects = size = 0
    for listed in store.list(f"{folder}/" if folder else ""):
        if listed.size or not listed.key.endswith("/"):
            objects += 1
            size += listed.size
    return objects, size
