"""A small fair world; larger ones, of all kinds of jobs, nodes and queues, are in `tests/real/simulation`."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_testkit.fair_worlds import Jobs, clusters, held, make_plan, run


def test_full_queues_hold_the_pool_by_weight_whatever_the_priorities_of_their_jobs() -> None:
    """Priorities order a queue's own jobs and move nothing between queues of weights 1 and 3."""
    rng = np.random.default_rng(5)
    jobs = [
        Jobs(queue=queue, count=count, priority=priority, run_s=rng.integers(5, 16, count))
        for queue, count in ((0, 60), (1, 130))
        for priority in (0, 5)
    ]
    plan = make_plan(*jobs, weights=(1.0, 3.0), pool=clusters(2, 4, 8))
    light, heavy = held(plan, run(plan, stop_s=25.0), np.arange(10.0, 25.0, 0.25)).mean(axis=1)
    assert light + heavy >= 0.97 * 64
    assert light / (light + heavy) == pytest.approx(0.25, abs=0.02)
