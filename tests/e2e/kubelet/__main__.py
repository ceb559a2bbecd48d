"""`python -m tests.e2e.kubelet`: a kubelet as a program of its own, so that it can be killed."""

import argparse
import json
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from reconciler.adapters.local import NodeSpec
from tests.e2e.kubelet.running import Kubelet, Options


def main(words: Sequence[str]) -> int:
    """Be a kubelet until SIGTERM or SIGINT; programs run on."""
    asked = _parser().parse_args(words)
    nodes = [NodeSpec(**json.loads(text)) for text in asked.node]
    if asked.region is not None:
        from tests.e2e.kubelet import nodes_of

        nodes += nodes_of(asked.region)
    nodes += [_node(asked, number) for number in range(1, asked.nodes + 1)]
    entry_points = {pattern: tuple(json.loads(argv)) for pattern, argv in asked.entry_point}
    environment = dict(text.split("=", 1) for text in asked.env)
    options = Options(asked.kubeconfig, asked.folder.resolve(), nodes, asked.image or ["*"], entry_points, environment)
    kubelet, stop = Kubelet(options), threading.Event()

    def end(*_: object) -> None:
        stop.set()
        kubelet.wake()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    kubelet.run(stop)
    return 0


def _node(asked: argparse.Namespace, number: int) -> NodeSpec:
    return NodeSpec(
        name=f"{asked.name}-{number}",
        gpus=asked.gpus,
        product=asked.product,
        driver=asked.driver,
        vram_mib=asked.vram,
        cpu=asked.cpu,
        memory=asked.memory,
        labels=dict(text.split("=", 1) for text in asked.label),
        taints=[_taint(text) for text in asked.taint],
        extended={name: int(amount) for name, amount in (text.split("=", 1) for text in asked.extended)},
    )


def _taint(text: str) -> dict[str, str]:
    """As kubectl writes it: KEY[=VALUE]:EFFECT."""
    said, _, effect = text.rpartition(":")
    key, _, value = said.partition("=")
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.kubelet", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True, help="with rights to nodes, leases, pods, secrets")
    parser.add_argument("--folder", type=Path, required=True, help="where programs run, and what must survive is kept")
    parser.add_argument("--image", action="append", help="pattern of images that can be pulled; all by default")
    parser.add_argument("--entry-point", action="append", default=[], nargs=2, metavar=("PATTERN", "JSON"), help="argv of images")
    parser.add_argument("--env", action="append", default=[], help="NAME=VALUE for every program, as its image would bring it")
    parser.add_argument("--region", type=Path, help="file of a region whose node pools are played")
    parser.add_argument("--node", action="append", default=[], help="one node, as JSON with the fields of NodeSpec")
    parser.add_argument("--nodes", type=int, default=0, help="so many nodes, alike, as the following say")
    parser.add_argument("--name", default="gpu", help="they are called NAME-1, NAME-2, ...")
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--product", default="NVIDIA-A100-SXM4-80GB")
    parser.add_argument("--driver", default="570.86.15")
    parser.add_argument("--vram", type=int, default=81559, help="MiB of each GPU")
    parser.add_argument("--cpu", default="96")
    parser.add_argument("--memory", default="1Ti")
    parser.add_argument("--label", action="append", default=[], help="KEY=VALUE")
    parser.add_argument("--taint", action="append", default=[], help="KEY[=VALUE]:EFFECT")
    parser.add_argument("--extended", action="append", default=[], help="RESOURCE=AMOUNT, such as rdma/hca=8")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
