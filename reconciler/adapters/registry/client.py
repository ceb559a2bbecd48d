"""`registry_port.Registry` over HTTP: what an image's name stands for, what a mirror has of it, and its bytes.

Decides which answers mean that an image is not there, which that it is not for us, and how far a registry's word on a blob goes.
A pull-through mirror is a difficult witness. Measured on distribution 2.8 in proxy mode: a HEAD for a blob that it lacks is
answered 200, from upstream, and makes it fetch that blob, twice. What tells the two apart is what it sends along: from its own
storage `Cache-Control: max-age=…` and a quoted ETag, from upstream a bare ETag and neither. Others (Harbor, zot) answer 404 for
what they lack. So blobs are asked for from the smallest up, and no further once a registry passes questions on; large ones, and
the word of one that shows neither, count only where it has been seen to tell of one that it lacks.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import requests

from reconciler.adapters.registry.door import BROKEN, Answer, Door, body_of
from reconciler.adapters.registry.logins import logins_from
from reconciler.adapters.registry.manifests import ACCEPT, LIMIT, blobs_of, digest_of, is_index, of_platform, read_document
from reconciler.model.image_ref import ImageRef
from reconciler.ports import Refused, Transient
from reconciler.registry_port import PLATFORM, Blob, Denial, Denied, Presence, Resolved, Took

CHUNK: Final = 128 * 1024
MOST_RISKED: Final = 1024 * 1024
"""Bytes of a blob that is asked for at a registry that may fetch it for the question."""
_UNKNOWN_CODES: Final = frozenset({"MANIFEST_UNKNOWN", "NAME_UNKNOWN", "MANIFEST_INVALID", "NOT_FOUND"})


class RegistryClient:
    """Registries, with logins from an environment. One thread at a time."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Raises Refused where the file of logins cannot be used."""
        self._door = Door(environment, logins_from(environment))
        self._tells: set[str] = set()
        """Registries that answered 404 for a blob, and so say what they have."""
        self._passes: set[str] = set()
        """Registries that pass such questions on."""

    def resolve(self, image: ImageRef, platform: str = PLATFORM, known: Resolved | None = None) -> Resolved | Denied:
        """See the port."""
        if known is not None and self._still(image, known):
            return known
        got = self._manifest(image, image.reference)
        if isinstance(got, Denied):
            return got
        body, where = got, image.registry
        digest = digest_of(body, image.digest)
        if image.digest is not None and digest != image.digest:
            raise Refused(f"{where} gave other bytes for {image} than its digest says; do not trust that registry")
        document = read_document(body, where)
        if not is_index(document):
            return Resolved(digest, blobs_of(document, where))
        chosen, platforms = of_platform(document, platform)
        if chosen is None:
            return Resolved(digest, (), (), platforms)
        got = self._manifest(image, chosen)
        if isinstance(got, Denied):
            return Denied(got.denial, f"the manifest of {image} for {platform} is listed, and {got.words}", got.certain)
        if digest_of(got, chosen) != chosen:
            raise Refused(f"{where} gave other bytes for {chosen} than its digest says; do not trust that registry")
        return Resolved(digest, blobs_of(read_document(got, where), where), (chosen,), platforms)

    def present(self, image: ImageRef, blobs: Sequence[Blob]) -> Presence:
        """See the port."""
        there, absent, unsure = set[str](), set[str](), set[str]()
        for blob in sorted(blobs, key=lambda one: (one.size, one.digest)):
            if blob.size > MOST_RISKED and image.registry not in self._tells:
                break
            found = self._has(image, blob)
            if found is None and image.registry in self._passes:
                break
            (unsure if found is None else there if found else absent).add(blob.digest)
        if image.registry in self._tells:
            there |= unsure
        unknown = {blob.digest for blob in blobs} - there - absent
        return Presence(frozenset(there), frozenset(absent), frozenset(unknown))

    def read(self, image: ImageRef, blob: Blob, took: Took) -> bool:
        """See the port."""
        response = self._blob("GET", image, blob)
        with response:
            if _is_own(response, blob):
                return False
            if response.status_code != requests.codes.ok:
                raise _refusal(response, f"{image.registry} gives no blob {blob.digest} of {image}")
            _checked(response, blob, image.registry, took)
        return True

    def keeps(self, image: ImageRef, blob: Blob) -> bool:
        """See the port. By GET, for a registry that has a blob under way fetches it again for a HEAD, to the end."""
        with self._blob("GET", image, blob) as response:
            return _is_own(response, blob)

    def _blob(self, method: str, image: ImageRef, blob: Blob) -> requests.Response:
        return self._door.ask(method, image, f"blobs/{blob.digest}", follow=False).response

    def _has(self, image: ImageRef, blob: Blob) -> bool | None:
        """Whether the registry has a blob itself; None where it does not say."""
        registry = image.registry
        with self._blob("HEAD", image, blob) as response:
            if response.status_code == requests.codes.not_found:
                if registry not in self._passes:
                    self._tells.add(registry)
                return False
            if _is_own(response, blob):
                return True
            if response.status_code != requests.codes.ok:
                raise _refusal(response, f"{registry} does not say whether it has {blob.digest} of {image}")
            if response.headers.get("ETag") == blob.digest:  # bare: from upstream
                self._passes.add(registry)
                self._tells.discard(registry)
            return True if registry in self._tells else None

    def _still(self, image: ImageRef, known: Resolved) -> bool:
        answer = self._door.ask("HEAD", image, f"manifests/{image.reference}", ACCEPT)
        with answer.response as response:
            ok = response.status_code == requests.codes.ok
            return ok and response.headers.get("Docker-Content-Digest") == known.digest

    def _manifest(self, image: ImageRef, reference: str) -> bytes | Denied:
        answer = self._door.ask("GET", image, f"manifests/{reference}", ACCEPT)
        with answer.response as response:
            body = body_of(response, LIMIT, image.registry)
            if response.status_code == requests.codes.ok:
                return body
            return _denied(image, answer, body)


