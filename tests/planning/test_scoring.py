"""Each term of the score by itself, against numbers computed by hand; then the sum, and the strategies."""

from typing import Any

import pytest

from reconciler.model.policy import Policy, Weights
from reconciler.planning.decisions import Place
from reconciler.planning.plan import plan
from reconciler.planning.scoring import STRATEGIES, Facts, best_of, fixed_terms, weights_for
from reconciler.planning.transfer import Move
from tests.builders import NOW, make_dataset, make_job, make_link, make_node, make_nodes, make_region, make_snapshot, make_spec

GB = 10**9
EVERYTHING = Weights(data_affinity=1, idle_gpus=1, cost=1, bandwidth=1, latency=1, start_time=1, rdma=1)


def facts(
    *,
    total: int = 0,
    moved: int | None = 0,
    seconds: float = 0.0,
    usd: float | None = 0.0,
    rtt: float | None = 0.0,
    gbit: float | None = None,
    hourly: float | None = 1.0,
    rdma: bool = False,
) -> Facts:
    return Facts(Move(total, moved, seconds, usd, (), rtt, gbit), hourly, rdma)


def term(name: str, one: Facts, *others: Facts, run_seconds: int | None = 3600, **spec: Any) -> float:
    best = best_of([one, *others], run_seconds)
    return {word: value for word, value, _ in fixed_terms(make_spec(**spec), one, best, EVERYTHING, Policy())}[name]


FAR: dict[str, Any] = {"total": 100 * GB, "moved": 100 * GB}

TERMS: dict[str, tuple[str, Facts, tuple[Facts, ...], float]] = {
    "no data is all there": ("data affinity", facts(), (), 1.0),
    "all of it there": ("data affinity", facts(total=100 * GB), (), 1.0),
    "none of it there": ("data affinity", facts(**FAR), (), 0.0),
    "three quarters there": ("data affinity", facts(total=100 * GB, moved=25 * GB), (), 0.75),
    "less than 5 GB missing": ("data affinity", facts(total=5 * GB, moved=5 * GB - 1), (), 1.0),
    "5 GB missing": ("data affinity", facts(total=5 * GB, moved=5 * GB), (), 0.0),
    "nobody knows how much is missing": ("data affinity", facts(moved=None), (), 0.0),
    "the cheapest by the hour": ("cost", facts(hourly=2.0), (facts(hourly=3.0),), 1.0),
    "half as cheap": ("cost", facts(hourly=4.0), (facts(hourly=2.0),), 0.5),
    "free beside what costs": ("cost", facts(hourly=0.0), (facts(hourly=2.0),), 1.0),
    "what costs beside free": ("cost", facts(hourly=2.0), (facts(hourly=0.0),), 0.0),
    "an unknown price": ("cost", facts(hourly=None), (facts(hourly=2.0),), 0.0),
    "beside unknown prices": ("cost", facts(hourly=9.0), (facts(hourly=None),), 1.0),
    "nobody knows any price": ("cost", facts(hourly=None), (facts(hourly=None),), 0.0),
    # With a transfer the whole price counts: 2 USD for the hour and 2 for the copy, beside 3 without one.
    "a copy adds to the price": ("cost", facts(hourly=2.0, usd=2.0, **FAR), (facts(hourly=3.0),), 0.75),
    "and makes another the cheapest": ("cost", facts(hourly=3.0), (facts(hourly=2.0, usd=2.0, **FAR),), 1.0),
    "a copy of unknown price": ("cost", facts(hourly=1.0, usd=None, **FAR), (facts(hourly=3.0),), 0.0),
    "beside a copy of unknown price": ("cost", facts(hourly=3.0), (facts(hourly=1.0, usd=None, **FAR),), 1.0),
    "only copies of unknown price": ("cost", facts(hourly=3.0, usd=None, **FAR), (facts(hourly=1.0, usd=None, **FAR),), 0.0),
    "nothing to bring needs no bandwidth": ("bandwidth", facts(), (facts(gbit=10.0, **FAR),), 1.0),
    "the widest": ("bandwidth", facts(gbit=10.0, **FAR), (facts(gbit=4.0, **FAR),), 1.0),
    "four tenths of it": ("bandwidth", facts(gbit=4.0, **FAR), (facts(gbit=10.0, **FAR),), 0.4),
    "unknown bandwidth": ("bandwidth", facts(gbit=None, **FAR), (facts(gbit=10.0, **FAR),), 0.0),
    "nobody knows any bandwidth": ("bandwidth", facts(gbit=None, **FAR), (), 0.0),
    "no way to go": ("latency", facts(rtt=0.0), (), 1.0),
    "100 ms": ("latency", facts(rtt=100.0, **FAR), (), 0.5),
    "300 ms": ("latency", facts(rtt=300.0, **FAR), (), 0.25),
    "nobody knows how far": ("latency", facts(rtt=None, **FAR), (), 0.0),
    "at once": ("start time", facts(), (), 1.0),
    "in an hour": ("start time", facts(seconds=3600.0, **FAR), (), 0.5),
    "in three": ("start time", facts(seconds=10_800.0, **FAR), (), 0.25),
}


