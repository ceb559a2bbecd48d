"""Objects in one S3 bucket, for hubs and agents on many machines; Amazon's or any store that honours If-Match on PUT.

Decides how a call becomes a request, which requests are repeated, and which of the errors of ports.py an answer is.
What the objects mean is for hub and agent; whether this store can be trusted with compare-and-swap is for `store_probe`.

Invariant: a conditional write is sent at most once. Were it repeated after its answer was lost, the second try would
find the first one's object and report a conflict that never was; so an answer that does not come is Transient, and 409
or 412 is Conflict. Still, a proxy on the way may repeat a PUT: after a Conflict a caller may read the object again, and
where it finds its own bytes, the write was done. Reads are repeated, for they change nothing.

boto3 (23 MB, 0.65 s) is imported when a store is made, never with this module.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing
from typing import Any

from reconciler.adapters.object_keys import parts_of
from reconciler.adapters.s3_answers import ClientFactory, asking, check_page, config, default_factory, status_of, unanswered
from reconciler.ports import Conflict, Listed, Refused, Stored

_READ_SECONDS = 5
_COPY_SECONDS = 900  # the store answers when all bytes are copied
_READ_ATTEMPTS = 3
_COPY_LIMIT_BYTES = 5 * 1024**3
"""https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html"""


class S3Store:
    """The `ObjectStore` protocol on a bucket and a key prefix. Safe to share between threads; `close` it at the end."""

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        endpoint_url: str | None = None,
        region: str | None = None,
        client_factory: ClientFactory | None = None,
    ) -> None:
        """Sends nothing yet. `endpoint_url` is for stores other than Amazon's. Raises Refused for unusable settings."""
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        with self._asking("open"):
            make = client_factory or default_factory(endpoint_url, region)
            try:
                # Three clients, for botocore sets retries and time-outs by client and not by request.
                self._deciding = make(config(attempts=1, read_seconds=_READ_SECONDS))
                self._reading = make(config(attempts=_READ_ATTEMPTS, read_seconds=_READ_SECONDS))
                self._copying = make(config(attempts=_READ_ATTEMPTS, read_seconds=_COPY_SECONDS))
            except ValueError as error:  # how boto3 says that a URL or a region is none
                raise unanswered(f"open {self._address('')}", error) from None

    def close(self) -> None:
        """Close the connections that are kept open between calls."""
        for client in (self._deciding, self._reading, self._copying):
            client.close()

    def get(self, key: str) -> Stored | None:
        """The object, or None where there is none. Raises Transient or Refused; a body cut short is Transient."""
        full = self._full(key)
        with self._asking("get", key):
            try:
                answer = self._reading.get_object(Bucket=self._bucket, Key=full)
            except self._reading.exceptions.NoSuchKey:
                return None
            with closing(answer["Body"]) as stream:
                return Stored(stream.read(), self._etag_in(answer))

    def etag(self, key: str) -> str | None:
        """The object's ETag, None where there is no object. Raises Transient or Refused."""
        full = self._full(key)
        with self._asking("head", key):
            try:
                return self._etag_in(self._reading.head_object(Bucket=self._bucket, Key=full))
            except self._reading.exceptions.ClientError as error:
                if status_of(error.response) != 404:
                    raise
        # An answer to HEAD has no body, so it cannot tell a missing object from a missing bucket. One to GET can.
        found = self.get(key)
        return None if found is None else found.etag

    def put(self, key: str, body: bytes, *, expect: str | None) -> str:
        """Write and return the new ETag; `expect` None means "must not exist yet". Raises Conflict, Transient, Refused."""
        full = self._full(key)
        if expect is not None and expect.strip('"') in ("", "*"):
            raise Conflict(f"put {key}: no object has the ETag {expect!r}")  # and a store would take it for "any"
        with self._asking("put", key, expect_object=expect is not None):
            if expect is None:
                answer = self._deciding.put_object(Bucket=self._bucket, Key=full, Body=body, IfNoneMatch="*")
            else:
                answer = self._deciding.put_object(Bucket=self._bucket, Key=full, Body=body, IfMatch=expect)
            return self._etag_in(answer)

    def list(self, prefix: str) -> Iterator[Listed]:
        """All objects whose key starts with `prefix`, in order of key, page by page. Raises Transient or Refused."""
        above, slash, _ = prefix.rpartition("/")
        full = self._prefix + prefix
        if slash:
            self._full(above)
        pages = iter(self._reading.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=full))
        while True:
            with self._asking("list", prefix):
                page = next(pages, None)
            if page is None:
                return
            check_page(f"list {self._address(prefix)}", page)
            for found in page.get("Contents", []):
                if key := found["Key"].removeprefix(self._prefix):  # else it is somebody's marker of our own prefix
                    yield Listed(key, found["Size"])

    def copy(self, source: str, target: str) -> None:
        """Copy one object inside the store, unconditionally. Raises Transient, or Refused (no source, above 5 GiB)."""
        origin, full = self._full(source), self._full(target)
        with self._asking("copy", source):
            try:
                self._copying.copy_object(Bucket=self._bucket, Key=full, CopySource={"Bucket": self._bucket, "Key": origin})
            except self._copying.exceptions.ClientError as error:
                if status_of(error.response) != 400:
                    raise
                size = self._reading.head_object(Bucket=self._bucket, Key=origin)["ContentLength"]
                if size <= _COPY_LIMIT_BYTES:
                    raise
                raise Refused(
                    f"copy {self._address(source)}: {size} bytes are more than the {_COPY_LIMIT_BYTES} that S3 copies "
                    "at once; write it as several smaller objects"
                ) from None

    def delete(self, key: str) -> None:
        """Remove one object if it is there. Raises Transient or Refused."""
        full = self._full(key)
        with self._asking("delete", key):
            self._reading.delete_object(Bucket=self._bucket, Key=full)

    def _full(self, key: str) -> str:
        """The key in the bucket. Raises Refused as any store does."""
        parts_of(key, self._prefix)
        return self._prefix + key

    def _address(self, key: str) -> str:
        return f"s3://{self._bucket}/{self._prefix}{key}"

    def _etag_in(self, answer: Mapping[str, Any]) -> str:
        etag = answer.get("ETag")
        if not etag:
            raise Refused(f"s3://{self._bucket}: an answer without an ETag; use a store or proxy that gives ETags")
        return str(etag)

    def _asking(self, action: str, key: str = "", *, expect_object: bool = False) -> AbstractContextManager[None]:
        return asking(f"{action} {self._address(key)}", conditional=action == "put", expect_object=expect_object)
