"""The version of a program in a cluster, by the image that its Deployment names."""

import re
from collections.abc import Mapping
from typing import Any

from packaging.version import InvalidVersion, Version

from reconciler.model.image_ref import image_problem, parse_image

_VERSION = re.compile(r"v?([0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.-]*)").fullmatch


def version_of(workload: Mapping[str, Any]) -> Version | None:
    """The version of the first container's image; None where its tag is none, or it is named by its digest alone."""
    pod = ((workload.get("spec") or {}).get("template") or {}).get("spec") or {}
    image = str(next((one.get("image") for one in pod.get("containers") or ()), None) or "")
    found = _VERSION(parse_image(image).tag or "") if image_problem(image) is None else None
    try:
        return Version(found[1]) if found is not None else None
    except InvalidVersion:
        return None
