"""Which of an agent's replicas acts: a Lease in its own namespace, taken and renewed by compare-and-swap.

Decides who leads; what the leader does, and that it stops at once when it may act no more, is for whoever asks. No safety rests
on it: an attempt is released once whoever asks, and each release names the version that it is for. It keeps two from working on
the same things against each other.

Invariants: a replica may act for `act_seconds` after its last renewal was *sent*, by its own monotonic clock; another takes the
Lease only where it has seen it unchanged for the whole of its duration, by its own clock as well. Clocks are never compared.

The client's own election does not do for this: its requests have no time-out, so that a leader before a silent server leads on
for ever; it counts by the wall clock; an error that it does not expect ends it while what it started goes on; nobody can stop it.
Source of the rules: client-go, "leaderelection".
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from reconciler.adapters.kube.answers import MERGE_PATCH, Answer, Request
from reconciler.adapters.kube.connection import Connection
from reconciler.model.names import LABEL_MANAGED, MANAGED_BY
from reconciler.ports import Clock, Conflict

_API: Final = "/apis/coordination.k8s.io/v1"
_NEVER: Final = float("-inf")


@dataclass(frozen=True, slots=True)
class AgentReplica:
    """Who wants to lead what. `identity` differs for each start of a replica. Times in seconds."""

    identity: str
    namespace: str
    name: str = "agent"
    lease_seconds: int = 15
    """How long another waits that sees no renewal."""
    act_seconds: float = 10.0
    """How long the leader may act after a renewal; shorter, so that it has stopped when another begins."""

    def __post_init__(self) -> None:
        """Refuse times by which two would act at once."""
        if not 0 < self.act_seconds < self.lease_seconds:
            raise ValueError(f"act_seconds ({self.act_seconds}) must be above 0 and below lease_seconds ({self.lease_seconds})")


class Leadership:
    """One replica's part in it. Ask `try_lead` every few seconds, from one thread; `may_act` may be asked from any."""

    def __init__(self, connection: Connection, clock: Clock, replica: AgentReplica) -> None:
        """Nothing is sent yet."""
        self._connection = connection
        self._clock = clock
        self._me = replica
        self._seen: tuple[str, float] = ("", _NEVER)
        """The Lease's version, and since when it has been seen to be that."""
        self._until = _NEVER

    def may_act(self) -> bool:
        """Whether this replica leads, at this moment."""
        return self._clock.monotonic() < self._until

    def try_lead(self) -> bool:
        """Renew the Lease, or take it where it is free. Whether it is this replica's now.

        Raises Transient or Refused; the replica may then act for as long as its last renewal allows.
        """
        sent = self._clock.monotonic()
        found = self._connection.ask(Request("GET", self._path), take=(HTTPStatus.NOT_FOUND,))
        if found.code != HTTPStatus.NOT_FOUND and not self._is_free(found.value, sent):
            self._until = _NEVER
            return False
        try:
            written = self._create() if found.code == HTTPStatus.NOT_FOUND else self._take(found.value)
        except Conflict:  # somebody was quicker, or it was touched by a person: the next look tells
            return False
        self._seen = _version(written.value), sent
        self._until = sent + self._me.act_seconds
        return True

    def resign(self) -> None:
        """Act no more, and let another lead at once. Raises Transient or Refused: another then waits for the Lease to run out."""
        self._until = _NEVER
        found = self._connection.ask(Request("GET", self._path), take=(HTTPStatus.NOT_FOUND,))
        if found.code == HTTPStatus.NOT_FOUND or _holder(found.value) != self._me.identity:
            return
        try:
            self._patch(found.value, {"holderIdentity": None})
        except Conflict:
            return  # it has another's by now

    @property
    def _path(self) -> str:
        return f"{self._leases}/{quote(self._me.name, safe='')}"

    @property
    def _leases(self) -> str:
        return f"{_API}/namespaces/{quote(self._me.namespace, safe='')}/leases"

    def _is_free(self, lease: dict[str, Any], now: float) -> bool:
        holder = _holder(lease)
        if not holder or holder == self._me.identity:
            return True
        version, since = self._seen
        if _version(lease) != version:
            self._seen = _version(lease), now
            return False
        return now >= since + float((lease.get("spec") or {}).get("leaseDurationSeconds") or self._me.lease_seconds)

    def _create(self) -> Answer:
        metadata = {"namespace": self._me.namespace, "name": self._me.name, "labels": {LABEL_MANAGED: MANAGED_BY}}
        spec = {**self._held(), "acquireTime": self._now(), "leaseTransitions": 0}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        return self._connection.ask(Request("POST", self._leases, body=body))

    def _take(self, lease: dict[str, Any]) -> Answer:
        spec = self._held()
        if _holder(lease) != self._me.identity:
            transitions = int((lease.get("spec") or {}).get("leaseTransitions") or 0) + 1
            spec |= {"acquireTime": self._now(), "leaseTransitions": transitions}
        return self._patch(lease, spec)

    def _patch(self, lease: dict[str, Any], spec: dict[str, Any]) -> Answer:
        body = {"metadata": {"resourceVersion": _version(lease)}, "spec": spec}
        request = Request("PATCH", self._path, body=body, content=MERGE_PATCH)
        answer = self._connection.ask(request, take=(HTTPStatus.NOT_FOUND,))
        if answer.code == HTTPStatus.NOT_FOUND:
            raise Conflict(f"{request}: the Lease is not there any more")
        return answer

    def _held(self) -> dict[str, Any]:
        return {
            "holderIdentity": self._me.identity,
            "leaseDurationSeconds": self._me.lease_seconds,
            "renewTime": self._now(),
        }

    def _now(self) -> str:
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _holder(lease: dict[str, Any]) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _version(lease: dict[str, Any]) -> str:
    return str(lease["metadata"]["resourceVersion"])
