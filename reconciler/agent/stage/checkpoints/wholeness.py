"""Whether a file of a checkpoint was cut short, told from its bytes without loading it. Nothing is ever unpickled.

Decides for formats that say themselves where they end: safetensors (the header has the offset of the last byte) and what
`torch.save` has written since PyTorch 1.6 (a zip archive, whose directory stands at its end). Of others nothing can be told but
that they are not empty: pickles of older versions, and DCP's `.distcp`, which is many small archives in a row.

It matters where a file was not written in one step: `torch.save` to a folder writes in place
(Lightning-AI/pytorch-lightning#688, #19970), and a rename across devices is a copy (fsspec/filesystem_spec#544).
"""

import json
import struct
from typing import Final

_TENSORS: Final = (".safetensors",)
_ARCHIVES: Final = (".pt", ".pth", ".bin", ".ckpt")
_NEVER_EMPTY: Final = (*_TENSORS, *_ARCHIVES, ".distcp")
_LOCAL_HEADER, _DIRECTORY_END = b"PK\x03\x04", b"PK\x05\x06"
_END_BYTES: Final = 22
"""Of the record that ends an archive, without its comment (APPNOTE.TXT 4.3.16)."""
_LONGEST_COMMENT: Final = 0xFFFF


def damage(name: str, body: bytes) -> str | None:
    """What shows that the file is not whole; None where nothing does. `name` only for its ending."""
    if not body and name.endswith(_NEVER_EMPTY):
        return "it is empty"
    if name.endswith(_TENSORS):
        return _cut_tensors(body)
    if name.endswith(_ARCHIVES) and body.startswith(_LOCAL_HEADER):
        return None if _has_directory(body) else "the directory at the end of the archive is missing"
    return None


def _cut_tensors(body: bytes) -> str | None:
    """Eight bytes of length, a header in JSON, then the tensors: the header gives where each begins and ends."""
    start = struct.calcsize("<Q")
    if len(body) < start:
        return "it ends before its header"
    (length,) = struct.unpack_from("<Q", body)
    if length > len(body) - start:
        return "it ends within its header"
    try:
        header = json.loads(body[start : start + length])
        ends = [int(tensor["data_offsets"][1]) for name, tensor in header.items() if name != "__metadata__"]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return "its header cannot be read"
    wanted, there = start + length + max(ends, default=0), len(body)
    return None if wanted == there else f"it has {there} bytes of {wanted}"


def _has_directory(body: bytes) -> bool:
    at = body.rfind(_DIRECTORY_END, max(0, len(body) - _END_BYTES - _LONGEST_COMMENT))
    if at < 0 or at + _END_BYTES > len(body):
        return False
    (comment,) = struct.unpack_from("<H", body, at + _END_BYTES - 2)
    return at + _END_BYTES + int(comment) == len(body)
