"""The loop that asks image registries, beside the hub's: what the images of waiting jobs are, and what the regions' mirrors have.

Decides when each image is asked for: at once when it is wanted, now and then as long as it is, later and later where its registry
does not answer. A registry that was found silent is not asked for each of its images in turn. Invariants: no cycle waits for it;
what is known of an image stays until its registry says otherwise, so that one that is down changes nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import structlog

from reconciler.hub.image_board import ImageBoard, Wanted
from reconciler.hub.ledger import Trouble
from reconciler.hub.turns import Turns
from reconciler.model.image_ref import image_problem, parse_image, through_mirror
from reconciler.planning.image_facts import ImageFacts
from reconciler.ports import Clock, Refused, Transient
from reconciler.registry_port import Denial, Denied, Registry, Resolved, bytes_of

AGAIN_SECONDS: Final = 300.0
"""Between two looks at an image that is there."""
MISSING_AGAIN_SECONDS: Final = 60.0
"""Between two looks at one that is not: somebody is about to push it."""
BACK_OFF_SECONDS: Final = (10.0, 30.0, 120.0, 600.0)
"""Waits after a registry did not answer so many times in a row; the last one repeats."""
LONG: Final = 3600.0
UNRESOLVED, UNLOGGED = "ImagesUnresolved", "RegistryLoginMissing"


@dataclass(frozen=True, slots=True)
class _Known:
    """Of one image."""

    facts: ImageFacts
    resolved: Resolved | None
    again_at: float


@dataclass(frozen=True, slots=True)
class _Silence:
    """Of one registry or mirror. Times by the monotonic clock, seconds."""

    failures: int
    until: float
    trouble: Trouble


class ImageLoop:
    """Keeps what the board knows of images up to date. `open_registry` raises Refused where its logins cannot be used."""

    def __init__(self, board: ImageBoard, open_registry: Callable[[], Registry], clock: Clock) -> None:
        self._board = board
        self._open = open_registry
        self._clock = clock
        self._registry: Registry | None = None
        self._known: dict[str, _Known] = {}
        self._silent: dict[str, _Silence] = {}
        self._log = structlog.get_logger("images")
        self._turns = Turns("images", self.turn)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._turns.start()

    def stop(self) -> None:
        """End after the request under way."""
        self._turns.stop()

    def wake(self) -> None:
        """A cycle has seen something: see whether an image is wanted."""
        self._turns.wake()

    def tell(self) -> None:
        """Nothing that a webhook says concerns images."""

    def turn(self) -> float:
        """Ask for the image that is due first, if one is; the seconds until the next is."""
        wanted = self._board.wanted
        self._known = {image: known for image, known in self._known.items() if image in wanted.images}
        self._silent = {name: silence for name, silence in self._silent.items() if name in _asked_of(wanted)}
        if not wanted.images:
            self._say()
            return LONG
        now = self._clock.monotonic()
        due_at, image = min((self._due_at(one), one) for one in wanted.images)
        if due_at > now:
            self._say()
            return due_at - now
        try:
            self._known[image] = self._asked(image, wanted)
        except Exception as error:  # noqa: BLE001 - a bug that one image meets must not end the loop, or stop the others
            self._log.exception("look failed", image=image)
            self._known[image] = self._unknown(image, BACK_OFF_SECONDS[-1])
            self._silent[image] = _Silence(1, now + LONG, _trouble(image, UNRESOLVED, f"a bug, please report it: {error!r}"))
        self._say()
        return 0.0

    def _due_at(self, image: str) -> float:
        known = self._known.get(image)
        return known.again_at if known is not None else 0.0

    def _asked(self, image: str, wanted: Wanted) -> _Known:
        if image_problem(image) is not None:  # the door for files has told; nobody can be asked
            return self._unknown(image, LONG)
        reference, now = parse_image(image), self._clock.monotonic()
        silence = self._silent.get(reference.registry)
        if silence is not None and now < silence.until:
            return self._unknown(image, silence.until - now)
        before = self._known.get(image)
        try:
            if self._registry is None:
                self._registry = self._open()
            found = self._registry.resolve(reference, known=before.resolved if before is not None else None)
        except (Transient, Refused) as error:
            return self._unknown(image, self._note(reference.registry, error))
        self._silent.pop(reference.registry, None)
        if isinstance(found, Denied):
            return self._denied(image, found)
        there = self._there(image, found, wanted)
        return _Known(ImageFacts(found.digest, found.size_bytes, there=there), found, now + AGAIN_SECONDS)

    def _denied(self, image: str, denied: Denied) -> _Known:
        """What a registry does not give us counts where it would give it to nobody else; else it is as if it had not answered."""
        now = self._clock.monotonic()
        if not denied.certain:
            known = self._unknown(image, AGAIN_SECONDS)
            registry = parse_image(image).registry
            words = f"{denied.words}; give the hub a login for {registry}, so that it can look"
            self._silent[registry] = _Silence(0, 0.0, _trouble(registry, UNLOGGED, words))
            return known
        missing = denied.words if denied.denial is Denial.MISSING else ""
        return _Known(ImageFacts(missing=missing, forbidden="" if missing else denied.words), None, now + MISSING_AGAIN_SECONDS)

    def _unknown(self, image: str, again_seconds: float) -> _Known:
        """What was known before stays."""
        before, at = self._known.get(image), self._clock.monotonic() + again_seconds
        return _Known(ImageFacts(), None, at) if before is None else replace(before, again_at=at)

    def _there(self, image: str, found: Resolved, wanted: Wanted) -> dict[str, int]:
        """Region → bytes that its mirror has, where it says."""
        if self._registry is None:
            return {}
        there: dict[str, int] = {}
        for region, mirror in wanted.mirrors:
            silence = self._silent.get(mirror)
            if silence is not None and self._clock.monotonic() < silence.until:
                continue
            try:
                seen = self._registry.present(parse_image(through_mirror(image, mirror)), found.blobs)
            except (Transient, Refused) as error:
                self._note(mirror, error)
                continue
            self._silent.pop(mirror, None)
            if not seen.unknown and found.blobs:
                there[region] = bytes_of(found.blobs, seen.there)
        return there

    def _note(self, registry: str, error: Transient | Refused) -> float:
        """A registry did not answer; the seconds for which it is left alone."""
        before = self._silent.get(registry)
        failures = before.failures if before is not None else 0
        wait = BACK_OFF_SECONDS[min(failures, len(BACK_OFF_SECONDS) - 1)]
        trouble = _trouble(registry, UNRESOLVED, f"{error}; nothing is said of its images meanwhile")
        self._silent[registry] = _Silence(failures + 1, self._clock.monotonic() + wait, trouble)
        self._log.warning("no answer", registry=registry, what=str(error), again_in_seconds=wait)
        return wait

    def _say(self) -> None:
        heard = {image: known.facts for image, known in sorted(self._known.items())}
        self._board.say(heard, tuple(silence.trouble for _, silence in sorted(self._silent.items())))


def _asked_of(wanted: Wanted) -> frozenset[str]:
    """Whom a trouble may be about: registries, mirrors, and images themselves."""
    registries = {parse_image(image).registry for image in wanted.images if image_problem(image) is None}
    return frozenset((*registries, *wanted.images, *(mirror for _, mirror in wanted.mirrors)))


def _trouble(subject: str, code: str, what: str) -> Trouble:
    return Trouble(subject=subject, code=code, what=" ".join(what.split()))