@pytest.mark.parametrize("case", TERMS.values(), ids=TERMS.keys())
def test_a_term(case: tuple[str, Facts, tuple[Facts, ...], float]) -> None:
    name, one, others, value = case
    assert term(name, one, *others) == pytest.approx(value)


def test_without_a_run_time_only_what_needs_no_copy_can_be_compared_and_by_the_hour() -> None:
    stays, goes = facts(hourly=4.0), facts(hourly=1.0, usd=0.5, **FAR)
    assert term("cost", stays, facts(hourly=2.0), goes, run_seconds=None) == 0.25
    assert term("cost", goes, stays, run_seconds=None) == 0.0


def test_a_job_without_gpus_is_compared_by_its_copies_alone() -> None:
    stays, goes = facts(hourly=0.0), facts(hourly=0.0, usd=0.5, **FAR)
    assert term("cost", stays, goes, run_seconds=None) == 1.0
    assert term("cost", goes, stays, run_seconds=None) == 0.0


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        ({"nodes": 2}, [1.0, 0.0]),
        ({"nodes": 1}, []),
        ({"nodes": 2, "network": "tcp"}, []),
        ({"nodes": 2, "network": "rdma"}, []),  # a condition there, and no wish
        ({"nodes": 2, "communication_mode": "none"}, []),
    ],
)
def test_rdma_counts_for_jobs_that_would_use_it_and_can_do_without(spec: dict[str, Any], values: list[float]) -> None:
    both = [facts(rdma=True), facts()]
    best = best_of(both, None)
    terms = [fixed_terms(make_spec(**spec), one, best, EVERYTHING, Policy()) for one in both]
    assert [value for words in terms for name, value, _ in words if name == "rdma"] == values


@pytest.mark.parametrize(
    ("hourly", "usd", "run_seconds", "price"),
    [
        (2.0, 0.0, 5400, 3.0), (2.0, 1.5, 5400, 4.5), (0.0, 1.5, None, 1.5), (2.0, 1.5, None, None), (None, 1.5, 3600, None),
        (2.0, None, 3600, None), (2.0, 0.0, 0, 0.0),
    ],
)  # fmt: skip
def test_the_price_of_a_run(hourly: float | None, usd: float | None, run_seconds: int | None, price: float | None) -> None:
    assert facts(hourly=hourly, usd=usd).price_usd(run_seconds) == price


def test_some_nodes_with_rdma_are_enough_where_nothing_must_be_asked_for() -> None:
    region = make_region("eu", make_node("n0", rdma=True), make_node("n1"), profile={"rdma": {"env": {"NCCL_IB_HCA": "mlx5"}}})
    assert ("rdma", 1.0, 0.3) in chosen(region, nodes=2).chosen.terms


