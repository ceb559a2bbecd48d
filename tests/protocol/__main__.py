"""Explores the protocol and the simpler designs, tells what was found, and writes it into the decision record."""

import argparse

from tests.protocol.designs import BROKEN, PROTOCOL, UNSAFE
from tests.protocol.explorer import explore
from tests.protocol.record import RECORD, figures, record_with, section


def main() -> None:
    """Print what is found; with --write, bring the decision record up to date."""
    parser = argparse.ArgumentParser(prog="python -m tests.protocol", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write it into {RECORD.name}")
    write = parser.parse_args().write
    said = figures(PROTOCOL, explore(PROTOCOL))
    print(said)
    sections: dict[str, str] = {}
    for title, design in {**BROKEN, **UNSAFE}.items():
        found = explore(design.rules)
        sections[title] = section(title, design, found)
        print(f"\n{sections[title]}\n({len(found.history)} steps; {found.states:,} states were looked at)")
    if write:
        RECORD.write_text(record_with(RECORD.read_text(encoding="utf-8"), said, sections), encoding="utf-8")


if __name__ == "__main__":
    main()
