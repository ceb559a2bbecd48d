"""The plain pass's view of what must be brought to a region: every way of every dataset, written out once more."""

from datetime import datetime, timedelta
from typing import Any

from reconciler.model.fleet import declared_bytes
from reconciler.model.job_parts import DatasetUse
from reconciler.model.quantity import whole
from reconciler.planning.snapshot import JobView, Snapshot
from tests.builders import NOW

Begun = dict[tuple[str, str], float]
"""(subject, region): in how many seconds that is there which this pass brings there; (source, region): for how long the link is
taken by it."""


def copying(job: JobView, name: str, snapshot: Snapshot) -> Any:
    """Bytes to bring to the region, for how long and what price (None: unknown); `never` or `later` where they cannot come."""
    ways = [bringing(job, use, name, snapshot) for use in job.spec.datasets]
    for word in ("never", "later"):
        if word in ways:
            return next(way for way in ways if isinstance(way, str))  # the first that cannot come is what is told
    away = [way for way in ways if way["away"]]
    unknown = {word: any(way[word] is None for way in away) for word in ("usd", "rtt", "gbit")}
    return {
        "total": sum(way["size"] for way in ways),
        "bytes": sum(way["size"] for way in away),
        "seconds": together(away, {}),
        "ways": [way for way in away if "from" in way],
        "afar": any("from" not in way for way in away),
        "usd": None if unknown["usd"] else sum((way["usd"] for way in away), 0.0),
        "rtt": None if unknown["rtt"] else max((way["rtt"] for way in away), default=0.0),
        "gbit": None if unknown["gbit"] else min((way["gbit"] for way in away), default=None),
    }


def together(ways: list[dict[str, Any]], taken: dict[str, float]) -> float:
    """How long the slowest link takes, each one after what it is taken by."""
    lines = {way["from"] for way in ways if "from" in way}
    return max(
        (taken.get(line, 0.0) + sum(way["seconds"] for way in ways if way.get("from") == line) for line in lines), default=0.0
    )


def queue_up(choice: dict[str, Any], begun: Begun) -> None:
    """What it takes behind what this pass has begun already: a dataset comes once, and is paid once."""
    to = choice["region"]
    shared = [way for way in choice["ways"] if (way["subject"], to) in begun]
    own = [way for way in choice["ways"] if way not in shared]
    taken = {one: seconds for (one, other), seconds in begun.items() if other == to}
    choice["seconds"] = max([together(own, taken), *(begun[way["subject"], to] for way in shared)])
    if shared:
        unknown = choice["afar"] or any(way["usd"] is None for way in own)
        choice["usd"] = None if unknown else sum(way["usd"] for way in own)


def begin(choice: dict[str, Any], begun: Begun) -> None:
    """Note what the choice brings to its region."""
    for way in choice["ways"]:
        if (way["subject"], choice["region"]) not in begun:
            line = (way["from"], choice["region"])
            begun[way["subject"], choice["region"]] = begun.get(line, 0.0) + way["seconds"]
            begun[line] = begun.get(line, 0.0) + (way["size"] / way["most"] if way["most"] else 0.0)


def bringing(job: JobView, use: DatasetUse, name: str, snapshot: Snapshot) -> Any:
    """The best way to bring one dataset to the region; `never` or `later` where there is none."""
    dataset, size = snapshot.datasets.get(str(use.name)), declared_bytes(use.size, use.size_gb)
    if dataset is None:
        return {"size": size or 0, "away": False}
    size = dataset.size_bytes if size is None else size
    tags, known = set(dataset.residency), snapshot.regions
    if not tags <= set(known[name].region.compliance):
        return "never"
    subject = f"{dataset.name}@{use.version or dataset.version or ''}"
    declared = {replica.region for replica in dataset.replicas}
    copies = declared | snapshot.copies.get(subject, {}).keys()
    if name in copies or size == 0:
        return {"size": size or 0, "away": False}
    coming = snapshot.arriving.get(subject, {}).get(name)
    if coming is not None:
        rate = coming.bytes_left / coming.seconds if coming.seconds else 0.0
        way = {"size": coming.bytes_left, "most": int(rate), "seconds": coming.seconds, "usd": 0.0, "rtt": None}
        return {"away": True, "subject": subject, "from": coming.source, "gbit": rate / 125e6, **way}
    if size is None:
        return "never"
    allowed = {one for one in copies if tags <= set(known[one].region.compliance if one in known else ())}
    answers = {one: over(one, name, size, snapshot) for one in allowed if (one, name) in snapshot.links}
    ways = [{"subject": subject, "from": one, **way} for one, way in answers.items() if isinstance(way, dict)]
    if not ways and size < whole(snapshot.policy.thresholds.small_data) and allowed & declared:
        ways = [{"seconds": 0.0, "usd": None, "rtt": None, "gbit": None}]
    if not ways:
        return "later" if "later" in answers.values() else "never"
    return {"size": size, "away": True, **min(ways, key=lambda way: dearness(job, way, snapshot))}


def dearness(job: JobView, way: dict[str, Any], snapshot: Snapshot) -> Any:
    """What a way costs with the time it takes; one that misses the deadline comes after all that do not."""
    an_hour = snapshot.policy.thresholds.copy_urgency_usd_per_hour * job.spec.priority_value / 50
    late = False
    if job.spec.deadline is not None:
        end = NOW + timedelta(seconds=way["seconds"] + (job.run_seconds or 0))
        late = end > datetime.fromisoformat(job.spec.deadline)
    cost = (way["usd"] or 0.0) + way["seconds"] / 3600 * an_hour
    return late, way["seconds"] if late else 0, way["usd"] is None, cost, way["seconds"], uri(way, snapshot)


def uri(way: dict[str, Any], snapshot: Snapshot) -> str:
    """Where the way's copy is."""
    if "from" not in way:
        return ""
    replicas = snapshot.datasets[way["subject"].split("@")[0]].replicas
    found = next((str(replica.uri) for replica in replicas if replica.region == way["from"]), None)
    return found or snapshot.copies[way["subject"]][way["from"]]


def over(source: str, name: str, size: int, snapshot: Snapshot) -> Any:
    """What a link takes for so many bytes; `later` where it gives nothing at present, `never` where it never does."""
    key, rules = (source, name), snapshot.policy.thresholds
    link, seen = snapshot.links[key], snapshot.measured.get(key)
    if key in snapshot.full:
        return "later"
    declared = None if link.gbit_per_second is None else link.gbit_per_second * 1e9 / 8
    if seen is not None:
        doubt = rules.declared_margin * min(seen.age_seconds / 3600 / rules.measured_for_hours, 1)
        rate = min(seen.bytes_per_second * (1 - doubt), seen.bytes_per_second if declared is None else declared)
    elif declared is None:
        return "never"
    else:
        rate = declared * (1 - rules.declared_margin)
    most = int(rate * rules.link_share)
    if not most:
        return "never" if declared == 0 else "later"
    free, queue = most - snapshot.held.get(key, 0), snapshot.queued.get(key)
    times = ([size / free] if free > 0 else []) + ([] if queue is None else [(queue + size) / most])
    if not times:
        return "later"
    usd = None if link.usd_per_gb is None else size / 1e9 * link.usd_per_gb
    rtt = link.rtt_ms if seen is None or seen.rtt_ms is None else seen.rtt_ms
    return {"most": most, "seconds": min(times), "usd": usd, "rtt": rtt, "gbit": size / min(times) / 125e6}
