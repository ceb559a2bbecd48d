"""What the API server says of a node's pods: a list first, then every change, and a list again after a break."""

import threading
from collections.abc import Callable

from tests.e2e.kubelet.api import Api, Denied, Json, Unreachable

LISTED = "LISTED"
"""The type of an event that holds all `items` of a `node` at once: what is not among them is no more."""
_PAUSE_SECONDS = 0.5


def bring_news(api: Api, node: str, tell: Callable[[Json | BaseException], None], stop: threading.Event) -> None:
    """Tell every event until `stop`; an error of our own is told as well, for it must end the kubelet."""
    path, query = "/api/v1/pods", {"fieldSelector": f"spec.nodeName={node}"}
    try:
        while not stop.is_set():
            try:
                listed = api.get(path, query) or {}
                tell({"type": LISTED, "node": node, "items": listed["items"]})
                for event in api.watch(path, {**query, "resourceVersion": listed["metadata"]["resourceVersion"]}):
                    tell(event)
            except (Unreachable, Denied) as trouble:
                say(f"node {node}: no events: {trouble}")
                stop.wait(_PAUSE_SECONDS)
    except BaseException as error:  # noqa: BLE001 – raised again where it ends the kubelet
        tell(error)


def say(words: str) -> None:
    """A line for who reads the kubelet's log."""
    print(words, flush=True)
