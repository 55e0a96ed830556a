"""What a unit of each resource counts."""

import pytest

from argosy_core.queueing import ResourceWeights, StoredWeight

GPU = "example.com/gpu"
POOL = {"cpu": 64_000, "memory": 256 << 30, GPU: 8, "pods": 110}


def test_the_pools_whole_of_each_resource_weighs_as_much_as_its_cores() -> None:
    """Eight accelerators beside 64 cores count eight cores each; `pods`, which nobody asks for, nothing."""
    weights = ResourceWeights({}, 600.0)
    assert weights.advance(POOL, 0.0, is_idle=True)
    assert {name: round(cores * POOL[name], 9) for name, cores in weights.values.items()} == dict.fromkeys(
        ["cpu", "memory", GPU], 64
    )


def test_configured_weights_hold_and_what_they_do_not_name_weighs_nothing() -> None:
    """Capacity moves none of them, nor does what another leader had found."""
    weights = ResourceWeights({"cpu": 0.002}, 600.0)
    weights.restore((StoredWeight(resource=GPU, cores=4.0, target_cores=4.0),), 0.0)
    assert not weights.advance(POOL, 0.0, is_idle=True)
    assert weights.values == {"cpu": 0.002}
    assert weights.store() == ()


def test_a_weight_comes_half_way_to_that_of_a_changed_capacity_in_the_half_time() -> None:
    """From 8 cores a device to 16 as half of them go: 12 after one half time, 14 after two, and there in the end."""
    weights = ResourceWeights({}, 600.0)
    weights.advance(POOL, 0.0, is_idle=False)
    weights.advance({**POOL, GPU: 4}, 0.0, is_idle=False)
    assert weights.values[GPU] == 8.0
    for now_s, cores in ((600.0, 12.0), (1200.0, 14.0), (12_000.0, 16.0)):
        weights.advance({**POOL, GPU: 4}, now_s, is_idle=False)
        assert weights.values[GPU] == pytest.approx(cores)
    assert not weights.advance({**POOL, GPU: 4}, 13_000.0, is_idle=False)


def test_a_cluster_that_went_for_a_moment_moves_weights_by_little() -> None:
    """Ten seconds of half the devices: one part in a hundred, not a doubling."""
    weights = ResourceWeights({}, 600.0)
    weights.advance(POOL, 0.0, is_idle=False)
    for now_s, gpus in ((100.0, 4), (110.0, 8), (1000.0, 8)):
        weights.advance({**POOL, GPU: gpus}, now_s, is_idle=False)
    assert weights.values[GPU] == pytest.approx(8.0, rel=0.03)


def test_weights_are_at_once_what_the_capacity_says_while_nothing_runs_or_a_resource_is_new() -> None:
    """Nobody's share can jump then."""
    weights = ResourceWeights({}, 600.0)
    weights.advance({"cpu": 1000}, 0.0, is_idle=False)
    weights.advance(POOL, 1.0, is_idle=False)
    assert weights.values[GPU] == 8.0
    weights.advance({**POOL, GPU: 2}, 2.0, is_idle=True)
    assert weights.values[GPU] == 32.0


def test_weights_stay_while_the_pool_has_no_cores_or_none_of_a_resource() -> None:
    """A pool whose samplers are away has not become cheap."""
    weights = ResourceWeights({}, 600.0)
    weights.advance(POOL, 0.0, is_idle=True)
    before = dict(weights.values)
    for totals in ({}, {"cpu": 64_000, "memory": 256 << 30}):
        weights.advance(totals, 5000.0, is_idle=True)
        assert weights.values == before


def test_another_leader_goes_on_where_the_last_one_was() -> None:
    """With the weight in effect, where it moves and since when; what is no weight is left out."""
    first, second = ResourceWeights({}, 600.0), ResourceWeights({}, 600.0)
    for now_s, gpus in ((0.0, 8), (0.0, 4), (300.0, 4)):
        first.advance({**POOL, GPU: gpus}, now_s, is_idle=False)
    bad = StoredWeight(resource="memory", cores=float("nan"), target_cores=-1.0)
    second.restore((*(one for one in first.store() if one.resource != "memory"), bad), first.time_s)
    for weights in (first, second):
        weights.advance({**POOL, GPU: 4}, 600.0, is_idle=False)
    assert second.values[GPU] == pytest.approx(first.values[GPU]) == pytest.approx(12.0)
    assert second.values["memory"] == first.values["memory"]
