"""Settings of rounds that change while a pool is led."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argosy_core.errors import NotAllowedNow
from argosy_core.leader.events import Change, ChangedSettings, ChangesRead, References
from argosy_core.placement import DecisionProfile
from argosy_core.plugins import decision_framework
from argosy_core.scheduler import RoundSettings, begin_round, change_settings, shares
from argosy_core.scheduler.memory.flows import advance_flows
from argosy_testkit.leader_world import LeaderWorld

_SETTINGS = RoundSettings(clusters_to_sample_ratio=1.0, resource_weights={"cpu": 0.001}, half_time_s=100.0)


def _set(world: LeaderWorld, version: int, settings: RoundSettings, change_id: int) -> None:
    """Have the leader read that settings changed, and do a round."""
    changed = ChangedSettings(version=version, round=settings)
    world.store.changes[change_id] = "settings"
    event = ChangesRead(changes=(Change(change_id=change_id),), references=References(settings=changed))
    world.tell(event)
    world.round()


def test_half_time_holds_for_the_time_after_the_change_alone() -> None:
    """What has decayed until then went by the half time before."""
    world = LeaderWorld(settings=_SETTINGS)
    queues = world.state.queues
    advance_flows(world.state, world.now_s)
    queues.flow[0] = 16.0
    world.now_s += 100.0
    change_settings(world.state, replace(_SETTINGS, half_time_s=50.0), world.now_s)
    assert queues.flow[0] == pytest.approx(8.0)
    advance_flows(world.state, world.now_s + 100.0)
    assert queues.flow[0] == pytest.approx(2.0)


def test_weights_that_are_set_weigh_all_jobs_anew_and_found_ones_start_where_they_stand() -> None:
    """Usage follows at once; nobody's share jumps when weights are to be found again."""
    world = LeaderWorld(settings=_SETTINGS)
    world.define_class(2, cpu=1000, memory=1 << 30)
    world.submit(2, class_id=2)
    world.round()

    def usage() -> float:
        return shares(world.state, world.now_s).queues[0].usage_cores

    assert usage() == pytest.approx(2.0)
    change_settings(world.state, replace(_SETTINGS, resource_weights={"memory": 4 / (1 << 30)}), world.now_s)
    assert usage() == pytest.approx(8.0)
    change_settings(world.state, replace(_SETTINGS, resource_weights={}), world.now_s)
    assert usage() == pytest.approx(10.0)  # a core counts one again, and memory what it was set to, for now
    world.now_s += 1e6
    assert usage() == pytest.approx(2.0 + 2 * 4 / 16)  # each node has 4 cores and 16 GiB


def test_reasons_and_estimates_noted_from_then_on_follow() -> None:
    """They are kept beside the settings."""
    world = LeaderWorld(settings=_SETTINGS)
    change_settings(world.state, replace(_SETTINGS, wait_expiry_s=3.0, assumed_run_time_s=7.0), world.now_s)
    assert world.state.waits.expiry_s == 3.0
    assert world.state.run_history.estimate_s(np.zeros((1, 6), dtype=np.int64)).tolist() == [7.0]


def test_settings_do_not_change_in_the_middle_of_a_round() -> None:
    """A round is decided by one set of settings."""
    world = LeaderWorld(settings=_SETTINGS)
    begin_round(world.state, world.now_s, world.rng)
    with pytest.raises(NotAllowedNow):
        change_settings(world.state, _SETTINGS, world.now_s)


def test_leader_goes_by_changed_settings_from_the_next_round_on_and_never_by_older_ones() -> None:
    """A change may be read twice, and after a newer one was loaded."""
    world = LeaderWorld(settings=_SETTINGS)
    newer = replace(_SETTINGS, max_round_leases=1)
    _set(world, 2, newer, 1001)
    assert (world.state.settings, world.machine.settings_version) == (newer, 2)
    _set(world, 1, _SETTINGS, 1002)
    assert (world.state.settings, world.machine.settings_version) == (newer, 2)
    assert 1001 in [change for transaction in world.stored for change in transaction.change_ids]


def test_plugin_that_orders_queues_orders_anew_what_waits() -> None:
    """By the keys that it gives now."""

    class ByHandle:
        def __init__(self, sign: int) -> None:
            self._sign = sign

        def queue_sort(self, jobs: object) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
            return np.asarray(self._sign * jobs.handle)  # type: ignore[attr-defined]

    def profile(sign: int) -> DecisionProfile:
        return DecisionProfile(framework=decision_framework({"by-handle": ByHandle(sign)}))

    world = LeaderWorld(clusters={"a": 1}, settings=_SETTINGS)
    handles = world.submit(6)
    change_settings(world.state, _SETTINGS, world.now_s, decision_profile=profile(-1))
    assert sorted(world.round().handle.tolist()) == handles[2:]
