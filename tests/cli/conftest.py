"""What all tests of the command need: its call, and a home of its own."""

from pathlib import Path

import pytest

from tests.cli.world import Command

ANN = ("Ann Example", "ann@example.com")


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home without anybody's settings, a person for git, no repository, and a folder that is no working tree."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(home.parent))
    for name in ("RECONCILER_REPO", "RECONCILER_TRACEBACK", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    (home / "gitconfig").write_text(f"[user]\n\tname = {ANN[0]}\n\temail = {ANN[1]}\n", encoding="utf-8")
    monkeypatch.chdir(home)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
