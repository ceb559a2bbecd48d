"""What an answer of an S3 store means, or that none came: the errors of ports.py, in words that name what to do.

Shared by what stores small objects that decide things (`s3_store`) and by what moves bulk (`s3_bulk`). Also the one place that
makes clients: boto3 (23 MB, 0.65 s) is imported when one is made, never with a module.

Invariant: no message repeats a secret.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from reconciler.ports import Conflict, Refused, Transient

if TYPE_CHECKING:
    from botocore.config import Config
    from mypy_boto3_s3 import S3Client

ClientFactory: TypeAlias = Callable[["Config"], "S3Client"]
"""Makes a client with the given configuration; for credentials that boto3 does not find by itself."""

CONNECT_SECONDS = 3
_CONNECTIONS = 32

_BUSY = {"RequestTimeout", "RequestTimeoutException", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequests"}
_BUSY |= {"BadDigest", "IncompleteBody", "OperationAborted"}  # what was sent came damaged, or crossed with another request
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
    "(without s3:ListBucket an object that is not there counts as forbidden); to stage, also s3:AbortMultipartUpload, "
    "s3:ListMultipartUploadParts and s3:ListBucketMultipartUploads"
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


@contextmanager
def asking(what: str, *, conditional: bool = False, expect_object: bool = False) -> Iterator[None]:
    """Inside, what botocore raises comes out as ports.py has it. `what`: what is asked, of which address."""
    from botocore.exceptions import BotoCoreError, ClientError

    # `from None`: the original texts may hold what `redacted` takes out.
    try:
        yield
    except ClientError as error:
        raise answered(what, error.response, conditional=conditional, expect_object=expect_object) from None
    except BotoCoreError as error:
        raise unanswered(what, error) from None


def check_page(what: str, page: Mapping[str, Any], after: str = "NextContinuationToken") -> None:
    """Less than the whole listing must never look like all of it. `after`: what names the next page."""
    if "IsTruncated" not in page:  # boto3 reads any well-formed web page as an empty listing
        raise Transient(f"{what}: the answer is no listing; see what is at the endpoint")
    if page["IsTruncated"] and not page.get(after):
        raise Refused(f"{what}: only a first page came; use a store that has ListObjectsV2")


@dataclass(frozen=True, slots=True)
class Keys:
    """Credentials that are named, instead of those that boto3 finds by itself."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def keys_in(environment: Mapping[str, str], prefix: str) -> Keys | None:
    """The credentials of the variables whose names begin with `prefix`, else of those without; None: as boto3 finds them."""
    for begin in (prefix, ""):
        access, secret = (environment.get(f"{begin}AWS_{name}") for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"))
        if access and secret:
            return Keys(access, secret, environment.get(f"{begin}AWS_SESSION_TOKEN") or None)
        if access or secret:
            raise Refused(f"of {begin}AWS_ACCESS_KEY_ID and {begin}AWS_SECRET_ACCESS_KEY only one is set; set both, or none")
    return None


def default_factory(endpoint_url: str | None, region: str | None, keys: Keys | None = None) -> ClientFactory:
    """Clients of one session."""
    from boto3.session import Session

    named = None if keys is None else (keys.access_key, keys.secret_key, keys.token)
    session = Session() if named is None else Session(*named)
    return lambda config: session.client("s3", endpoint_url=endpoint_url, region_name=region, config=config)


def config(*, attempts: int, read_seconds: int) -> "Config":
    """How a client asks: so often in all where no answer comes, with so long to wait for each."""
    from botocore.config import Config

    return Config(
        signature_version="s3v4",
        connect_timeout=CONNECT_SECONDS,
        read_timeout=read_seconds,
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=_CONNECTIONS,
        # Checksums in trailers are beyond many stores that are not Amazon's.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )


def status_of(response: Mapping[str, Any]) -> int:
    """The HTTP status of an answer."""
    return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def answered(what: str, response: Mapping[str, Any], *, conditional: bool, expect_object: bool) -> Exception:
    """Which error an answer of the store is. A 5xx may come after the write was done, so it says nothing about it."""
    status, code = status_of(response), str(response.get("Error", {}).get("Code", ""))
    text = redacted(f"{what}: HTTP {status} {code}: {response.get('Error', {}).get('Message', '')}")
    if conditional and (status in (409, 412) or (expect_object and status == 404 and code != "NoSuchBucket")):
        return Conflict(text)
    if code in _BUSY or status in _BUSY_STATUS or (status >= 500 and status != 501):
        return Transient(text)
    return Refused(f"{text}; {_TODO.get(code) or _TODO.get(str(status), _SETTINGS)}")


def unanswered(what: str, error: Exception) -> Exception:
    """Which error it is that no answer came: the network's (ask again later) or one of our settings (a person must act)."""
    from botocore.exceptions import ConnectionError as NoConnection
    from botocore.exceptions import HTTPClientError

    text, name = redacted(f"{what}: {error}"), type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return Refused(f"{text}; name the authority that signed the store's certificate in AWS_CA_BUNDLE")
    if isinstance(error, HTTPClientError | NoConnection) or name in _ASK_AGAIN:
        return Transient(text)
    return Refused(f"{text}; {_CREDENTIALS if name in _NO_CREDENTIALS else _SETTINGS}")


def redacted(text: str) -> str:
    """A text as it may be shown."""
    return _SECRETS.sub("[…]", text)
