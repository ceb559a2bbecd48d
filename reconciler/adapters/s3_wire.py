"""Bulk over HTTP to and from an S3 store: bodies that are read as they come and sent as they may be.

Decides how a signed URL of boto3 becomes a request on a connection of our own. Not through boto3's own calls, for three
reasons: how much a connection may hold that nobody has read yet is bounded (else the kernel fills megabytes of buffer at the
link's full speed, whatever rate was reserved); a body is sent at a pace, and not read twice for its signature; and a request
costs a third of the CPU time. What the requests mean is for `s3_bulk`.

Invariant: a body that is sent carries its MD5, so what came damaged is refused by the store.
Source: https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
"""

import base64
import hashlib
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

from reconciler.adapters.s3_answers import CONNECT_SECONDS, redacted
from reconciler.bulk_port import Pace
from reconciler.ports import Transient

if TYPE_CHECKING:
    from botocore.httpsession import URLLib3Session
    from mypy_boto3_s3 import S3Client

_READ_SECONDS: Final = 20.0
_CONNECTIONS: Final = 64
_CONNECTS: Final = 5
_BLOCK_BYTES: Final = 64 * 1024
_VALID_SECONDS: Final = 3600
_ERROR_BYTES: Final = 64 * 1024
_LARGEST: Final = Path("/proc/sys/net/core/rmem_max")
_PLAIN_MD5: Final = re.compile(r"[0-9a-f]{32}")

Answer = Mapping[str, str]
"""An answer's headers; their names are compared without case."""
Read = Callable[[int], bytes]


class _Paced:
    """A body that is sent at a pace."""

    def __init__(self, body: bytes, pace: Pace) -> None:
        self._left, self._pace = memoryview(body), pace

    def read(self, limit: int = -1) -> bytes:
        """The next bytes, when they may be sent."""
        limit = _BLOCK_BYTES if limit < 0 else min(limit, _BLOCK_BYTES)
        block, self._left = self._left[:limit], self._left[limit:]
        if block:
            self._pace(len(block))
        return bytes(block)


class Wire:
    """Connections to one store; raises as boto3 does. Safe to share between threads."""

    def __init__(self, client: "S3Client") -> None:
        self._client = client
        self._session = self._opened(None)

    def hold_back(self, receive_bytes: int | None) -> None:
        """How much a new connection lets the other side send ahead of what is read; None: as the system likes."""
        self._session = self._opened(receive_bytes)  # what is under way ends on its own connection

    def close(self) -> None:
        """Close the connections that are kept open."""
        self._session.close()

    @contextmanager
    def get(self, what: str, params: Mapping[str, Any], headers: Mapping[str, str]) -> Iterator[tuple[Answer, Read]]:
        """An object's headers and how to read on in it. Raises as boto3 does, and Transient while it is read."""
        raw = None
        try:
            answer = self._send("get_object", params, headers, None)
            raw = answer.raw
            yield answer.headers, lambda limit: _read(what, raw, limit)
        finally:
            if raw is not None:
                raw.release_conn() if _is_at_its_end(raw) else raw.close()

    def put(self, operation: str, params: Mapping[str, Any], body: bytes, pace: Pace) -> Answer:
        """Send a body; returns the answer's headers."""
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        headers = {"Content-MD5": digest, "Content-Length": str(len(body)), **_sent_with(params)}
        answer = self._send(operation, params, headers, _Paced(body, pace) if body else None)
        _ = answer.content  # reads what is left, so that the connection is free again
        return cast("Answer", answer.headers)

    def _send(self, operation: str, params: Mapping[str, Any], headers: Mapping[str, str], body: _Paced | None) -> Any:
        from botocore.awsrequest import AWSPreparedRequest
        from botocore.exceptions import ClientError

        url = self._client.generate_presigned_url(operation, Params=dict(params), ExpiresIn=_VALID_SECONDS)
        method = "GET" if operation == "get_object" else "PUT"
        # The stubs know less of these two classes than botocore itself uses of them.
        prepared: Any = AWSPreparedRequest
        answer = self._session.send(prepared(method, url, dict(headers), body, True))
        if answer.status_code >= 300:
            raise ClientError(_error_in(answer.status_code, answer.content[:_ERROR_BYTES]), operation)
        return answer

    def _opened(self, receive_bytes: int | None) -> "URLLib3Session":
        from botocore.httpsession import URLLib3Session
        from botocore.utils import get_environ_proxies

        options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), *_receiving(receive_bytes)]
        session: Any = URLLib3Session
        opened: URLLib3Session = session(
            verify=os.environ.get("AWS_CA_BUNDLE") or os.environ.get("REQUESTS_CA_BUNDLE") or True,
            proxies=get_environ_proxies(self._client.meta.endpoint_url),
            timeout=(CONNECT_SECONDS, _READ_SECONDS),
            max_pool_connections=_CONNECTIONS,
            socket_options=options,
        )
        return opened


