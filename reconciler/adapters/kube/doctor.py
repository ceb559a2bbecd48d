"""What is read of a region's cluster to find what would go wrong there: one look, nothing changed.

Decides what is asked and how; what is wrong with the answers, and what to do about it, is for whoever looks at them. What may not
be read, or does not answer, is kept with its reason: a look that saw half is told from one that found nothing.

Reviews of access are posts that change nothing. Source: Kubernetes API, authorization.k8s.io/v1 and authentication.k8s.io/v1.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Any, TypeVar

import yaml

from reconciler.adapters.kube.answers import Request
from reconciler.adapters.kube.connection import Connection
from reconciler.adapters.kube.engines import Found, Missing, Place, look_at
from reconciler.adapters.kube.looking import ADMISSIONS
from reconciler.model.clocks import ahead_seconds
from reconciler.ports import Clock, Conflict, KubeObject, Refused, Transient

T = TypeVar("T")


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """Something that an account must be allowed to do. `namespace` '' is all of them, `name` '' any."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        of = f"{self.resource}.{self.group}" if self.group else self.resource
        named = f" {self.name}" if self.name else ""
        return f"{self.verb} {of}{named}" + (f" in {self.namespace}" if self.namespace else " everywhere")


@dataclass(frozen=True, slots=True)
class Account:
    """A service account, and what it needs."""

    namespace: str
    name: str
    needs: Sequence[Right]

    @property
    def user(self) -> str:
        """Its name as a user."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to look at: the engine's objects, its controller, the agent's, and the accounts."""

    objects: Sequence[Place]
    controller: Place
    agent: Place
    accounts: Sequence[Account]


@dataclass(frozen=True, slots=True)
class Kueue:
    """What of Kueue decides whether a grant can hold a job back, and let it go."""

    checks: Sequence[KubeObject]
    cluster_queues: Sequence[KubeObject]
    local_queues: Sequence[KubeObject]


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """What one look saw. `ahead_seconds`: the API server's clock before ours, to the second."""

    objects: Mapping[str, Found]
    """The engine's, by kind."""
    controller: Found
    agent: Found
    namespaces: frozenset[str] | None
    groups: frozenset[str] | None
    """API groups that are served."""
    missing: Mapping[str, Sequence[Right]]
    """User → the rights that it lacks."""
    ahead_seconds: float
    kueue: Kueue | None = None
    unread: Mapping[str, str] = field(default_factory=dict)
    """What was not seen → why."""


def look(connection: Connection, clock: Clock, wanted: Wanted) -> ClusterSeen:
    """One look. Raises Transient or Refused where the API server does not answer, or does not know us, at all."""
    me, ahead = _whoami(connection, clock)
    unread: dict[str, str] = {}

    def tried(what: str, ask: Callable[[], T], otherwise: T) -> T:
        try:
            return ask()
        except (Transient, Refused, Conflict) as error:
            unread[what] = str(error)
            return otherwise

    def at(place: Place) -> Found:
        nothing: Found = Missing("")
        return tried(place.key, lambda: look_at(connection, place), nothing)

    def lacking(account: Account) -> Sequence[Right]:
        return tried(f"rights of {account.user}", lambda: _lacking(connection, me, account), ())

    groups = tried("API groups", lambda: _groups(connection), None)
    return ClusterSeen(
        objects={place.kind: at(place) for place in wanted.objects},
        controller=at(wanted.controller),
        agent=at(wanted.agent),
        namespaces=tried("namespaces", lambda: _names(_items(connection, "/api/v1/namespaces")), None),
        groups=groups,
        missing={account.user: lacking(account) for account in wanted.accounts},
        ahead_seconds=ahead,
        kueue=tried("Kueue", lambda: _kueue(connection), None),
        unread=unread,
    )


def deployment(namespace: str, name: str, kind: str = "Deployment") -> Place:
    """Where a Deployment or StatefulSet is."""
    return Place(kind, "/apis/apps/v1", f"{kind.lower()}s", namespace, name)


def rights_of(roles: str) -> tuple[Right, ...]:
    """The rights that the ClusterRoles and Roles of a YAML text give; resources of no API are left out."""
    found: set[Right] = set()
    for item in yaml.load_all(roles, Loader=yaml.CSafeLoader):
        if isinstance(item, Mapping) and item.get("kind") in {"ClusterRole", "Role"}:
            namespace = "" if item["kind"] == "ClusterRole" else str(item["metadata"].get("namespace", ""))
            for rule in item.get("rules") or ():
                found |= set(_of_rule(rule, namespace))
    return tuple(sorted(found))


def _of_rule(rule: Mapping[str, Any], namespace: str) -> Iterable[Right]:
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for name in rule.get("resourceNames") or ("",):
                for verb in rule["verbs"]:
                    yield Right(verb, group, resource, namespace, name)


def _whoami(connection: Connection, clock: Clock) -> tuple[str, float]:
    """Who the API server takes us for, and how far its clock is before ours. Raises Transient or Refused."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    before = clock.now()
    review = connection.ask(Request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=body)).value
    after = clock.now()
    made = datetime.fromisoformat(str(review["metadata"]["creationTimestamp"]))
    return str(review["status"]["userInfo"]["username"]), ahead_seconds(made, before, after)


def _items(connection: Connection, path: str) -> Sequence[KubeObject]:
    answer = connection.ask(Request("GET", path), take=(HTTPStatus.NOT_FOUND,))
    return () if answer.code == HTTPStatus.NOT_FOUND else tuple(answer.value.get("items") or ())


def _names(items: Iterable[KubeObject]) -> frozenset[str]:
    return frozenset(str(item["metadata"]["name"]) for item in items)


def _groups(connection: Connection) -> frozenset[str]:
    listed = connection.ask(Request("GET", "/apis")).value
    return frozenset(str(group["name"]) for group in listed.get("groups") or ())


def _kueue(connection: Connection) -> Kueue | None:
    """None where Kueue is too old to serve what the agent speaks."""
    if connection.ask(Request("GET", ADMISSIONS), take=(HTTPStatus.NOT_FOUND,)).code == HTTPStatus.NOT_FOUND:
        return None
    checks, cluster, local = (
        _items(connection, f"{ADMISSIONS}/{kind}") for kind in ("admissionchecks", "clusterqueues", "localqueues")
    )
    return Kueue(checks, cluster, local)


def _lacking(connection: Connection, me: str, account: Account) -> Sequence[Right]:
    return tuple(right for right in account.needs if not _may(connection, me, account, right))


def _may(connection: Connection, me: str, account: Account, right: Right) -> bool:
    resource, _, part = right.resource.partition("/")
    attributes = {"verb": right.verb, "group": right.group, "resource": resource, "namespace": right.namespace}
    attributes |= {key: value for key, value in (("subresource", part), ("name", right.name)) if value}
    kind, spec = "SelfSubjectAccessReview", dict[str, Any](resourceAttributes=attributes)
    if me != account.user:
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{account.namespace}", "system:authenticated"]
        kind, spec = "SubjectAccessReview", {**spec, "user": account.user, "groups": groups}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    answer = connection.ask(Request("POST", f"/apis/authorization.k8s.io/v1/{kind.lower()}s", body=body))
    return bool(answer.value["status"]["allowed"])
