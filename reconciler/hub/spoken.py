"""What people's words of regions are still worth: a word says something of the silence that it was said in, and of no other.

Decides which words are void: those whose region was heard of after a hub first read them, by another report than the one that
stood there then. That is noted in hub.json, so that it holds for every hub after this one. What a word that holds does is for
away.py. Invariant: what is void stays so until its file goes, or says something else.
"""

from collections.abc import Collection, Iterable, Mapping

from reconciler.hub.fleet import Word
from reconciler.hub.ledger import Trouble, WordNoted
from reconciler.hub.regions import RegionSeen
from reconciler.model.reasons import Why, because


def path_of(word: Word) -> str:
    """Where on main it stands."""
    return f"confirmations/{word.file}"


def noted(words: Iterable[Word], before: Mapping[str, WordNoted], seen: Mapping[str, RegionSeen]) -> dict[str, WordNoted]:
    """Every word by its path. `before`: as they were noted last; `seen`: the newest report of each region that has one."""
    return {path_of(word): _noted(word, before.get(path_of(word)), seen.get(word.region)) for word in words}


def _noted(word: Word, old: WordNoted | None, report: RegionSeen | None) -> WordNoted:
    mark = f"{report.incarnation} {report.sequence}" if report is not None else ""
    if old is None or old.blob != word.blob:
        return WordNoted(blob=word.blob, report=mark)
    if old.is_void or mark in ("", old.report):
        return old
    return old.model_copy(update={"is_void": True})


def holding(words: Iterable[Word], notes: Mapping[str, WordNoted]) -> list[Word]:
    """Those that are not void."""
    return [word for word in words if not notes[path_of(word)].is_void]


def told(words: Iterable[Word], notes: Mapping[str, WordNoted], over: Collection[str]) -> list[Trouble]:
    """What a person should know of the void ones; not of those at these paths, which have done what they were for."""
    void = [word for word in words if notes[path_of(word)].is_void and path_of(word) not in over]
    return [_trouble(word) for word in void]


def _trouble(word: Word) -> Trouble:
    reason = because(Why.REGION_SPOKEN_OF, region=word.region, file=word.file)
    return Trouble(subject=path_of(word), code=reason.code, what=reason.text)
