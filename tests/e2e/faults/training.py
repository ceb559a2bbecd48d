"""A training job whose loss curve proves from where it went on: each loss follows from the state that the checkpoint holds."""

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.faults.times import TIMES
from tests.e2e.person import job_text

EVERY = 3
"""Steps from one checkpoint to the next."""
STEP_SECONDS = 0.5


def trained(step: int, weight: float) -> tuple[float, float]:
    """One step: the new weight and the loss."""
    target = 3.0 + (step * 37 % 101) / 101
    miss = target - weight
    return weight + 0.05 * miss, miss * miss


_PROGRAM = """\
import json, os, signal, time
from pathlib import Path
from urllib.parse import unquote, urlsplit

FOLDER = Path(unquote(urlsplit(os.environ['CHECKPOINT_PATH']).path))
ENOUGH = FOLDER.parent / 'enough'

@TRAINED@

def number(folder):
    return int(folder.name.rpartition('-')[2])

def load():
    complete = [mark.parent for mark in FOLDER.glob('step-*/_COMPLETE')]
    if not complete:
        print('begins anew')
        return 0, 0.0
    newest = max(complete, key=number)
    print('goes on from', newest.name)
    state = json.loads((newest / 'state.json').read_text())
    return state['step'], state['weight']

def save(step, weight):
    folder = FOLDER / f'step-{step}'
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'state.json').write_text(json.dumps({'step': step, 'weight': weight}))
    (folder / '_COMPLETE').touch()

@SIGNALS@
step, weight = load()
while not ENOUGH.exists():
    time.sleep(@SECONDS@)
    step += 1
    weight, loss = trained(step, weight)
    if step % @EVERY@ == 0:
        save(step, weight)
    print(f'step {step} loss {loss!r}')
print('done')
"""


def training(job: str, checkpoints: Path, *, stubborn: bool = False, **fields: Any) -> str:
    """The file of such a job. It goes on until a file `enough` stands beside the folders of its attempts.

    `stubborn`: told to end, it goes on until it is killed.
    """
    program = _PROGRAM.replace("@TRAINED@", inspect.getsource(trained))
    program = program.replace("@SECONDS@", str(STEP_SECONDS)).replace("@EVERY@", str(EVERY))
    program = program.replace("@SIGNALS@", "signal.signal(signal.SIGTERM, signal.SIG_IGN)" if stubborn else "")
    more = {
        "checkpoint_path": f"file://{checkpoints}/{job}/",
        "max_runtime_seconds": 3600,
        "grace_seconds": TIMES.loss.fence_kill_seconds,
        **fields,
    }
    return job_text(job, program, **more)


@dataclass(frozen=True, slots=True)
class Curve:
    """What one attempt printed: the step that it went on from, and the losses by step."""

    began: int
    losses: dict[int, str]

    @property
    def last(self) -> int:
        """The last step that it told of."""
        return max(self.losses, default=self.began)


def curve_of(log: str) -> Curve | None:
    """None where it has printed nothing yet."""
    began = re.search(r"^(?:begins anew|goes on from step-(\d+))$", log, re.MULTILINE)
    if began is None:
        return None
    losses = {int(step): loss for step, loss in re.findall(r"^step (\d+) loss (\S+)$", log, re.MULTILINE)}
    return Curve(int(began[1] or 0), losses)


def assert_one_curve(curves: Sequence[Curve]) -> None:
    """One curve over all attempts: no step is lost beyond the last checkpoint, none repeated from before it, each loss is right."""
    right, weight = {}, 0.0
    for step in range(1, max(curve.last for curve in curves) + 1):
        weight, loss = trained(step, weight)
        right[step] = repr(loss)
    before = 0
    for number, curve in enumerate(curves):
        assert list(curve.losses) == list(range(curve.began + 1, curve.last + 1)), (number, curve)
        assert curve.losses == {step: right[step] for step in curve.losses}, (number, curve)
        # A checkpoint is written before its step is told.
        assert before - before % EVERY <= curve.began <= before + 1, (number, before, curve)
        assert curve.began % EVERY == 0
        before = curve.last
