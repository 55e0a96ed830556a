"""What a benchmark makes of its samples."""

from typing import Any

import numpy as np
import pytest

from argosy_client import QueueShare, Shares
from argosy_local import bench
from argosy_local.bench_plan import plan_bench

OPTIONS: dict[str, Any] = {
    "rates": (),
    "seconds": 60.0,
    "warm_up": None,
    "clusters": None,
    "nodes": None,
    "cores_per_node": 32,
    "queues": None,
    "classes": None,
    "call_size": 100,
    "run_time": "",
    "shape": "default",
    "generators": 1,
}


def window(waiting: list[int]) -> bench._Window:
    """Return a window with one sample a second."""
    return bench._Window(times_s=[float(number) for number in range(len(waiting))], waiting=waiting)


SENT = [{"errors": {}}]


@pytest.mark.parametrize(
    ("samples", "sent", "rates", "reason"),
    [
        pytest.param([50, 60, 40, 55], SENT, (1000.0, 998.0), "", id="held"),
        pytest.param([50, 90, 130, 170], SENT, (1000.0, 1000.0), "waiting jobs grew by 40 a second", id="growing"),
        pytest.param([50, 50, 50, 50], SENT, (900.0, 1000.0), "only 900 jobs/s were accepted", id="not accepted"),
        pytest.param([50, 50, 50, 50], SENT, (1000.0, 960.0), "only 960 jobs/s ended", id="not ended"),
        pytest.param([50] * 4, [{"errors": {"UNAVAILABLE": 2}}], (1000.0, 1000.0), "2 calls failed", id="failed"),
    ],
)
def test_rate_is_held_only_if_everything_keeps_up(
    samples: list[int], sent: list[dict[str, Any]], rates: tuple[float, float], reason: str
) -> None:
    """All accepted, as many ended as offered, and no more and more jobs waiting."""
    reasons = bench._reasons(1000.0, window(samples), sent, rates)

    assert reasons == ([reason] if reason else [])


def share(usage_cores: float, entitled_cores: float, demand_cores: float = 1.0) -> QueueShare:
    """Return a queue's share."""
    return QueueShare(
        queue="q",
        weight=1,
        fair_share_ratio=0,
        usage_cores=usage_cores,
        flow_cores=0,
        demand_cores=demand_cores,
        entitled_cores=entitled_cores,
        queued_count=0,
        pending_count=0,
        leased_count=0,
    )


def test_fairness_compares_usage_with_entitlement() -> None:
    """One queue has half of what it is entitled to, another one and a half; one without work does not count."""
    sampled = window([])

    bench._add_fairness(sampled, Shares(capacity_cores=40, shares=(share(10, 20), share(30, 20), share(0, 0, 0))))

    assert sampled.jain == [pytest.approx((0.5 + 1.5) ** 2 / (2 * (0.5**2 + 1.5**2)))]
    assert sampled.deviation == [pytest.approx(0.25)]


def test_roles_of_many_clusters_are_summed() -> None:
    """Samplers, executors, cluster agents and clusters are groups; the others stand for themselves."""
    roles = ("postgres", "api", "leader", "sampler-c1", "cluster-agent-2", "executor-x", "combined-cluster-3")

    groups = [bench._group_of(role) for role in roles]

    assert groups == ["postgres", "api", "leader", "samplers", "clusters", "executors", "cluster agents"]
    assert set(groups) - set(bench._CENTRAL_ROLES) == {"clusters", "executors"}


def test_default_load_is_that_of_the_design() -> None:
    """A million cores in ten clusters, 100 queues, 1,000 classes, calls of 100 jobs that run 20 to 40 s."""
    plan, nodes = plan_bench(OPTIONS)

    assert (len(nodes), len(nodes.clusters), nodes.capacity()["cpu"]) == (31_250, 10, 1_000_000_000)
    assert (plan.load.queue_count, plan.load.class_count, plan.load.batch_size) == (100, 1000, 100)
    assert (plan.load.run_time, plan.load.unique_ratio, plan.warm_up_s) == ("20s-40s", 0.5, 45.0)
    assert 1667.0 in plan.rates
    assert plan.stops_early


def test_saturating_load_has_more_work_than_cores() -> None:
    """Rate times mean run time exceeds the cores, and the pool is full before counting begins."""
    plan, nodes = plan_bench({**OPTIONS, "shape": "saturate", "rates": (4000.0,), "clusters": 1, "nodes": 1000})

    cores = nodes.capacity()["cpu"] // 1000
    assert 1.1 * cores <= plan.rates[0] * plan.load.mean_run_s <= 1.3 * cores
    assert plan.warm_up_s * plan.rates[0] >= cores
    assert not plan.stops_early


def test_one_queue_load_is_a_thousand_nodes_and_short_jobs() -> None:
    """1,000 nodes of 32 cores, one queue, one spec, jobs of 2 s."""
    plan, nodes = plan_bench({**OPTIONS, "shape": "armada"})

    assert (len(nodes), len(nodes.clusters)) == (1000, 1)
    assert (plan.load.queue_count, plan.load.class_count, plan.load.unique_ratio, plan.load.run_time) == (
        1,
        1,
        0.0,
        "2s",
    )
    assert np.isclose(plan.warm_up_s, 7.0)
