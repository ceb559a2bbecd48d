"""How a store on S3 is set up: where its credentials come from, which settings are refused, and what no message repeats."""

import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.adapters.s3_store import S3Store
from reconciler.ports import Refused, Transient
from tests.adapters import s3_server
from tests.adapters.s3_server import answering, s3_error, s3_store, serving


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(s3_server.moto_app()) as url:
        yield url


@pytest.fixture
def bucket(url: str) -> str:
    name = f"b-{uuid.uuid4().hex}"
    s3_server.make_bucket(url, name)
    return name


def test_no_secret_is_repeated() -> None:
    said = (
        "key AKIAIOSFODNN7EXAMPLE, https://me:word@s3.example/?X-Amz-Credential=id&X-Amz-Signature=0f1e&X-Amz-Security-Token=tok "
    )
    denied = answering("403 Forbidden", s3_error("AccessDenied", said.replace("&", "&amp;")), methods=("GET",))
    with serving(denied(s3_server.moto_app())) as url, s3_store(url, "bucket") as store, pytest.raises(Refused) as told:
        store.get("a")
    assert "X-Amz-Signature=[…]" in str(told.value)
    for secret in ("AKIAIOSFODNN7EXAMPLE", "word", "=id", "0f1e", "tok"):
        assert secret not in str(told.value)
    assert told.value.__cause__ is None
    assert told.value.__suppress_context__
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with s3_store(f"http://me:word@127.0.0.1:{port}", "bucket") as away, pytest.raises(Transient) as lost:
        away.put("a", b"1", expect=None)
    assert "word" not in str(lost.value)


@pytest.fixture
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """No credentials anywhere."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    return monkeypatch


def test_credentials_come_from_where_boto3_finds_them(url: str, bucket: str, bare_environment: pytest.MonkeyPatch) -> None:
    with closing(S3Store(bucket, endpoint_url=url)) as store, pytest.raises(Refused, match="boto3 finds"):
        store.get("a")
    bare_environment.setenv("AWS_ACCESS_KEY_ID", "test")
    with pytest.raises(Refused, match="boto3 finds"):
        S3Store(bucket, endpoint_url=url)
    bare_environment.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with closing(S3Store(bucket, endpoint_url=url, region="eu-central-1")) as store:
        etag = store.put("a", b"1", expect=None)
        assert store.etag("a") == etag


@pytest.mark.usefixtures("bare_environment")
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        pytest.param({"endpoint_url": "no url"}, "no url", id="an endpoint that is no URL"),
        pytest.param({"region": "eu central"}, "eu central", id="a region that is none"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(settings: dict[str, str], says: str) -> None:
    with pytest.raises(Refused, match=says):
        S3Store("bucket", endpoint_url=settings.get("endpoint_url"), region=settings.get("region"))


def test_a_profile_that_is_not_there_is_refused(bare_environment: pytest.MonkeyPatch) -> None:
    bare_environment.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(Refused, match="nobody"):
        S3Store("bucket")


def test_boto3_is_imported_only_for_a_store() -> None:
    script = "import sys, reconciler.adapters.s3_store; sys.exit(any(name.startswith('boto') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parents[2], check=False).returncode == 0
