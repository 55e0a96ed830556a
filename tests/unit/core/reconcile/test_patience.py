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
