"""The composition root: which adapter answers which port. No decisions; nothing here is imported by anything but the command.

Adapters and loops are imported where they are opened: most commands need one or two of them, and start quicker without the rest.
"""

import os
import re
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pydantic import ValidationError

from reconciler.adapters.clock import SystemClock
from reconciler.bulk_port import BulkStore
from reconciler.forge_port import Forge
from reconciler.model.policy import SETTINGS_FILE, ForgeAddress, Policy, Settings
from reconciler.model.problem import Invalid
from reconciler.model.region import StoreAddress
from reconciler.ports import EntryKind, GitRepository, ObjectStore, Refused
from reconciler.registry_port import Registry

if TYPE_CHECKING:
    from reconciler.adapters.git import BareClone
    from reconciler.adapters.webhooks import WebServer
    from reconciler.agent.lister import Lister
    from reconciler.agent.probing.prober import Prober
    from reconciler.hub.loop import HubLoop
    from reconciler.hub.results import HubOptions

PULLS_FOLDER = "RECONCILER_PULLS_FOLDER"
"""Where the hub keeps what pull requests bring, if not inside its own folder."""
_POLICY_FILE = "policy.yaml"
_BULK_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_REGION")
STAGE_IMAGE = "ghcr.io/gpu-reconciler/reconciler:0.1.0"
"""The image that has this command, for the steps that bring data; an installation names its own."""


def open_store(address: StoreAddress, *, make: bool = True) -> ObjectStore:
    """The store at an address; a folder is made, unless `make` is false. Raises Refused for what cannot be a store."""
    parts = urlsplit(address.url)
    if parts.scheme == "file":
        from reconciler.adapters.file_store import FileStore

        folder = Path(unquote(parts.path))
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        elif not folder.is_dir():
            raise Refused(f"there is no store at {address.url}; check the address, or start the hub that keeps it")
        return FileStore(folder)
    if parts.scheme == "s3":
        from reconciler.adapters.s3_store import S3Store

        return S3Store(parts.netloc, unquote(parts.path), endpoint_url=address.endpoint, region=address.location)
    raise Refused(f"{address.url}: a store is file:///folder or s3://bucket/prefix")


def open_registry(environment: Mapping[str, str]) -> Registry:
    """Image registries, with logins from the environment. Raises Refused where the file of logins cannot be used."""
    from reconciler.adapters.registry import RegistryClient

    return RegistryClient(environment)


def open_bulk(uri: str, environment: Mapping[str, str], prefix: str, *, inside: bool = False) -> BulkStore:
    """A folder of a store, for bulk. Raises Refused for what cannot be one.

    `prefix` (`SOURCE_`, `TARGET_`) begins the names of the variables that open this end of a copy; what is not set under it is as
    without it. `inside`: of a folder of this machine, nothing may stand beside it.
    """
    scheme, _, rest = uri.partition("://")
    named, _, path = rest.partition("/")
    if scheme == "file" and named in ("", "localhost"):
        from reconciler.adapters.file_bulk import FileBulk

        return FileBulk(Path("/" + unquote(path)), inside=inside)
    if scheme == "s3" and named:
        from reconciler.adapters.s3_answers import keys_in
        from reconciler.adapters.s3_bulk import S3Bulk

        asked = {name: environment.get(prefix + name) or environment.get(name) for name in _BULK_VARIABLES}
        region = asked["AWS_REGION"] or environment.get("AWS_DEFAULT_REGION")
        endpoint = asked["AWS_ENDPOINT_URL_S3"]
        return S3Bulk(named, unquote(path).rstrip("/"), endpoint_url=endpoint, region=region, keys=keys_in(environment, prefix))
    raise Refused(f"{quote(uri)} is no folder in a store; give file:///folder or s3://bucket/folder")


def without_credentials(url: str) -> str:
    """A repository's URL as it may be published."""
    return re.sub(r"(?<=://)[^/@\s]+@", "", url)


