"""Objects in one S3 bucket, for hubs and agents on many machines; Amazon's or any store that honours If-Match on PUT.

Decides how a call becomes a request, which requests are repeated, and which of the errors of ports.py an answer is.
What the objects mean is for hub and agent; whether this store can be trusted with compare-and-swap is for `store_probe`.

Invariant: a conditional write is sent at most once. Were it repeated after its answer was lost, the second try would
find the first one's object and report a conflict that never was; so an answer that does not come is Transient, and 409
or 412 is Conflict. Still, a proxy on the way may repeat a PUT: after a Conflict a caller may read the object again, and
where it finds its own bytes, the write was done. Reads are repeated, for they change nothing.

boto3 (23 MB, 0.65 s) is imported when a store is made, never with this module.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from reconciler.adapters.object_keys import parts_of
from reconciler.ports import Conflict, Listed, Refused, Stored, Transient

if TYPE_CHECKING:
    from botocore.config import Config
    from mypy_boto3_s3 import S3Client

ClientFactory: TypeAlias = Callable[["Config"], "S3Client"]
"""Makes a client with the given configuration; for credentials that boto3 does not find by itself."""

_CONNECT_SECONDS = 3
_READ_SECONDS = 5
_COPY_SECONDS = 900  # the store answers when all bytes are copied
_READ_ATTEMPTS = 3
_CONNECTIONS = 32
_COPY_LIMIT_BYTES = 5 * 1024**3
"""https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html"""

_BUSY = {"RequestTimeout", "RequestTimeoutException", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequests"}
_BUSY_STATUS = {408, 425, 429}
_ASK_AGAIN = {"CredentialRetrievalError", "MetadataRetrievalError", "IncompleteReadError", "FlexibleChecksumError"}
_NO_CREDENTIALS = {
    "NoCredentialsError",
    "PartialCredentialsError",
    "ProfileNotFound",
    "SSOTokenLoadError",
    "TokenRetrievalError",
    "UnauthorizedSSOTokenError",
}
_SETTINGS = "correct the address or the settings of the object store"
_RIGHTS = (
    "allow these credentials s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket here "
    "(without s3:ListBucket an object that is not there counts as forbidden)"
)
_CREDENTIALS = "correct or renew the credentials that boto3 finds (environment, profile or role)"
_REGION = "set the region in which the bucket is"
_TODO = {
    "AccessDenied": _RIGHTS,
    "403": _RIGHTS,
    "InvalidAccessKeyId": _CREDENTIALS,
    "SignatureDoesNotMatch": _CREDENTIALS,
    "InvalidToken": _CREDENTIALS,
    "ExpiredToken": _CREDENTIALS,
    "RequestTimeTooSkewed": "set this machine's clock",
    "NoSuchBucket": "create the bucket, or correct its name in the address",
    "NoSuchKey": "list the source again; the object is gone",
    "PermanentRedirect": _REGION,
    "AuthorizationHeaderMalformed": _REGION,
    "301": _REGION,
    "404": "correct the endpoint: what answers there is no S3 store",
    "NotImplemented": "use an object store that honours If-Match and If-None-Match on PUT",
}
_SECRETS = re.compile(
    r"(?<=://)[^/@\s]+(?=@)|(?<=X-Amz-Signature=)[^&\s]+|(?<=X-Amz-Credential=)[^&\s]+|(?<=X-Amz-Security-Token=)[^&\s]+"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{12,}"
)


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
            make = client_factory or _default_factory(endpoint_url, region)
            try:
                # Three clients, for botocore sets retries and time-outs by client and not by request.
                self._deciding = make(_config(attempts=1, read_seconds=_READ_SECONDS))
                self._reading = make(_config(attempts=_READ_ATTEMPTS, read_seconds=_READ_SECONDS))
                self._copying = make(_config(attempts=_READ_ATTEMPTS, read_seconds=_COPY_SECONDS))
            except ValueError as error:  # how boto3 says that a URL or a region is none
                raise _unanswered(f"open {self._address('')}", error) from None

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
                if _status(error.response) != 404:
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
            self._check_page(prefix, page)
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
                if _status(error.response) != 400:
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

    def _check_page(self, prefix: str, page: Mapping[str, Any]) -> None:
        """Less than the whole listing must never look like all of it."""
        if "IsTruncated" not in page:  # boto3 reads any well-formed web page as an empty listing
            raise Transient(f"list {self._address(prefix)}: the answer is no listing; see what is at the endpoint")
        if page["IsTruncated"] and not page.get("NextContinuationToken"):
            raise Refused(f"list {self._address(prefix)}: only a first page came; use a store that has ListObjectsV2")

    def _etag_in(self, answer: Mapping[str, Any]) -> str:
        etag = answer.get("ETag")
        if not etag:
            raise Refused(f"s3://{self._bucket}: an answer without an ETag; use a store or proxy that gives ETags")
        return str(etag)

    @contextmanager
    def _asking(self, action: str, key: str = "", *, expect_object: bool = False) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError

        what = f"{action} {self._address(key)}"
        # `from None`: the original texts may hold what `_redacted` takes out.
        try:
            yield
        except ClientError as error:
            raise _answered(what, error.response, conditional=action == "put", expect_object=expect_object) from None
        except BotoCoreError as error:
            raise _unanswered(what, error) from None


def _default_factory(endpoint_url: str | None, region: str | None) -> ClientFactory:
    from boto3.session import Session

    session = Session()
    return lambda config: session.client("s3", endpoint_url=endpoint_url, region_name=region, config=config)


def _config(*, attempts: int, read_seconds: int) -> "Config":
    from botocore.config import Config

    return Config(
        signature_version="s3v4",
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=read_seconds,
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=_CONNECTIONS,
        # Checksums in trailers are beyond many stores that are not Amazon's.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )


def _status(response: Mapping[str, Any]) -> int:
    return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _answered(what: str, response: Mapping[str, Any], *, conditional: bool, expect_object: bool) -> Exception:
    """Which error an answer of the store is. A 5xx may come after the write was done, so it says nothing about it."""
    status, code = _status(response), str(response.get("Error", {}).get("Code", ""))
    text = _redacted(f"{what}: HTTP {status} {code}: {response.get('Error', {}).get('Message', '')}")
    if conditional and (status in (409, 412) or (expect_object and status == 404 and code != "NoSuchBucket")):
        return Conflict(text)
    if code in _BUSY or status in _BUSY_STATUS or (status >= 500 and status != 501):
        return Transient(text)
    return Refused(f"{text}; {_TODO.get(code) or _TODO.get(str(status), _SETTINGS)}")


def _unanswered(what: str, error: Exception) -> Exception:
    """Which error it is that no answer came: the network's (ask again later) or one of our settings (a person must act)."""
    from botocore.exceptions import ConnectionError as NoConnection
    from botocore.exceptions import HTTPClientError

    text, name = _redacted(f"{what}: {error}"), type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return Refused(f"{text}; name the authority that signed the store's certificate in AWS_CA_BUNDLE")
    if isinstance(error, HTTPClientError | NoConnection) or name in _ASK_AGAIN:
        return Transient(text)
    return Refused(f"{text}; {_CREDENTIALS if name in _NO_CREDENTIALS else _SETTINGS}")


def _redacted(text: str) -> str:
    return _SECRETS.sub("[…]", text)