def test_a_term_of_no_weight_is_not_shown() -> None:
    weights = Weights(data_affinity=0, idle_gpus=0, cost=0.5, rdma=0)
    terms = fixed_terms(make_spec(nodes=2), facts(), best_of([facts()], None), weights, Policy())
    assert terms == (("cost", 1.0, 0.5),)


def test_whose_weights_count() -> None:
    own = Weights(cost=7)
    assert weights_for(make_spec(), Policy(weights=own)) == ("policy weights", own)
    assert weights_for(make_spec(), Policy(weights=own, strategy="soonest")) == ("soonest", STRATEGIES["soonest"])
    assert weights_for(make_spec(strategy="cost"), Policy(strategy="soonest")) == ("cost", STRATEGIES["cost"])


def test_strategies_as_documented() -> None:
    assert {name: (one.data_affinity, one.idle_gpus, one.cost, one.start_time) for name, one in STRATEGIES.items()} == {
        "balanced": (0.5, 0.3, 0.2, 0.0),
        "cost": (0.1, 0.1, 0.8, 0.0),
        "utilisation": (0.1, 0.8, 0.1, 0.0),
        "data-affinity": (0.8, 0.1, 0.1, 0.0),
        "soonest": (0.0, 0.2, 0.0, 0.8),
    }


def chosen(*regions: Any, **fields: Any) -> Place:
    job = {name: fields.pop(name) for name in tuple(fields) if name not in ("links", "datasets", "policy")}
    (decision,) = plan(make_snapshot(*regions, jobs=[make_job(**job)], **fields), NOW)
    assert isinstance(decision, Place)
    return decision


def test_a_score_by_hand() -> None:
    """eu: half of 200 GB there, half of its 16 GPUs idle, 2 USD. us: all to be copied, all idle, 1 USD."""
    corpus = [make_dataset("corpus-a", "eu", size_gb=100), make_dataset("corpus-b", "sa", size_gb=100)]
    links = [make_link("sa", "eu", 10, 0.0), make_link("sa", "us", 10, 0.0), make_link("eu", "us", 10, 0.0)]
    both = [{"name": "corpus-a"}, {"name": "corpus-b"}]
    decision = chosen(
        make_region("eu", make_node("n0"), make_node("n1", used=8), prices={"A100": 2.0}),
        make_region("us", a100=16, prices={"A100": 1.0}),
        links=links,
        datasets=corpus,
        dataset=both,
        gpus=8,
        run_seconds=3600,
    )
    assert decision.chosen.region == "eu"
    assert decision.chosen.terms == (("data affinity", 0.5, 0.5), ("cost", 0.5, 0.2), ("idle GPUs", 0.5, 0.3))
    assert decision.chosen.score == pytest.approx(0.25 + 0.10 + 0.15)
    (other,) = decision.runners_up
    assert (other.region, other.terms) == ("us", (("data affinity", 0.0, 0.5), ("cost", 1.0, 0.2), ("idle GPUs", 1.0, 0.3)))
    # The same score: the name decides, and nothing else would.
    assert other.score == pytest.approx(decision.chosen.score)
    assert (decision.chosen.price_usd, other.price_usd) == (16.0, 8.0)
    assert (decision.chosen.move_bytes, other.move_bytes) == (100 * GB, 200 * GB)
    assert [(one.start_at - NOW).total_seconds() for one in (decision.chosen, other)] == [80.0, 80.0]
    assert decision.chosen.end_at is not None
    assert (decision.chosen.end_at - NOW).total_seconds() == 3680.0


def test_idle_counts_usable_cards_of_all_models_and_falls_with_each_placement() -> None:
    regions = [make_region(name, make_node("n0"), make_node("n1", card="NVIDIA-L4", used=4)) for name in ("eu", "us")]
    jobs = [make_job(f"j{at}", gpus=2, minutes_ago=9 - at) for at in range(4)]
    decisions = plan(make_snapshot(*regions, jobs=jobs), NOW)
    idle = [
        (one.chosen.region, value)
        for one in decisions
        if isinstance(one, Place)
        for name, value, _ in one.chosen.terms
        if name == "idle GPUs"
    ]
    assert idle == [("eu", 12 / 16), ("us", 12 / 16), ("eu", 10 / 16), ("us", 10 / 16)]


