"""What waits for too long is given up: pods without an image or a word, quotas; and what they are told to wait for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argosy_core.job.states import FailureKind, ObjectState
from argosy_core.reconcile import Reconciler, StartTimeouts
from argosy_testkit.cluster_model import make_observations
from argosy_testkit.reconcile_world import World


@pytest.mark.parametrize(
    ("kind", "reasons", "after_s", "told"),
    [
        pytest.param(
            FailureKind.IMAGE, ("ErrImagePull: no such tag", "ImagePullBackOff"), 301.0, "ErrImagePull: no such tag",
            id="first-of-an-image",
        ),
        pytest.param(
            FailureKind.INFRASTRUCTURE, ("FailedMount: no volume", "FailedCreatePodSandBox: no network"), 1801.0,
            "FailedCreatePodSandBox: no network", id="last-of-all-else",
        ),
    ],
)  # fmt: skip
def test_pod_that_is_given_up_tells_the_reason_that_says_most(
    world: World, *, kind: FailureKind, reasons: tuple[str, str], after_s: float, told: str
) -> None:
    """A back-off follows what was wrong with an image; of mounts and sandboxes the last is what stands against it."""
    world.give([7])
    world.settle(steps=1)
    stuck = make_observations(list(world.cluster.objects.values()))
    for index in range(2):
        seen = replace(
            stuck,
            failure_column=np.array([kind], np.int8),
            message_column=np.array([index + 1], np.int32),
            texts=("default", *reasons),
        )
        world.reconciler.take_observed(seen, world.now)
        world.pass_time(0.5)
    world.pass_time(after_s)
    assert world.act().deletes is not None
    world.cluster.remove((7, 1, 0))
    world.watch()
    assert world.report() == [(7, 0, "FAILED")]
    assert world.reports[-1].failure_column.tolist() == [kind]
    assert world.reports[-1].texts == (f"the pod did not start for {after_s - 1:.0f} s: {told}",)


def test_pod_that_could_go_on_in_between_begins_to_wait_anew(world: World) -> None:
    """A registry that comes back and goes again gives the pod its whole time again."""
    world.give([7])
    world.settle(steps=1)
    seen = make_observations(list(world.cluster.objects.values()))
    stuck = replace(seen, failure_column=np.array([FailureKind.IMAGE], np.int8))
    for observed, after_s in ((stuck, 200.0), (seen, 50.0), (stuck, 100.0)):
        world.reconciler.take_observed(observed, world.now)
        world.pass_time(after_s)
    assert world.act().deletes is None, "350 s after the first time, 100 s after the second"
    world.pass_time(201.0)
    assert world.act().deletes is not None


def test_bag_goes_as_a_whole_when_a_pod_of_it_is_given_up(world: World) -> None:
    """Its other objects hold nothing back, and the run is over."""
    world.give([7], "ConfigMap", "Pod")
    world.settle(steps=3)
    world.pass_time(1801.0)
    assert world.act().deletes.object_column.tolist() == [0, 1]


@pytest.mark.parametrize(("healed", "end"), [(False, "FAILED"), (True, "RUNNING")], ids=["misspelt", "registry-back"])
def test_pod_without_an_image_fails_after_five_minutes(world: World, *, healed: bool, end: str) -> None:
    """A pod that cannot have its image is failed in the end, unless it starts before."""
    world.give([7])
    world.settle(steps=1)
    stuck = make_observations(list(world.cluster.objects.values()))
    stuck = replace(stuck, failure_column=np.array([FailureKind.IMAGE], np.int8), texts=("default", "ImagePullBackOff"))
    stuck = replace(stuck, message_column=np.ones(1, np.int32))
    for _ in range(3):
        world.reconciler.take_observed(stuck, world.now)
        world.pass_time(99.0)
        assert world.act().deletes is None
        assert world.report() == []
    if healed:
        world.cluster.show((7, 1, 0), ObjectState.RUNNING)
        world.watch()
    world.pass_time(10.0)
    deletes = world.act().deletes
    if healed:
        assert deletes is None
    else:
        assert deletes is not None
        assert world.report() == [], "it could begin to run until it is gone"
        world.cluster.remove((7, 1, 0))
        world.watch()
    assert world.report() == [(7, 0, end)]
    if not healed:
        assert world.reports[-1].failure_column.tolist() == [FailureKind.IMAGE]
        assert world.reports[-1].texts == ("the pod did not start for 300 s: ImagePullBackOff",)


def test_pod_that_is_given_up_and_runs_after_all_keeps_its_own_end(world: World) -> None:
    """What the pod did wins over what was concluded."""
    world.give([7])
    world.settle(steps=1)
    world.pass_time(1801.0)
    assert world.actions().deletes is not None
    world.cluster.show((7, 1, 0), ObjectState.SUCCEEDED)
    world.watch()
    assert world.report() == [(7, 0, "SUCCEEDED")]
    assert world.reports[-1].texts == ()


def test_pod_that_is_given_up_and_says_that_it_was_killed_failed_of_what_it_waited_for(world: World) -> None:
    """A kubelet tells of containers that never began that they failed; our deletion made it say so."""
    world.give([7])
    world.settle(steps=1)
    stuck = make_observations(list(world.cluster.objects.values()))
    stuck = replace(stuck, failure_column=np.array([FailureKind.IMAGE], np.int8), texts=("default", "ImagePullBackOff"))
    world.reconciler.take_observed(replace(stuck, message_column=np.ones(1, np.int32)), world.now)
    world.pass_time(301.0)
    assert world.actions().deletes is not None
    world.cluster.show((7, 1, 0), ObjectState.FAILED, exit_code=137)
    world.watch()
    assert world.report() == [(7, 0, "FAILED")]
    assert world.reports[-1].failure_column.tolist() == [FailureKind.IMAGE]
    assert world.reports[-1].texts == ("the pod did not start for 300 s: ImagePullBackOff",)


@pytest.mark.parametrize("pending_s", [100.0, 0.0], ids=["given up", "for ever"])
def test_pod_that_does_not_start_and_says_nothing_is_given_up(*, pending_s: float) -> None:
    """A volume that nobody provides shows nowhere in the pod; the run ends as the cluster's fault."""
    world = World(reconciler=Reconciler(timeouts=StartTimeouts(pending_s=pending_s)))
    world.give([7])
    world.give([8], "ConfigMap", "Pod")
    world.settle(steps=3)
    world.cluster.show((8, 1, 1), ObjectState.RUNNING)
    world.watch()
    world.report()
    world.pass_time(101.0)
    deletes = world.act().deletes
    if not pending_s:
        assert deletes is None
        return
    assert deletes.handle_column.tolist() == [7]
    world.cluster.remove((7, 1, 0))
    world.watch()
    assert world.report() == [(7, 0, "FAILED")]
    assert world.reports[-1].failure_column.tolist() == [FailureKind.INFRASTRUCTURE]
    assert world.reports[-1].texts == ("the pod did not start for 100 s: nobody says why",)


def test_quota_is_tried_again_and_given_back_in_the_end() -> None:
    """As long as there is hope nothing is said; then the run fails as the cluster's fault and its job waits again."""
    world = World(reconciler=Reconciler(timeouts=StartTimeouts(quota_s=60.0)))
    world.cluster.full.add(7)
    world.give([7])
    for _ in range(6):
        world.act()
        assert world.report() == []
        world.pass_time(9.0)
    world.pass_time(30.0)
    world.act()
    assert world.report() == [(7, 0, "FAILED")]
    assert world.reports[-1].failure_column.tolist() == [FailureKind.INFRASTRUCTURE]
    world.pass_time(60.0)
    assert world.act().creates is None


def test_quota_that_makes_room_in_time_is_no_failure() -> None:
    """The pod is made as if nothing had been."""
    world = World(reconciler=Reconciler(timeouts=StartTimeouts(quota_s=60.0)))
    world.cluster.full.add(7)
    world.give([7])
    world.act()
    world.cluster.full.clear()
    world.pass_time(31.0)
    world.act()
    assert world.report() == [(7, 0, "CREATED")]
