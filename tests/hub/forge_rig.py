"""A hub at work with the forge's loop beside it, both moved by hand."""

from pathlib import Path
from typing import Any

from reconciler.adapters.documents import reader
from reconciler.adapters.git import BareClone
from reconciler.forge_port import Forge
from reconciler.hub.forge_loop import ForgeLoop
from reconciler.model.policy import ForgeAddress
from reconciler.model.record import Phase
from tests.hub.forge_in_memory import ForgeInMemory
from tests.hub.rig import Rig
from tests.hub.words import FILES, SETTINGS

FORGE = "forge: {kind: gitea, url: 'https://git.example.com', repository: ml/jobs}\n"


class ForgeRig(Rig):
    """The rig, its forge, and the loop between them."""

    def __init__(self, folder: Path, policy: str = "approval: {always: true}\n") -> None:
        super().__init__(folder, files={**FILES, "reconciler.yaml": f"{SETTINGS}{FORGE}", "policy.yaml": policy})
        self.forge = ForgeInMemory(self.clock.now)
        self.opened: list[ForgeAddress] = []
        self.open_fails: Exception | None = None
        self.loops = 0
        self.loop = self.another_loop()
        self.tell("eu")
        self.tell("us")

    def another_loop(self) -> ForgeLoop:
        """The loop of another process: it knows nothing of what the one before has done."""
        self.loops += 1
        clone = BareClone(self.url, self.folder / f"pulls-{self.loops}")
        return ForgeLoop(self.hub.board, clone, reader, self._open, self.clock)

    def _open(self, address: ForgeAddress) -> Forge:
        if self.open_fails is not None:
            raise self.open_fails
        self.opened.append(address)
        return self.forge

    def both(self, times: int = 3, seconds: float = 2.0) -> None:
        """The hub comes to rest and the forge's loop has its turn, a few times over."""
        for _ in range(times):
            self.settle()
            self.loop.turn()
            self.clock.seconds += seconds
        self.settle()

    def asked(self) -> list[str]:
        """What the forge was asked since the last time this was called."""
        asked, self.forge.calls = self.forge.calls, []
        return asked

    def proposed(self, job_id: str = "llm-a", **fields: Any) -> int:
        """A job that waits for a person, and the number of its pull request."""
        self.job(job_id, **fields)
        self.both()
        assert self.record(job_id).phase is Phase.PROPOSED
        (number,) = [one.number for one in self.forge.pulls.values() if one.head == f"proposals/team-a/{job_id}"]
        self.asked()
        return number
