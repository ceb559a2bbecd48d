"""What is made of git's words: secrets taken out, damage suspected, the answers of servers that are not git itself."""

from pathlib import Path

import pytest

from reconciler.adapters.git import pushing
from reconciler.adapters.git.command import Answer, Remote, environment, git
from reconciler.ports import PushOutcome, RefUpdate

OLD, NEW = "1" * 40, "2" * 40

REDACTED = {
    "the URL itself": ("https://bot:pa55@git.example.com/a.git", "To https://bot:pa55@git.example.com/a.git", "To https://git.example.com/a.git"),
    "the password alone": ("https://bot:pa55@git.example.com/a.git", "pa55 is wrong", "*** is wrong"),
    "the password as typed": ("https://bot:p%2Fa@git.example.com/a.git", "p/a or p%2Fa", "*** or ***"),
    "a token in the user's place": ("https://0123456789abcdef@git.example.com/a", "0123456789abcdef", "***"),
    "a user without a password": ("https://git@git.example.com/a", "git push by git@git.example.com", "git push by git@git.example.com"),
    "somebody else's URL": ("/srv/a.git", "see http://me:hush@proxy.example.com:3128/", "see http://***@proxy.example.com:3128/"),
    "a token in the query": ("https://git.example.com/a?private_token=hush", "https://git.example.com/a?private_token=hush", "https://git.example.com/a"),
    "an SSH address": ("git@git.example.com:a.git", "git@git.example.com:a.git: no", "git@git.example.com:a.git: no"),
}  # fmt: skip


@pytest.mark.parametrize("case", REDACTED.values(), ids=REDACTED)
def test_secrets_are_taken_out(case: tuple[str, str, str]) -> None:
    url, text, want = case
    assert Remote(url).redact(text) == want
    assert url not in repr(Remote(url))


def test_git_is_asked_for_texts_that_we_can_read_and_never_asks_back() -> None:
    given = environment({"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "GIT_CONFIG_COUNT": "2"}, Remote("/a"))
    assert given == {
        "LC_ALL": "C",
        "LANG": "de_DE.UTF-8",
        "GIT_TERMINAL_PROMPT": "0",
        "GCM_INTERACTIVE": "never",
        "GIT_CONFIG_COUNT": "3",
        "GIT_CONFIG_KEY_2": "remote.gpu-reconciler.url",
        "GIT_CONFIG_VALUE_2": "/a",
    }


@pytest.mark.parametrize(
    ("words", "want"),
    [
        ("error: object file objects/ab/cd is empty", True),
        ("fatal: loose object 12 (stored in ab) is corrupt", True),
        ("remote: fatal: loose object 12 (stored in ab) is corrupt", False),
        ("fatal: unable to access 'http://a/': Could not resolve host: a", False),
    ],
)
def test_only_our_own_damage_is_suspected(words: str, want: bool) -> None:
    assert Answer(128, b"", words).suggests_damage == want


SLOW = "alias.slow=!for i in 1 2 3 4 5 6; do echo $i >&2; sleep 0.3; done"
SILENT = "alias.silent=!echo begun >&2; sleep 60"


@pytest.mark.slow
def test_a_slow_git_may_go_on_for_as_long_as_it_says_something(tmp_path: Path) -> None:
    remote = Remote("/nowhere")
    assert git(remote, tmp_path, ["-c", SLOW, "slow"], 1.0, patience=30) == Answer(0, b"", "1\n2\n3\n4\n5\n6")
    assert git(remote, tmp_path, ["-c", SLOW, "slow"], 1.0, patience=1).code is None
    assert git(remote, tmp_path, ["-c", SILENT, "silent"], 0.5, patience=1000) == Answer(None, b"", "begun")


def porcelain(*lines: str) -> bytes:
    return "\n".join(("To https://git.example.com/a.git", *lines, "Done")).encode()


UPDATES = [RefUpdate("main", OLD, NEW), RefUpdate("region/eu", OLD, NEW)]
Said = tuple[bytes, str, dict[str, str]]
SAID: dict[str, Said] = {
    "one protected branch, the others held back with it": (
        porcelain(
            f"!\t{NEW}:refs/heads/main\t[remote rejected] (protected branch hook declined)",
            f"!\t{NEW}:refs/heads/region/eu\t[remote rejected] (atomic transaction failed)",
        ),
        "remote: error: GH006: a rule\nerror: failed to push some refs to 'https://git.example.com/a.git'",
        {"main": "protected branch hook declined: error: GH006: a rule"},
    ),
    "all held back and nobody says why": (
        porcelain(*(f"!\t{NEW}:refs/heads/{name}\t[remote rejected] (atomic push failure)" for name in ("main", "region/eu"))),
        "",
        {"main": "atomic push failure", "region/eu": "atomic push failure"},
    ),
    "a branch that is the beginning of another's name": (
        porcelain(
            *(f"!\t{NEW}:refs/heads/{name}\t[remote rejected] (pre-receive hook declined)" for name in ("main", "region/eu"))
        ),
        "remote: region/eu-west is closed",
        dict.fromkeys(("main", "region/eu"), "pre-receive hook declined: region/eu-west is closed"),
    ),
}


@pytest.mark.parametrize("case", SAID.values(), ids=SAID)
def test_refusals_of_other_servers_are_told_by_branch(case: Said) -> None:
    out, words, want = case
    answer = Answer(1, out, words)
    said = pushing.verdicts(answer)
    assert pushing.is_told(said)
    outcome = pushing.judge(UPDATES, answer, said, {"main": OLD, "region/eu": OLD})
    assert outcome == PushOutcome(done=False, raced=False, refusals=want)


@pytest.mark.parametrize("reason", ["stale info", "fetch first", "cannot lock ref 'refs/heads/main': is at 3 but expected 1"])
def test_a_lost_race_is_one_though_the_branches_are_back_where_they_were(reason: str) -> None:
    answer = Answer(1, porcelain(f"!\t{NEW}:refs/heads/main\t[rejected] ({reason})"), "")
    outcome = pushing.judge(UPDATES, answer, pushing.verdicts(answer), {"main": OLD, "region/eu": OLD})
    assert outcome == PushOutcome(done=False, raced=True, refusals={})


def test_a_report_that_never_came_is_no_refusal() -> None:
    lines = (f"!\t{NEW}:refs/heads/{name}\t[remote failure] (remote failed to report status)" for name in ("main", "region/eu"))
    assert not pushing.is_told(pushing.verdicts(Answer(1, porcelain(*lines), "")))
    assert not pushing.is_told(pushing.verdicts(Answer(128, b"", "fatal: the remote end hung up unexpectedly")))
