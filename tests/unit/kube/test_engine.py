"""The engine of the simulated cluster: what contract tests cannot see from outside."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.errors import NotFound
from argosy_kube.port import CreateCode, NodeDescription, PodPhase
from argosy_kube.simulated.engine import ClusterEngine
from argosy_kube.simulated.faults import Fault
from argosy_kube.simulated.selection import Tables, build_events
from argosy_testkit.cluster_contract import (
    LAB_NODES,
    codes,
    make_bag,
    make_create_batch,
    make_delete_batch,
    make_pod,
    read_events,
)

START_US = 1_000_000_000_000_000
SECOND_US = 1_000_000


def make_engine(speed: float = 1.0, seed: int = 1) -> ClusterEngine:
    """Return an engine with the lab's nodes."""
    engine = ClusterEngine(uid="u", start_us=START_US, speed=speed, rng=np.random.default_rng(seed))
    for node in LAB_NODES:
        engine.put_node(node)
    return engine


def present(engine: ClusterEngine) -> list:
    """Return what is in the cluster, as installation 0 sees it."""
    columns = engine.journal.present()
    tables = Tables(
        kinds=engine.kinds.texts,
        nodes=engine.nodes.names,
        texts=engine.texts.texts,
        resources=engine.requests.axis.names,
        requests=engine.requests.matrix,
    )
    return read_events(build_events(columns, tables, installation=0, version=engine.journal.history.version))


def open_installation(engine: ClusterEngine) -> int:
    """Return the index of the installation of these tests: 0."""
    return engine.installations.intern("one")


@pytest.mark.parametrize(
    ("speed", "real_s"), [(1.0, 30.0), (60.0, 0.5), (0.5, 60.0)], ids=["real time", "fast", "slow"]
)
def test_run_time_is_shortened_by_the_speed(speed: float, real_s: float) -> None:
    """A pod of 30 simulated seconds takes 30 / speed real seconds."""
    engine = make_engine(speed)
    engine.create(make_create_batch([(1, 1)], bag=make_bag(make_pod(run_time="30s"))), open_installation(engine))
    engine.advance(START_US + int(real_s * SECOND_US) - 10_000)
    assert present(engine)[0].phase == PodPhase.RUNNING
    engine.advance(START_US + int(real_s * SECOND_US) + 10_000)
    assert present(engine)[0].phase == PodPhase.SUCCEEDED


def test_run_time_is_drawn_between_its_ends_and_repeats_with_the_seed() -> None:
    """`20s-40s` draws evenly in that range; the same seed draws the same."""

    def end_times(seed: int) -> list[int]:
        engine = make_engine(seed=seed)
        bag = make_bag(make_pod(run_time="20s-40s", cpu="1m", memory="1"))
        engine.create(make_create_batch([(n, 1) for n in range(1, 11)], bag=bag), open_installation(engine))
        ends: dict[int, int] = {}
        for step in range(1, 420):
            engine.advance(START_US + step * 100_000)
            for item in present(engine):
                if item.phase == PodPhase.SUCCEEDED:
                    ends.setdefault(item.run[0], step)
        return [ends[n] for n in sorted(ends)]

    first = end_times(1)
    assert len(first) == 10
    assert min(first) >= 200
    assert max(first) <= 401
    assert len(set(first)) > 5
    assert first == end_times(1) != end_times(2)


def test_run_time_of_the_job_wins_over_the_pods() -> None:
    """Annotations of the job are added to its pods, over those of the manifest."""
    engine = make_engine()
    metadata = b'{"labels":{},"annotations":{"argosy.dev/simulated-run-time":"5s"}}'
    batch = make_create_batch([(1, 1)], bag=make_bag(make_pod(run_time="1h")), metadata=metadata)
    engine.create(batch, open_installation(engine))
    engine.advance(START_US + 6 * SECOND_US)
    assert present(engine)[0].phase == PodPhase.SUCCEEDED


def test_start_delay_keeps_the_pod_pending_and_its_room_taken() -> None:
    """A delayed pod is pending, then runs for its whole run time."""
    engine = make_engine()
    bag = make_bag(make_pod(run_time="10s", simulated_start_delay="5s"))
    engine.create(make_create_batch([(1, 1)], bag=bag), open_installation(engine))
    assert present(engine)[0].phase == PodPhase.PENDING
    assert engine.audit().used["cpu"] == 1000
    engine.advance(START_US + 6 * SECOND_US)
    assert present(engine)[0].phase == PodPhase.RUNNING
    engine.advance(START_US + 14 * SECOND_US)
    assert present(engine)[0].phase == PodPhase.RUNNING
    engine.advance(START_US + 17 * SECOND_US)
    assert present(engine)[0].phase == PodPhase.SUCCEEDED
    assert engine.audit().used == {}


def test_audit_counts_two_attempts_that_run_at_once() -> None:
    """Invariant 1: a second attempt that starts while the first runs is counted; after its end it is not."""
    engine = make_engine()
    ours = open_installation(engine)
    bag = make_bag(make_pod(run_time="10s"))
    engine.create(make_create_batch([(1, 1)], bag=bag), ours)
    engine.advance(START_US + 11 * SECOND_US)
    engine.create(make_create_batch([(1, 2)], bag=bag), ours)
    assert engine.audit().double_runs == 0
    engine.create(make_create_batch([(1, 3)], bag=bag), ours)
    assert engine.audit().double_runs == 1


def test_audit_counts_doubles_of_a_pod_that_starts_late() -> None:
    """Invariant 1: an older attempt that starts after the newer one is counted as well."""
    engine = make_engine()
    ours = open_installation(engine)
    late = make_bag(make_pod(run_time="10s", simulated_start_delay="5s"))
    engine.create(make_create_batch([(1, 1)], bag=late), ours)
    engine.create(make_create_batch([(1, 2)], bag=make_bag(make_pod(run_time="10s"))), ours)
    assert engine.audit().double_runs == 0
    engine.advance(START_US + 6 * SECOND_US)
    assert engine.audit().double_runs == 1


