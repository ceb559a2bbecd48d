"""Raising `rerun` in a file's text: the number changes or one line comes, and every other byte stays."""

import pytest

from reconciler.adapters.documents import reader
from reconciler.commands.ends import BadInput
from reconciler.commands.rerun import raised

SPEC = b"job_id: x\ngpu: {count: 1}\nimage: a/b:1\n"

EDITS = {
    "there is none: a line is added at the end": (SPEC, SPEC + b"rerun: 3\n"),
    "there is one: only its number changes": (
        b"job_id: x\nrerun: 2   # again\ngpu: {count: 1}\nimage: a/b:1\n",
        b"job_id: x\nrerun: 3   # again\ngpu: {count: 1}\nimage: a/b:1\n",
    ),
    "a quoted name": (
        b'job_id: x\n"rerun": 2\ngpu: {count: 1}\nimage: a/b:1\n',
        b'job_id: x\n"rerun": 3\ngpu: {count: 1}\nimage: a/b:1\n',
    ),
    "no line end at the end": (SPEC[:-1], SPEC + b"rerun: 3\n"),
    "line ends of Windows": (SPEC.replace(b"\n", b"\r\n"), SPEC.replace(b"\n", b"\r\n") + b"rerun: 3\r\n"),
    "a byte-order mark": (b"\xef\xbb\xbfrerun: 2\n" + SPEC, b"\xef\xbb\xbfrerun: 3\n" + SPEC),
    "the words stand in a program too": (
        SPEC + b"command: [sh, -c, 'echo rerun: 2']\nrerun: 2\n",
        SPEC + b"command: [sh, -c, 'echo rerun: 2']\nrerun: 3\n",
    ),
    "the words stand in a program only": (
        SPEC + b"args:\n- |\n  rerun: 2\n  go\n",
        SPEC + b"args:\n- |\n  rerun: 2\n  go\nrerun: 3\n",
    ),
    "a text at the end that would take the new line": (
        SPEC + b"args:\n- |\n  go",
        b"job_id: x\nrerun: 3\ngpu: {count: 1}\nimage: a/b:1\nargs:\n- |\n  go",
    ),
    "a text at the end that keeps its empty lines": (
        SPEC + b"args:\n- |+\n  go\n\n",
        SPEC + b"args:\n- |+\n  go\n\nrerun: 3\n",
    ),
    "an end of the document": (SPEC + b"...\n", b"job_id: x\nrerun: 3\ngpu: {count: 1}\nimage: a/b:1\n...\n"),
    "everything on one line": (
        b"{job_id: x, gpu: {count: 1}, image: 'a/b:1'}\n",
        b"{rerun: 3, job_id: x, gpu: {count: 1}, image: 'a/b:1'}\n",
    ),
    "everything on one line, with the number": (
        b"{job_id: x, rerun: 2, gpu: {count: 1}, image: 'a/b:1'}\n",
        b"{job_id: x, rerun: 3, gpu: {count: 1}, image: 'a/b:1'}\n",
    ),
    "comments and odd indentation": (
        b"# rerun: 2\njob_id:   x\n\n\ngpu:\n      count: 1\nimage: a/b:1 # rerun: 2\n",
        b"# rerun: 2\njob_id:   x\n\n\ngpu:\n      count: 1\nimage: a/b:1 # rerun: 2\nrerun: 3\n",
    ),
}

JSON_EDITS = {
    "a JSON file": (
        b'{"job_id": "x", "gpu": {"count": 1}, "image": "a/b:1"}',
        b'{"rerun": 3, "job_id": "x", "gpu": {"count": 1}, "image": "a/b:1"}',
    ),
    "a JSON file on several lines": (
        b'{\n  "job_id": "x",\n  "gpu": {"count": 1},\n  "image": "a/b:1",\n  "rerun": 2\n}\n',
        b'{\n  "job_id": "x",\n  "gpu": {"count": 1},\n  "image": "a/b:1",\n  "rerun": 3\n}\n',
    ),
}


@pytest.mark.parametrize(("before", "after"), EDITS.values(), ids=EDITS.keys())
def test_yaml(before: bytes, after: bytes) -> None:
    assert raised(before, "x.yaml", reader.read_job(before, "x.yaml"), 3) == after


@pytest.mark.parametrize(("before", "after"), JSON_EDITS.values(), ids=JSON_EDITS.keys())
def test_json(before: bytes, after: bytes) -> None:
    assert raised(before, "x.json", reader.read_job(before, "x.json"), 3) == after


def test_where_no_place_is_found_nothing_is_guessed() -> None:
    body = b'---\n"job_id": x\n"gpu": {count: 1}\n"image": a/b:1\n...\n'
    with pytest.raises(BadInput, match="no place for `rerun: 3`"):
        raised(body, "x.yaml", reader.read_job(body, "x.yaml"), 3)
