"""How every job of the example ends: what the demo waits for, and what it is judged by."""

from dataclasses import dataclass

from reconciler.model.record import JobRecord, Phase
from reconciler.planning.stage_names import unreturned


@dataclass(frozen=True, slots=True)
class Expected:
    """The end of one job."""

    phase: Phase
    attempts: int
    region: str | None = None
    """Of its last attempt; None where any will do."""
    shows: str = ""
    """What is to be seen in it."""


EXPECTED: dict[str, Expected] = {
    "language/all-reduce": Expected(Phase.SUCCEEDED, 1, shows="two nodes that start together and find each other"),
    "language/cheap-eval": Expected(Phase.SUCCEEDED, 1, "ap-south", "nothing to move: the cheapest region"),
    "language/corpus-pretrain": Expected(Phase.SUCCEEDED, 1, "eu-west", "goes where its data must stay"),
    "language/line-fit": Expected(Phase.SUCCEEDED, 2, shows="crashes, and goes on from its checkpoint"),
    "language/web-finetune": Expected(Phase.SUCCEEDED, 1, "us-east", "H100 preferred, and half a terabyte lies beside them"),
    "vision/always-fails": Expected(Phase.FAILED, 2, shows="one retry, then Failed, with its last words"),
    "vision/contact-sheet": Expected(Phase.SUCCEEDED, 1, "eu-west", "no GPU waits for its photos, nor for its result's way back"),
    "vision/early-stop": Expected(Phase.SUCCEEDED, 1, shows="exit code 42 means success here"),
    "vision/thumbnails": Expected(Phase.SUCCEEDED, 1, shows="no GPU, and data too small to matter"),
    "vision/too-wide": Expected(Phase.IMPOSSIBLE, 0, shows="no region can ever run it, and it says why"),
    "vision/typo-image": Expected(Phase.FAILED, 1, shows="an image that cannot be pulled gives its GPUs back"),
}

REFUSED = {"jobs/vision/norway.yaml": "a broken file is refused alone, with line and column"}
"""Files that no job comes of, and what is to be seen in them."""


def reached(record: JobRecord, expected: Expected) -> bool:
    """Whether the job has come to the end that it should, with all that it wrote."""
    return record.phase is expected.phase and record.current is None and not any(unreturned(record))


def differs(record: JobRecord | None, expected: Expected) -> str | None:
    """What is otherwise than it should be, in words; None where nothing is."""
    if record is None:
        return "was never taken in"
    if record.phase is not expected.phase:
        return f"is {record.phase}, should be {expected.phase}"
    if len(record.attempts) != expected.attempts:
        return f"took {len(record.attempts)} attempts, should take {expected.attempts}"
    last = record.last
    if expected.region is not None and (last is None or last.region != expected.region):
        return f"ran in {last.region if last else 'no region'}, should run in {expected.region}"
    return None
