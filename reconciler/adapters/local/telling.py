"""Files that tell a pod of itself (volumes of kind downwardAPI): its labels, annotations and names, as they are now.

A file is exchanged whole, so that a program never reads half of one.
"""

from pathlib import Path

from reconciler.adapters.local.launching import field_of
from reconciler.adapters.local.volumes import Unready
from reconciler.ports import KubeObject


def tell(pod: KubeObject, volumes: Path) -> None:
    """Bring them up to date below `volumes`. Raises Unready for a field that is not offered, and OSError."""
    for volume in pod["spec"].get("volumes") or ():
        for item in (volume.get("downwardAPI") or {}).get("items") or ():
            if "fieldRef" not in item:
                raise Unready("a local region tells a pod's fields only, not its resources")
            _write(volumes / volume["name"] / Path(item["path"]).name, field_of(item["fieldRef"]["fieldPath"], pod))


def _write(file: Path, text: str) -> None:
    if file.is_file() and file.read_text(encoding="utf-8") == text:
        return
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = file.with_name(f".{file.name}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(file)
