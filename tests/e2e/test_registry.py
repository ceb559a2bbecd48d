"""Images against real registries: open, with a login, and as pull-through mirrors."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from reconciler.adapters.registry import RegistryClient
from reconciler.hub.image_loop import ImageLoop
from reconciler.model.image_ref import ImageRef, parse_image, through_mirror
from reconciler.model.progress import MARK, last_progress
from reconciler.ports import Refused, Transient
from reconciler.registry_port import Blob, Denial, Denied, Resolved
from tests.builders import TEAM
from tests.e2e.registry import INDEX, MANIFEST, USER, WORD, Pushed, RegistryServer, registry
from tests.e2e.token_server import TokenServer, token_server
from tests.hub.rig import two_regions
from tests.hub.words import SETTINGS
from tests.waiting import until

SMALL, LARGE = 300_000, 3_000_000


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    with registry(tmp_path_factory.mktemp("upstream")) as up:
        yield up


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    with registry(tmp_path_factory.mktemp("locked"), login=True) as up:
        yield up


@pytest.fixture
def mirror(upstream: RegistryServer, tmp_path: Path) -> Iterator[RegistryServer]:
    with registry(tmp_path / "mirror", upstream=upstream) as up:
        yield up


@pytest.fixture
def client() -> RegistryClient:
    return RegistryClient({})


def ref(server: RegistryServer, rest: str) -> ImageRef:
    return parse_image(f"{server.host}/{rest}")


def resolved(client: RegistryClient, image: ImageRef) -> Resolved:
    found = client.resolve(image)
    assert isinstance(found, Resolved)
    return found


def test_a_tag_is_its_digest_its_parts_and_their_size(upstream: RegistryServer, client: RegistryClient) -> None:
    pushed = upstream.push("team/train", "1.4", (SMALL, LARGE, 10))
    found = resolved(client, ref(upstream, "team/train:1.4"))
    assert found.digest == pushed.digest
    assert tuple(blob.digest for blob in found.blobs) == pushed.blobs
    assert found.size_bytes == pushed.size
    assert client.resolve(ref(upstream, f"team/train@{pushed.digest}")) == found


def test_a_moved_tag_is_seen_and_one_that_stands_costs_no_manifest(upstream: RegistryServer, client: RegistryClient) -> None:
    upstream.push("team/moves", "latest", (10,))
    first = resolved(client, ref(upstream, "team/moves"))
    before = upstream.log.count('"GET /v2/team/moves/manifests/')
    assert client.resolve(ref(upstream, "team/moves"), known=first) is first
    assert upstream.log.count('"GET /v2/team/moves/manifests/') == before
    moved = upstream.push("team/moves", "latest", (11,))
    again = client.resolve(ref(upstream, "team/moves"), known=first)
    assert isinstance(again, Resolved)
    assert again.digest == moved.digest != first.digest


def an_index(server: RegistryServer, repository: str, tag: str) -> tuple[str, Pushed, Pushed]:
    one, other = server.push(repository, "", (SMALL,)), server.push(repository, "", (10,), architecture="arm64")
    entries = [
        {
            "mediaType": MANIFEST,
            "digest": made.digest,
            "size": made.manifest_size,
            "platform": {"os": "linux", "architecture": of},
        }
        for made, of in ((other, "arm64"), (one, "amd64"))
    ]
    attestation = {**entries[0], "platform": {"os": "unknown", "architecture": "unknown"}}
    digest = server.push_manifest(repository, tag, {"schemaVersion": 2, "mediaType": INDEX, "manifests": [attestation, *entries]})
    return digest, one, other


def test_an_index_is_pinned_and_one_platform_of_it_counted(upstream: RegistryServer, client: RegistryClient) -> None:
    digest, one, other = an_index(upstream, "team/both", "2")
    found = resolved(client, ref(upstream, "team/both:2"))
    assert (found.digest, found.size_bytes, found.manifests) == (digest, one.size, (one.digest,))
    assert found.platforms == ("linux/amd64", "linux/arm64")
    on_arm = client.resolve(ref(upstream, "team/both:2"), "linux/arm64")
    assert isinstance(on_arm, Resolved)
    assert (on_arm.digest, on_arm.size_bytes) == (digest, other.size)
    nowhere = client.resolve(ref(upstream, "team/both:2"), "linux/s390x")
    assert isinstance(nowhere, Resolved)
    assert (nowhere.digest, nowhere.size_bytes) == (digest, None)


@pytest.mark.parametrize("rest", ["team/train:no-such-tag", "no/such/repository", f"team/train@sha256:{'0' * 64}"])
def test_what_is_not_there_is_missing_for_sure(upstream: RegistryServer, client: RegistryClient, rest: str) -> None:
    upstream.push("team/train", "1", (10,))
    found = client.resolve(ref(upstream, rest))
    assert isinstance(found, Denied)
    assert (found.denial, found.certain) == (Denial.MISSING, True)
    assert rest.partition(":")[0].partition("@")[0] in found.words


def test_without_a_login_nobody_can_say_whether_it_is_there(locked: RegistryServer, client: RegistryClient) -> None:
    locked.push("team/secret", "1", (10,))
    found = client.resolve(ref(locked, "team/secret:1"))
    assert isinstance(found, Denied)
    assert (found.denial, found.certain) == (Denial.FORBIDDEN, False)


def config_file(folder: Path, host: str, word: str = WORD) -> Path:
    path = folder / "config.json"
    auth = base64.b64encode(f"{USER}:{word}".encode()).decode()
    path.write_text(json.dumps({"auths": {f"https://{host}": {"auth": auth}, "other.example.com": {}}}))
    return path


def test_a_login_of_a_config_file_opens(locked: RegistryServer, tmp_path: Path) -> None:
    pushed = locked.push("team/secret", "2", (SMALL,))
    client = RegistryClient({"RECONCILER_REGISTRY_CONFIG": str(config_file(tmp_path, locked.host))})
    assert resolved(client, ref(locked, "team/secret:2")).digest == pushed.digest
    missing = client.resolve(ref(locked, "team/secret:3"))
    assert isinstance(missing, Denied)
    assert (missing.denial, missing.certain) == (Denial.MISSING, True)


def test_a_login_of_the_environment_opens_and_a_wrong_one_is_forbidden(locked: RegistryServer) -> None:
    locked.push("team/secret", "4", (10,))
    asked = {"RECONCILER_REGISTRY_HOST": locked.host, "RECONCILER_REGISTRY_USER": USER}
    good = RegistryClient({**asked, "RECONCILER_REGISTRY_PASSWORD": WORD})
    assert resolved(good, ref(locked, "team/secret:4")).size_bytes
    found = RegistryClient({**asked, "RECONCILER_REGISTRY_PASSWORD": "another-word"}).resolve(ref(locked, "team/secret:4"))
    assert isinstance(found, Denied)
    assert (found.denial, found.certain) == (Denial.FORBIDDEN, True)
    assert "another-word" not in found.words


def test_a_registry_that_is_down_says_nothing_of_its_images(tmp_path: Path, client: RegistryClient) -> None:
    server = RegistryServer(tmp_path / "down")
    with pytest.raises(Transient, match="did not answer"):
        client.resolve(ref(server, "team/train:1"))
    server.start()
    try:
        pushed = server.push("team/train", "1", (10,))
        assert resolved(client, ref(server, "team/train:1")).digest == pushed.digest
    finally:
        server.stop()
    with pytest.raises(Transient):
        client.resolve(ref(server, "team/train:1"))


def test_a_plain_registry_tells_what_it_has(upstream: RegistryServer, client: RegistryClient) -> None:
    upstream.push("team/told", "1", (SMALL, LARGE))
    found = resolved(client, ref(upstream, "team/told:1"))
    stranger = Blob(f"sha256:{'1' * 64}", 5)
    seen = client.present(ref(upstream, "team/told:1"), (*found.blobs, stranger))
    assert seen.there == {blob.digest for blob in found.blobs}
    assert seen.absent == {stranger.digest}
    assert not seen.unknown


def test_a_mirror_is_asked_so_that_it_fetches_no_large_part(
    upstream: RegistryServer, mirror: RegistryServer, client: RegistryClient
) -> None:
    pushed = upstream.push("team/cold", "1", (SMALL, LARGE))
    found = resolved(client, ref(upstream, "team/cold:1"))
    image = ref(mirror, "team/cold:1")
    for _ in range(3):
        seen = client.present(image, found.blobs)
        assert not seen.absent
        assert {pushed.blobs[1], pushed.blobs[2]} & seen.unknown
    assert upstream.asked("GET", pushed.blobs[2]) == 0
    assert not mirror.has(pushed.blobs[2])


def staged(image: str, mirror: RegistryServer, *more: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "reconciler.cli", "stage", "image", image, "--mirror", mirror.host, *more]
    plain = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "HOME": "/nowhere"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**plain, **(environment or {})}
    )


def done(running: subprocess.Popen[str]) -> str:
    said, wrong = running.communicate(timeout=60)
    assert running.returncode == 0, wrong
    return said


def test_an_image_is_warmed_and_the_mirror_then_gives_it_alone(
    upstream: RegistryServer, mirror: RegistryServer, client: RegistryClient
) -> None:
    pushed = upstream.push("team/warm", "1", (SMALL, LARGE))
    image = f"{upstream.host}/team/warm:1"
    said = done(staged(image, mirror))
    assert f"{image} ({pushed.digest}) has come through {mirror.host}, which says that it keeps all of it" in said
    assert "3 of 3 parts" in said
    assert all(mirror.has(digest) for digest in pushed.blobs)
    progress = last_progress(said)
    assert progress is not None
    assert (progress.objects_done, progress.bytes_done, progress.bytes_sent) == (3, pushed.size, pushed.size)
    before = upstream.asked("GET", pushed.blobs[2])
    again = done(staged(image, mirror))
    assert "0 of 3 parts, 0 B of" in again
    assert upstream.asked("GET", pushed.blobs[2]) == before
    there = client.present(parse_image(through_mirror(image, mirror.host)), resolved(client, parse_image(image)).blobs)
    assert {pushed.blobs[0], pushed.blobs[1]} <= there.there


def test_a_start_after_a_kill_reads_only_what_the_mirror_lacks(upstream: RegistryServer, mirror: RegistryServer) -> None:
    pushed = upstream.push("team/killed", "1", (SMALL, SMALL + 1, LARGE))
    image = f"{upstream.host}/team/killed:1"
    running = staged(image, mirror, "--rate", str(SMALL))
    until(lambda: mirror.has(pushed.blobs[1]) and upstream.asked("GET", pushed.blobs[2]), 30.0)
    running.kill()
    running.communicate(timeout=10)
    before = upstream.asked("GET", pushed.blobs[1])
    said = done(staged(image, mirror))
    assert "keeps all of it" in said
    assert upstream.asked("GET", pushed.blobs[1]) == before
    progress = last_progress(said)
    assert progress is not None
    assert progress.bytes_done == pushed.size
    assert progress.bytes_sent <= pushed.size - SMALL


def test_a_rate_of_zero_holds_it_until_the_file_says_otherwise(
    upstream: RegistryServer, mirror: RegistryServer, tmp_path: Path
) -> None:
    pushed = upstream.push("team/held", "1", (SMALL, LARGE))
    rate = tmp_path / "rate"
    rate.write_text("0")
    running = staged(f"{upstream.host}/team/held:1", mirror, "--rate", "1e9", "--rate-file", str(rate))
    assert running.stdout is not None
    assert running.stdout.readline().startswith(MARK)
    until(lambda: mirror.has(pushed.blobs[0]))
    assert not upstream.asked("GET", pushed.blobs[2])
    assert running.poll() is None
    rate.write_text("1e9")
    assert "keeps all of it" in done(running)


def test_a_mirror_that_wants_a_login_gets_it(upstream: RegistryServer, tmp_path: Path) -> None:
    pushed = upstream.push("team/inside", "1", (SMALL,))
    image = f"{upstream.host}/team/inside:1"
    with registry(tmp_path / "mirror", upstream=upstream, login=True) as mirror:
        _, wrong = (refused := staged(image, mirror)).communicate(timeout=60)
        assert refused.returncode == 2
        assert "without a login (401)" in wrong
        login = {"RECONCILER_REGISTRY_CONFIG": str(config_file(tmp_path, mirror.host))}
        assert "keeps all of it" in done(staged(image, mirror, environment=login))
        assert all(mirror.has(digest) for digest in pushed.blobs)


@pytest.fixture
def tokens(tmp_path: Path) -> Iterator[TokenServer]:
    with token_server(tmp_path / "tokens") as server:
        server.logins = {USER: WORD}
        yield server


def test_a_registry_with_a_token_server_opens_with_its_login(tokens: TokenServer, tmp_path: Path) -> None:
    with registry(tmp_path / "guarded", tokens=tokens) as guarded:
        pushed = guarded.push("team/guarded", "1", (SMALL,))
        nobody = RegistryClient({}).resolve(ref(guarded, "team/guarded:1"))
        assert isinstance(nobody, Denied)
        assert (nobody.denial, nobody.certain) == (Denial.FORBIDDEN, False)
        client = RegistryClient({"RECONCILER_REGISTRY_CONFIG": str(config_file(tmp_path, guarded.host))})
        found = resolved(client, ref(guarded, "team/guarded:1"))
        assert found.digest == pushed.digest
        assert client.read(ref(guarded, "team/guarded:1"), found.blobs[1], lambda _: None) is False  # it has it itself
        missing = client.resolve(ref(guarded, "team/guarded:2"))
        assert isinstance(missing, Denied)
        assert (missing.denial, missing.certain) == (Denial.MISSING, True)
        assert tokens.asked == [("repository:team/guarded:pull", None), ("repository:team/guarded:pull", USER)]


def test_a_mirror_brings_what_only_it_has_a_login_for(tokens: TokenServer, tmp_path: Path) -> None:
    with registry(tmp_path / "guarded", tokens=tokens) as guarded:
        pushed = guarded.push("team/behind", "1", (SMALL,))
        with registry(tmp_path / "mirror", upstream=guarded) as mirror:
            assert "keeps all of it" in done(staged(f"{guarded.host}/team/behind:1", mirror))
            assert all(mirror.has(digest) for digest in pushed.blobs)


def test_what_the_mirror_lacks_is_said_in_words(upstream: RegistryServer, mirror: RegistryServer) -> None:
    running = staged(f"{upstream.host}/no/such:1", mirror)
    _, wrong = running.communicate(timeout=60)
    assert running.returncode == 2
    assert f"{mirror.host} has no no/such with 1" in wrong


def test_a_hub_pins_what_a_registry_has_and_finds_what_it_lacks(locked: RegistryServer, tmp_path: Path) -> None:
    pushed = locked.push("team/train", "1.4", (SMALL,))
    rig = two_regions(tmp_path)
    rig.put({"reconciler.yaml": f"{SETTINGS}images: {{resolve: true}}\n"})
    rig.job(image=f"{locked.host}/team/train:1.4")
    rig.job("typo", image=f"{locked.host}/team/trian:1.4")
    rig.settle()
    logins = {"RECONCILER_REGISTRY_CONFIG": str(config_file(tmp_path, locked.host))}
    loop = ImageLoop(rig.hub.board.images, lambda: RegistryClient(logins), rig.clock)
    until(lambda: loop.turn() > 0, 60.0)
    rig.settle()
    assert rig.attempt().image == f"{locked.host}/team/train:1.4@{pushed.digest}"
    assert f"{locked.host}/team/train@{pushed.digest}" in (
        rig.text("region/eu", f"manifests/{TEAM}/{rig.attempt().name}.yaml") or ""
    )
    why = rig.record("typo").why
    assert why is not None
    assert why.code == "ImageMissing"


def test_a_blob_with_other_bytes_is_refused(upstream: RegistryServer, client: RegistryClient) -> None:
    pushed = upstream.push("team/spoilt", "1", (SMALL,))
    kind, _, name = pushed.blobs[1].partition(":")
    file = upstream.storage / "docker/registry/v2/blobs" / kind / name[:2] / name / "data"
    file.write_bytes(b"\0" * SMALL)
    blob = Blob(pushed.blobs[1], SMALL)
    with registry(upstream.folder / "over", upstream=upstream) as mirror, pytest.raises(Refused, match="other bytes"):
        client.read(ref(mirror, "team/spoilt:1"), blob, lambda _: None)
