"""Sizes of simulated pods: resizes out of their node's room, and what they use by their annotation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_kube.simulated.__main__ import make_host
from argosy_kube.simulated.engine import ClusterEngine
from argosy_testkit.cluster_contract import LAB_NODES, make_bag, make_create_batch, make_pod

GIB = 1 << 30
NOTES: dict[str, Any] = {
    "autoscale_min": "cpu=500m,memory=1Gi",
    "autoscale_max": "cpu=4,memory=8Gi",
    "simulated_use": "cpu=600m,memory=512Mi; cpu=8,memory=2Gi",
}
UidArray = np.ndarray


def make_engine(*cpus: str, notes: dict[str, Any] = NOTES) -> tuple[ClusterEngine, UidArray]:
    """Return a cluster with pods on one node of four cores and 8 GiB, and their uids."""
    engine = make_host("lab", LAB_NODES, speed=1.0, seed=0).engine
    uids = []
    for handle, cpu in enumerate(cpus, start=1):
        bag = make_bag(make_pod(run_time="100s", cpu=cpu, **notes))
        uids.append(engine.create(make_create_batch([(handle, 1)], bag=bag), 0).uid_column[0])
    return engine, np.array(uids)


def resize(engine: ClusterEngine, uid: UidArray, millicores: int) -> int:
    """Give a pod so many millicores at the version that it has."""
    columns = engine.journal.present()
    (place,) = np.flatnonzero((columns.uid == uid).all(axis=1))
    return engine.sizes.resize(uid, int(columns.version[place]), (millicores, GIB), engine.now_us)


def test_pods_grow_into_what_others_give_back_and_no_further() -> None:
    """A node of four cores with two pods of two: the one gives half back, the other has it."""
    engine, (one, other) = make_engine("2", "2")
    with pytest.raises(InvalidRequest, match="no room"):
        resize(engine, other, 2001)
    resize(engine, one, 1000)
    resize(engine, other, 3000)
    with pytest.raises(InvalidRequest, match="no room"):
        resize(engine, other, 3001)
    engine.advance(engine.now_us + 101_000_000)
    audit = engine.audit()
    assert (audit.overcommits, engine.nodes.free[0, :2].tolist()) == (0, [4000, 8 * GIB])


def test_use_follows_the_run_and_stays_below_the_size() -> None:
    """Two parts of the run: a little, then more than the pod has."""
    engine, uids = make_engine("2")
    assert engine.sizes.usage(uids, engine.now_us).tolist() == [[600, 512 << 20]]
    engine.advance(engine.now_us + 50_000_000)
    assert engine.sizes.usage(uids, engine.now_us).tolist() == [[2000, 1 * GIB]]
    engine.advance(engine.now_us + 60_000_000)
    assert np.isnan(engine.sizes.usage(uids, engine.now_us)).all()


def test_a_pod_that_is_not_scaled_keeps_its_size() -> None:
    """Nothing says within what."""
    engine, (uid,) = make_engine("1", notes={})
    with pytest.raises(InvalidRequest, match="not scaled"):
        resize(engine, uid, 2000)


def test_a_use_that_cannot_be_read_is_refused() -> None:
    """Only simulated pods have it, so a mistake is told at once."""
    engine = make_host("lab", LAB_NODES, speed=1.0, seed=0).engine
    bag = make_bag(make_pod(simulated_use="cpu=1"))
    answer = engine.create(make_create_batch([(1, 1)], bag=bag), 0)
    assert "simulated-use" in answer.messages[0]
