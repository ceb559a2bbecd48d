"""Which object keys every store takes, so that what works on one works on the next."""

from typing import Final

from reconciler.ports import Refused

_LONGEST_BYTES: Final = 1024
"""As on S3."""


def parts_of(key: str, prefix: str = "") -> list[str]:
    """The parts of a key between its `/`. `prefix`: what the store puts before it. Raises Refused where some store would not take
    it, or take it for another: some stores and proxies resolve `..` in paths.
    """
    parts = key.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise Refused(f"object key {key!r} has an empty part, `.`, `..` or a NUL; use names with `/` between them")
    try:
        length = len((prefix + key).encode())
    except UnicodeEncodeError:
        raise Refused(f"object key {key!r} is not valid Unicode; rename it") from None
    if length > _LONGEST_BYTES:
        raise Refused(f"object key {key[:80]!r}… has {length} bytes; use at most {_LONGEST_BYTES}")
    return parts
