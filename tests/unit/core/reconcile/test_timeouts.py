"""What a pod that was given up is said to have waited for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argosy_core.job.states import FailureKind
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
            message_column=np.array([index], np.int32),
            texts=reasons,
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
