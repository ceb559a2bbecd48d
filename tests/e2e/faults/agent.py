"""A region's agent with the times of these tests: `python -m tests.e2e.faults.agent agent REGION --engine E --kubeconfig F --store S`.

The same as `reconciler agent --self-fence … --fence-kill …`, but for how often it reports, which the command has no option for.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from reconciler.app import set_up_log
from reconciler.app_cluster import ClusterOptions, ClusterRegion
from tests.e2e.faults.times import TIMES


def main(words: Sequence[str]) -> None:
    """Be it until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["agent"])
    parser.add_argument("region")
    parser.add_argument("--engine", required=True)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--look", type=float, required=True)
    parser.add_argument("--deadman", action="store_true")
    asked = parser.parse_args(words)
    set_up_log()
    settings = TIMES.agent(asked.look, deadman=asked.deadman)
    found = ClusterRegion(ClusterOptions(asked.region, asked.engine, asked.store, asked.kubeconfig, None, settings))
    signal.signal(signal.SIGTERM, lambda *_: found.stop())
    found.run()


if __name__ == "__main__":
    main(sys.argv[1:])