def new_holder() -> str:
    """A name for this process that no other has."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def read_settings(git: GitRepository, main: str) -> Settings:
    """reconciler.yaml as the main branch has it; the defaults where there is none. Raises Invalid for a broken one."""
    return settings_at(git, git.fetch(), main)


def settings_at(git: GitRepository, heads: Mapping[str, str], main: str) -> Settings:
    """The same, at heads that were fetched before."""
    from reconciler.adapters.documents import reader

    commit = heads.get(main)
    entry = git.files(commit).get(SETTINGS_FILE) if commit is not None else None
    if entry is None or entry.kind is not EntryKind.FILE:
        return Settings()
    return reader.read_config(Settings, git.read(entry.oid), SETTINGS_FILE)


def policy_at(git: GitRepository, heads: Mapping[str, str], main: str) -> Policy:
    """policy.yaml at heads that were fetched before; the default where there is none. Raises Invalid for a broken one."""
    from reconciler.adapters.documents import reader

    commit = heads.get(main)
    entry = git.files(commit).get(_POLICY_FILE) if commit is not None else None
    if entry is None or entry.kind is not EntryKind.FILE:
        return Policy()
    return reader.read_config(Policy, git.read(entry.oid), _POLICY_FILE)


def store_address(url: str | None, settings: Settings) -> StoreAddress | None:
    """Where the hub's and agents' common store is: as named on the command line, else by reconciler.yaml. Raises Refused."""
    if url is None:
        return settings.store
    try:
        return StoreAddress(url=url, endpoint=os.environ.get("RECONCILER_STORE_ENDPOINT"))
    except ValidationError as error:
        raise Refused(f"{url} is no address of a store; give file:///folder or s3://bucket/prefix") from error


def store_for(git: GitRepository, main: str, url: str | None) -> ObjectStore:
    """The hub's and agents' common store: the one named on the command line, else that of reconciler.yaml. Probed."""
    from reconciler.adapters.store_probe import probe

    try:
        address = store_address(url, Settings() if url is not None else read_settings(git, main))
    except Invalid as error:
        raise Refused(str(error)) from error
    if address is None:
        raise Refused("no store is named; give --store, or `store: {url: …}` in reconciler.yaml")
    store = open_store(address)
    probe(store, secrets.token_hex(8))
    return store


def open_repository(url: str, folder: Path, identity: tuple[str, str] | None = None) -> "BareClone":
    """The jobs repository, by a bare clone in `folder`. `identity`: name and address of whose commits are made there."""
    from reconciler.adapters.git import BareClone

    return BareClone(url, folder) if identity is None else BareClone(url, folder, identity=identity)


def pulls_folder(folder: Path, environment: Mapping[str, str]) -> Path:
    """The folder of the clone for pull requests. `folder`: that of the hub's own clone, which leaves it alone."""
    from reconciler.adapters.git import INNER

    named = environment.get(PULLS_FOLDER, "")
    return Path(named) if named else folder / INNER


def hub_loop(
    url: str, folder: Path, store_url: str | None, options: "Callable[[HubOptions], HubOptions]" = lambda same: same
) -> "HubLoop":
    """A hub over a repository, ready to run. Raises Transient and Refused where repository or store cannot be used."""
    from reconciler.adapters.documents import reader
    from reconciler.adapters.receivers import ReceiverCalls
    from reconciler.hub.cycle import Hub
    from reconciler.hub.forge_loop import ForgeLoop
    from reconciler.hub.image_loop import ImageLoop
    from reconciler.hub.loop import HubLoop
    from reconciler.hub.results import HubOptions

    git = open_repository(url, folder)
    chosen = options(HubOptions(holder=new_holder(), repo_url=without_credentials(url), stage_image=STAGE_IMAGE))
    store = store_for(git, chosen.main, store_url)
    clock = SystemClock()
    hub = Hub(git, store, reader, clock, chosen)
    # A clone of its own: what strangers ask to merge never comes into the hub's, and neither waits for the other.
    pulls = open_repository(url, pulls_folder(folder, os.environ))
    beside = ForgeLoop(hub.board, pulls, reader, _forges(url), clock)
    receivers = ReceiverCalls(without_credentials(url), os.environ, clock.monotonic)
    images = ImageLoop(hub.board.images, lambda: open_registry(os.environ), clock)
    loop = HubLoop(hub, clock, git.maintain, [beside, images], receivers)
    hub.board.on_heard = hub.board.images.on_heard = loop.wakeups.wake
    return loop


