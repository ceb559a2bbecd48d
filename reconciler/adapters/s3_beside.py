"""A small object beside a folder of an S3 bucket: what says that the folder is complete, or what its writer must remember.

Never below the folder, for programs list that. What it says is for its writer.
"""

from contextlib import closing
from typing import Any

from reconciler.adapters.s3_answers import asking
from reconciler.ports import Refused


class BesideFolder:
    """The object `<folder><suffix>`. Replaced without a condition: one worker writes it, and writes it anew if need be."""

    def __init__(self, client: Any, bucket: str, folder: str, suffix: str) -> None:
        self._client, self._bucket, self._folder, self._suffix = client, bucket, folder, suffix

    def read(self) -> bytes | None:
        """Its bytes; None where it is not there. Raises Transient or Refused."""
        where = self._where()
        with asking(f"get {self._address()}"):
            try:
                with closing(self._client.get_object(**where)["Body"]) as stream:
                    return bytes(stream.read())
            except self._client.exceptions.NoSuchKey:
                return None

    def write(self, body: bytes) -> None:
        """Write it."""
        where = self._where()
        with asking(f"put {self._address()}"):
            self._client.put_object(**where, Body=body, ContentType="application/json")

    def delete(self) -> None:
        """Remove it if it is there."""
        where = self._where()
        with asking(f"delete {self._address()}"):
            self._client.delete_object(**where)

    def _where(self) -> dict[str, str]:
        if not self._folder:
            raise Refused(f"s3://{self._bucket}/: its marker stands beside a staged folder; name a folder in the bucket")
        return {"Bucket": self._bucket, "Key": self._folder + self._suffix}

    def _address(self) -> str:
        return f"s3://{self._bucket}/{self._folder}{self._suffix}"
