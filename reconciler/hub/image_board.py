"""Between the hub's cycle and the loop that asks image registries: which images are wanted, and what is known of them.

Decides nothing but what is too much to ask. Values are exchanged whole, so that neither ever waits for the other. Invariant: a
cycle goes by what was known when it began.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from reconciler.hub.fleet import Fleet
from reconciler.hub.ledger import Trouble
from reconciler.model.policy import Images
from reconciler.planning.image_facts import ImageFacts
from reconciler.planning.images import images_of
from reconciler.planning.snapshot import JobView

MOST: Final = 1000
"""Images that are asked for at a time; of those beyond nobody knows anything, and their jobs do not wait for it."""
_NOT_ASKED: Final = ImageFacts()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the last cycle wants to know."""

    images: tuple[str, ...] = ()
    mirrors: tuple[tuple[str, str], ...] = ()
    """(region, mirror) of the mirrors that are to be asked."""


@dataclass(slots=True)
class ImageBoard:
    """The two values, and how each side is told of a new one. One writer each."""

    wanted: Wanted = Wanted()
    heard: Mapping[str, ImageFacts] = field(default_factory=dict)
    troubles: tuple[Trouble, ...] = ()
    taken: Mapping[str, ImageFacts] = field(default_factory=dict)
    """What the cycle under way goes by ..."""
    told: tuple[Trouble, ...] = ()
    """... and tells."""
    waiting: dict[str, datetime] = field(default_factory=dict)
    """Image → since when it is wanted; the cycle's own."""
    on_heard: Callable[[], None] = lambda: None

    def take(self) -> None:
        """A cycle begins."""
        heard = self.heard
        asked = {
            image: heard.get(image) or (ImageFacts(wanted_since=since) if at < MOST else _NOT_ASKED)
            for at, (image, since) in enumerate(self.waiting.items())
        }
        self.taken, self.told = asked, self.troubles

    def known(self, images: Images) -> Mapping[str, ImageFacts] | None:
        """What the cycle goes by; None where nobody is to be asked."""
        return self.taken if images.resolve else None

    def want(self, jobs: Iterable[JobView], fleet: Fleet, now: datetime) -> None:
        """A cycle has decided, and these jobs wait."""
        asked = fleet.settings.images
        if not asked.resolve:
            self.forget()
            return
        images = dict.fromkeys(image for job in jobs for image in images_of(job.spec, job.kept_image))
        self.waiting = {image: self.waiting.get(image, now) for image in images}
        regions = sorted(fleet.regions.items()) if asked.mirrors else ()
        mirrors = tuple((name, region.registry_mirror) for name, region in regions if region.registry_mirror)
        self.wanted = Wanted(tuple(images)[:MOST], mirrors)

    def forget(self) -> None:
        """Nobody is to be asked."""
        self.waiting, self.wanted, self.taken, self.told = {}, Wanted(), {}, ()

    def say(self, heard: Mapping[str, ImageFacts], troubles: tuple[Trouble, ...]) -> None:
        """The loop has heard something."""
        if (heard, troubles) != (self.heard, self.troubles):
            self.heard, self.troubles = heard, troubles
            self.on_heard()