def _receiving(receive_bytes: int | None) -> list[tuple[int, int, int]]:
    """The option of a socket that holds so much. Not TCP_WINDOW_CLAMP: kernels that tune the buffer widen the clamp again.

    The kernel doubles what it is given, and takes no more than `rmem_max`: where that is far too little for a long link, its own
    tuning goes further.
    """
    if receive_bytes is None:
        return []
    asked = receive_bytes // 2
    largest = int(_LARGEST.read_text("ascii")) if _LARGEST.exists() else asked
    return [] if asked > 2 * largest else [(socket.SOL_SOCKET, socket.SO_RCVBUF, min(asked, largest))]


def round_trip_seconds(url: str, monotonic: Callable[[], float]) -> float:
    """How long it takes to be connected, the quickest of a few; 0 where it cannot be (a proxy leads there, nothing answers)."""
    parts, times = urlsplit(url), list[float]()
    address = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    with suppress(OSError):
        for _ in range(_CONNECTS):
            began = monotonic()
            with socket.create_connection(address, timeout=CONNECT_SECONDS):
                times.append(monotonic() - began)
    return min(times, default=0.0)


def md5_in(answer: Answer) -> str:
    """The MD5 of an object's bytes in hex, where its ETag is that; ''. It is not of one that was written by parts, or that is
    encrypted under a key of the owner's."""
    etag = answer.get("ETag", "").strip('"')
    kms = "kms" in answer.get("x-amz-server-side-encryption", "")
    own = "x-amz-server-side-encryption-customer-algorithm" in answer
    return etag if _PLAIN_MD5.fullmatch(etag) and not kms and not own else ""


def _sent_with(params: Mapping[str, Any]) -> dict[str, str]:
    """The headers that a signed URL was signed with."""
    named = {"Content-Type": params.get("ContentType"), "Content-Encoding": params.get("ContentEncoding")}
    named |= {f"x-amz-meta-{name}": value for name, value in params.get("Metadata", {}).items()}
    return {name: value for name, value in named.items() if value is not None}


def _read(what: str, raw: Any, limit: int) -> bytes:
    from urllib3.exceptions import HTTPError

    try:
        return bytes(raw.read(limit))
    except (HTTPError, OSError) as error:
        raise Transient(redacted(f"{what}: the connection broke: {error}")) from None


def _is_at_its_end(raw: Any) -> bool:
    return bool(raw.length_remaining == 0)


def _error_in(status: int, body: bytes) -> Any:
    """An error's answer as boto3 gives it."""
    found = {"Code": str(status), "Message": ""}
    try:
        root = ET.fromstring(body)  # noqa: S314 - of the store that we trust with the data; and expat expands no bombs
    except ET.ParseError:
        root = None
    if root is not None:
        found = {name: root.findtext(f"{{*}}{name}") or default for name, default in found.items()}
    return {"Error": found, "ResponseMetadata": {"HTTPStatusCode": status}}