def _forges(url: str) -> Callable[[ForgeAddress], Forge]:
    """Opens forges for the repository at `url`, with tokens from the environment."""

    def open_one(address: ForgeAddress) -> Forge:
        from reconciler.adapters.forges import open_forge

        return open_forge(address, url, os.environ)

    return open_one


def prober_for(region: str, store: ObjectStore) -> "Prober":
    """Who measures a region's links, with the credentials for the other regions' stores from the environment."""
    from random import Random

    from reconciler.adapters.link_probe import Links
    from reconciler.agent.probing.prober import Prober
    from reconciler.agent.probing.schedule import Rules

    clock = SystemClock()
    return Prober(region, store, Links(region, os.environ, clock.monotonic), clock, Random(), Rules())  # noqa: S311 - no secret


def lister_for(region: str, store: ObjectStore) -> "Lister":
    """Who lists the staged copies in a region's own store. `store`: the common one."""
    from random import Random

    from reconciler.agent.lister import Lister

    def opened(address: StoreAddress) -> ObjectStore:
        return open_regional(region, address, os.environ)

    return Lister(region, store, opened, SystemClock(), Random())  # noqa: S311 - no secret


def open_regional(region: str, address: StoreAddress, environment: Mapping[str, str]) -> ObjectStore:
    """A region's own store, with the credentials that the agents use for it. Raises Refused for what is none."""
    parts = urlsplit(address.url)
    if parts.scheme == "file" and not Path(unquote(parts.path)).is_dir():
        raise Refused("there is no such folder on this machine")
    if parts.scheme != "s3":
        return open_store(address, make=False)
    from reconciler.adapters.link_probe.buckets import variable
    from reconciler.adapters.s3_answers import default_factory, keys_in
    from reconciler.adapters.s3_store import S3Store

    said = [environment.get(variable(region, name)) for name in _BULK_VARIABLES]
    make = default_factory(said[0] or address.endpoint, said[1] or address.location, keys_in(environment, variable(region, "")))
    return S3Store(parts.netloc, unquote(parts.path), client_factory=make)


@contextmanager
def beside(*loops: "Prober | Lister | None") -> Iterator[None]:
    """Let them run beside a `with` block, each in a thread of its own that nobody waits for."""
    over = threading.Event()
    for loop in loops:
        if loop is not None:
            threading.Thread(target=loop.run, args=(over,), name=type(loop).__name__, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def set_up_log() -> None:
    """Log lines go to standard error: for people on a terminal, as JSON everywhere else."""
    import structlog

    on_terminal = sys.stderr.isatty()
    last = structlog.dev.ConsoleRenderer() if on_terminal else structlog.processors.JSONRenderer()
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    plain = () if on_terminal else (structlog.processors.format_exc_info,)
    structlog.configure(
        processors=[structlog.processors.add_log_level, stamp, *plain, last],
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),  # what it is by then: somebody may have redirected it
    )


def hub_server(loop: "HubLoop", webhook_secrets: Sequence[str], host: str, port: int) -> "WebServer":
    """Webhooks and /healthz of a hub's loop, ready to be started."""
    from reconciler.adapters.webhooks import WebServer, application

    return WebServer(application(webhook_secrets, loop.wakeups.wake, lambda: health_of(loop), loop.tell), host, port)


def health_of(loop: "HubLoop", stale_seconds: float = 120.0) -> tuple[bool, dict[str, Any]]:
    """Whether the loop is well, and its figures, for /healthz."""
    health = loop.health
    age = None if health.last_success_at is None else SystemClock().monotonic() - health.last_success_at
    good = age is not None and age < stale_seconds
    return good, {
        "cycles": health.cycles,
        "published": health.published,
        "absorbed_wakeups": health.absorbed,
        "failures_in_a_row": health.failures_in_a_row,
        "last_end": health.last_end.value if health.last_end is not None else None,
        "seconds_since_success": None if age is None else round(age, 1),
        "trouble": health.trouble,
    }
