"""The decision phase never gives away more than was sampled, and gives to all it can."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy_core.placement import CandidatePool, DecisionProfile, decide

REQUESTS = np.array([[1, 0], [2, 1], [3, 0]], np.int64)


class Reply:
    """A sampler's answer to classes 0, 1, 2."""

    def __init__(self, free: list[tuple[int, int]], candidates: list[list[tuple[int, int]]]) -> None:
        """Free amounts per node, and per class its (node, score) candidates."""
        flat = [(node, score) for pairs in candidates for node, score in pairs]
        self.node = np.arange(100, 100 + len(free), dtype=np.int32)
        self.free = np.array(free, np.int64)
        self.offset = np.cumsum([0, *(len(pairs) for pairs in candidates)]).astype(np.int32)
        self.candidate = np.array([node for node, _ in flat], np.int32)
        self.score = np.array([score for _, score in flat], np.float32)
        self.total_free = self.free.sum(axis=0)


replies = st.builds(
    Reply,
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=5, max_size=5),
    st.lists(
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 100)), max_size=5, unique_by=lambda pair: pair[0]),
        min_size=3,
        max_size=3,
    ),
)


@settings(deadline=None, max_examples=200)
@given(
    answers=st.lists(replies, max_size=3),
    pending=st.lists(st.integers(0, 3), max_size=15),
    m=st.integers(1, 4),
    spread=st.booleans(),
)
def test_candidates_fit_what_earlier_runs_left(
    *, answers: list[Reply], pending: list[int], m: int, spread: bool
) -> None:
    """Walking in order: every candidate bears its run, first choices add up, and none is given only if none fits.

    Further candidates are distinct and bear their run behind all first choices; fewer than m only if no more do.
    """
    pool = CandidatePool(np.arange(3, dtype=np.int32), REQUESTS, DecisionProfile(spread=spread))
    for cluster, reply in enumerate(answers):
        pool.add(cluster, np.arange(3, dtype=np.int32), reply)
    decision = decide(pool, np.array(pending, np.int32), m, np.random.default_rng(0))
    left = {(cluster, int(node)): row.copy() for cluster, reply in enumerate(answers)
            for node, row in zip(reply.node, reply.free, strict=True)}  # fmt: skip
    offered: dict[int, set[tuple[int, int]]] = {class_id: set() for class_id in range(4)}
    for cluster, reply in enumerate(answers):
        for class_id in range(3):
            for place in reply.candidate[reply.offset[class_id] : reply.offset[class_id + 1]].tolist():
                offered[class_id].add((cluster, int(reply.node[place])))
    placed: list[tuple[list[tuple[int, int]], int]] = []
    for position, class_id in enumerate(pending):
        part = slice(decision.offset[position], decision.offset[position + 1])
        got = list(zip(decision.cluster[part].tolist(), decision.node[part].tolist(), strict=True))
        request = REQUESTS[class_id] if class_id < 3 else np.zeros(2, np.int64)
        fitting = {entry for entry in offered[class_id] if (left[entry] >= request).all()}
        assert set(got[:1]) <= fitting
        assert bool(got) == bool(fitting)
        if got:
            left[got[0]] -= request
            placed.append((got, class_id))
    for got, class_id in placed:
        spare = {entry for entry in offered[class_id] if (left[entry] >= REQUESTS[class_id]).all()} - {got[0]}
        assert set(got[1:]) <= spare
        assert len(set(got)) == len(got) == min(m, 1 + len(spare))