def test_an_avoided_region_is_the_last_choice_and_still_one() -> None:
    regions = [make_region("eu", *make_nodes(4)), make_region("us", make_node(used=4))]
    assert chosen(*regions, gpus=4).chosen.region == "eu"
    assert chosen(*regions, gpus=4, avoid=["eu"]).chosen.region == "us"
    assert chosen(*regions, gpus=8, avoid=["eu"]).chosen.region == "eu"
    assert chosen(*regions, gpus=4, avoid=["eu", "us"]).chosen.region == "eu"


def test_the_price_is_of_the_model_that_was_chosen() -> None:
    region = make_region(
        "eu", make_node("n0", card="NVIDIA-H100-80GB-HBM3", used=8), make_node("n1"), prices={"H100": 9, "A100": 2}
    )
    decision = chosen(region, model=["H100", "A100"], run_seconds=3600)
    assert (decision.chosen.node_model, decision.chosen.price_usd) == ("A100-80GB", 16.0)


PRICES: dict[str, tuple[dict[str, float], Any, float | None]] = {
    "by the chip": ({"A100": 2.0}, "A100", 16.0),
    "by the vendor's name": ({"NVIDIA-A100-SXM4-80GB": 3.0}, "A100", 24.0),
    "of another size": ({"A100-40GB": 1.0}, "A100-80GB", None),
    "of another chip": ({"A10": 1.0}, "A100", None),
    "the dearer of two that fit": ({"A100": 2.0, "A100-80GB": 3.0}, "A100-80GB", 24.0),
    "free": ({"A100": 0.0}, "A100", 0.0),
    "none": ({}, "A100", None),
}


@pytest.mark.parametrize("case", PRICES.values(), ids=PRICES.keys())
def test_a_price(case: tuple[dict[str, float], Any, float | None]) -> None:
    prices, model, usd = case
    assert chosen(make_region("eu", a100=8, prices=prices), model=model, run_seconds=3600).chosen.price_usd == usd


def test_cards_of_which_one_has_no_price_have_none_together() -> None:
    region = make_region("eu", a100=8, l4=8, prices={"L4": 1.0})
    assert chosen(region, model=None, run_seconds=3600).chosen.price_usd is None


def test_no_more_than_four_runners_up_in_order() -> None:
    regions = [make_region(f"r{at}", *make_nodes(2, used=at)) for at in range(7)]
    decision = chosen(*regions, gpus=1)
    assert [decision.chosen.region, *(one.region for one in decision.runners_up)] == ["r0", "r1", "r2", "r3", "r4"]


def test_the_published_view_rounds_and_names_the_nodes() -> None:
    view = chosen(make_region("eu", make_node(used=3), prices={"A100": 1 / 3}), gpus=1, run_seconds=100).chosen.view()
    assert view.gpu_model == "A100-80GB"
    assert (view.score, view.price_usd) == (0.8875, 0.0093)
    assert [(one.name, one.value) for one in view.terms] == [("data affinity", 1.0), ("cost", 1.0), ("idle GPUs", 0.625)]


@pytest.mark.parametrize(
    ("gpus", "model", "products", "node_model"),
    [
        (1, "A100", ("NVIDIA-A100-SXM4-80GB",), "A100-80GB"),
        (1, None, ("NVIDIA-A100-SXM4-80GB", "NVIDIA-L4"), None),
        (1, ["B999", "L4"], ("NVIDIA-L4",), "L4"),
        (0, None, (), None),
    ],
)
def test_how_the_nodes_that_will_do_are_spelled(gpus: int, model: Any, products: tuple[str, ...], node_model: str | None) -> None:
    candidate = chosen(make_region("eu", make_node("n0"), make_node("n1", card="NVIDIA-L4")), gpus=gpus, model=model).chosen
    assert (candidate.gpu_products, candidate.node_model) == (products, node_model)
