"""A real S3 server for this package."""

from collections.abc import Iterator

import pytest

from tests.adapters.s3_server import moto_app, serving


@pytest.fixture(scope="package")
def s3_url() -> Iterator[str]:
    with serving(moto_app()) as url:
        yield url
