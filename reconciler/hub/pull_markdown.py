"""Text of strangers inside Markdown of ours: it stays words on one line, on every forge.

Decides what is taken out and what is made harmless. Invariant: whatever comes in, what goes out ends no line, no table's cell and
no code, makes no link, no image and no HTML, mentions nobody and refers to nothing. Callers never begin a line with it, for that
is where GitLab looks for its quick actions.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

MOST: Final = 400
MOST_ALL: Final = 60_000
"""Characters of a whole text (GitHub takes 65,536)."""
_JOINT: Final = "\u200b"
"""No width: what follows is no longer joined to what stands before."""
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#!|~$&^])")
_CALLS: Final = re.compile(r"([@#!$%&~^])(?=\S)")
_ADDRESSES: Final = re.compile(r"(?i)(https?|ftp|mailto|www)(?=[:.])")
_NUMBERED: Final = re.compile(r"(?i)\b(GH-)(?=\d)")
_COMMITS: Final = re.compile(r"(?i)\b(?=\d*[a-f])[0-9a-f]{7,}\b")
"""What forges take for a commit of theirs. Not of digits alone: that is a number."""
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def one_line(text: str, most: int = MOST) -> str:
    """The text on one line without what cannot be seen (which could turn the order of letters), cut to `most` characters."""
    seen = "".join(" " if unicodedata.category(letter) in _UNSEEN else letter for letter in text)
    line = " ".join(seen.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def words(text: str, most: int = MOST) -> str:
    """The text as plain words of a sentence or a cell."""
    parted = _COMMITS.sub(lambda found: _JOINT.join(re.findall(".{1,6}", found[0])), one_line(text, most))
    for pattern in (_NUMBERED, _CALLS, _ADDRESSES):
        parted = pattern.sub(rf"\1{_JOINT}", parted)
    return _SPECIAL.sub(r"\\\1", parted)


def code(text: str, most: int = MOST) -> str:
    """The text as code, in a sentence or a cell. Three characters that would end code or cell are exchanged for their likes."""
    line = one_line(text, most).translate(str.maketrans("`|\\", "ˋǀ∖"))
    parted = line.replace("@", f"@{_JOINT}").replace("<!", f"<{_JOINT}!")  # no mark of ours stands twice in a text
    return f"`{parted}`" if parted else "–"


def fitting(lines: Iterable[str], most: int = MOST_ALL) -> str:
    """The lines as one text, without those at the end that a forge would not take any more."""
    left, taken = most, []
    for line in lines:
        left -= len(line) + 1
        if left < 0:
            taken.append("\n… and more, which does not fit here.")
            break
        taken.append(line)
    return "\n".join(taken)


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table; the cells are Markdown already."""
    lines = [f"| {' | '.join(headers)} |", f"|{' --- |' * len(headers)}"]
    return lines + [f"| {' | '.join(row)} |" for row in rows]