def _denied(image: ImageRef, answer: Answer, body: bytes) -> Denied:
    """What an answer that is no manifest means. Raises Refused where it is no registry's."""
    code, said = answer.response.status_code, _codes(body)
    sure = answer.logged_in or not answer.challenged
    whose = "for the login that is used" if answer.logged_in else "without a login"
    if code in {requests.codes.unauthorized, requests.codes.forbidden}:
        return Denied(Denial.FORBIDDEN, f"{image.registry} does not give {image} {whose} ({code}), or has it not", sure)
    if code == requests.codes.not_found and (
        said & _UNKNOWN_CODES or "Docker-Distribution-Api-Version" in answer.response.headers
    ):
        certain = sure or "MANIFEST_UNKNOWN" in said
        return Denied(Denial.MISSING, f"{image.registry} has no {image.repository} with {image.reference}", certain)
    raise _refusal(answer.response, f"{image.registry} gives no manifest of {image}")


def _codes(body: bytes) -> frozenset[str]:
    """The codes of an error in the form of the distribution specification; none where it has another."""
    try:
        return frozenset(str(one["code"]) for one in json.loads(body)["errors"])
    except (ValueError, KeyError, TypeError):
        return frozenset()


def _refusal(response: requests.Response, what: str) -> Refused:
    code = f"{response.status_code} {response.reason or ''}".rstrip()
    return Refused(f"{what}: it answered {code}; see whether it is a registry, and lets this login pull")


def _is_own(response: requests.Response, blob: Blob) -> bool:
    """Whether the answer shows that the registry has the blob in its own storage: it says so, or sends us there."""
    if response.is_redirect:
        return True
    cached = "max-age" in response.headers.get("Cache-Control", "")
    good = response.status_code in {requests.codes.ok, requests.codes.partial_content}
    return good and cached and response.headers.get("ETag") == f'"{blob.digest}"'


def _checked(response: requests.Response, blob: Blob, where: str, took: Callable[[int], None]) -> None:
    """Read a blob to its end. Raises Transient where it breaks off, Refused where it is another."""
    found, size = hashlib.new(blob.digest.partition(":")[0]), 0
    try:
        for chunk in response.raw.stream(CHUNK, decode_content=False):
            found.update(chunk)
            size += len(chunk)
            if size > blob.size:
                break
            took(len(chunk))
    except BROKEN as error:
        raise Transient(f"{where} broke off after {size} of {blob.size} bytes of {blob.digest}") from error
    if size < blob.size:
        raise Transient(f"{where} broke off after {size} of {blob.size} bytes of {blob.digest}")
    if size > blob.size or found.hexdigest() != blob.digest.partition(":")[2]:
        raise Refused(f"{where} gave other bytes than {blob.digest} says; do not trust that registry")
