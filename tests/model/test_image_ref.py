"""Image references: where their parts begin and end, and what they are called through a mirror."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.image_ref import ImageRef, image_problem, parse_image, pinned_to, through_mirror, without_digest

HEX = "0123456789abcdef" * 4
DIGEST = f"sha256:{HEX}"
HUB = "docker.io"

READ = {
    "a registry with a port and no tag": ("reg.example.com:5000/team/train", ("reg.example.com:5000", "team/train", None, None)),
    "a port, a tag and a digest": (
        f"reg.example.com:5000/team/train:1.2@{DIGEST}",
        ("reg.example.com:5000", "team/train", "1.2", DIGEST),
    ),
    "a short name with a digest": (f"train@{DIGEST}", (HUB, "library/train", None, DIGEST)),
    "a short name alone": ("train", (HUB, "library/train", None, None)),
    "a short name with a tag that looks like a port": ("train:5000", (HUB, "library/train", "5000", None)),
    "a user's image on the default registry": ("team/train:1", (HUB, "team/train", "1", None)),
    "localhost is a registry": ("localhost/train", ("localhost", "train", None, None)),
    "localhost with a port": ("localhost:5000/train:x", ("localhost:5000", "train", "x", None)),
    "a host without a dot but with a port": ("registry:5000/a/b/c", ("registry:5000", "a/b/c", None, None)),
    "a host without dot and port is a folder": ("registry/a/b", (HUB, "registry/a/b", None, None)),
    "upper case makes a host": ("Registry/a", ("Registry", "a", None, None)),
    "the default registry by its full name": ("docker.io/train", (HUB, "library/train", None, None)),
    "the default registry by its old name": ("index.docker.io/team/train", (HUB, "team/train", None, None)),
    "official images in full": ("docker.io/library/train:3", (HUB, "library/train", "3", None)),
    "an address": ("10.0.0.1:5000/a", ("10.0.0.1:5000", "a", None, None)),
    "separators of all kinds": ("r.io/a__b/c-d/e.f_g--h:V_1.0-x", ("r.io", "a__b/c-d/e.f_g--h", "V_1.0-x", None)),
    "another digest": (f"r.io/a@sha512:{HEX * 2}", ("r.io", "a", None, f"sha512:{HEX * 2}")),
}

REFUSED = {
    "a digest that is too short": "train@sha256:abc",
    "a digest in upper case": f"train@sha256:{HEX.upper()}",
    "an unknown kind of digest": f"train@md5:{HEX[:32]}",
    "two digests": f"train@{DIGEST}@{DIGEST}",
    "no digest after the sign": "train@",
    "no tag after the colon": "train:",
    "two tags": "reg.example.com/train:1:2",
    "upper case in the repository": "reg.example.com/Team/train",
    "an empty part": "reg.example.com//train",
    "an end without a name": "reg.example.com/team/",
    "a registry alone": "reg.example.com:5000/",
    "a port that is none": "reg.example.com:port/train",
    "dots in a row": "team/tr..ain",
    "dash at the end": "team/train-",
    "an underscore too many": "team/tr___ain",
    "nothing": "",
    "a tag of 129 letters": f"train:{'t' * 129}",
    "a name of 256 letters": f"r.io/{'a' * 251}",
}


@pytest.mark.parametrize(("text", "parts"), READ.values(), ids=READ)
def test_it_is_read_as_the_runtimes_read_it(text: str, parts: tuple[str, str, str | None, str | None]) -> None:
    assert tuple(parse_image(text)) == parts
    assert parse_image(text).pinned == ("@" in text)


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_is_no_reference_is_refused_with_a_reason(text: str) -> None:
    problem = image_problem(text)
    assert problem
    with pytest.raises(ValueError, match=r".") as caught:
        parse_image(text)
    assert str(caught.value) == problem


part = st.from_regex(r"\A[a-z0-9]{1,8}(?:[._-][a-z0-9]{1,4})?\Z")
references = st.builds(
    ImageRef,
    st.sampled_from((HUB, "reg.example.com", "reg.example.com:5000", "localhost", "localhost:1")),
    st.lists(part, min_size=2, max_size=4).map("/".join),
    st.none() | st.from_regex(r"\A[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}\Z"),
    st.none() | st.just(DIGEST),
)


@given(references)
def test_what_is_written_is_read_again(reference: ImageRef) -> None:
    assert parse_image(str(reference)) == reference


ASKED_FOR = {
    "a digest before a tag": (f"reg.example.com/a:1@{DIGEST}", DIGEST),
    "a tag": ("reg.example.com/a:1", "1"),
    "nothing is latest": ("reg.example.com/a", "latest"),
}


@pytest.mark.parametrize(("text", "reference"), ASKED_FOR.values(), ids=ASKED_FOR)
def test_what_a_registry_is_asked_for(text: str, reference: str) -> None:
    assert parse_image(text).reference == reference


@given(references)
def test_what_is_pinned_names_the_same_image_as_before(reference: ImageRef) -> None:
    pinned = pinned_to(str(reference), DIGEST)
    assert image_problem(pinned) is None
    assert parse_image(pinned) == reference._replace(digest=DIGEST)
    assert without_digest(pinned) == str(reference._replace(digest=None))


@given(references, references)
def test_no_two_references_are_written_alike(one: ImageRef, other: ImageRef) -> None:
    assert (str(one) == str(other)) == (one == other)


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused_with_words(text: str) -> None:
    problem = image_problem(text)
    if problem is None:
        assert parse_image(str(parse_image(text))) == parse_image(text)
    else:
        assert problem


MIRRORED = {
    "registry and port give way, the rest stays": (
        "reg.example.com:5000/team/train:1.4",
        "mirror.eu:5000",
        "mirror.eu:5000/team/train:1.4",
    ),
    "a digest stays": (f"reg.example.com/team/train@{DIGEST}", "mirror.eu", f"mirror.eu/team/train@{DIGEST}"),
    "tag and digest stay": (f"team/train:1@{DIGEST}", "mirror.eu", f"mirror.eu/team/train:1@{DIGEST}"),
    "official images are called in full": ("train", "mirror.eu", "mirror.eu/library/train"),
    "a mirror below a path": ("reg.example.com/a/b:1", "mirror.eu/proxy", "mirror.eu/proxy/a/b:1"),
    "what is named through it stays": ("mirror.eu:5000/team/train:1", "mirror.eu:5000", "mirror.eu:5000/team/train:1"),
    "a host that only begins alike does not": ("mirror.eu.example.com/a:1", "mirror.eu", "mirror.eu/a:1"),
    "no mirror, no change": ("reg.example.com:5000/team/train", None, "reg.example.com:5000/team/train"),
    "what is no reference stays as it is": ("a//b", "mirror.eu", "a//b"),
}


@pytest.mark.parametrize(("image", "mirror", "expected"), MIRRORED.values(), ids=MIRRORED)
def test_through_a_mirror(image: str, mirror: str | None, expected: str) -> None:
    assert through_mirror(image, mirror) == expected
    assert through_mirror(expected, mirror) == expected
