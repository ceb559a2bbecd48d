"""Reading commits, trees and blobs, also such as nobody should have made."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.adapters.git import BareClone, trees
from reconciler.ports import EntryKind, RefUpdate, Refused, Transient, TreeEntry
from tests.adapters.gitworld import WHEN, Objects, all_files, empty_remote, hide_own_settings
from tests.githttp import commit_files, run_git, tree_of


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    hide_own_settings(monkeypatch)
    with empty_remote(tmp_path) as made:
        yield made


ODD_NAMES = ("a b", "a\nb", "-x", '"quoted"', "é", "欧洲", "bad\udcffbytes", "back\\slash", "a.b", "a-b", "a0", "x" * 255)


def test_odd_names_links_and_submodules_are_listed_for_what_they_are(world: Objects) -> None:
    blob, script = world.blob(b"job"), world.blob(b"#!/bin/sh")
    entries = {f"jobs/{name}": ("100644", blob) for name in ODD_NAMES}
    entries |= {f"jobs/a/{name}": ("100644", blob) for name in ODD_NAMES}
    entries |= {
        "jobs/link.yaml": ("120000", world.blob(b"../../secrets.yaml")),
        "jobs/sub": ("160000", "1" * 40),
        "run.sh": ("100755", script),
    }
    commit = world.publish(tree_of(world.bare, entries))
    files = world.clone.files(commit)
    assert {path: entry.oid for path, entry in files.items()} == {path: oid for path, (_, oid) in entries.items()}
    assert list(files) == sorted(entries, key=lambda path: path.encode("utf-8", "surrogateescape"))
    others = {path: entry.kind for path, entry in files.items() if entry.kind is not EntryKind.FILE}
    assert others == {"jobs/link.yaml": EntryKind.LINK, "jobs/sub": EntryKind.SUBMODULE}
    assert world.clone.read(files["jobs/a/bad\udcffbytes"].oid) == b"job"
    assert list(world.clone.files(commit, "jobs/a")) == [path for path in files if path.startswith("jobs/a/")]


def test_a_folder_is_told_from_a_file_and_from_nothing(world: Objects) -> None:
    commit = world.publish(tree_of(world.bare, {"jobs/a/x.yaml": ("100644", world.blob(b"x"))}))
    tree = run_git(world.bare, "rev-parse", f"{commit}:jobs/a")
    assert world.clone.tree_id(commit, "jobs/a") == tree
    assert world.clone.tree_id(commit) == world.clone.root_of(commit) == run_git(world.bare, "rev-parse", f"{commit}^{{tree}}")
    for absent in ("jobs/a/x.yaml", "jobs/b", "jobs/a/x.yaml/y"):
        assert world.clone.tree_id(commit, absent) is None
        assert world.clone.files(commit, absent) == {}
    for senseless in ("/jobs", "jobs/", "jobs//a", "..", "jobs/../jobs", ".git/x"):
        with pytest.raises(ValueError, match="is no path"):
            world.clone.files(commit, senseless)


MALFORMED = {
    "a name with a slash": b"100644 a/b\0" + b"\1" * 20,
    "a name that leads out": b"40000 ..\0" + b"\1" * 20,
    "a name twice": (b"100644 a\0" + b"\1" * 20) * 2,
    "an empty name": b"100644 \0" + b"\1" * 20,
    "a cut entry": b"100644 a\0" + b"\1" * 19,
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_trees_that_git_would_not_check_out_are_refused(world: Objects, body: bytes) -> None:
    assert world.clone.fetch() == {}
    here = world.folder / "clone"
    tree = run_git(here, "hash-object", "-w", "--literally", "-t", "tree", "--stdin", body=body)
    bad = run_git(here, "commit-tree", "-m", "crafted", tree)
    with pytest.raises(Refused, match="does not check out"):
        world.clone.files(bad)
    with pytest.raises(Refused, match="does not check out"):
        world.clone.write_tree(bad, {"new": world.clone.write_blob(b"x")})


GOOD = "A <a@b.example> 1790000000 +0200"
Words = tuple[bytes, bytes, str, str]
AUTHORS: dict[str, Words] = {
    "as it should be": (GOOD.encode(), "Zeile é\n\nmore".encode(), "A <a@b.example> 2026-09-21", "Zeile é"),
    "after the last day": (b"A <a@b> 99999999999999 +0000", b"x", "A <a@b> 9999-12-31", "x"),
    "no number of this world": (b"A <a@b> " + b"9" * 5000 + b" +0000", b"x", "A <a@b> 9999-12-31", "x"),
    "no address": (b"A 1790000000 +0000", b"x", "unknown <> 1970-01-01", "x"),
    "nothing": (b"", b"", "unknown <> 1970-01-01", ""),
    "before all days": (b"A <a@b> -5 +0000", b"x", "unknown <> 1970-01-01", "x"),
    "no text": (b"\xff <\xfe> 1 +0000", b"\xfd\n", "\ufffd <\ufffd> 1970-01-01", "\ufffd"),
    "an empty name": (b" <a@b> 1 +0000", b"\n\nx", " <a@b> 1970-01-01", ""),
}


@pytest.mark.parametrize("case", AUTHORS.values(), ids=AUTHORS)
def test_a_commit_with_a_bad_author_is_read_like_any_other(world: Objects, case: Words) -> None:
    author, message, want, subject = case
    tree = tree_of(world.bare, {"jobs/a.yaml": ("100644", world.blob(b"a"))})
    parent = run_git(world.bare, "commit-tree", "-m", "first", tree)
    body = b"tree %b\nparent %b\nauthor %b\ncommitter %b\n\n%b" % (
        *(oid.encode() for oid in (tree, parent)),
        author,
        author,
        message,
    )
    bad = run_git(world.bare, "hash-object", "-w", "--literally", "-t", "commit", "--stdin", body=body)
    after = run_git(world.bare, "commit-tree", "-p", bad, "-m", "after", tree)
    run_git(world.bare, "update-ref", "refs/heads/main", bad)
    run_git(world.bare, "update-ref", "refs/heads/later", after)
    assert world.clone.fetch() == {"main": bad, "later": after}
    assert all_files(world.clone, bad) == {"jobs/a.yaml": b"a"}
    words = world.clone.words_of(bad)
    assert (f"{words.author} {words.when:%Y-%m-%d}", words.subject) == (want, subject)
    assert world.clone.is_ancestor(parent, after)
    assert not world.clone.is_ancestor(after, bad)
    new = world.clone.commit(world.clone.write_tree(bad, {}), [bad], "on top\n", WHEN)
    assert world.clone.push([RefUpdate("main", bad, new)]).done


def test_a_commit_without_a_tree_is_refused(world: Objects) -> None:
    world.clone.fetch()
    bad = run_git(world.folder / "clone", "hash-object", "-w", "--literally", "-t", "commit", "--stdin", body=b"garbage")
    with pytest.raises(Refused, match="names no tree"):
        world.clone.files(bad)


def test_a_tree_made_to_fill_the_memory_is_refused(world: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "MOST_ENTRIES", 20_000)
    clone, blob = world.clone, world.clone.write_blob(b"x")
    tree = clone.write_tree(None, {f"f{number}": blob for number in range(30)})
    layer = {f"d{number}": tree for number in range(30)}
    for _ in range(6):
        body = b"".join(b"40000 %b\0%b" % (name.encode(), bytes.fromhex(oid)) for name, oid in sorted(layer.items()))
        tree = run_git(world.folder / "clone", "hash-object", "-w", "-t", "tree", "--stdin", body=body)
        layer = dict.fromkeys(layer, tree)
    with pytest.raises(Refused, match="more than 20000 files"):
        clone.files(clone.commit(tree, [], "bomb", WHEN))


def test_a_tree_of_folders_alone_is_refused_as_well(world: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "MOST_ENTRIES", 20_000)
    tree = world.clone.write_tree(None, {})
    for _ in range(9):
        body = b"".join(b"40000 d%d\0%b" % (at, bytes.fromhex(tree)) for at in range(9))
        tree = run_git(world.folder / "clone", "hash-object", "-w", "-t", "tree", "--stdin", body=body)
    with pytest.raises(Refused, match="more than 20000 files and folders"):
        world.clone.files(world.clone.commit(tree, [], "bomb", WHEN))


def test_folders_without_end_are_refused(world: Objects) -> None:
    deep = world.clone.write_tree(None, {"/".join("d" * (trees.MOST_LEVELS + 1)): world.clone.write_blob(b"x")})
    with pytest.raises(Refused, match="folders deep"):
        world.clone.files(world.clone.commit(deep, [], "deep", WHEN))


def test_the_size_of_a_big_blob_is_told_without_reading_it(world: Objects) -> None:
    body = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(160_000))
    loose = world.clone.write_blob(body)
    assert world.clone.size(loose) == len(body)
    packed = world.publish(tree_of(world.bare, {"big": ("100644", world.blob(body + b"!"))}))
    assert world.clone.size(world.clone.files(packed)["big"].oid) == len(body) + 1
    assert world.clone.read(loose) == body
    path = world.folder / "clone/objects" / loose[:2] / loose[2:]
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"\xff" * 1000)
    assert world.clone.size(loose) == len(body)
    with pytest.raises(Transient, match="cannot be had"):
        world.clone.read(loose)


def test_what_is_not_here_is_said_to_be_so(world: Objects) -> None:
    missing, clone = "1" * 40, world.clone
    tree = clone.write_tree(None, {})
    for ask in (clone.root_of, clone.files, clone.tree_id, clone.size, clone.read):
        with pytest.raises(Transient, match=rf"{missing}.*fetch again"):
            ask(missing)
    with pytest.raises(Transient, match="fetch again"):
        clone.write_tree(missing, {})
    with pytest.raises(Transient, match="fetch again"):
        clone.write_tree(None, {"a": missing})
    with pytest.raises(Transient, match="fetch again"):
        clone.commit(tree, [missing], "x", WHEN)
    with pytest.raises(Transient, match="fetch again"):
        clone.commit(missing, [], "x", WHEN)
    for ask in (clone.root_of, clone.size, clone.read):
        with pytest.raises(ValueError, match="no full object id"):
            ask("1" * 39)
    with pytest.raises(ValueError, match="no commit"):
        clone.root_of(tree)


def test_an_unchanged_folder_is_not_read_again(world: Objects) -> None:
    clone = world.clone
    changes = {f"jobs/{team}/{number:04}.yaml": clone.write_blob(team.encode()) for team in "ab" for number in range(200)}
    first = clone.commit(clone.write_tree(None, changes), [], "first", WHEN)
    before = clone.files(first)
    second = clone.commit(clone.write_tree(first, {"jobs/b/0007.yaml": clone.write_blob(b"new")}), [first], "second", WHEN)
    # Too big for libgit2's own cache: with its file gone, the folder's tree can be had from our listing only.
    unchanged = clone.tree_id(first, "jobs/a")
    assert unchanged is not None
    assert unchanged == clone.tree_id(second, "jobs/a")
    (world.folder / "clone/objects" / unchanged[:2] / unchanged[2:]).unlink()
    after = clone.files(second)
    assert list(after) == list(before)
    assert {path for path in before if before[path] != after[path]} == {"jobs/b/0007.yaml"}
    assert clone.files(second) is after
    with pytest.raises(Transient):
        BareClone(world.url, world.folder / "clone").files(second)


def test_listings_of_long_ago_are_let_go(world: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "_KEPT_ENTRIES", 1_000)
    clone, blob = world.clone, world.clone.write_blob(b"x")
    commits = []
    for number in range(40):
        names = {f"{team}/{number}-{file}.yaml": blob for team in "abcdefgh" for file in range(10)}
        commits.append(clone.commit(clone.write_tree(None, names), [], "x", WHEN))
        clone.files(commits[-1])
    kept = clone._listings
    assert sum(len(listing.entries) for listing in kept._last.values()) <= 1_000
    assert len(kept._all) == 9 * len(kept._last)
    assert clone.files(commits[-1]) is clone.files(commits[-1])
    assert len(clone.files(commits[0])) == 80


def test_a_listing_cannot_be_changed(world: Objects) -> None:
    commit = world.clone.commit(world.clone.write_tree(None, {"a": world.clone.write_blob(b"a")}), [], "x", WHEN)
    with pytest.raises(TypeError):
        world.clone.files(commit)["b"] = TreeEntry("1" * 40, EntryKind.FILE)  # type: ignore[index]


def test_files_of_a_fetched_commit_read_back(world: Objects) -> None:
    files = {"jobs/a.yaml": b"a\n", "jobs/t/b.yaml": b"", "é.yaml": b"\xff\0"}
    commit = commit_files(world.bare, "main", files)
    world.clone.fetch()
    assert all_files(world.clone, commit) == files
