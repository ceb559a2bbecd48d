"""Image references, read as the container runtimes read them, and renamed through a region's registry mirror.

Decides where registry, repository, tag and digest begin and end, and what an image is called when it is pinned; what is behind a
name is for the registry adapter. Invariant: nothing else in the code takes a reference apart.
The rules are those of the distribution project's reference grammar: the part before the first `/` is a registry only if
it has a `.` or a `:` or an upper-case letter in it, or is `localhost`.
"""

import re
from typing import NamedTuple

DEFAULT_REGISTRY = "docker.io"
IMPLIED_TAG = "latest"
_OFFICIAL = "library/"
_ALIASES = frozenset({"index.docker.io", "registry-1.docker.io"})

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*").fullmatch
_REGISTRY = re.compile(rf"{_LABEL}(?:\.{_LABEL})*(?::[0-9]{{1,5}})?").fullmatch
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}").fullmatch
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}").fullmatch
_LONGEST_NAME = 255


class ImageRef(NamedTuple):
    """One image. Neither tag nor digest means the tag `latest`."""

    registry: str
    repository: str
    tag: str | None
    digest: str | None

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.registry}/{self.repository}{tag}" + (f"@{self.digest}" if self.digest else "")

    @property
    def pinned(self) -> bool:
        """Whether it names one content for ever."""
        return self.digest is not None

    @property
    def reference(self) -> str:
        """What a registry is asked for: the digest, else the tag, else `latest`, which is then implied."""
        return self.digest or self.tag or IMPLIED_TAG


def image_problem(text: str) -> str | None:
    """What is wrong with an image reference, for the person who wrote it; None where nothing is."""
    registry, repository, tag, digest = _split(text)
    if digest is not None and not _DIGEST(digest):
        return f"`{digest}` is not a digest; write `sha256:` and 64 hexadecimal digits"
    if tag is not None and not _TAG(tag):
        return f"`{tag}` is not a tag; it has letters, digits, `_`, `.` and `-`, at most 128"
    if not _REGISTRY(registry):
        return f"`{registry}` is not a registry; write a host name, with `:` and a port where it has one"
    if not _REPOSITORY(repository):
        return f"`{repository}` is not a repository; it has lower-case letters, digits, `.`, `_`, `-`, and `/` between its parts"
    return "the name is too long" if len(registry) + len(repository) >= _LONGEST_NAME else None


def is_digest(text: str) -> bool:
    """Whether it is the digest of some content."""
    return _DIGEST(text) is not None


def parse_image(text: str) -> ImageRef:
    """The parts of an image reference, Docker Hub's short names in full. Raises ValueError with what is wrong."""
    wrong = image_problem(text)
    if wrong is not None:
        raise ValueError(wrong)
    return _split(text)


def _split(text: str) -> ImageRef:
    name, at, digest = text.partition("@")
    tag = None
    if ":" in name.rpartition("/")[2]:  # a colon further left is a registry's port
        name, _, tag = name.rpartition(":")
    first, slash, rest = name.partition("/")
    is_registry = bool(slash) and ("." in first or ":" in first or first == "localhost" or first != first.lower())
    registry, repository = (first, rest) if is_registry else (DEFAULT_REGISTRY, name)
    if registry in _ALIASES:
        registry = DEFAULT_REGISTRY
    if registry == DEFAULT_REGISTRY and repository and "/" not in repository:
        repository = _OFFICIAL + repository
    return ImageRef(registry, repository, tag, digest if at else None)


def through_mirror(image: str, mirror: str | None) -> str:
    """`image` as it is pulled through a region's mirror (a host, perhaps with a port and a path): `<mirror>/<repository>`.

    Tag and digest stay. An image that is named through the mirror already stays as it is, and so does a text that is no
    reference: the kubelet then says InvalidImageName, which is the truth.
    """
    if mirror is None or image.startswith(mirror + "/") or image_problem(image) is not None:
        return image
    return str(parse_image(image)._replace(registry=mirror.rstrip("/")))


def pinned_to(image: str, digest: str) -> str:
    """`image` in full with the digest that its tag named when it was looked up; the tag stays, for people. Raises ValueError."""
    return str(parse_image(image)._replace(digest=digest))


def without_digest(image: str) -> str:
    """`image` in full, as it is called where nothing is pinned. Raises ValueError."""
    return str(parse_image(image)._replace(digest=None))
