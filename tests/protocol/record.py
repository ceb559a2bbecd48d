"""The decision record's generated parts: the figures, and the history of each design that breaks.

What stands between two marks `<!-- x -->` and `<!-- /x -->` is made here; the rest of the record is written by hand.
"""

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path

from tests.protocol.designs import BROKEN, HARMLESS, UNSAFE, Design
from tests.protocol.explorer import Found
from tests.protocol.state import Rules
from tests.protocol.telling import tell

RECORD = Path(__file__).resolve().parents[2] / "docs" / "decisions" / "0008-leases-grants-and-epochs.md"
_WIDTH = 130


def figures(rules: Rules, found: Found) -> str:
    """What was searched: the bounds, and how much there is within them."""
    times = f"fence {rules.fence}, kill {rules.kill}, drift {rules.drift}, the hub waits for {rules.wait}"
    words = f"{found.states:,} states and {found.steps:,} steps between them, within {rules.terms} terms of two hubs; in ticks: {times}."
    return _wrapped(words)


def section(title: str, design: Design, found: Found) -> str:
    """A design that breaks: what it would be like, the lines of its shortest history, and how that ends."""
    lines = [_wrapped(f"{number}. {line}", "   ") for number, line in enumerate(tell(found.history, design.rules), 1)]
    end = f"So {found.fault}."
    return "\n".join([f"### {title}", "", _wrapped(design.words), "", *lines, "", end])


def harmless(title: str) -> str:
    """What is told of a design that was thought to break."""
    return _wrapped(f"**{title}.** {HARMLESS[title].words}")


def record_with(text: str, said: str, sections: Mapping[str, str]) -> str:
    """The record with its generated parts made anew."""
    parts = {
        "figures": said,
        "broken": "\n\n".join(sections[title] for title in BROKEN),
        "harmless": "\n\n".join(harmless(title) for title in HARMLESS),
        "unsafe": "\n\n".join(sections[title] for title in UNSAFE),
    }
    for name, part in parts.items():
        between = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=\n<!-- /{name} -->)", re.DOTALL)
        text = between.sub(part.replace("\\", r"\\"), text)
    return text


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
