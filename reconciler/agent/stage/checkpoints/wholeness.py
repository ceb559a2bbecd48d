"""Whether a file of a checkpoint was cut short, told from its head and its end. Nothing is ever unpickled.

Decides for formats that say themselves where they end: safetensors (the header has the offset of the last byte) and what
`torch.save` has written since PyTorch 1.6 (a zip archive, whose directory stands at its end). Of others nothing can be told but
that they are not empty: pickles of older versions, and DCP's `.distcp`, which is many small archives in a row.

It matters where a file was not written in one step: `torch.save` to a folder writes in place
(Lightning-AI/pytorch-lightning#688, #19970), and a rename across devices is a copy (fsspec/filesystem_spec#544).
"""

import json
import struct
from collections.abc import Callable
from typing import Final

_TENSORS: Final = (".safetensors",)
_ARCHIVES: Final = (".pt", ".pth", ".bin", ".ckpt")
_NEVER_EMPTY: Final = (*_TENSORS, *_ARCHIVES, ".distcp")
_LOCAL_HEADER, _DIRECTORY_END = b"PK\x03\x04", b"PK\x05\x06"
_END_BYTES: Final = 22
"""Of the record that ends an archive, without its comment (APPNOTE.TXT 4.3.16)."""
_LONGEST_COMMENT: Final = 0xFFFF
_LONGEST_HEADER_BYTES: Final = 100_000_000
"""The library reads none that is longer (safetensors/src/tensor.rs, `MAX_HEADER_SIZE`)."""

Read = Callable[[int, int], bytes]
"""So many bytes of the file, from an offset on."""


def damage(name: str, size: int, read: Read) -> str | None:
    """What shows that a file of so many bytes is not whole; None where nothing does. `name` only for its ending.

    Raises what `read` raises. It reads a safetensors file's header, of others at most the first 4 bytes and the last 64 KiB.
    """
    if not size and name.endswith(_NEVER_EMPTY):
        return "it is empty"
    if name.endswith(_TENSORS):
        return _cut_tensors(size, read)
    if name.endswith(_ARCHIVES) and read(0, min(size, len(_LOCAL_HEADER))) == _LOCAL_HEADER:
        return None if _has_directory(size, read) else "the directory at the end of the archive is missing"
    return None


def _cut_tensors(size: int, read: Read) -> str | None:
    """Eight bytes of length, a header in JSON, then the tensors: the header gives where each begins and ends."""
    start = struct.calcsize("<Q")
    if size < start:
        return "it ends before its header"
    head = read(0, min(size, start + 1))
    (length,) = struct.unpack_from("<Q", head)
    if length > size - start:
        return "it ends within its header"
    if head[start:] != b"{" or length > _LONGEST_HEADER_BYTES:  # so by the format; what is damaged is not read as if it were one
        return "its header cannot be read"
    try:
        header = json.loads(read(start, length))
        ends = [int(tensor["data_offsets"][1]) for name, tensor in header.items() if name != "__metadata__"]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return "its header cannot be read"
    wanted = start + length + max(ends, default=0)
    return None if wanted == size else f"it has {size} bytes of {wanted}"


def _has_directory(size: int, read: Read) -> bool:
    end_bytes = min(size, _END_BYTES + _LONGEST_COMMENT)
    end = read(size - end_bytes, end_bytes)
    at = end.rfind(_DIRECTORY_END)
    if at < 0 or at + _END_BYTES > len(end):
        return False
    (comment,) = struct.unpack_from("<H", end, at + _END_BYTES - 2)
    return at + _END_BYTES + int(comment) == len(end)
