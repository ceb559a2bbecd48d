"""`reconciler stage image`: warms a region's mirror for an image.

Decides what is said of it. What is read, and tried again, is for agent/stage.
"""

import os
import time
from pathlib import Path
from typing import Final

from reconciler.agent.stage.image import Line, warm
from reconciler.agent.stage.transfer.pacing import Pacer, RateFile
from reconciler.app import open_registry
from reconciler.commands import screen
from reconciler.commands.ends import BadInput
from reconciler.model.image_ref import image_problem, parse_image, through_mirror
from reconciler.model.progress import progress_line

_KEEPS: Final = {
    True: "which says that it keeps all of it",
    False: "which does not keep all of it",
    None: "which does not say whether it keeps it",
}


def image(reference: str, mirror: str, rate: float | None, rate_file: Path | None, platform: str) -> None:
    """Have a region's mirror fetch an image. Raises Refused and Transient, and BadInput for what is no reference or no mirror."""
    wrong = image_problem(reference) or image_problem(f"{mirror}/a/a")
    if wrong is not None:
        raise BadInput(f"{reference} through {mirror}: {wrong}", "give an image's reference, and the mirror as host or host:port")
    pacer = Pacer(RateFile(rate_file, rate, time.monotonic), time.monotonic, time.sleep)
    line = Line(pacer.take, lambda progress: screen.say(progress_line(progress)), time.monotonic, time.sleep)
    warmed = warm(open_registry(os.environ), parse_image(through_mirror(reference, mirror)), line, platform)
    read = f"{warmed.read_blobs} of {warmed.blobs} parts, {screen.size(warmed.read_size)} of {screen.size(warmed.size)}, read now"
    screen.say(f"{reference} ({warmed.digest}) has come through {mirror}, {_KEEPS[warmed.kept]}: {read}")
