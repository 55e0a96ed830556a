"""What simulated worlds found, as small as it can be told."""

import json

import numpy as np

from argosy_core.job.states import ObjectState
from argosy_core.job.tables.interning import Layout
from argosy_core.reconcile import CreateResponses
from argosy_testkit.reconcile_world import World


def test_late_answer_of_a_creation_does_not_touch_the_run_that_has_its_slot_now() -> None:
    """A creation whose answer is lost is seen in the watch; its run may be over when the call gives up."""
    world = World()
    world.give([7])
    lost = world.actions().creates
    assert lost is not None
    world.cluster.create(lost, lost_answers=True)
    world.watch()
    world.cluster.show((7, 1, 0), ObjectState.SUCCEEDED)
    world.watch()
    world.report()
    world.pass_time(61.0)
    world.settle()
    assert world.reconciler.object_count == 0
    world.give([8])
    under_way = world.actions().creates
    assert under_way is not None
    assert under_way.slot_column.tolist() == lost.slot_column.tolist()
    none = np.zeros(1, dtype=np.bool_)
    unknown = CreateResponses(
        exists_column=none,
        refused_column=none,
        later_column=none,
        uid_column=np.zeros((1, 16), dtype=np.uint8),
        message_column=np.full(1, -1, dtype=np.int32),
        messages=(),
    )
    world.reconciler.take_create_responses(lost, unknown, world.now)
    world.pass_time(5.0)
    assert world.actions().creates is None


def test_ended_pod_stays_while_a_predecessor_could_make_it_again() -> None:
    """A call of a predecessor may still arrive; as long as the pod is there, it cannot run a second time."""
    world = World()
    world.reconciler.keep_for(0.0)
    world.reconciler.settle_at(world.now_s + 20.0, world.now)
    for kinds in (("Pod",), ("ConfigMap", "Pod")):
        world.give([len(kinds)], *kinds)
    world.settle()
    for handle, position in ((1, 0), (2, 1)):
        world.cluster.show((handle, 1, position), ObjectState.SUCCEEDED)
    world.settle()
    assert len(world.cluster.pods()) == 2
    world.pass_time(21.0)
    world.settle()
    assert world.cluster.pods() == []


def test_bodies_of_simulated_jobs_are_bags() -> None:
    """What executors of a world create is what they would get in a mesh."""
    from argosy_simulation import draw_world

    job_index = draw_world(1, with_faults=False).context.job_index
    for spec in job_index.specs:
        kinds = [manifest["kind"] for manifest in json.loads(job_index.body_of(spec.hash))]
        assert list(Layout.parse(spec.layout).kinds) == kinds
