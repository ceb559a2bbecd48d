"""GPU meters of a real region's nodes, from exporters that are found by their pods and asked over HTTP."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.kube import KubeCluster, Settings
from reconciler.adapters.kube.meters import MeterTimes
from reconciler.agent.accounts import account
from reconciler.agent.nodes import NodeRules
from tests.adapters.kube.test_meters import MIB, card
from tests.e2e.control_plane import ControlPlane
from tests.e2e.world import Team, access_of, pod_of
from tests.waiting import until


@dataclass
class Exporter:
    """Answers with its text; or lets whoever asks wait for it."""

    text: str
    silent: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    def __post_init__(self) -> None:
        self.silent.set()


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    made = Exporter(card("GPU-a", busy="100") + card("GPU-b", busy="50"))

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.silent.wait(30)
            self.send_response(200 if self.path == "/metrics" else 404)
            self.end_headers()
            self.wfile.write(made.text.encode())

        def log_message(self, *_: Any) -> None:
            """Nothing is logged."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        made.port = server.server_address[1]
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield made
        made.silent.set()
        server.shutdown()
        serving.join()


@pytest.fixture
def cluster(plane: ControlPlane) -> Iterator[KubeCluster]:
    found = KubeCluster(
        access_of(plane), SystemClock(), Settings(metering=MeterTimes(every_seconds=0.3, find_seconds=0.5, answer_seconds=0.3))
    )
    found.start(lambda: None)
    yield found
    found.stop()


def test_what_an_exporter_says_is_told_of_its_node_and_else_it_is_unknown(
    plane: ControlPlane, team: Team, exporter: Exporter, cluster: KubeCluster
) -> None:
    assert cluster.read().meters == {}
    item = pod_of("dcgm")
    item["metadata"]["labels"] = {"app": "nvidia-dcgm-exporter"}
    item["spec"]["nodeName"] = "eu-gpu-1"
    item["spec"]["containers"][0]["ports"] = [{"name": "metrics", "containerPort": exporter.port}]
    team.create(item)
    team.pods_when(1, "Running")
    address = '{"status":{"podIP":"127.0.0.1","podIPs":[{"ip":"127.0.0.1"}]}}'
    plane.kubectl("patch", "pod", "dcgm", "-n", team.namespace, "--subresource=status", "--type=merge", "-p", address)
    until(lambda: "eu-gpu-1" in cluster.read().meters)
    nodes = {node.name: node for node in account(cluster.read(), NodeRules()).nodes}
    assert (nodes["eu-gpu-1"].vram_free_bytes, nodes["eu-gpu-1"].gpu_busy) == (160000 * MIB, 0.75)
    assert (nodes["eu-gpu-2"].vram_free_bytes, nodes["eu-gpu-2"].gpu_busy) == (None, None)
    exporter.silent.clear()
    until(lambda: cluster.read().meters == {})
    assert any("1 of 1 DCGM exporters say nothing" in words for words in cluster.read().troubles)
    exporter.silent.set()
    until(lambda: "eu-gpu-1" in cluster.read().meters)
    exporter.text = "# busy"
    until(lambda: cluster.read().meters == {})
