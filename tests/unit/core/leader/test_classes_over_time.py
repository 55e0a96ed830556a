"""Scheduling classes that come and go: leader and samplers know those that are used, not all there ever were.

Source: design section 6, "Data layout".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from argosy_core.job.reading.classes import SchedulingClass, Toleration
from argosy_core.job.states import JobState, ObjectState
from argosy_core.leader import instructions as say
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

_WAVE = 1000
_WAVES = 12
_MOST_KNOWN = 6 * _WAVE
"""Far below all there are: what is live, as many idle ones, and as many that the sampler may keep beyond them."""


def world_of_classes(count: int) -> LeaderWorld:
    """Return a world that has room for a wave of jobs, and classes 1 to `count`, each with a toleration of its own."""
    world = LeaderWorld(clusters={"a": 2}, node_amounts={"cpu": 1_000_000, "memory": 1 << 40, "pods": 5000})
    world.job_index.plan = replace(world.job_index.plan, classes=(SchedulingClass(requests=()),) * count)
    for class_id in range(1, count + 1):
        tolerations = (Toleration(key=f"t{class_id}"),)
        one = SchedulingClass(requests=(("cpu", 100),), tolerations=tolerations)
        world.job_index.definitions[class_id] = one.definition()
    return world


def submit_classes(world: LeaderWorld, first: int, count: int) -> list[int]:
    """Submit a job of each of some classes, and return their handles."""
    rows = world.grow(count, class_id=first)
    indices = world.job_index.plan.class_index.copy()
    indices[rows] = np.arange(first - 1, first - 1 + count)
    world.job_index.plan = replace(world.job_index.plan, class_index=indices)
    world.store.submit(world.store.next_change_id(), rows, round(world.now_s * 1e6))
    world.take()
    return [int(handle) for handle in world.job_index.handles(rows)]


def end(world: LeaderWorld, handles: list[int]) -> None:
    """Have jobs succeed."""
    world.report("a", [Report(handle=h, attempt=1, state=int(ObjectState.SUCCEEDED)) for h in handles])


def test_classes_of_jobs_that_ended_leave_small_tables_at_leader_and_sampler() -> None:
    """Each job is placed and ends; what its class left behind leaves with many others, the parts of classes too."""
    world = world_of_classes(_WAVE * _WAVES)
    (stays,) = submit_classes(world, 1, 1)
    world.round()
    most = 0
    for wave in range(_WAVES):
        handles = submit_classes(world, 2 + wave * _WAVE, _WAVE - (wave == _WAVES - 1))
        world.round()
        assert {world.job_state(handle) for handle in handles} == {JobState.LEASED}
        end(world, handles)
        ledger = world.clusters["a"].ledger
        most = max(most, len(world.state.classes), len(ledger.classes), len(ledger.classes.tolerations))
    assert most < _MOST_KNOWN
    # The one job that ran all the time has its class, and is let go of by it.
    assert ledger.classes.slots(np.array([1])) >= 0
    assert ledger.placement_count == 1
    end(world, [stays])
    assert world.clusters["a"].ledger.placement_count == 0


def test_class_that_was_dropped_is_told_again_before_it_is_named() -> None:
    """A job of a class of long ago is placed as any other."""
    world = world_of_classes(6 * _WAVE)
    for first in range(1, 4 * _WAVE, _WAVE):
        handles = submit_classes(world, first, _WAVE)
        world.round()
        end(world, handles)
    submit_classes(world, 5 * _WAVE, 1)  # it is with new classes that the leader drops old ones
    world.round()
    dropped = [class_id for one in world.said if isinstance(one, say.SendSample) for class_id in one.dropped_classes]
    assert 1 in dropped
    before = len(world.said)
    (again,) = submit_classes(world, 1, 1)
    world.round()
    sent = [one for one in world.said[before:] if isinstance(one, say.SendSample)]
    assert [class_id for one in sent for class_id, _ in one.classes] == [1]
    assert world.job_state(again) == JobState.LEASED


def test_next_leader_and_next_stream_tell_what_is_used_and_the_sampler_forgets_the_rest() -> None:
    """A sampler that lives on through takeovers has the classes of the present leader, and of its placements."""
    world = world_of_classes(4 * _WAVE)
    kept = world.clusters["a"].ledger
    world.make_ledger = lambda: (kept, 0)
    for first in range(1, 4 * _WAVE, _WAVE):
        handles = submit_classes(world, first, _WAVE)
        world.round()
        end(world, handles[1:])
        world.take_over()
    assert len(kept.classes) < 2 * _WAVE
    live = [int(kept.classes.slots(np.array([first]))[0]) for first in range(1, 4 * _WAVE, _WAVE)]
    assert min(live) >= 0
    assert kept.placement_count == 4
