"""A folder of an S3 bucket as an end of a copy: any keys, any sizes, by streams and by parts; Amazon's or any other store.

Decides which requests make up each call of `bulk_port`, and what of a copy the store can be asked for later: every copy carries,
as metadata, the mark of the version that it is a copy of, for the ETag of an object that was written by parts says little of
its bytes. What is missing, and what to do about errors, is for the worker.

Invariant: only the version that was listed is read (`If-Match` on its ETag, and the ETag of the answer).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from reconciler.adapters.s3_answers import ClientFactory, Keys, asking, check_page, config, default_factory, unanswered
from reconciler.adapters.s3_beside import BesideFolder
from reconciler.adapters.s3_wire import Wire, md5_in, round_trip_seconds
from reconciler.bulk_port import Beside, BulkSource, CannotCopy, Found, Pace, Part, Stream, Upload, UploadLost, changed, mark_of
from reconciler.model.staged import MARKER_SUFFIX, NOTE_SUFFIX
from reconciler.ports import Refused

MARK: Final = "gpu-reconciler-copy-of"
_READ_SECONDS, _READ_ATTEMPTS = 20, 3
_FINISH_SECONDS: Final = 900  # the store answers when all parts are put together, or all bytes copied
_GONE: Final = {"NoSuchKey", "404", "PreconditionFailed", "412", "InvalidRange", "416"}
_CANNOT: Final = {"NotImplemented", "501", "AccessDenied", "403", "MethodNotAllowed", "405"}
_TRAITS: Final = ("ContentType", "ContentEncoding")


class S3Bulk:
    """Both protocols of `bulk_port` on a bucket and a folder in it. Safe to share between threads; `close` it at the end."""

    def __init__(
        self,
        bucket: str,
        folder: str,
        *,
        endpoint_url: str | None = None,
        region: str | None = None,
        keys: Keys | None = None,
        client_factory: ClientFactory | None = None,
    ) -> None:
        """Sends nothing yet. `folder` is a key's beginning, without its last `/`; '' is all. Raises Refused for bad settings."""
        self._bucket, self._folder = bucket, folder
        self._below = f"{folder}/" if folder else ""
        self.uri = f"s3://{bucket}/{self._below}"
        with asking(f"open {self.uri}"):
            make = client_factory or default_factory(endpoint_url, region, keys)
            try:
                self._reading: Any = make(config(attempts=_READ_ATTEMPTS, read_seconds=_READ_SECONDS))
                self._writing: Any = make(config(attempts=1, read_seconds=_FINISH_SECONDS))
            except ValueError as error:  # how boto3 says that a URL or a region is none
                raise unanswered(f"open {self.uri}", error) from None
            self._wire = Wire(self._reading)
        self.identity = self._reading.meta.endpoint_url, None if keys is None else keys.access_key
        """Which store is asked, and by whom."""
        self.marker: Beside = BesideFolder(self._reading, bucket, folder, MARKER_SUFFIX)
        self.note: Beside = BesideFolder(self._reading, bucket, folder, NOTE_SUFFIX)

    def close(self) -> None:
        """Close the connections that are kept open between calls."""
        self._wire.close()
        for client in (self._reading, self._writing):
            client.close()

    # ---- reading

    def list(self) -> Iterator[Found]:
        """Every object below the folder. Raises Transient or Refused."""
        for found in self._pages("list_objects_v2", "NextContinuationToken", "Contents", Prefix=self._below):
            key = found["Key"].removeprefix(self._below)
            if not found.get("ETag"):
                raise Refused(f"list {self.uri}: {key!r} has no ETag; use a store or proxy that gives ETags")
            if key:  # else it stands for the folder itself
                yield Found(key, found["Size"], _bare(found["ETag"]), found["LastModified"].timestamp())

    @contextmanager
    def open(self, found: Found, offset: int, size: int) -> Iterator[Stream]:
        """Bytes of exactly that version. Raises Transient; Refused where the object has changed."""
        headers = {"If-Match": f'"{found.etag}"'}
        if (offset, size) != (0, found.size):
            headers["Range"] = f"bytes={offset}-{offset + size - 1}"
        where, refusal = f"get {self.uri}{found.key}", self._asking("get", found.key, is_source=True)
        with refusal, self._wire.get(where, self.named(found.key), headers) as (answer, read):
            if _bare(answer.get("ETag", "")) != found.etag or answer.get("Content-Length", str(size)) != str(size):
                raise changed(self.uri, found.key)
            traits = {"ContentType": answer.get("Content-Type"), "ContentEncoding": answer.get("Content-Encoding")}
            yield Stream(read, {name: value for name, value in traits.items() if value}, md5_in(answer))

    def traits(self, found: Found) -> Mapping[str, str]:
        """What `Stream.traits` says, without the bytes."""
        with self._asking("head", found.key, is_source=True):
            answer: Mapping[str, Any] = self._reading.head_object(**self.named(found.key), IfMatch=f'"{found.etag}"')
        return {name: str(answer[name]) for name in _TRAITS if answer.get(name)}

    def round_trip_seconds(self, monotonic: Callable[[], float]) -> float:
        """The quickest of some connections to the store's host."""
        return round_trip_seconds(self._reading.meta.endpoint_url, monotonic)

    def hold_back(self, receive_bytes: int | None) -> None:
        """How much may be on its way to each connection and not read yet."""
        self._wire.hold_back(receive_bytes)

    def is_copy(self, key: str, origin: Found) -> bool:
        """Whether the object there carries the mark of that version, and has its size. Raises Transient or Refused."""
        with self._asking("head", key):
            try:
                answer = self._reading.head_object(**self.named(key))
            except self._reading.exceptions.ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
                    return False
                raise
        return (answer["Metadata"].get(MARK), answer["ContentLength"]) == (mark_of(origin), origin.size)

    # ---- writing

    def put(self, origin: Found, body: bytes, traits: Mapping[str, str], pace: Pace) -> str:
        """Write a whole object. Raises Transient or Refused."""
        with self._asking("put", origin.key):
            return self._sent("put_object", origin.key, {**_marked(origin), **traits}, body, pace)

    def put_folder(self, key: str) -> None:
        """Write the empty object that stands for a folder."""
        with self._asking("put", key):
            self._sent("put_object", key, {}, b"", _at_once)

    def delete(self, key: str) -> None:
        """Remove one object if it is there."""
        with self._asking("delete", key):
            self._reading.delete_object(**self.named(key))

    def remove_folders(self) -> None:
        """Nothing: a bucket has none."""

    # ---- by parts

    def uploads(self) -> Iterator[Upload]:
        """All unfinished uploads below the folder, oldest first."""
        pages = self._pages("list_multipart_uploads", "NextKeyMarker", "Uploads", Prefix=self._below)
        for found in sorted(pages, key=lambda one: one["Initiated"]):
            yield Upload(found["Key"].removeprefix(self._below), found["UploadId"])

    def begin(self, origin: Found, traits: Mapping[str, str]) -> Upload:
        """Begin an object by parts. Where no answer comes, an upload without parts may be left."""
        with self._asking("begin", origin.key):
            answer = self._writing.create_multipart_upload(**self.named(origin.key), **_marked(origin), **dict(traits))
        return Upload(origin.key, answer["UploadId"])

    def parts(self, upload: Upload) -> Sequence[Part]:
        """The parts that are there. Raises UploadLost."""
        with self._asking("list the parts of", upload.key):
            pages = self._pages("list_parts", "NextPartNumberMarker", "Parts", **self._of(upload))
            return [Part(one["PartNumber"], 0, one["Size"], _bare(one["ETag"])) for one in pages]

    def put_part(self, upload: Upload, part: Part, body: bytes, pace: Pace) -> Part:
        """Write one part. Raises UploadLost."""
        with self._asking("put a part of", upload.key):
            where = {"UploadId": upload.name, "PartNumber": part.number}
            return Part(part.number, part.offset, part.size, self._sent("upload_part", upload.key, where, body, pace))

    def finish(self, upload: Upload, origin: Found, parts: Sequence[Part]) -> str:
        """Make the object of its parts; the store compares each one's ETag. Raises UploadLost."""
        named = [{"PartNumber": part.number, "ETag": f'"{part.etag}"'} for part in sorted(parts, key=lambda one: one.number)]
        with self._asking("finish", origin.key):
            answer = self._writing.complete_multipart_upload(**self._of(upload), MultipartUpload={"Parts": named})
        return _bare(answer.get("ETag", ""))

    def abort(self, upload: Upload) -> None:
        """Forget an upload; one that is gone is success."""
        try:
            with self._asking("abort", upload.key):
                self._reading.abort_multipart_upload(**self._of(upload))
        except UploadLost:
            return

    # ---- inside the store

    def copies_from(self, source: BulkSource) -> bool:
        """Whether both ends are one endpoint, asked with the same credentials."""
        return isinstance(source, S3Bulk) and self.identity == source.identity

    def copy(self, source: "S3Bulk", origin: Found) -> str:
        """Copy a whole object inside the store."""
        traits = source.traits(origin)
        with self._asking("copy", origin.key, is_source=True, is_copy=True):
            answer: Any = self._writing.copy_object(
                **self.named(origin.key),
                **_marked(origin),
                **dict(traits),
                CopySource=source.named(origin.key),
                CopySourceIfMatch=f'"{origin.etag}"',
                MetadataDirective="REPLACE",
            )
        return _bare(answer["CopyObjectResult"]["ETag"])

    def copy_part(self, source: "S3Bulk", origin: Found, upload: Upload, part: Part) -> Part:
        """Copy one part inside the store."""
        with self._asking("copy a part of", origin.key, is_source=True, is_copy=True):
            answer: Any = self._writing.upload_part_copy(
                **self._of(upload),
                PartNumber=part.number,
                CopySource=source.named(origin.key),
                CopySourceIfMatch=f'"{origin.etag}"',
                CopySourceRange=f"bytes={part.offset}-{part.offset + part.size - 1}",
            )
        return Part(part.number, part.offset, part.size, _bare(answer["CopyPartResult"]["ETag"]))

    def tidy(self) -> None:
        """Nothing: what is unfinished here is an upload."""

    # ---- asking

    def named(self, key: str) -> dict[str, Any]:
        """An object as requests name it."""
        return {"Bucket": self._bucket, "Key": self._below + key}

    def _of(self, upload: Upload) -> dict[str, Any]:
        return {**self.named(upload.key), "UploadId": upload.name}

    def _sent(self, operation: str, key: str, params: Mapping[str, Any], body: bytes, pace: Pace) -> str:
        answer = self._wire.put(operation, {**self.named(key), **params}, body, pace)
        return _bare(answer.get("ETag", ""))

    def _pages(self, operation: str, after: str, field: str, **params: Any) -> Iterator[Any]:
        what = f"{operation} {self.uri}"
        pages = iter(self._reading.get_paginator(operation).paginate(**{"Bucket": self._bucket, **params}))
        while True:
            with self._asking(operation, ""):
                page = next(pages, None)
            if page is None:
                return
            check_page(what, page, after)
            yield from page.get(field, ())

    @contextmanager
    def _asking(self, action: str, key: str, *, is_source: bool = False, is_copy: bool = False) -> Iterator[None]:
        what = f"{action} {self.uri}{key}"
        with asking(what):
            try:
                yield
            except self._reading.exceptions.ClientError as error:
                code = str(error.response["Error"].get("Code", ""))
                if code == "NoSuchUpload":
                    raise UploadLost(f"{what}: its upload is not there any more") from None
                if is_source and code in _GONE:
                    raise changed(self.uri, key) from None
                if is_copy and code in _CANNOT:
                    raise CannotCopy(f"{what}: the store does not copy it by itself ({code}); send the bytes") from None
                raise


def _marked(origin: Found) -> dict[str, Any]:
    return {"Metadata": {MARK: mark_of(origin)}}


def _bare(etag: str) -> str:
    return etag.strip('"')


def _at_once(_: int) -> None:
    """No pace."""
