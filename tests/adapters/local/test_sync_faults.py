"""What stops an application of a region's branch, and what is done and said then."""

import pytest

from reconciler.adapters.local.manifests import Unreadable, objects_of
from tests.adapters.local.synced import BRANCH, SyncedWorld, file_of, sentinel, written
from tests.adapters.local.world import TEAM, make_job, phases
from tests.githttp import run_git, tree_of


@pytest.fixture
def world(synced_world: SyncedWorld) -> SyncedWorld:
    return synced_world


BAD: dict[str, tuple[bytes, str]] = {
    "broken YAML": (
        b"a: 1\nb: {c\n",
        (
            "failed to decode Kubernetes YAML from manifests/bad.yaml: MalformedYAMLError: yaml: line 3, column 1: "
            "did not find expected ',' or '}'"
        ),
    ),
    "a string for a number": (
        written(make_job("bad", activeDeadlineSeconds="5")),
        (
            "Job/team-a/bad dry-run failed: failed to create typed patch object (team-a/bad; batch/v1, Kind=Job): "
            ".spec.activeDeadlineSeconds: expected numeric (int or float), got string"
        ),
    ),
    "a number out of range": (
        written(make_job("bad", completions=-1)),
        (
            'Job/team-a/bad dry-run failed (Invalid): Job.batch "bad" is invalid: spec.completions: Invalid value: -1: '
            "must be greater than or equal to 0"
        ),
    ),
    "a namespace that is not there": (
        written(make_job("bad") | {"metadata": {"name": "bad", "namespace": "team-zz"}}),
        'Job/team-zz/bad not found: namespaces "team-zz" not found',
    ),
    "a kind that is not permitted": (
        written({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s1", "namespace": TEAM}}),
        "Secret/team-a/s1 dry-run failed (Forbidden): a region's branch may hold ConfigMap, Job, Service only",
    ),
    "an env value that a Go reader takes for a number": (
        written(make_job("bad", container={"env": [{"name": "SHA", "value": "X"}]})).replace(b"value: X", b"value: 12345e7"),
        (
            "Job/team-a/bad dry-run failed: failed to create typed patch object (team-a/bad; batch/v1, Kind=Job): "
            ".spec.template.spec.containers[0].env[0].value: expected string, got int"
        ),
    ),
    "an object that stands in two files": (
        written(sentinel()),
        "ConfigMap/gpu-reconciler/sentinel-eu is in manifests/_sentinel.yaml as well; remove one of the two",
    ),
}


@pytest.mark.parametrize(("body", "message"), BAD.values(), ids=BAD.keys())
def test_t4_one_bad_file_stops_all_the_others_and_the_removals(world: SyncedWorld, body: bytes, message: str) -> None:
    good = world.push(make_job("old"))
    world.pull(good)
    valid = [make_job(f"new-{number}") for number in range(9)]
    world.pull(world.push(*valid, raw={"manifests/bad.yaml": body}))
    state = world.sync.state()
    assert world.names() == ["old"]
    assert (state.commit, dict(state.errors)) == (good, {"manifests/bad.yaml": message})
    assert state.objects == {(TEAM, "old")}
    world.pull(world.push(*valid, make_job("later"), raw={"manifests/bad.yaml": body}))
    assert world.names() == ["old"]
    mended = world.push(*valid)
    world.pull(mended)
    assert world.names() == [f"new-{number}" for number in range(9)]
    assert (world.sync.state().commit, world.sync.state().errors) == (mended, {})


def test_t4_only_the_first_of_several_bad_files_is_named(world: SyncedWorld) -> None:
    world.pull(world.push(make_job("a", completions=-1), make_job("b", completions=-1)))
    assert list(world.sync.state().errors) == [file_of("a")]


def test_t4_an_unknown_field_is_dropped_silently(world: SyncedWorld) -> None:
    world.pull(world.push(make_job(paralelism=2)))
    assert world.sync.state().errors == {}
    assert "paralelism" not in world.job()["spec"]


def test_t4_a_failure_whose_cause_has_gone_is_tried_again_at_the_interval(world: SyncedWorld) -> None:
    elsewhere = make_job()
    elsewhere["metadata"]["namespace"] = "team-b"
    commit = world.push(elsewhere)
    world.pull(commit)
    assert world.names() == []
    with world.cluster.changes() as (objects, now):
        objects.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-b"}}, now)
    world.wait(10)
    assert world.names() == ["train"]
    assert world.sync.state().commit == commit


EMPTY: dict[str, tuple[dict[str, bytes], str]] = {
    "no manifests folder": ({"README.md": b"x"}, "kustomization path not found: manifests: no such file or directory"),
    "a manifests folder without YAML": (
        {"manifests/README.md": b"x"},
        "Skipping sync attempt: it would wipe out all resources; the branch holds no manifest",
    ),
}


@pytest.mark.parametrize(("files", "message"), EMPTY.values(), ids=EMPTY.keys())
def test_t5_nothing_is_pruned_without_any_manifest(world: SyncedWorld, files: dict[str, bytes], message: str) -> None:
    good = world.push(make_job())
    world.pull(good)
    world.release()
    world.pull(world.push(raw=files, with_sentinel=False))
    world.wait(30)
    assert phases(world.pods()) == ["Running"]
    assert (world.sync.state().commit, dict(world.sync.state().errors)) == (good, {"manifests": message})


def test_a_branch_that_is_not_there_prunes_nothing(world: SyncedWorld) -> None:
    world.pull(world.push(make_job()))
    run_git(world.bare, "update-ref", "-d", f"refs/heads/{BRANCH}")
    world.wait(10)
    assert world.names() == ["train"]
    assert dict(world.sync.state().errors) == {BRANCH: "couldn't find remote ref refs/heads/region/eu"}


def test_a_symbolic_link_stops_the_application(world: SyncedWorld) -> None:
    world.pull(world.push(make_job()))
    target = run_git(world.bare, "hash-object", "-w", "--stdin", body=b"../../etc/passwd")
    root = tree_of(world.bare, {"manifests/x.yaml": ("120000", target)})
    commit = run_git(world.bare, "commit-tree", root, "-m", "link")
    run_git(world.bare, "update-ref", f"refs/heads/{BRANCH}", commit)
    world.wait(10)
    assert world.names() == ["train"]
    assert list(world.sync.state().errors) == ["manifests/x.yaml"]


def test_values_are_read_as_the_engines_read_them() -> None:
    body = (
        b"---\nkind: Z\nmetadata: {name: a}\nv: [12345e7, 1e3, y, n, 0o17, 0755, 08, 1.5, ~, 2026-13-45, 12:30, 'y']\n---\n---\n"
    )
    ((one),) = objects_of("m.yaml", body)
    assert one["v"] == [123450000000, 1000, True, False, 15, 493, 8, 1.5, None, "2026-13-45", "12:30", "y"]


@pytest.mark.parametrize("body", [b"kind: Z\nkind: Z\n", b"- 1", b"? [a]\n: 1\n", b"metadata: {name: a}\n", b"\xff"])
def test_what_is_no_object_is_unreadable(body: bytes) -> None:
    with pytest.raises(Unreadable, match=r"from m\.yaml"):
        objects_of("m.yaml", body)
