"""The ledger against a plain model, under random sequences of everything that can happen to it."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from argosy_core.job.reading.classes import HostPort, SchedulingClass
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger, PodEvents
from argosy_core.nodes import NodeSpec
from argosy_core.placement import commit

CLASSES = {1: {"cpu": 1}, 2: {"cpu": 2, "memory": 1}, 3: {"example.com/gpu": 1}}
RESOURCES = ("cpu", "memory", "pods", "example.com/gpu")
PORT = HostPort("UDP", 53)

handles = st.integers(1, 12)
rows = st.integers(0, 3)
class_ids = st.sampled_from(sorted(CLASSES))


def first_runs(handles: list[int]) -> Members:
    """The first run of each job."""
    return Members.of(handles, [1] * len(handles))


def vector(class_id: int) -> tuple[int, ...]:
    """Request of a class in the order of RESOURCES."""
    return tuple({**CLASSES[class_id], "pods": 1}.get(name, 0) for name in RESOURCES)


class Pod:
    """A placement as the model sees it."""

    def __init__(self, node: int, asked: tuple[int, ...], least: tuple[int, ...] = (0,) * len(RESOURCES)) -> None:
        """Who holds it is set by the caller; it takes no less than its class asks for, if that is known."""
        self.node, self.asked, self.least = node, asked, least
        self.leader, self.uid = False, 0

    def ask(self, asked: tuple[int, ...]) -> None:
        """Take what is asked for, but no less than the class says."""
        self.asked = tuple(max(pair) for pair in zip(asked, self.least, strict=True))


class LedgerMachine(RuleBasedStateMachine):
    """Every operation on both, compared after each step."""

    @initialize(cpu=st.lists(st.integers(1, 6), min_size=4, max_size=4))
    def start(self, cpu: list[int]) -> None:
        """Four nodes; three classes, one of which names a resource of its own."""
        self.ledger = NodeLedger()
        self.nodes: dict[int, dict[str, int]] = {}
        self.pods: dict[int, Pod] = {}
        self.ended: set[int] = set()
        self.listed = False
        for class_id, request in CLASSES.items():
            ports = (PORT,) if class_id == 3 else ()
            definition = SchedulingClass(requests=tuple(sorted(request.items())), host_ports=ports)
            self.ledger.define_class(class_id, definition)
        for row, cores in enumerate(cpu):
            self.put(row, cores, 0)

    @rule(row=rows, cpu=st.integers(0, 8), system=st.integers(0, 2))
    def put(self, row: int, cpu: int, system: int) -> None:
        """A node comes, comes back, or changes its size."""
        total = {"cpu": cpu, "memory": 3, "pods": 5, "example.com/gpu": cpu % 2}
        self.ledger.put_nodes([NodeSpec(name=f"n{row}", total=total, system={"cpu": system})])
        self.nodes[row] = {**total, "cpu": cpu - system}

    @rule(row=rows)
    def remove(self, row: int) -> None:
        """A node goes; its placements stay."""
        self.ledger.remove_nodes([f"n{row}"])
        self.nodes[row] = dict.fromkeys(RESOURCES, 0)

    @rule(runs=st.lists(st.tuples(handles, class_ids, st.lists(rows, min_size=1, max_size=3)), max_size=6))
    def commit(self, runs: list[tuple[int, int, list[int]]]) -> None:
        """The leader commits; whatever is placed was free."""
        before = {row: self.free(row) for row in self.nodes}
        nodes, _ = commit(
            self.ledger,
            first_runs([handle for handle, _, _ in runs]),
            class_ids=np.array([class_id for _, class_id, _ in runs], np.int32),
            offsets=np.cumsum([0, *(len(candidates) for _, _, candidates in runs)]).astype(np.int32),
            candidates=np.array([node for _, _, candidates in runs for node in candidates], np.int32),
        )
        for (handle, class_id, _), node in zip(runs, nodes.tolist(), strict=True):
            if node >= 0:
                pod = self.pods.setdefault(handle, Pod(node, vector(class_id), vector(class_id)))
                assert pod.node == node
                pod.leader = True
        for row, left in before.items():
            # Over-commitment: no kept commit takes anything below zero, or further below.
            assert all(now >= 0 or now == was for now, was in zip(self.free(row), left, strict=True))

    @rule(released=st.lists(handles, max_size=5))
    def release(self, released: list[int]) -> None:
        """The leader lets go; pods that are there stay."""
        self.ledger.release(first_runs(released))
        for handle in released:
            self.let_go(handle)
            self.ended.discard(handle)

    @rule(
        seen=st.lists(
            st.tuples(st.one_of(handles, st.just(0)), st.integers(1, 3), st.integers(-1, 3), st.booleans(), class_ids),
            max_size=8,
        ),
        everything=st.booleans(),
    )
    def observe(self, *, seen: list[tuple[int, int, int, bool, int]], everything: bool) -> None:
        """Pods are seen, of runs and of unmanaged pods, live and ended, several times in a batch."""
        uids = np.zeros((len(seen), 16), np.uint8)
        uids[:, 0] = [uid for _, uid, _, _, _ in seen]
        uids[:, 1] = [handle for handle, _, _, _, _ in seen]
        events = PodEvents(
            members=Members.of([row[0] for row in seen], [min(row[0], 1) for row in seen]),
            uids=uids,
            nodes=np.array([node for _, _, node, _, _ in seen], np.int32),
            ended=np.array([ended for _, _, _, ended, _ in seen], np.bool_),
            requests=self.requests([class_id for _, _, _, _, class_id in seen]),
        )
        (self.ledger.observe_all if everything else self.ledger.observe)(events)
        named = set()
        for handle, uid, node, ended, class_id in seen:
            key = handle or -uid
            if not ended:
                named.add(key)
            self.see(key, uid, node, vector(class_id), ended=ended)
        if everything:
            for key in [key for key, pod in self.pods.items() if pod.uid and key not in named]:
                self.end(key)

    @rule(runs=st.dictionaries(handles, st.tuples(class_ids, rows), max_size=6))
    def take_list(self, runs: dict[int, tuple[int, int]]) -> None:
        """A new leader says what it knows."""
        keys = list(runs)
        self.ledger.take_list(
            first_runs(keys),
            np.array([class_id for class_id, _ in runs.values()], np.int32),
            np.array([row for _, row in runs.values()], np.int32),
        )
        self.listed = True
        self.ended &= set(keys)
        for key in [key for key in self.pods if key > 0 and key not in keys]:
            self.let_go(key)
        for key, (class_id, row) in zip(keys, runs.values(), strict=True):
            if key in self.pods:
                pod = self.pods[key]
                pod.least = vector(class_id)
                if not pod.uid:
                    pod.node, pod.asked = row, vector(class_id)
                pod.ask(pod.asked)
            elif key not in self.ended:
                self.pods[key] = Pod(row, vector(class_id), vector(class_id))
            if key in self.pods:
                self.pods[key].leader = True

    @invariant()
    def books_agree(self) -> None:
        """What is free is what the model leaves, and the ledger's own check holds."""
        if not hasattr(self, "ledger"):
            return
        self.ledger.check_invariants()
        order = [self.ledger.axis.names.index(name) for name in RESOURCES]
        assert {row: tuple(self.ledger.nodes.free[order, row].tolist()) for row in self.nodes} == {
            row: self.free(row) for row in self.nodes
        }
        assert len(self.ledger._observer.ended[0]) == len(self.ended)
        assert self.ledger._observer.ended[0].has(first_runs(sorted(self.ended))).all()
        keys = sorted(key for key in self.pods if key > 0)
        assert self.ledger.nodes_of(first_runs(keys)).tolist() == [self.pods[key].node for key in keys]

    def teardown(self) -> None:
        """Nothing leaks: once all is released and ended, everything allocatable is free."""
        if not hasattr(self, "ledger"):
            return
        self.ledger.release(first_runs(list(range(1, 20))))
        nothing = np.zeros(0, np.int64)
        self.ledger.observe_all(
            PodEvents(
                members=first_runs([]), uids=np.zeros((0, 16), np.uint8), nodes=nothing.astype(np.int32),
                ended=nothing.astype(np.bool_), requests=self.requests([]),
            )
        )  # fmt: skip
        self.ledger.check_invariants()
        assert (self.ledger.nodes.free == self.ledger.nodes.allocatable).all()
        assert self.ledger.placement_count == 0

    # --- the model ----------------------------------------------------------------------------------------------------

    def requests(self, ids: list[int]) -> np.ndarray:
        """Requests of pods, (n, resource) in the ledger's order."""
        names = self.ledger.axis.names
        table = [[{**CLASSES[class_id], "pods": 1}.get(name, 0) for name in names] for class_id in ids]
        return np.array(table, np.int64).reshape(len(ids), len(names))

    def free(self, row: int) -> tuple[int, ...]:
        """What the model says is free of each resource."""
        taken = [pod.asked for pod in self.pods.values() if pod.node == row]
        return tuple(
            self.nodes[row][name] - sum(asked[column] for asked in taken) for column, name in enumerate(RESOURCES)
        )

    def let_go(self, key: int) -> None:
        """The leader's hold ends."""
        if key in self.pods:
            self.pods[key].leader = False
            if not self.pods[key].uid:
                del self.pods[key]

    def end(self, key: int) -> None:
        """The pod ended, whoever holds the placement."""
        if self.pods.pop(key).leader:
            self.ended.add(key)

    def see(self, key: int, uid: int, node: int, asked: tuple[int, ...], *, ended: bool) -> None:
        """One pod as the cluster shows it."""
        pod = self.pods.get(key)
        if ended:
            if pod and pod.uid in {0, uid}:
                self.end(key)
            elif not pod and key > 0 and not self.listed:
                self.ended.add(key)
        elif node >= 0:
            if not pod:
                pod = self.pods[key] = Pod(node, asked)
                self.ended.discard(key)
            pod.node, pod.uid = node, uid
            pod.ask(asked)


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(deadline=None, max_examples=50, stateful_step_count=16)
