"""`python -m tests.mutants`: every mutant must be caught by the simulator within so many seeds; each is told with its story."""

import argparse
import multiprocessing
import sys

from tests.mutants.catching import MUTANTS, caught
from tests.mutants.harmless import HARMLESS

SEEDS = 2000


def main() -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="those whose name contains this")
    asked = parser.parse_args()
    unknown = {one.replaced_by for one in HARMLESS} - {one.name for one in MUTANTS}
    if unknown:
        parser.error(f"no mutants of these names: {', '.join(sorted(unknown))}")
    chosen = [one.name for one in MUTANTS if asked.only in one.name]
    missed = 0
    with multiprocessing.get_context("spawn").Pool(asked.workers) as pool:
        for name, seed, story, seconds in pool.imap_unordered(caught, [(name, asked.seeds) for name in chosen]):
            missed += seed is None
            said = f"NOT CAUGHT in {asked.seeds} seeds" if seed is None else f"caught by seed {seed}"
            print(f"{name}: {said} ({seconds:.0f} s)\n{story}\n", flush=True)
    for one in HARMLESS:
        print(f"harmless: {one.name}. {one.why} In its place: {one.replaced_by}.\n")
    print(f"{len(chosen)} mutants, {len(chosen) - missed} caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
