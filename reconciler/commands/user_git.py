"""The Git of the person at the keyboard: which repository they stand in, who they are, and the first commit of a new one.

Asks the `git` command only; their working tree is never changed.
"""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from reconciler.ports import Refused

OURS = ("gpu-reconciler", "reconciler@localhost")
"""Who makes the first commit of a new repository where the person has no identity set."""


def top_of(folder: Path) -> Path | None:
    """The top of the working tree that `folder` is in; None where it is in none."""
    code, out, _ = _git(["rev-parse", "--show-toplevel"], folder)
    return Path(out) if code == 0 and out else None


def origin_of(top: Path) -> str | None:
    """The URL of the remote `origin` of a working tree, a path made absolute; None where there is none."""
    code, out, _ = _git(["remote", "get-url", "origin"], top)
    if code != 0 or not out:
        return None
    return str((top / out).resolve()) if "://" not in out and (top / out).exists() else out


def identity(folder: Path) -> tuple[str, str] | None:
    """Name and address that git would write into a commit made in `folder`; None where it knows none."""
    code, out, _ = _git(["-c", "user.useConfigOnly=true", "var", "GIT_AUTHOR_IDENT"], folder)
    found = re.fullmatch(r"(.+) <([^<>]+)> \d+ [+-]\d{4}", out)
    return (found[1], found[2]) if code == 0 and found else None


def required_identity(folder: Path) -> tuple[str, str]:
    """The same. Raises Refused where git does not know the person."""
    found = identity(folder)
    if found is None:
        raise Refused("git does not know who you are; run `git config --global user.name …` and `… user.email …`")
    return found


def first_commit(folder: Path, message: str) -> None:
    """Make `folder` a repository with all its files in one commit on main. Raises Refused."""
    _done(["init", "--quiet", "--initial-branch=main"], folder)
    commit_all(folder, message)


def commit_all(folder: Path, message: str) -> None:
    """One commit of all that is different in a working tree of ours. Raises Refused."""
    name, address = identity(folder) or OURS
    own = ["-c", f"user.name={name}", "-c", f"user.email={address}", "-c", "commit.gpgsign=false"]
    _done(["add", "--all"], folder)
    _done([*own, "commit", "--quiet", "-m", message], folder)


def _done(arguments: Sequence[str], folder: Path) -> None:
    code, _, words = _git(arguments, folder)
    if code != 0:
        raise Refused(f"git {arguments[-1] if arguments[0] == '-c' else arguments[0]} in {folder} failed: {words}")


def _git(arguments: Sequence[str], folder: Path) -> tuple[int, str, str]:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    except FileNotFoundError as missing:
        raise Refused("the git command is not on PATH; install git 2.34 or later") from missing
    out, words = (raw.decode("utf-8", "surrogateescape").strip() for raw in (done.stdout, done.stderr))
    return done.returncode, out, " ".join(words.split())
