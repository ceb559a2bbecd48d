"""What the first attempt of a run settles and its later attempts keep: which version of each registered dataset they read, and
which content their image's tag stood for.

A spec may leave the version to the registry (datasets/<name>.yaml). That file may change between two attempts; the second would
then go on, from the first one's checkpoint, with other data. So each attempt's record says how its datasets were declared, and
what the first one that was let run had is handed on from attempt to attempt; `rerun` takes it anew. The code and the outputs need
no such care: they stand in the spec, and a spec that says otherwise is a person's word.

Decides which declaration counts. Invariants: the registry's is taken as long as its version is the same, so that new copies are
used and addresses can be mended; a version that the spec itself names goes before what was kept; tags of residency are never
fewer than the registry has now.

Limit: a version that was overwritten in place, under its old address, is gone, and nothing here can tell.
"""

from collections.abc import Iterable, Mapping, Sequence

from reconciler.model.attempt import Attempt, Inputs, own_prefix
from reconciler.model.fleet import Dataset
from reconciler.model.image_ref import image_problem, parse_image, pinned_to, without_digest
from reconciler.model.job_parts import DatasetUse
from reconciler.model.record import JobRecord
from reconciler.planning.image_facts import ImageFacts

Addresses = Mapping[str, Dataset]
"""Where registered datasets have copies → the dataset."""


def kept_inputs(record: JobRecord) -> Inputs | None:
    """What the present run's newest attempt that was let run is made from, and so its first; None while there is none."""
    ran = (attempt.inputs for attempt in reversed(record.this_run) if attempt.granted_at is not None)
    return next((inputs for inputs in ran if inputs is not None), None)


def kept_datasets(record: JobRecord) -> tuple[Dataset, ...]:
    """The registered datasets of the present run, as its attempts read them."""
    inputs = kept_inputs(record)
    return inputs.datasets if inputs is not None else ()


def kept_image(record: JobRecord) -> str | None:
    """The image of the present run's attempts with its digest; None while none has run, none was looked up, or the spec has come
    to name another."""
    found = next((attempt.image for attempt in reversed(record.this_run) if attempt.granted_at is not None), None)
    if found is None or image_problem(record.spec.image) is not None:
        return None
    named = parse_image(record.spec.image)
    return found if named.digest is None and without_digest(found) == str(named) else None


def pinned_image(record: JobRecord, images: Mapping[str, ImageFacts] | None) -> str | None:
    """How the next attempt names its image: as the run keeps it, else as it was just looked up; None: as the spec does."""
    kept, image = kept_image(record), record.spec.image
    digest = images[image].digest if images is not None and image in images else None
    return kept if kept is not None or digest is None else pinned_to(image, digest)


def with_inputs(
    attempt: Attempt, record: JobRecord, datasets: Mapping[str, Dataset], images: Mapping[str, ImageFacts] | None = None
) -> Attempt:
    """A new attempt with its inputs noted, and prefixes of its own for what it writes. `datasets`: all that are registered."""
    spec, kept = record.spec, kept_datasets(record)
    by_address = any(use.name not in datasets for use in spec.datasets)
    known = addresses(datasets) if by_address else {}
    read = [as_kept(use, find_dataset(use, datasets, known), kept) for use in spec.datasets]
    inputs = Inputs(code=spec.code, datasets=tuple(_without_words(read)))
    outputs = tuple(own_prefix(output.uri, attempt.name) for output in spec.outputs)
    return attempt.model_copy(update={"inputs": inputs, "outputs": outputs, "image": pinned_image(record, images)})


def _without_words(read: Iterable[Dataset | None]) -> Iterable[Dataset]:
    found = {dataset.name: dataset for dataset in read if dataset is not None}
    return (dataset.model_copy(update={"description": None}) for _, dataset in sorted(found.items()))


def as_kept(use: DatasetUse, registered: Dataset | None, kept: Sequence[Dataset]) -> Dataset | None:
    """The declaration of a dataset that an attempt goes by; None where nobody ever registered it."""
    before = _kept_for(use, registered, kept)
    if before is None or (use.version is not None and use.version != before.version):
        return registered
    if registered is None:
        return before
    if registered.version == before.version:
        return registered
    tags = tuple(dict.fromkeys((*before.residency, *registered.residency)))
    return before.model_copy(update={"residency": tags})


def _kept_for(use: DatasetUse, registered: Dataset | None, kept: Sequence[Dataset]) -> Dataset | None:
    name = registered.name if registered is not None else use.name
    found = next((dataset for dataset in kept if dataset.name == name), None)
    if found is not None or use.uri is None:
        return found
    return addresses({dataset.name: dataset for dataset in kept}).get(use.uri.rstrip("/"))


def find_dataset(use: DatasetUse, datasets: Mapping[str, Dataset], known: Addresses) -> Dataset | None:
    """The registered dataset that a job means: by its name, else by the URI of one of its copies."""
    if use.name is not None and use.name in datasets:
        return datasets[use.name]
    return None if use.uri is None else known.get(use.uri.rstrip("/"))


def subject_of(use: DatasetUse, dataset: Dataset) -> str:
    """What a staged copy is a copy of: `<dataset>@<version>`; `<dataset>@` where nobody gives a version."""
    return f"{dataset.name}@{use.version or dataset.version or ''}"


def addresses(datasets: Mapping[str, Dataset]) -> Addresses:
    """Every address of every dataset; of two that share one the first by name."""
    found: dict[str, Dataset] = {}
    for _, dataset in sorted(datasets.items()):
        for uri in (dataset.uri, *(copy.uri for copy in dataset.replicas if copy.uri is not None)):
            found.setdefault(uri.rstrip("/"), dataset)
    return found
