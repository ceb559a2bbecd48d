"""What manifests and indexes of images say, in the media types of OCI and of Docker. Pure.

Sources: OCI image specification 1.1, "Image Manifest" and "Image Index"; Docker's "Image Manifest Version 2, Schema 2".
"""

import hashlib
import json
from typing import Any, Final

from reconciler.model.image_ref import is_digest
from reconciler.ports import Refused
from reconciler.registry_port import Blob

_KINDS: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
ACCEPT: Final = ", ".join(_KINDS)
LIMIT: Final = 4 * 1024 * 1024
"""Bytes of a manifest that registries must take (OCI distribution specification, "Pushing Manifests"); more is not read."""
_FOREIGN: Final = ("foreign", "nondistributable")
"""In the media types of layers that do not stand in the registry."""
_MOST_BLOBS: Final = 10_000


def read_document(body: bytes, where: str) -> dict[str, Any]:
    """The JSON object of a manifest or index. Raises Refused for what is none."""
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not (isinstance(found.get("manifests"), list) or isinstance(found.get("layers"), list)):
        raise Refused(f"{where} gave no manifest of an image that can be read; see whether it is an image, of schema 2 or OCI")
    return found


def is_index(document: dict[str, Any]) -> bool:
    """Whether it lists manifests, one a platform."""
    return isinstance(document.get("manifests"), list)


def of_platform(document: dict[str, Any], platform: str) -> tuple[str | None, tuple[str, ...]]:
    """The digest of the index's manifest for a platform, None where it has none; and the platforms that it has."""
    found: dict[str, str] = {}
    entries = [one for one in document["manifests"] if isinstance(one, dict) and isinstance(one.get("platform"), dict)]
    for entry in entries:
        own, digest = entry["platform"], str(entry.get("digest"))
        name = f"{own.get('os')}/{own.get('architecture')}"
        if name != "unknown/unknown" and is_digest(digest):  # attestations are listed as `unknown`
            found.setdefault(name, digest)
    return found.get(platform), tuple(sorted(found))


def blobs_of(document: dict[str, Any], where: str) -> tuple[Blob, ...]:
    """Configuration and layers, each once. Raises Refused for what has none."""
    layers = [one for one in document["layers"] if not any(word in str(one.get("mediaType")) for word in _FOREIGN)]
    try:
        blobs = [Blob(str(one["digest"]), int(one["size"])) for one in (document["config"], *layers)]
    except (KeyError, TypeError, ValueError):
        raise Refused(f"{where} gave a manifest without digests or sizes; push the image again with a newer tool") from None
    if len(blobs) > _MOST_BLOBS or any(blob.size < 0 or not is_digest(blob.digest) for blob in blobs):
        raise Refused(f"{where} gave a manifest that no image has; push the image again")
    return tuple({blob.digest: blob for blob in blobs}.values())


def digest_of(body: bytes, like: str | None = None) -> str:
    """The digest of some bytes, by the algorithm of `like`, else sha256."""
    algorithm = "sha512" if like is not None and like.startswith("sha512:") else "sha256"
    return f"{algorithm}:{hashlib.new(algorithm, body).hexdigest()}"
