"""What files say, understood once a process: bytes never say anything else, and thousands of histories push the same ones."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar, cast

from reconciler.adapters.documents import reader
from reconciler.model.base import Model
from reconciler.model.job import JobSpec
from reconciler.model.problem import Invalid

M = TypeVar("M", bound=Model)


@lru_cache(maxsize=4096)
def _read(kind: type[Model], body: bytes, path: str) -> Model | Invalid:
    try:
        return reader.read_config(kind, body, path)
    except Invalid as error:
        return error


class Remembered:
    """The hub's `Documents` by the product's own reader, with a memory."""

    def read_job(self, body: bytes, path: str) -> JobSpec:
        """A job's spec from its file. Raises Invalid."""
        return self.read_config(JobSpec, body, path)

    def read_config(self, kind: type[M], body: bytes, path: str) -> M:
        """A value of any kind from its file. Raises Invalid."""
        found = _read(kind, body, path)
        if isinstance(found, Invalid):
            raise Invalid(found.problems)
        return cast("M", found)

    def locate(self, body: bytes, path: str, pointer: Sequence[str | int]) -> tuple[int, int]:
        """Line and column of a value in a file that was read before."""
        return reader.locate(body, path, pointer)


remembered = Remembered()