def test_audit_counts_pods_bound_to_full_nodes() -> None:
    """Invariant 8: what a kubelet had to refuse is counted; room of ended pods is free again."""
    engine = make_engine()
    ours = open_installation(engine)
    bag = make_bag(make_pod(run_time="10s", cpu="3"))
    engine.create(make_create_batch([(1, 1), (2, 1)], bag=bag), ours)
    audit = engine.audit()
    assert (audit.overcommits, audit.pods_failed, audit.pods_running) == (1, 1, 1)
    assert audit.used == {"cpu": 3000, "memory": 1 << 30, "pods": 1}
    engine.advance(START_US + 11 * SECOND_US)
    engine.create(make_create_batch([(3, 1)], bag=bag), ours)
    assert engine.audit().overcommits == 1


def test_audit_measures_cpu_in_simulated_time() -> None:
    """One core for ten simulated seconds is ten core seconds at any speed."""
    engine = make_engine(speed=10.0)
    engine.create(make_create_batch([(1, 1)], bag=make_bag(make_pod(run_time="10s"))), open_installation(engine))
    for step in range(200):
        engine.advance(START_US + step * 10_000)
    audit = engine.audit()
    assert audit.cpu_core_s == pytest.approx(10.0, abs=0.2)
    assert (audit.pods_created, audit.pods_succeeded, audit.max_pods_running) == (1, 1, 1)


def test_pod_on_a_node_that_is_not_there_fails_as_lost() -> None:
    """A pod bound to an unknown node never runs."""
    engine = make_engine()
    engine.create(make_create_batch([(1, 1)], nodes=("nowhere",)), open_installation(engine))
    (pod,) = present(engine)
    assert (pod.phase, pod.reason, pod.node) == (PodPhase.FAILED, "NodeLost", None)


def test_pod_that_ends_unseen_is_told_when_its_node_recovers() -> None:
    """While a node is not heard its pods end unseen; the end is told once it is heard."""
    engine = make_engine()
    engine.create(make_create_batch([(1, 1)], bag=make_bag(make_pod(run_time="5s"))), open_installation(engine))
    engine.inject(Fault(kind="node-unreachable", node="node-a"))
    engine.advance(START_US + 6 * SECOND_US)
    assert present(engine)[0].phase == PodPhase.UNKNOWN
    engine.inject(Fault(kind="node-recovered", node="node-a"))
    assert present(engine)[0].phase == PodPhase.SUCCEEDED


def test_deleting_attempts_in_any_order_keeps_the_others_findable() -> None:
    """After any attempt of an object is deleted, the others still answer EXISTS."""
    for victim in range(3):
        engine = make_engine()
        ours = open_installation(engine)
        for attempt in (1, 2, 3):
            engine.create(make_create_batch([(1, attempt)]), ours)
        seen = present(engine)
        engine.delete(make_delete_batch(seen[victim]))
        for attempt in (1, 2, 3):
            expected = CreateCode.CREATED if attempt == victim + 1 else CreateCode.EXISTS
            assert codes(engine.create(make_create_batch([(1, attempt)]), ours)) == [expected]


def test_duplicates_within_a_batch_are_made_and_deleted_once() -> None:
    """The second of two equal elements meets the first."""
    engine = make_engine()
    ours = open_installation(engine)
    assert codes(engine.create(make_create_batch([(1, 1), (1, 1), (2, 1)]), ours)) == [
        CreateCode.CREATED,
        CreateCode.EXISTS,
        CreateCode.CREATED,
    ]
    seen = present(engine)
    result = engine.delete(make_delete_batch(seen[0], seen[0], seen[1]))
    assert result.code_column.tolist() == [1, 2, 1]
    assert present(engine) == []


def test_rows_are_used_again_without_mixing_up_timers() -> None:
    """A timer of a deleted pod does not end the pod that has its row now."""
    engine = make_engine()
    ours = open_installation(engine)
    engine.create(make_create_batch([(1, 1)], bag=make_bag(make_pod(run_time="5s"))), ours)
    engine.delete(make_delete_batch(*present(engine)))
    engine.journal.flush()
    engine.create(make_create_batch([(2, 1)], bag=make_bag(make_pod(run_time="60s"))), ours)
    engine.advance(START_US + 10 * SECOND_US)
    (pod,) = present(engine)
    assert (pod.run[0], pod.phase) == (2, PodPhase.RUNNING)


def test_fault_on_an_unknown_node_says_so() -> None:
    """A fault that names no node of the cluster is refused."""
    with pytest.raises(NotFound, match="nowhere"):
        make_engine().inject(Fault(kind="node-lost", node="nowhere"))


def test_new_resource_gets_a_column_everywhere() -> None:
    """A resource that only a later node has can be asked for, and is lacking elsewhere."""
    engine = make_engine()
    ours = open_installation(engine)
    engine.put_node(
        NodeDescription(name="gpu", allocatable={"cpu": 4000, "memory": 8 << 30, "pods": 10, "g": 2}, labels={})
    )
    pod = make_pod()
    pod["spec"]["containers"][0]["resources"]["limits"] = {"g": 2}
    engine.create(make_create_batch([(1, 1), (2, 1)], bag=make_bag(pod), nodes=("gpu", "node-a")), ours)
    first, second = present(engine)
    assert first.phase == PodPhase.RUNNING
    assert (second.phase, second.reason) == (PodPhase.FAILED, "OutOfg")
    assert engine.audit().used["g"] == 2
