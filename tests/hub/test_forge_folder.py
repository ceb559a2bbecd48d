"""Where the clone for pull requests lies: in the hub's own folder, which is all that the hub may be given, or where it is told."""

from pathlib import Path

import pytest

from reconciler.adapters.git import BareClone
from reconciler.app import PULLS_FOLDER, hub_loop, pulls_folder
from tests.adapters.gitworld import hide_own_settings
from tests.githttp import run_git
from tests.hub.rig import Rig


def test_it_is_inside_the_hub_s_folder_unless_it_is_named() -> None:
    own = Path("/var/lib/reconciler")
    assert own in pulls_folder(own, {}).parents
    assert pulls_folder(own, {PULLS_FOLDER: "/srv/pulls"}) == Path("/srv/pulls")


def test_the_hub_s_own_clone_works_around_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_own_settings(monkeypatch)
    rig = Rig(tmp_path)
    folder = tmp_path / "hub"
    hub_loop(rig.url, folder, f"file://{tmp_path / 'other-store'}")
    inner = BareClone(rig.url, pulls_folder(folder, {}))
    assert inner.fetch()["main"] == rig.tip("main")
    outer = BareClone(rig.url, folder)
    assert outer.fetch()["main"] == rig.tip("main")
    assert run_git(folder, "fsck", "--full") == run_git(folder / "pulls", "fsck", "--full") == ""
