"""How good a region is for a job: Σ weight × term, each term in [0, 1] and shown on its own.

An unknown price, delay or bandwidth scores 0: it may be as bad as can be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reconciler.model.job import JobSpec
from reconciler.model.pods import wants_rdma
from reconciler.model.policy import Policy, Weights
from reconciler.model.quantity import whole
from reconciler.planning.transfer import Move

STRATEGIES: Mapping[str, Weights] = {
    "balanced": Weights(),
    "cost": Weights(data_affinity=0.1, idle_gpus=0.1, cost=0.8),
    "utilisation": Weights(data_affinity=0.1, idle_gpus=0.8, cost=0.1),
    "data-affinity": Weights(data_affinity=0.8, idle_gpus=0.1, cost=0.1),
    "soonest": Weights(data_affinity=0.0, idle_gpus=0.2, cost=0.0, start_time=0.8),
}
"""Named weights; `balanced` is the default."""

HOUR = 3600.0


def weights_for(spec: JobSpec, policy: Policy) -> tuple[str, Weights]:
    """The strategy's name and its weights: the job's choice, else the policy's, else the policy's own weights."""
    name = spec.strategy or policy.strategy
    return (name, STRATEGIES[name]) if name is not None else ("policy weights", policy.weights)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a job on one of its GPU models in one region, before anything is compared."""

    move: Move
    hourly_usd: float | None
    """Of all its GPUs together; None where a price is not known, 0 for a job without GPUs."""
    rdma: bool
    image_seconds: float = 0.0
    """What fetching its image takes there."""
    image_share: float | None = None
    """Of its image, what is there already; None where that is not known."""

    @property
    def ready_seconds(self) -> float:
        """Until everything but the GPUs is there: data and image come side by side."""
        return max(self.move.seconds, self.image_seconds)

    def price_usd(self, run_seconds: int | None) -> float | None:
        """Estimated price of the whole run: GPU-hours and transfer; None where any part is not known."""
        if self.hourly_usd is None or self.move.price_usd is None:
            return None
        if self.hourly_usd and run_seconds is None:
            return None
        return self.hourly_usd * (run_seconds or 0) / HOUR + self.move.price_usd


@dataclass(frozen=True, slots=True)
class Best:
    """The best figure among a job's regions, against which each is measured."""

    run_seconds: int | None
    """For which prices were compared; None to compare by the hour."""
    price: float | None
    hourly: float | None
    bandwidth: float | None


def best_of(facts: Sequence[Facts], run_seconds: int | None) -> Best:
    """See Best; None where no region has a figure."""
    moved = any(fact.move.price_usd != 0 for fact in facts)
    prices = [price for fact in facts if (price := fact.price_usd(run_seconds)) is not None] if moved else []
    hourly = [fact.hourly_usd for fact in facts if fact.hourly_usd is not None]
    rates = [fact.move.gbit_per_second for fact in facts if fact.move.gbit_per_second is not None]
    return Best(run_seconds, min(prices, default=None), min(hourly, default=None), max(rates, default=None))


Terms = tuple[tuple[str, float, float], ...]


def fixed_terms(spec: JobSpec, facts: Facts, best: Best, weights: Weights, policy: Policy) -> Terms:
    """The terms that do not change while a pass goes on: (name, value, weight), without those of weight 0."""
    terms = [
        ("data affinity", _affinity(facts.move, policy), weights.data_affinity),
        ("cost", _cost(facts, best), weights.cost),
        ("bandwidth", _bandwidth(facts.move, best), weights.bandwidth),
        ("latency", _latency(facts.move), weights.latency),
        ("start time", 1.0 / (1.0 + facts.ready_seconds / HOUR), weights.start_time),
        ("image locality", facts.image_share or 0.0, weights.image_locality),
    ]
    if spec.network is None and wants_rdma(spec):
        terms.append(("rdma", 1.0 if facts.rdma else 0.0, weights.rdma))
    return tuple(term for term in terms if term[2] > 0)


def _affinity(move: Move, policy: Policy) -> float:
    """The share of the job's data that is there already; small data counts as there."""
    if move.move_bytes is None:
        return 0.0
    if move.move_bytes < whole(policy.thresholds.small_data) or not move.total_bytes:
        return 1.0
    return 1.0 - move.move_bytes / move.total_bytes


def _cost(facts: Facts, best: Best) -> float:
    if best.price is not None:
        price = facts.price_usd(best.run_seconds)
        return 0.0 if price is None else _ratio(best.price, price)
    # Nobody knows how long it runs, or nothing is to be moved: the hourly price is what can be compared.
    if facts.hourly_usd is not None and best.hourly is not None and facts.move.price_usd == 0:
        return _ratio(best.hourly, facts.hourly_usd)
    return 0.0


def _ratio(lowest: float, own: float) -> float:
    return 1.0 if own <= lowest or own == 0 else lowest / own


def _bandwidth(move: Move, best: Best) -> float:
    if move.move_bytes == 0:
        return 1.0
    if move.gbit_per_second is None or not best.bandwidth:
        return 0.0
    return move.gbit_per_second / best.bandwidth


def _latency(move: Move) -> float:
    return 0.0 if move.rtt_ms is None else 1.0 / (1.0 + move.rtt_ms / 100.0)
