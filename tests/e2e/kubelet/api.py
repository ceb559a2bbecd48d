"""The API server as a kubelet asks it: plain requests with the certificate of a kubeconfig, answers as JSON.

Decides which answers can be waited out (`Unreachable`) and which say no (`Denied`). What is not there is None, for a kubelet
meets that all the time.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
import yaml

Json = dict[str, Any]

STRATEGIC = "application/strategic-merge-patch+json"
"""Lists of a status are merged by their keys, so that nobody's conditions are lost but one's own."""
MERGE = "application/merge-patch+json"
_SILENCE_SECONDS = 90.0
"""A watch that does not even bring a bookmark for so long (they come once a minute) is given up."""


class Unreachable(Exception):
    """The API server does not answer, or not now: ask again."""


class Denied(Exception):
    """The API server says no, with an HTTP status."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"{status}: {words}")
        self.status = status


class Api:
    """Connections to one API server. Of use to several threads."""

    def __init__(self, kubeconfig: Path) -> None:
        """With the first cluster and user of the file; certificates are files, relative to it."""
        said = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        cluster, user = said["clusters"][0]["cluster"], said["users"][0]["user"]
        self.ca, self.certificate, self.key = (
            str(kubeconfig.parent / where)
            for where in (cluster["certificate-authority"], user["client-certificate"], user["client-key"])
        )
        address = urllib3.util.parse_url(cluster["server"])
        self.host, self.port = str(address.host), int(address.port or 443)
        self._pool = urllib3.HTTPSConnectionPool(
            self.host,
            self.port,
            timeout=urllib3.Timeout(connect=2.0, read=10.0),
            maxsize=64,  # a watch holds one of them
            retries=False,
            ca_certs=self.ca,
            cert_file=self.certificate,
            key_file=self.key,
        )

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Json | None:
        """The object or list; None where there is none."""
        return self._ask("GET", f"{path}?{urlencode(query)}" if query else path)

    def create(self, path: str, body: Mapping[str, Any]) -> Json | None:
        """The object as it was made; None where what it stands in is not there."""
        return self._ask("POST", path, body)

    def patch(self, path: str, body: Mapping[str, Any], kind: str) -> Json | None:
        """The object as it is now; None where there is none."""
        return self._ask("PATCH", path, body, kind)

    def delete(self, path: str, options: Mapping[str, Any]) -> Json | None:
        """What is left of it; None where there was none."""
        return self._ask("DELETE", path, options)

    def watch(self, path: str, query: Mapping[str, str]) -> Iterator[Json]:
        """Events until the server ends the watch. Raises Denied, with status 410 for a version that is too old."""
        asked = {**query, "watch": "1", "allowWatchBookmarks": "1", "timeoutSeconds": "600"}
        timeout = urllib3.Timeout(connect=2.0, read=_SILENCE_SECONDS)
        try:
            answer = self._pool.request("GET", f"{path}?{urlencode(asked)}", preload_content=False, timeout=timeout)
            try:
                if answer.status != 200:
                    raise Denied(answer.status, answer.data.decode("utf-8", "replace")[:500])
                rest = b""
                for chunk in answer.stream(2**16):
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        yield _event(line)
            finally:
                answer.close()
        except urllib3.exceptions.HTTPError as error:
            raise Unreachable(str(error)) from error

    def _ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Json | None:
        content = None if body is None else json.dumps(body).encode()
        try:
            answer = self._pool.request(method, path, body=content, headers={"Content-Type": kind, "Accept": "application/json"})
        except urllib3.exceptions.HTTPError as error:
            raise Unreachable(str(error)) from error
        if answer.status == 404:
            return None
        if answer.status == 429 or answer.status >= 500:
            raise Unreachable(f"{method} {path}: {answer.status}")
        said: Json = json.loads(answer.data)
        if answer.status >= 400:
            raise Denied(answer.status, f"{method} {path}: {said.get('message')}")
        return said


def _event(line: bytes) -> Json:
    event: Json = json.loads(line)
    if event["type"] == "ERROR":
        raise Denied(int(event["object"].get("code", 500)), str(event["object"].get("message")))
    return event
