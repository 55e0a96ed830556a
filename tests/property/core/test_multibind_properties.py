"""MultiBind places runs together exactly as one by one, in order."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy_core.job.reading.classes import HostPort, SchedulingClass
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeSpec
from argosy_core.placement import CommitOutcome, commit

NODE_COUNT = 4
CLASSES = ((1, 0, False), (2, 1, False), (3, 0, False), (0, 2, False), (1, 1, True))
"""(cpu, memory, takes port 80) by class id."""
MOSTLY = st.sampled_from([0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, len(CLASSES)])
"""Class ids; the last is not defined."""

worlds = st.fixed_dictionaries(
    {
        "nodes": st.lists(
            st.tuples(st.integers(0, 5), st.integers(-1, 4), st.sampled_from([True, True, True, False])),
            min_size=NODE_COUNT,
            max_size=NODE_COUNT,
        ),
        "commits": st.lists(
            st.lists(
                st.tuples(
                    # Repeats happen, but seldom, because they switch placing together off.
                    st.integers(1, 400),
                    MOSTLY,
                    st.lists(st.sampled_from([0, 0, 1, 1, 2, 2, 3, -1, NODE_COUNT]), max_size=4),
                ),
                max_size=10,
            ),
            min_size=1,
            max_size=3,
        ),
    }
)


class OneByOne:
    """The plain meaning of MultiBind: dictionaries and a loop."""

    def __init__(self, nodes: list[tuple[int, int, bool]]) -> None:
        """Nodes as (cpu, memory, usable)."""
        self.free = [[cpu, memory, 4] for cpu, memory, _ in nodes]
        self.usable = [usable for _, _, usable in nodes]
        self.ports: set[int] = set()
        self.placed: dict[int, int] = {}

    def commit(self, run: int, class_id: int, candidates: list[int]) -> tuple[int, int]:
        """Place one run: (node, outcome)."""
        if run in self.placed:
            return self.placed[run], CommitOutcome.PLACED
        if class_id >= len(CLASSES):
            return -1, CommitOutcome.UNKNOWN_CLASS
        cpu, memory, port = CLASSES[class_id]
        usable = [node for node in candidates if 0 <= node < NODE_COUNT and self.usable[node]]
        for node in usable:
            asked = (cpu, memory, 1)
            fits = all(left >= want for left, want in zip(self.free[node], asked, strict=True) if want)
            if fits and not (port and node in self.ports):
                self.free[node] = [left - want for left, want in zip(self.free[node], asked, strict=True)]
                self.ports |= {node} if port else set()
                self.placed[run] = node
                return node, CommitOutcome.PLACED
        return -1, CommitOutcome.NODE_UNAVAILABLE if candidates and not usable else CommitOutcome.CONFLICT


@settings(deadline=None, max_examples=300)
@given(world=worlds)
def test_commit_equals_one_by_one_in_order(world: dict[str, list]) -> None:
    """Same nodes, same outcomes, same room left, whatever the contention, repeats, ports and unusable nodes."""
    ledger, oracle = NodeLedger(), OneByOne(world["nodes"])
    ledger.put_nodes(
        [
            NodeSpec(
                name=f"n{i}", total={"cpu": cpu, "memory": 10, "pods": 4}, system={"memory": 10 - mem}, ready=ready
            )
            for i, (cpu, mem, ready) in enumerate(world["nodes"])
        ]
    )
    for class_id, (cpu, memory, port) in enumerate(CLASSES):
        requests = tuple((name, amount) for name, amount in (("cpu", cpu), ("memory", memory)) if amount)
        ports = (HostPort("TCP", 80),) if port else ()
        ledger.define_class(class_id, SchedulingClass(requests=requests, host_ports=ports))
    before = ledger.nodes.free.copy()
    for runs in world["commits"]:
        nodes, outcomes = commit(
            ledger,
            Members.of([run for run, _, _ in runs], np.ones(len(runs))),
            class_ids=np.array([class_id for _, class_id, _ in runs], np.int32),
            offsets=np.cumsum([0, *(len(candidates) for _, _, candidates in runs)]).astype(np.int32),
            candidates=np.array([node for _, _, candidates in runs for node in candidates], np.int32),
        )
        expected = [oracle.commit(run, class_id, candidates) for run, class_id, candidates in runs]
        assert list(zip(nodes.tolist(), outcomes.tolist(), strict=True)) == expected
        assert ledger.nodes.free.T.tolist() == oracle.free
        ledger.check_invariants()
    # Invariant 8: what a commit took never went below zero.
    taken = ledger.nodes.free < before
    assert (ledger.nodes.free[taken] >= 0).all()
