"""A person's commit whose files are bytes, as an editor on any machine may save them."""

from collections.abc import Mapping

from tests.githttp import run_git
from tests.hub.rig import Rig


def commit_bytes(rig: Rig, files: Mapping[str, str | bytes], branch: str = "main") -> str:
    """Put these files on a branch of the rig's repository, beside those that are there; return the commit."""
    head = f"commit refs/heads/{branch}\ncommitter Someone <someone@example.com> 1790000000 +0000\ndata 6\nchange\n"
    body = f"{head}from {rig.tip(branch)}\n".encode()
    for path, content in files.items():
        raw = content.encode() if isinstance(content, str) else content
        body += f"M 100644 inline {path}\ndata {len(raw)}\n".encode() + raw + b"\n"
    run_git(rig.bare, "fast-import", "--force", "--quiet", body=body)
    commit = rig.tip(branch)
    assert commit is not None
    rig.people.add(commit)
    return commit
