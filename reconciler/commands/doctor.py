"""`reconciler doctor`: what in a region's cluster, its store and the clocks would go wrong, and how each is mended.

Decides what is looked at and in which form it is said. Nothing is changed, but for an object that the store is probed with. Ends
well only where nothing was found; what is wrong is judged in findings.py and its neighbours.
"""

import os
import secrets
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.kube.access import Access, from_kubeconfig, in_cluster
from reconciler.adapters.kube.argocd import ArgoCdSettings, application_place
from reconciler.adapters.kube.connection import Connection
from reconciler.adapters.kube.doctor import Account, ClusterSeen, Right, Wanted, deployment, look, rights_of
from reconciler.adapters.kube.engines import Missing, Place
from reconciler.adapters.kube.flux import FluxSettings, kustomization_place, source_place
from reconciler.adapters.server_time import ahead_of
from reconciler.adapters.store_probe import Unfit, probe
from reconciler.app import open_store, store_address, without_credentials
from reconciler.commands import screen
from reconciler.commands.bootstrap import Declared, Subject, declared, engine_of
from reconciler.commands.ends import AnswerIsNo, BadInput
from reconciler.commands.engine_errors import of_errors
from reconciler.commands.findings import Finding, Store, of_clocks, of_cluster, of_store, of_times
from reconciler.commands.findings_argocd import of_argocd, of_project
from reconciler.commands.findings_flux import of_flux
from reconciler.commands.findings_kueue import of_queues
from reconciler.commands.repository import opened
from reconciler.model.grants import Lease, lease_key
from reconciler.model.policy import Settings
from reconciler.model.region import StoreAddress
from reconciler.ports import Refused, Transient
from reconciler.rendering.bootstrap import AGENT, APPLIER, Engine, agent_rights
from reconciler.rendering.branch import SENTINEL_NAMESPACE

_SECONDS: Final = 10.0
KINDS: Final = (("batch", "jobs"), ("", "services"), ("", "configmaps"))
"""API groups and resources of what is applied."""
VOLCANO: Final = (("scheduling.volcano.sh", "podgroups"),)


@dataclass(frozen=True, slots=True)
class Asked(Subject):
    """What the command line says. None: KUBECONFIG, or a pod's own account."""

    kubeconfig: Path | None = None
    context: str | None = None


def doctor(asked: Asked, *, json: bool) -> None:
    """Look, and say what is wrong. Raises AnswerIsNo where something is; BadInput, Invalid, Refused and Transient."""
    with opened(asked.repo) as git:
        said = declared(git, asked.region)
    found = findings_of(asked, said)
    if json:
        screen.say_json({"region": asked.region, "findings": [asdict(one) for one in found]})
    elif found:
        _show(found)
    else:
        screen.say(f"nothing is wrong with {asked.region}, as far as can be seen from here")
    if found:
        raise AnswerIsNo


def findings_of(asked: Asked, said: Declared) -> Sequence[Finding]:
    """All that is wrong. Raises BadInput, Refused and Transient where it could not be looked at at all."""
    engine, repo = engine_of(asked.engine, said.region), without_credentials(asked.repo)
    clock = SystemClock()
    gangs = said.region.profile.gang == "volcano"
    seen = look(Connection(_access(asked), clock, _SECONDS), clock, wanted(engine, said.teams, gangs=gangs))
    store, unread = _store_seen(asked, said, clock)
    apply = _apply(asked, engine, seen, repo)
    times = of_times(store, seen, said.region, said.loss, apply)
    return (*_judged(engine, seen, said, repo, apply), *of_store(store), *times, *of_clocks(seen, store), *unread)


def wanted(engine: Engine, teams: Sequence[str], *, gangs: bool = False) -> Wanted:
    """What is looked at for an engine. `gangs`: the branch also has PodGroups of Volcano."""
    agent = deployment(SENTINEL_NAMESPACE, AGENT)
    own = rights_of(agent_rights())
    if engine == "flux":
        names = FluxSettings()
        objects = (source_place(names), kustomization_place(names))
        applier = Account(names.namespace, APPLIER, _of_applier(teams, KINDS + VOLCANO * gangs))
        needs = (*own, *_on(objects[0], "get", "patch"), *_on(objects[1], "get"))
        controller = deployment(names.namespace, "kustomize-controller")
        return Wanted(objects, controller, agent, (Account(SENTINEL_NAMESPACE, AGENT, needs), applier))
    place = application_place(ArgoCdSettings())
    project = Place("AppProject", place.root, "appprojects", place.namespace, place.name)
    controller = deployment(place.namespace, "argocd-application-controller", "StatefulSet")
    account = Account(SENTINEL_NAMESPACE, AGENT, (*own, *_on(place, "get", "patch")))
    return Wanted((place, project), controller, agent, (account,))


