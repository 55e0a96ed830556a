"""Handle index against a dict, backlog against a sorted list."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from argosy_core.job.tables.key_index import KeyIndex
from argosy_core.queueing import Backlog, Entries

_NUMBERS = st.integers(0, 3000)


@given(
    st.lists(st.tuples(st.booleans(), st.sets(_NUMBERS, max_size=400)), max_size=8), st.sampled_from([1, 1024, 4096])
)
def test_handle_index_equals_a_dict(steps: list[tuple[bool, set[int]]], stride: int) -> None:
    """Inserting and removing in bulk, with handles that collide."""
    index, model = KeyIndex(), {}
    for adding, numbers in steps:
        handles = np.array(sorted(number * stride for number in numbers), dtype=np.int64)
        held = np.isin(handles, np.array(list(model), dtype=np.int64))
        chosen = handles[~held] if adding else handles[held]
        if adding:
            slots = np.arange(chosen.size, dtype=np.int32) + len(model)
            index.insert(chosen, slots=slots)
            model.update(zip(chosen.tolist(), slots.tolist(), strict=True))
        else:
            index.remove(chosen)
            for handle in chosen.tolist():
                del model[handle]
        everything = np.arange(3001, dtype=np.int64) * stride
        assert index.lookup(everything).tolist() == [model.get(handle, -1) for handle in everything.tolist()]
        assert len(index) == len(model)


_JOBS = st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 9)), max_size=40)


@given(
    st.lists(
        st.tuples(
            _JOBS,
            st.lists(st.integers(0, 300), max_size=20),
            st.lists(st.integers(0, 300), max_size=5),
            st.lists(st.tuples(st.integers(0, 1), st.lists(st.booleans(), min_size=3, max_size=3)), max_size=3),
        ),
        max_size=8,
    ),
    st.integers(1, 30),
    st.sampled_from([0, 1, 2]),
)
def test_backlog_equals_a_sorted_list(
    steps: list[tuple[list[tuple[int, int]], list[int], list[int], list[tuple[int, list[bool]]]]],
    count: int,
    width: int,
) -> None:
    """Pushes, removals and moves; heads of all or some classes and positions agree with sorting what waits."""
    waiting: dict[int, tuple[int, int]] = {}

    def valid(entries: Entries) -> np.ndarray:
        pairs = zip(entries.handle.tolist(), entries.priority.tolist(), strict=True)
        return np.array([h in waiting and waiting[h][0] == priority for h, priority in pairs], dtype=np.bool_)

    def entries(handles: list[int]) -> Entries:
        rows = [waiting[handle] for handle in handles]
        return Entries(
            np.array([priority for priority, _ in rows], dtype=np.int32),
            np.array([submit for _, submit in rows], dtype=np.int64),
            np.array(handles, dtype=np.int64),
            np.array(handles, dtype=np.int32),
            np.array([keys(handle) for handle in handles], dtype=np.int64).reshape(len(handles), width)
            if width
            else None,
        )

    def keys(handle: int) -> tuple[int, ...]:
        return (handle % 5, -handle % 3)[:width]

    order = Backlog(valid, lambda slots: slots % 3)
    following = 0
    for jobs, gone, moved, looks in steps:
        fresh = list(range(following, following + len(jobs)))
        following += len(jobs)
        waiting.update(zip(fresh, jobs, strict=True))
        order.push(entries(fresh))
        for handle in gone:
            waiting.pop(handle, None)
        again = sorted({handle for handle in moved if handle in waiting})
        for handle in again:
            waiting[handle] = (waiting[handle][0] + 1, waiting[handle][1])
        order.push(entries(again))
        expected = sorted(waiting, key=lambda one: (*keys(one), -waiting[one][0], waiting[one][1], one))
        heads, all_of_them = order.heads(count)
        # Old entries of moved jobs can shorten what is answered, but never reorder it or hide that there is more.
        assert heads.tolist() == expected[: heads.size]
        assert heads.size == min(count, len(expected)) or not all_of_them
        if all_of_them:
            assert heads.size == len(expected)
        assert order.heads(10_000)[0].tolist() == expected
        for view, wanted in looks:
            some = [handle for handle in expected if wanted[handle % 3]]
            assert order.heads(10_000, np.array(wanted), view)[0].tolist() == some
            first = order.heads(count, np.array(wanted), view)[0].tolist()
            assert first == some[: len(first)]
            assert len(first) >= min(1, len(some))
        for place, handle in enumerate(expected[:3]):
            assert order.position(entries([handle])) == place
