"""Whatever is done to a simulated cluster, its books agree with its pods."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from argosy_kube.port import CreateCode, PodPhase
from argosy_kube.simulated.engine import ClusterEngine
from argosy_kube.simulated.objects import EventColumns
from argosy_kube.simulated.selection import Tables, build_events
from argosy_testkit.cluster_contract import (
    LAB_NODES,
    SeenObject,
    codes,
    make_bag,
    make_create_batch,
    make_delete_batch,
    make_pod,
    read_events,
)

START_US = 1_000_000_000_000_000
BAG = make_bag(make_pod(run_time="1s-20s", cpu="700m", memory="1Gi"))
RUNS = st.lists(st.tuples(st.integers(1, 8), st.integers(1, 3)), min_size=1, max_size=8)
NODES = st.permutations([node.name for node in LAB_NODES])


class EngineMachine(RuleBasedStateMachine):
    """Creates, deletes and lets time pass at random; watchers' view and books are checked after each step."""

    def __init__(self) -> None:
        """Start with the lab's nodes."""
        super().__init__()
        self.engine = ClusterEngine(uid="u", start_us=START_US, speed=1.0, rng=np.random.default_rng(3))
        for node in LAB_NODES:
            self.engine.put_node(node)
        self.ours = self.engine.installations.intern("one")
        self.version = self.engine.journal.history.version
        self.watched: dict[bytes, SeenObject] = {}

    def read(self, columns: EventColumns) -> list[SeenObject]:
        """Return columns spelled out."""
        engine = self.engine
        tables = Tables(
            kinds=engine.kinds.texts,
            nodes=engine.nodes.names,
            texts=engine.texts.texts,
            resources=engine.requests.axis.names,
            requests=engine.requests.matrix,
        )
        return read_events(build_events(columns, tables, installation=self.ours, version=0))

    @rule(runs=RUNS, nodes=NODES)
    def create(self, runs: list[tuple[int, int]], nodes: list[str]) -> None:
        """Create some runs; each is made or exists."""
        known = {item.run for item in self.read(self.engine.journal.present())}
        result = self.engine.create(make_create_batch(runs, bag=BAG, nodes=nodes), self.ours)
        for (handle, attempt), code in zip(runs, codes(result), strict=True):
            run = (handle, attempt, 0)
            assert code == (CreateCode.EXISTS if run in known else CreateCode.CREATED)
            known.add(run)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """Delete some pods."""
        seen = self.read(self.engine.journal.present())
        if seen:
            chosen = data.draw(st.lists(st.sampled_from(seen), max_size=4))
            self.engine.delete(make_delete_batch(*chosen))

    @rule(seconds=st.floats(0.01, 15))
    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.engine.advance(self.engine.now_us + int(seconds * 1e6))

    @invariant()
    def watchers_see_what_lists_show(self) -> None:
        """Folding the events gives the list."""
        listed = self.read(self.engine.journal.present())
        for block in self.engine.journal.history.after(self.version):
            for item in self.read(block.columns):
                if item.change == 3:
                    del self.watched[item.uid]
                else:
                    self.watched[item.uid] = item
            self.version = block.last_version
        assert {(item.uid, item.run, item.phase, item.version) for item in listed} == {
            (item.uid, item.run, item.phase, item.version) for item in self.watched.values()
        }

    @invariant()
    def books_equal_the_pods_and_no_node_is_over_full(self) -> None:
        """What is used is the sum over pods that have not ended, and never above what is allocatable."""
        expected: dict[str, int] = {}
        running = 0
        for item in self.read(self.engine.journal.present()):
            if item.phase in {PodPhase.PENDING, PodPhase.RUNNING}:
                running += item.phase == PodPhase.RUNNING
                for name, amount in (item.requests or {}).items():
                    expected[name] = expected.get(name, 0) + amount
        audit = self.engine.audit()
        assert audit.used == expected
        assert audit.pods_running == running
        assert (self.engine.nodes.free >= 0).all()


TestEngine = EngineMachine.TestCase
TestEngine.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
