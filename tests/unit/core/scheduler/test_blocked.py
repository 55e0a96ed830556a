"""Jobs that fit nowhere keep neither other queues nor, for long, their own from running."""

from __future__ import annotations

import numpy as np

from argosy_core.ledger import PodEvents, run_keys
from argosy_core.scheduler import RoundSettings, begin_round, explain
from argosy_testkit.pool_world import PoolWorld, Report

_SETTINGS = RoundSettings(
    clusters_to_sample_ratio=1.0, max_blocked_per_queue=3, park_after_s=30.0, look_ahead_min_count=2
)


def _world() -> tuple[PoolWorld, list[int]]:
    """Return a pool of four cores and twenty jobs of 64 cores in its first queue."""
    world = PoolWorld(clusters={"a": 1}, queues={"alice": 1, "bob": 1}, settings=_SETTINGS)
    world.define_class(2, cpu=64_000)
    handles = world.submit(20, queue=1, class_id=2)
    world.round()
    # From the second round on they are known to be pending and stuck.
    world.round()
    return world, handles


def test_other_queues_run_at_once() -> None:
    """A queue of impossible jobs is its own affair, and only a few of them are pending."""
    world, impossible = _world()
    good = world.submit(3, queue=2)
    assert sorted(world.round().handle.tolist() + world.round().handle.tolist()) == good
    assert world.state.live.handle[world.state.pending].tolist() == impossible[:3]


def test_jobs_behind_them_in_their_own_queue_run_after_a_while() -> None:
    """Strict order within the queue holds for `park_after_s`, then the class is passed over."""
    world, _ = _world()
    good = world.submit(2, queue=1)
    assert world.round().handle.size == 0
    world.now_s += 29
    assert world.round().handle.size == 0
    world.now_s += 2
    assert world.round().handle.tolist() == good
    assert explain(world.state, good[0], world.now_s).stage == "leased"  # type: ignore[union-attr]


def test_they_come_back_to_their_places_once_something_fits_them() -> None:
    """A new cluster is asked for the few that are pending; a candidate brings back all."""
    world, impossible = _world()
    world.now_s += 31
    world.submit(1, queue=1)
    world.round()
    world.add_cluster("large", 5, {"cpu": 256_000, "memory": 64 << 30})
    leased: list[int] = []
    for _ in range(20):
        leased += world.round().handle.tolist()
    assert [handle for handle in leased if handle in impossible] == impossible
    assert not world.state.parked


def test_cancelling_the_pending_ones_lets_the_others_be_asked_for() -> None:
    """A class without a pending job could never learn that it fits."""
    world, impossible = _world()
    world.now_s += 31
    world.submit(1, queue=1)
    world.round()
    assert world.state.parked
    world.cancel(impossible[:3])
    world.round()
    assert world.state.live.handle[world.state.pending].tolist() == impossible[3:6]


def test_saturated_pool_moves_and_asks_for_little() -> None:
    """Full, with work for many times its size: no questions, and only a look-ahead pending."""
    world = PoolWorld(clusters={"a": 2}, settings=RoundSettings(look_ahead_min_count=4, max_blocked_per_queue=6))
    world.submit(500)
    world.round()
    world.round()
    current = begin_round(world.state, world.now_s, world.rng)
    assert current.questions == ()
    current.finish(world.now_s)
    assert world.state.pending.size <= 6
    world.report("a", [Report(handle=handle, attempt=1, state=4) for handle, _ in world.live_runs("a")[:2]])
    before = world.state.live.handle[world.state.pending].tolist()
    assert world.round().handle.tolist() == before[:2]


def test_requests_of_a_resource_nobody_has_are_blocked_not_asked() -> None:
    """No cluster has a node with it."""
    world = PoolWorld(settings=_SETTINGS)
    world.define_class(2, gpu=1)
    handle = world.submit(1, class_id=2)[0]
    assert begin_round(world.state, world.now_s, world.rng).questions == ()
    explanation = explain(world.state, handle, world.now_s)
    assert explanation is not None
    assert explanation.blocked
    assert np.array_equal(world.state.classes.vector[:, world.state.classes.axis.index("gpu")][:2].max(), 1)


def test_class_that_fits_no_node_though_the_cluster_has_room_is_asked_once_per_rise() -> None:
    """Three cores do not fit twice two free ones; nobody is asked again before something ends."""
    world = PoolWorld(clusters={"a": 2}, settings=_SETTINGS)
    world.define_class(2, cpu=2000)
    world.define_class(3, cpu=3000)
    small = world.submit(2, class_id=2)
    world.round()
    large = world.submit(1, class_id=3)
    nodes = {world.stored[handle].place[1] for handle in small}
    assert len(nodes) == 2
    world.round()
    current = begin_round(world.state, world.now_s, world.rng)
    assert current.questions == ()
    current.finish(world.now_s)
    world.report("a", [Report(handle=small[0], state=4)])
    assert world.round().handle.tolist() == large


def test_blocked_class_is_not_asked_for_because_free_capacity_fell() -> None:
    """A sampler that tells of fuller nodes says nothing that a blocked class waits for."""
    world = PoolWorld(clusters={"a": 2}, settings=_SETTINGS)
    world.define_class(2, cpu=3000)
    world.define_class(3, cpu=1000)
    world.submit(2, class_id=2)
    world.round()
    large = world.submit(1, class_id=2)
    world.round()
    world.round()
    world.submit(1, class_id=3)
    world.round()
    world.send_capacity("a")
    current = begin_round(world.state, world.now_s, world.rng)
    assert current.questions == ()
    current.finish(world.now_s)
    assert world.state.live.handle[world.state.pending].tolist() == large


def test_blocked_class_is_asked_for_when_one_node_rises_by_what_another_falls() -> None:
    """The sums are as before, and yet a node has room now that had none."""
    world = PoolWorld(clusters={"a": 2}, settings=_SETTINGS)
    world.define_class(2, cpu=2000)
    world.define_class(3, cpu=4000)
    small = world.submit(2, class_id=2)
    world.round()
    large = world.submit(1, class_id=3)
    world.round()
    world.round()
    ledger = world.clusters["a"].ledger
    _, goal = (ledger.rows_of_names([world.stored[handle].place[1]]) for handle in small)
    moved = PodEvents(
        run_keys=run_keys(np.array(small[:1], dtype=np.int64), np.array([1], dtype=np.int32)),
        uids=np.ones((1, 16), dtype=np.uint8),
        nodes=goal,
        ended=np.zeros(1, dtype=np.bool_),
        requests=ledger.classes.requests[ledger.classes.slots(np.array([2], dtype=np.int32))],
    )
    assert ledger.observe(moved).replaced_count == 1
    world.send_capacity("a")
    questions = begin_round(world.state, world.now_s, world.rng).questions
    assert [question.class_ids.tolist() for question in questions] == [[3]]
    assert world.state.live.handle[world.state.pending].tolist() == large
