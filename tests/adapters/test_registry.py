"""Registries over HTTP: tokens and logins, where they are not sent, and what each failure means."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.registry import RegistryClient
from reconciler.adapters.registry.challenges import Challenge, challenges_in, token_url
from reconciler.adapters.registry.logins import Login, logins_from
from reconciler.model.image_ref import ImageRef, parse_image
from reconciler.ports import Refused, Transient
from reconciler.registry_port import Blob, Denial, Denied, Resolved
from tests.registry_http import DOCKER, DOCKER_LIST, INDEX, Reply, SmallRegistry, digest_of, small_registry

REPOSITORY = "team/train"


@pytest.fixture
def registry() -> Iterator[SmallRegistry]:
    with small_registry() as up:
        yield up


def ref(registry: SmallRegistry, rest: str = f"{REPOSITORY}:1") -> ImageRef:
    return parse_image(f"{registry.host}/{rest}")


def client_of(registry: SmallRegistry, user: str = "", word: str = "", **more: str) -> RegistryClient:
    login = {"RECONCILER_REGISTRY_HOST": registry.host, "RECONCILER_REGISTRY_USER": user, "RECONCILER_REGISTRY_PASSWORD": word}
    return RegistryClient({**login, **more})


def resolved(client: RegistryClient, image: ImageRef) -> Resolved:
    found = client.resolve(image)
    assert isinstance(found, Resolved)
    return found


def denied(client: RegistryClient, image: ImageRef) -> Denied:
    found = client.resolve(image)
    assert isinstance(found, Denied)
    return found


# ---- who we are ---------------------------------------------------------------------------------------------------


def test_a_token_is_fetched_once_for_a_repository_with_our_login(registry: SmallRegistry) -> None:
    registry.wants_token, registry.logins = True, {"puller": "word"}
    digest = registry.push(REPOSITORY, "1")
    client = client_of(registry, "puller", "word")
    assert resolved(client, ref(registry)).digest == digest
    assert resolved(client, ref(registry)).digest == digest
    tokens = [one for one in registry.asked if one.path.startswith("/token")]
    assert [one.path for one in tokens] == ["/token?service=tests&scope=repository%3Ateam%2Ftrain%3Apull"]
    assert tokens[0].authorization == "Basic " + base64.b64encode(b"puller:word").decode()
    assert registry.asked[-1].authorization == "Bearer for repository:team/train:pull 1"


def test_a_token_that_is_taken_no_more_is_fetched_anew(registry: SmallRegistry) -> None:
    registry.wants_token, registry.anonymous = True, True
    registry.push(REPOSITORY, "1")
    client = client_of(registry)
    known = resolved(client, ref(registry))
    path = f"/v2/{REPOSITORY}/manifests/1"
    realm = f'Bearer realm="http://{registry.host}/token",service="tests"'
    registry.instead["HEAD", path] = Reply(401, {"WWW-Authenticate": realm})
    client.resolve(ref(registry), known=known)
    assert registry.count("/token") == 2


CERTAIN = {
    "nobody asked who we are": (False, False, "", True),
    "an anonymous token": (True, True, "", True),  # the registry says that the repository is there and the tag is not
    "a login": (True, False, "puller", True),
}


@pytest.mark.parametrize(("wants", "anonymous", "user", "certain"), CERTAIN.values(), ids=CERTAIN)
def test_a_missing_tag_is_missing(registry: SmallRegistry, wants: bool, anonymous: bool, user: str, certain: bool) -> None:
    registry.wants_token, registry.anonymous, registry.logins = wants, anonymous, {"puller": "word"} if wants else {}
    registry.push(REPOSITORY, "1")
    found = denied(client_of(registry, user, "word"), ref(registry, f"{REPOSITORY}:2"))
    assert (found.denial, found.certain) == (Denial.MISSING, certain)


def test_an_unknown_repository_may_be_hidden_from_who_is_not_logged_in(registry: SmallRegistry) -> None:
    registry.wants_token, registry.anonymous = True, True
    hidden = Reply(404, {}, json.dumps({"errors": [{"code": "NAME_UNKNOWN"}]}).encode())
    real = registry.answer

    def answer(method: str, path: str, authorization: str | None) -> Reply:
        found = real(method, path, authorization)
        return hidden if found.status == 404 else found

    registry.answer = answer  # type: ignore[method-assign]
    found = denied(client_of(registry), ref(registry))
    assert (found.denial, found.certain) == (Denial.MISSING, False)


def test_a_token_server_s_no_is_the_registry_s(registry: SmallRegistry) -> None:
    registry.wants_token, registry.logins = True, {"puller": "word"}
    registry.push(REPOSITORY, "1")
    found = denied(client_of(registry, "puller", "wrong-word"), ref(registry))
    assert (found.denial, found.certain) == (Denial.FORBIDDEN, True)
    assert "wrong-word" not in found.words
    assert denied(client_of(registry), ref(registry)).certain is False


def test_a_login_is_for_its_registry_alone(registry: SmallRegistry) -> None:
    registry.push(REPOSITORY, "1")
    with small_registry() as other:
        other.logins = {"puller": "word"}
        client = client_of(registry, "puller", "word")
        assert denied(client, ref(other)).denial is Denial.FORBIDDEN
        assert all(one.authorization is None for one in other.asked)


def test_where_a_registry_redirects_nobody_is_told_who_we_are(registry: SmallRegistry) -> None:
    registry.logins = {"puller": "word"}
    with small_registry() as storage:
        digest = storage.push(REPOSITORY, "1")
        where = f"http://{storage.host}/v2/{REPOSITORY}/manifests/1?signature=x"
        real = registry.answer

        def answer(method: str, path: str, authorization: str | None) -> Reply:
            found = real(method, path, authorization)
            return found if found.status == 401 else Reply(307, {"Location": where})

        registry.answer = answer  # type: ignore[method-assign]
        assert resolved(client_of(registry, "puller", "word"), ref(registry)).digest == digest
        assert registry.asked[-1].authorization is not None
        assert [one.authorization for one in storage.asked] == [None]


def test_a_redirect_to_itself_goes_on_with_the_login(registry: SmallRegistry) -> None:
    registry.logins = {"puller": "word"}
    digest = registry.push(REPOSITORY, "elsewhere")
    where = f"/v2/{REPOSITORY}/manifests/elsewhere"
    registry.instead["GET", f"/v2/{REPOSITORY}/manifests/1"] = Reply(302, {"Location": where})
    client = client_of(registry, "puller", "word")
    resolved(client, ref(registry, f"{REPOSITORY}:elsewhere"))
    assert resolved(client, ref(registry)).digest == digest


# ---- what a failure means -----------------------------------------------------------------------------------------

PASSING = {
    "too many requests": Reply(429, {"Retry-After": "30"}),
    "overloaded": Reply(503),
    "a fault of its own": Reply(500, {}, b"<html>"),
}
AT_MANIFEST = ("GET", f"/v2/{REPOSITORY}/manifests/1")


@pytest.mark.parametrize("reply", PASSING.values(), ids=PASSING)
def test_what_passes_by_itself_says_nothing_of_the_image(registry: SmallRegistry, reply: Reply) -> None:
    registry.instead[AT_MANIFEST] = reply
    with pytest.raises(Transient) as caught:
        client_of(registry).resolve(ref(registry))
    assert ("again in 30 s" in str(caught.value)) == (reply.status == 429)


LASTING = {
    "a web page": Reply(404, {"Content-Type": "text/html"}, b"<html>not found</html>"),
    "no manifest": Reply(200, {}, b"<html>welcome</html>"),
    "the first schema": Reply(200, {}, b'{"schemaVersion": 1, "fsLayers": []}'),
    "digests that are none": Reply(200, {}, b'{"config": {"digest": "sha256:../..", "size": 1}, "layers": []}'),
    "sizes below nothing": Reply(200, {}, json.dumps({"config": {"digest": digest_of(b""), "size": -1}, "layers": []}).encode()),
    "too long an answer": Reply(200, {}, b" " * (5 * 1024 * 1024)),
    "redirects without end": Reply(302, {"Location": f"/v2/{REPOSITORY}/manifests/1"}),
    "a redirect to a file": Reply(302, {"Location": "file:///etc/hostname"}),
    "another refusal": Reply(400, {}, b'{"errors": [{"code": "NAME_INVALID"}]}'),
}


@pytest.mark.parametrize("reply", LASTING.values(), ids=LASTING)
def test_what_is_no_registry_is_refused_and_says_nothing_of_the_image(registry: SmallRegistry, reply: Reply) -> None:
    registry.instead[AT_MANIFEST] = reply
    with pytest.raises(Refused, match="; "):
        client_of(registry).resolve(ref(registry))


def test_other_bytes_than_the_digest_says_are_refused(registry: SmallRegistry) -> None:
    digest = registry.push(REPOSITORY, "1")
    registry.manifests[REPOSITORY, digest] = registry.manifests[REPOSITORY, registry.push(REPOSITORY, "2", (7,))]
    with pytest.raises(Refused, match="other bytes"):
        client_of(registry).resolve(ref(registry, f"{REPOSITORY}@{digest}"))


def test_only_hosts_that_may_be_asked_are(registry: SmallRegistry) -> None:
    registry.push(REPOSITORY, "1")
    resolved(client_of(registry, RECONCILER_REGISTRY_HOSTS=f"a.example.com, {registry.host}"), ref(registry))
    before = len(registry.asked)
    with pytest.raises(Refused, match="RECONCILER_REGISTRY_HOSTS"):
        client_of(registry, RECONCILER_REGISTRY_HOSTS="a.example.com").resolve(ref(registry))
    assert len(registry.asked) == before


def test_without_tls_nothing_but_loopback_is_asked_unless_it_is_named() -> None:
    image = parse_image("registry.invalid:5000/a:1")
    with pytest.raises(Transient, match=r"registry\.invalid:5000 did not answer"):
        RegistryClient({}).resolve(image)
    with pytest.raises(Transient, match=r"registry\.invalid:5000 did not answer"):
        RegistryClient({"RECONCILER_REGISTRY_PLAIN_HTTP": "registry.invalid:5000"}).resolve(image)


# ---- what it says of images ---------------------------------------------------------------------------------------


def test_docker_s_own_media_types_are_read_too(registry: SmallRegistry) -> None:
    inner = registry.push(REPOSITORY, "inner", (300, 500), DOCKER)
    entry = {"mediaType": DOCKER, "digest": inner, "size": 1, "platform": {"os": "linux", "architecture": "amd64"}}
    outer = registry.put(REPOSITORY, "1", {"schemaVersion": 2, "mediaType": DOCKER_LIST, "manifests": [entry]}, DOCKER_LIST)
    found = resolved(client_of(registry), ref(registry))
    assert (found.digest, found.size_bytes, found.manifests) == (outer, 802, (inner,))


def test_a_layer_counts_once_and_foreign_ones_do_not(registry: SmallRegistry) -> None:
    digest = registry.push(REPOSITORY, "1", (300,))
    _, body = registry.manifests[REPOSITORY, digest]
    document: dict[str, Any] = json.loads(body)
    foreign = {"mediaType": "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", "digest": digest_of(b"f"), "size": 9}
    document["layers"] += [document["layers"][0], foreign]
    registry.put(REPOSITORY, "1", document, DOCKER)
    assert resolved(client_of(registry), ref(registry)).size_bytes == 302


@pytest.mark.parametrize("entry", [None, 1, {}, {"platform": "linux"}, {"platform": {"os": 1, "architecture": None}}])
def test_an_index_of_odd_entries_has_no_platform(registry: SmallRegistry, entry: object) -> None:
    registry.put(REPOSITORY, "1", {"schemaVersion": 2, "manifests": [entry]}, INDEX)
    assert resolved(client_of(registry), ref(registry)).size_bytes is None


# ---- blobs --------------------------------------------------------------------------------------------------------


def a_blob(registry: SmallRegistry, size: int = 300_000) -> Blob:
    body = b"b" * size
    registry.blobs[digest_of(body)] = body
    return Blob(digest_of(body), size)


def test_a_blob_is_read_to_its_end_and_counted(registry: SmallRegistry) -> None:
    blob, counts = a_blob(registry), list[int]()
    assert client_of(registry).read(ref(registry), blob, counts.append) is True
    assert sum(counts) == blob.size
    assert len(counts) > 1


BROKEN = {
    "it breaks off": (Reply(200, {}, b"b" * 300_000, cut=100_000), Transient, "broke off after"),
    "it is too short": (Reply(200, {}, b"b" * 100), Transient, "broke off after 100 of 300000"),
    "it is too long": (Reply(200, {}, b"b" * 300_001), Refused, "other bytes"),
    "it is another": (Reply(200, {}, b"c" * 300_000), Refused, "other bytes"),
    "it is not there": (Reply(404), Refused, "gives no blob"),
}


@pytest.mark.parametrize(("reply", "error", "words"), BROKEN.values(), ids=BROKEN)
def test_a_blob_that_does_not_come_whole(registry: SmallRegistry, reply: Reply, error: type[Exception], words: str) -> None:
    blob = a_blob(registry)
    registry.instead["GET", f"/v2/{REPOSITORY}/blobs/{blob.digest}"] = reply
    with pytest.raises(error, match=words):
        client_of(registry).read(ref(registry), blob, lambda _: None)


def test_what_a_registry_sends_elsewhere_for_stands_in_its_storage(registry: SmallRegistry) -> None:
    blob = a_blob(registry)
    registry.instead["GET", f"/v2/{REPOSITORY}/blobs/{blob.digest}"] = Reply(307, {"Location": "https://storage.invalid/x"})
    client = client_of(registry)
    assert client.read(ref(registry), blob, lambda _: None) is False
    assert client.keeps(ref(registry), blob)


def test_one_that_answers_404_is_believed_of_large_blobs_too(registry: SmallRegistry) -> None:
    absent, large = Blob(digest_of(b"a"), 1), a_blob(registry, 2_000_000)
    client = client_of(registry)
    unsure = client.present(ref(registry), (large,))
    assert (unsure.unknown, registry.asked) == ({large.digest}, [])
    seen = client.present(ref(registry), (large, absent))
    assert (seen.there, seen.absent, seen.unknown) == ({large.digest}, {absent.digest}, frozenset())


def test_one_that_was_seen_to_pass_questions_on_is_believed_no_more(registry: SmallRegistry) -> None:
    absent, small, large = Blob(digest_of(b"a"), 1), a_blob(registry, 10), a_blob(registry, 2_000_000)
    registry.instead["HEAD", f"/v2/{REPOSITORY}/blobs/{small.digest}"] = Reply(200, {"ETag": small.digest})
    seen = client_of(registry).present(ref(registry), (large, small, absent))
    assert (seen.absent, seen.unknown) == ({absent.digest}, {small.digest, large.digest})
    assert registry.count(large.digest) == 0


# ---- logins -------------------------------------------------------------------------------------------------------


def test_logins_of_a_file(tmp_path: Path) -> None:
    word = base64.b64encode(b"a:b:c").decode()
    auths = {
        "https://index.docker.io/v1/": {"auth": word},
        "reg.example.com:5000": {"username": "u", "password": "p"},
        "https://with.path/v2/": {"auth": word},
        "empty.example.com": {},
    }
    (tmp_path / "config.json").write_text(json.dumps({"auths": auths, "credsStore": "desktop"}))
    expected = {"docker.io": Login("a", "b:c"), "reg.example.com:5000": Login("u", "p"), "with.path": Login("a", "b:c")}
    assert logins_from({"DOCKER_CONFIG": str(tmp_path)}) == expected
    assert logins_from({"RECONCILER_REGISTRY_CONFIG": str(tmp_path / "config.json")}) == expected
    assert logins_from({"HOME": str(tmp_path)}) == {}
    assert "b:c" not in repr(expected)


BAD_FILES = {
    "no JSON": "{",
    "a list": "[]",
    "no base64": '{"auths": {"a": {"auth": "?"}}}',
    "auths of words": '{"auths": {"a": 1}}',
}


@pytest.mark.parametrize("text", BAD_FILES.values(), ids=BAD_FILES)
def test_a_file_of_logins_that_cannot_be_used(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(Refused, match="RECONCILER_REGISTRY_CONFIG"):
        logins_from({"RECONCILER_REGISTRY_CONFIG": str(tmp_path / "config.json")})


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be read"):
        logins_from({"RECONCILER_REGISTRY_CONFIG": str(tmp_path / "none.json")})


# ---- challenges ---------------------------------------------------------------------------------------------------

BEARER = Challenge("bearer", "https://auth.example.com/token", "reg", "repository:a:pull")
HEADERS = {
    "bearer": ('Bearer realm="https://auth.example.com/token",service="reg",scope="repository:a:pull"', {"bearer": BEARER}),
    "in lower case with spaces": (
        'bearer realm = "https://auth.example.com/token", service="reg", scope="repository:a:pull"',
        {"bearer": BEARER},
    ),
    "basic": ('Basic realm="x y"', {"basic": Challenge("basic", "x y")}),
    "both": (
        'Basic realm="x", Bearer realm="https://auth.example.com/token",service="reg",scope="repository:a:pull"',
        {"basic": Challenge("basic", "x"), "bearer": BEARER},
    ),
    "commas in a scope": (
        'Bearer realm="https://a/",scope="repository:a:pull,push"',
        {"bearer": Challenge("bearer", "https://a/", "", "repository:a:pull,push")},
    ),
    "one that we do not know behind": (
        'Bearer realm="https://auth.example.com/token",service="reg",scope="repository:a:pull", Digest realm="y"',
        {"bearer": BEARER},
    ),
    "another kind": ('Negotiate oRQ==, Digest realm="x"', {}),
    "nothing": ("", {}),
}


@pytest.mark.parametrize(("header", "expected"), HEADERS.values(), ids=HEADERS)
def test_what_a_registry_wants(header: str, expected: dict[str, Challenge]) -> None:
    assert challenges_in(header) == expected


REALMS = {
    "with TLS": ("https://a.example.com/t", False, "https://a.example.com/t?service=s&scope=repository%3Ar%3Apull"),
    "with a query of its own": ("https://a/t?x=1", False, "https://a/t?x=1&service=s&scope=repository%3Ar%3Apull"),
    "without TLS": ("http://a/t", False, None),
    "without TLS, as the registry": ("http://a/t", True, "http://a/t?service=s&scope=repository%3Ar%3Apull"),
    "a file": ("file:///etc/passwd", True, None),
    "nothing": ("", True, None),
}


@pytest.mark.parametrize(("realm", "plain", "expected"), REALMS.values(), ids=REALMS)
def test_where_a_token_is_asked_for(realm: str, plain: bool, expected: str | None) -> None:
    assert token_url(Challenge("bearer", realm, "s"), "r", plain=plain) == expected