def _on(place: Place, *verbs: str) -> Sequence[Right]:
    group = place.root.removeprefix("/apis/").partition("/")[0]
    return [Right(verb, group, place.plural, place.namespace, place.name) for verb in verbs]


def _of_applier(teams: Sequence[str], kinds: Sequence[tuple[str, str]]) -> Sequence[Right]:
    return [
        Right(verb, group, kind, team) for team in teams for group, kind in kinds for verb in ("get", "create", "patch", "delete")
    ]


def _apply(asked: Asked, engine: Engine, seen: ClusterSeen, repo: str) -> str:
    """The command that puts all objects there as they should be, and leaves alone what is as somebody chose it."""
    words = [screen.program(), "bootstrap", asked.region, "--engine", engine, "--repo", repo]
    source = seen.objects.get("GitRepository", Missing(""))
    if not isinstance(source, Missing) and "secretRef" not in source["spec"]:
        words.append("--public")
    if asked.store is not None:
        words += ["--store", asked.store]
    if not isinstance(seen.agent, Missing):
        words += ["--image", str(seen.agent["spec"]["template"]["spec"]["containers"][0]["image"])]
    return f"{shlex.join(words)} | kubectl apply -f -"


def _judged(engine: Engine, seen: ClusterSeen, said: Declared, repo: str, apply: str) -> Iterable[Finding]:
    region = said.region.name
    if engine == "flux":
        yield from of_flux(seen.objects, seen.controller, region, repo, apply)
    else:
        yield from of_argocd(seen.objects, seen.controller, region, repo, apply)
        gangs = said.region.profile.gang == "volcano"
        yield from of_project(seen.objects["AppProject"], (SENTINEL_NAMESPACE, *said.teams), apply, gangs=gangs)
    yield from of_errors(engine, seen.objects)
    yield from of_cluster(seen, said.region, said.teams, apply)
    yield from of_queues(seen, said.region, said.teams)


def _access(asked: Asked) -> Access:
    if asked.kubeconfig is None and asked.context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
        return in_cluster(os.environ)
    named = asked.kubeconfig or Path(
        os.environ.get("KUBECONFIG", "").partition(os.pathsep)[0] or Path.home() / ".kube" / "config"
    )
    if not named.is_file():
        raise BadInput(f"there is no kubeconfig file {named}", "give --kubeconfig FILE, or set KUBECONFIG")
    return from_kubeconfig(named, asked.context)


def _store_seen(asked: Asked, said: Declared, clock: SystemClock) -> tuple[Store, Sequence[Finding]]:
    """What was found out of the store, and what could not be."""
    address = said.store if asked.store is None else store_address(asked.store, Settings())
    if address is None:
        return Store("no store", "none is named in reconciler.yaml, nor by --store"), ()
    unread: list[Finding] = []
    fault, ahead, lease = None, None, None
    try:
        place = open_store(address, make=False)
        probe(place, secrets.token_hex(8))
        stored = place.get(lease_key(asked.region))
        lease = None if stored is None else Lease.model_validate_json(stored.body)
    except ValidationError:
        unread.append(
            _not_seen(f"{lease_key(asked.region)} in {address.url}", Refused("it is no lease; its agent cannot renew it"))
        )
    except Unfit as error:
        fault = str(error)
    except Refused as error:
        why = "Hub and agents meet there; what may not enter it cannot work."
        unread.append(
            Finding("StoreRefused", f"{address.url}: {error}", why, "give this command, hub and agents credentials that may")
        )
    except Transient as error:
        unread.append(_not_seen(address.url, error))
    web = _web_address(address)
    if web is not None:
        try:
            ahead = ahead_of(web, clock)
        except Transient as error:
            unread.append(_not_seen(f"the clock of {address.url}", error))
    return Store(address.url, fault, ahead, lease), unread


def _web_address(address: StoreAddress) -> str | None:
    if not address.url.startswith("s3:"):
        return None
    return address.endpoint or "https://s3.amazonaws.com"


def _not_seen(what: str, error: Exception) -> Finding:
    return Finding(
        "NotSeen", f"{what} could not be looked at: {error}", "What is not seen may be wrong.", "try again from elsewhere"
    )


def _show(found: Sequence[Finding]) -> None:
    screen.show_table(("code", "what is wrong", "why it matters"), [(one.code, one.what, one.why) for one in found])
    screen.say("")
    for one in found:
        screen.say(f"# {one.code}\n{one.fix}")
