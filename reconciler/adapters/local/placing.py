"""Where a local program finds what a container would find: mounted folders, and the other pods of its Job.

Nothing can be mounted for one program alone without more rights, so each mount is a link below the container's root
(`POD_ROOT`), and whatever names it as a whole (an argument, the value after `--flag=`, an environment value, a `file://`
URI) is rewritten to there. Paths inside a program's own text are not: it must start from POD_ROOT or be given them.
A stable host name of a peer (`<job>-<index>.<subdomain>`) becomes 127.0.0.1, for all of a Job's pods are on this machine;
two Jobs that listen on one port therefore cannot run side by side. `/dev/shm` is the machine's own.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler.ports import KubeObject

LOOPBACK = "127.0.0.1"
MACHINES_OWN = "/dev/shm"  # noqa: S108 – the kernel's name for shared memory, not a temporary file

_PATH = re.compile(r"((?:--?[A-Za-z0-9][A-Za-z0-9_.-]*=)?(?:file://)?)(/.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Place:
    """What is rewritten in texts for one container: mount paths to their links, and the host names of its Job."""

    mounts: Mapping[str, Path]
    peers: re.Pattern[str] | None


def place_of(pod: KubeObject, mounts: Mapping[str, Path]) -> Place:
    """The place of a container with these mount paths, each with the link that stands for it."""
    return Place({path.rstrip("/"): link for path, link in mounts.items()}, _peers(pod))


def placed(text: str, place: Place) -> str:
    """The text as it is right on this machine."""
    if place.peers is not None:
        text = place.peers.sub(LOOPBACK, text)
    match = _PATH.fullmatch(text)
    if match is None:
        return text
    around = [mount for mount in place.mounts if match[2] == mount or match[2].startswith(f"{mount}/")]
    if not around:
        return text
    nearest = max(around, key=len)
    return f"{match[1]}{place.mounts[nearest]}{match[2].removeprefix(nearest)}"


def _peers(pod: KubeObject) -> re.Pattern[str] | None:
    job = (pod["metadata"].get("labels") or {}).get("batch.kubernetes.io/job-name")
    subdomain = pod["spec"].get("subdomain")
    if not job or not subdomain:
        return None
    name, domain, namespace = re.escape(job), re.escape(subdomain), re.escape(pod["metadata"]["namespace"])
    ending = rf"(?:\.{namespace}(?:\.svc(?:\.[a-z0-9-]+)*)?)?"
    return re.compile(rf"(?<![A-Za-z0-9.-]){name}-[0-9]+\.{domain}{ending}(?![A-Za-z0-9-]|\.[A-Za-z0-9])")
