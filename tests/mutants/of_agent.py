"""Agents with one thing made wrong. What a mutant remembers goes by the agent's own door to its cluster, so that no history leaves
anything to the next.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from reconciler.agent import decide, loop, renewing, seen, working
from reconciler.agent.actions import Close, DeletePod, Stop
from reconciler.agent.decide import Decision, Right
from reconciler.agent.memory import Memory, Site
from reconciler.agent.reading import owner_uid
from reconciler.agent.record import Broken, Entry, Record, decode
from reconciler.agent.seen import Seen, Standing
from reconciler.model.grants import Grants
from reconciler.ports import Cluster, Stored, SyncState
from tests.mutants.mutating import exchanged, mutant

NEVER = float("inf")
_LATE_BY = 4
"""Passes: the release, the lifts, and one more."""


@mutant("no self-fence")
@contextmanager
def no_self_fence() -> Iterator[None]:
    with (
        exchanged(renewing, "fence_at", lambda _: lambda *_: NEVER),
        exchanged(renewing, "fence_of", lambda _: lambda *_: NEVER),
    ):
        yield


@mutant("the fence suspends, and leaves the pods to a controller that may be slow")
def fence_by_suspend_alone() -> AbstractContextManager[None]:
    def made(real: Any) -> Any:
        def stop(attempt: Seen, grace_limit: int | None) -> list[Stop]:
            found: list[Stop] = real(attempt, grace_limit)
            return found if grace_limit is None else [one for one in found if not isinstance(one, DeletePod)]

        return stop

    return exchanged(decide, "stop", made)


@mutant("a renewal counts from its answer")
def renewal_counted_from_its_answer() -> AbstractContextManager[None]:
    def made(real: Any) -> Any:
        def with_lease(site: Site, memory: Memory) -> Memory:
            after: Memory = real(site, memory)
            if after.holding.sent_at is None or after.holding.sent_at == memory.holding.sent_at or after.renewal is None:
                return after
            now = site.clock.monotonic()
            renewal = replace(after.renewal, sent_at=site.clock.now(), monotonic=now)
            return replace(after, holding=replace(after.holding, sent_at=now), renewal=renewal)

        return with_lease

    return exchanged(loop, "with_lease", made)


@mutant("the epoch of the grants is not looked at")
def epoch_ignored() -> AbstractContextManager[None]:
    def made(real: Any) -> Any:
        def deciding(attempts: Any, record: Record, grants: Grants | None, right: Right, sync: SyncState | None) -> Decision:
            believed = grants.model_copy(update={"epoch": right.epoch}) if grants is not None else None
            granted = [_under(each, right.epoch) for each in attempts]
            decision: Decision = real(granted, record, believed, right, sync)
            return decision

        return deciding

    return exchanged(working, "decide", made)


@mutant("the fence acts once: what comes after it is released and lifted without a valid lease")
@contextmanager
def starts_without_a_lease() -> Iterator[None]:
    fenced: WeakKeyDictionary[Cluster, float | None] = WeakKeyDictionary()

    def made(real: Any) -> Any:
        def right_now(site: Site, memory: Memory, record: Record) -> Right:
            right: Right = real(site, memory, record)
            if right.valid or not right.stop_all or memory.holding.offered is not None:
                return right
            since = memory.holding.sent_at
            if fenced.setdefault(site.cluster, NEVER) == since:
                return replace(right, valid=True, stop_all=False)
            fenced[site.cluster] = since
            return right

        return right_now

    with exchanged(working, "right_now", made), exchanged(working, "may_start", lambda _: lambda *_: True):
        yield


@mutant("an object that was made again is released again")
def released_twice() -> AbstractContextManager[None]:
    def made(real: Any) -> Any:
        def steps(attempt: Seen, *more: Any, **named: Any) -> Any:
            again = seen.standing(attempt) is Standing.REPLACED and attempt.named is not None
            return real(replace(attempt, entry=None) if again else attempt, *more, **named)

        return steps

    return exchanged(decide, "_steps", made)


@mutant("stopped is said while a lift may be under way")
@contextmanager
def stopped_said_too_early() -> Iterator[None]:
    """What is gated counts as stopped, and is not marked before that is said."""

    def made(real: Any) -> Any:
        def stop(attempt: Seen, grace_limit: int | None) -> list[Stop]:
            found: list[Stop] = real(attempt, grace_limit)
            return [one for one in found if not isinstance(one, Close)]

        return stop

    with exchanged(seen, "settled", lambda _: lambda attempt: not attempt.active), exchanged(decide, "stop", made):
        yield


@mutant("stopped is said although what must be closed first was not")
def stopped_said_without_proof() -> AbstractContextManager[None]:
    return exchanged(seen, "settled", lambda _: lambda attempt: not attempt.active)


@mutant("pods are looked for by their owner, not by their labels")
def pods_by_owner() -> AbstractContextManager[None]:
    def made(_real: Any) -> Any:
        def attempt_of(pod: Any, makers: Any) -> Any:
            return makers.get(owner_uid(pod) or "")

        return attempt_of

    return exchanged(seen, "_attempt_of", made)


@mutant("an agent that starts anew counts from its own start")
def restarted_agent_counts_anew() -> AbstractContextManager[None]:
    def made(_real: Any) -> Any:
        def inherited_from(renewal: Any, _boot: str, now: float, _wall: Any) -> float | None:
            return None if renewal is None else now

        return inherited_from

    return exchanged(renewing, "inherited_from", made)


@mutant("the record is written only after the release")
@contextmanager
def record_after_the_release() -> Iterator[None]:
    """As long as the agent lives, it knows all the same; its successor does not."""
    kept: WeakKeyDictionary[Cluster, dict[Any, Entry]] = WeakKeyDictionary()
    passes: WeakKeyDictionary[Cluster, Counter[Any]] = WeakKeyDictionary()

    def remembering(real: Any) -> Any:
        def remember(site: Site, memory: Memory, record: Record, stored: Stored | None) -> tuple[bool, Memory]:
            known = _keys(stored)
            late = kept[site.cluster] = {}
            seen_in = passes.setdefault(site.cluster, Counter())
            for key, entry in record.attempts.items():
                seen_in[key] += 1
                if str(key) not in known and seen_in[key] <= _LATE_BY:
                    late[key] = entry
            written = {key: entry for key, entry in record.attempts.items() if key not in late}
            done: tuple[bool, Memory] = real(site, memory, replace(record, attempts=written), stored)
            return done

        return remember

    def recalling(real: Any) -> Any:
        def recall(site: Site, *more: Any) -> Any:
            record, memory = real(site, *more)
            late = kept.get(site.cluster, {})
            return record if record is None else replace(record, attempts={**late, **record.attempts}), memory

        return recall

    with exchanged(working, "_remember", remembering), exchanged(working, "_recall", recalling):
        yield


def _under(attempt: Seen, epoch: int) -> Seen:
    return attempt if attempt.grant is None else replace(attempt, grant=attempt.grant.model_copy(update={"epoch": epoch}))


def _keys(stored: Stored | None) -> set[str]:
    try:
        return {str(key) for key in decode(stored.body).attempts} if stored is not None else set()
    except Broken:
        return set()
