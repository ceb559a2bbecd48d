"""A region's bucket as an end of a link: whose credentials open it, signed addresses of its objects, and what stands there.

Credentials of a region's store are `RECONCILER_STORE_<REGION>_AWS_ACCESS_KEY_ID` and so on (the name in capitals, `-` as `_`);
where they are not set, those that boto3 finds for everything. They need to read `.gpu-reconciler/probe/read`, and to write and
delete `.gpu-reconciler/probe/from-<their region>`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import unquote, urlsplit

from reconciler.adapters.link_probe.connection import OPERATION_SECONDS, Request
from reconciler.model.region import StoreAddress
from reconciler.ports import Refused, Transient

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_SIGNED_SECONDS: Final = 300
_KEY: Final = "AWS_ACCESS_KEY_ID"
_SECRET: Final = "AWS_SECRET_ACCESS_KEY"  # noqa: S105 - a variable's name
_TOKEN: Final = "AWS_SESSION_TOKEN"  # noqa: S105


def variable(region: str, name: str) -> str:
    """The variable that has `name` (`AWS_ACCESS_KEY_ID` and so on) for the store of one region."""
    return f"RECONCILER_STORE_{region.upper().replace('-', '_')}_{name}"


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket that is open. `prefix` ends with `/`, or is ''."""

    name: str
    prefix: str
    client: "S3Client"
    authorities: str

    def asking(self, key: str, method: Literal["get_object", "put_object"]) -> Request:
        """A request that may be sent for some minutes. Raises Refused or Transient where nothing signs it."""
        what = f"{method[:3]} s3://{self.name}/{self.prefix}{key}"
        with _as_ports(what):
            place = {"Bucket": self.name, "Key": self.prefix + key}
            url = self.client.generate_presigned_url(method, Params=place, ExpiresIn=_SIGNED_SECONDS)
        return Request(what, url, self.authorities)

    def size_of(self, key: str) -> int | None:
        """Bytes of an object; None where there is none. Raises Refused or Transient."""
        full = self.prefix + key
        with _as_ports(f"head s3://{self.name}/{full}"):
            try:
                return self.client.head_object(Bucket=self.name, Key=full)["ContentLength"]
            except self.client.exceptions.ClientError as error:
                if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") != 404:
                    raise
                return None

    def remove(self, key: str) -> None:
        """Remove one of ours. Raises Refused or Transient."""
        with _as_ports(f"delete s3://{self.name}/{self.prefix}{key}"):
            self.client.delete_object(Bucket=self.name, Key=self.prefix + key)


def opened(region: str, address: StoreAddress, environment: Mapping[str, str]) -> Bucket:
    """A region's bucket, by its own credentials if there are any. Sends nothing. Raises Refused where it cannot be opened."""
    from boto3.session import Session
    from botocore.config import Config
    from botocore.httpsession import get_cert_path

    def said(name: str) -> str | None:
        return environment.get(variable(region, name)) or None

    if (said(_KEY) is None) != (said(_SECRET) is None):
        raise Refused(f"{variable(region, _KEY)} and {variable(region, _SECRET)} go together; set both, or neither")
    parts = urlsplit(address.url)
    prefix = unquote(parts.path).strip("/")
    authorities = environment.get("AWS_CA_BUNDLE") or str(get_cert_path(verify=True))
    with _as_ports(f"open {address.url}"):
        session = Session(said(_KEY), said(_SECRET), said(_TOKEN))
        config = Config(
            signature_version="s3v4",
            connect_timeout=OPERATION_SECONDS,
            read_timeout=OPERATION_SECONDS,
            retries={"mode": "standard", "total_max_attempts": 1},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        client = session.client(
            "s3",
            endpoint_url=said("AWS_ENDPOINT_URL_S3") or address.endpoint,
            region_name=said("AWS_REGION") or address.location,
            verify=authorities,
            config=config,
        )
    return Bucket(parts.netloc, f"{prefix}/" if prefix else "", client, authorities)


@contextmanager
def _as_ports(what: str) -> Iterator[None]:
    """Errors of boto3 come out as those of ports.py, without what a message could hold of a secret."""
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, SSLError
    from botocore.exceptions import ConnectionError as NoConnection

    try:
        yield
    except ClientError as error:
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        text = f"{what}: HTTP {status} {error.response.get('Error', {}).get('Code', '')}"
        if status >= 500 or status in (408, 425, 429):
            raise Transient(text) from None
        raise Refused(f"{text}; let the agent's credentials read and write `.gpu-reconciler/probe/` there") from None
    except SSLError as error:
        raise Refused(f"{what}: {error}; name the authority that signed the store's certificate in AWS_CA_BUNDLE") from None
    except (HTTPClientError, NoConnection) as error:
        raise Transient(f"{what}: {type(error).__name__}") from None
    except (BotoCoreError, ValueError) as error:
        raise Refused(f"{what}: {error}; correct the address of the store, or the credentials for it") from None
