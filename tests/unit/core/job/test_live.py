"""Live jobs: slots, handles, interned values, memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argosy_core.job.tables.interning import ChargedTable, Layout, SpecTable, distinct
from argosy_core.job.tables.live import LiveJobs, NewJobs
from argosy_testkit.world_rows import options_of

_POD = b'[["Pod","work"]]'
_BAG = b'[["Service","front"],["Pod","one"]]'


def _jobs(live: LiveJobs, handles: np.ndarray, *, layout: bytes = _POD, unique_specs: bool = False) -> NewJobs:
    """Return new jobs with handles, all of one spec or each of its own."""
    count = handles.size
    if unique_specs:
        specs = live.specs.intern([(int(handle).to_bytes(16, "little"), 20_000, layout) for handle in handles])
    else:
        specs = np.repeat(live.specs.intern([(b"s" * 16, 20_000, layout)]), count)
    zeros = np.zeros(count, dtype=np.int32)
    return NewJobs(
        handle=handles,
        id_high=handles + 1,
        queue=zeros,
        job_set=zeros,
        class_index=zeros,
        priority=zeros,
        submit_time_us=handles,
        spec=specs,
        metadata=zeros - 1,
    )


def _handles(first: int, count: int) -> np.ndarray:
    return np.arange(first, first + count, dtype=np.int64) + (20_000 << 40)


def test_slots_are_found_by_handle_and_reused_after_removal() -> None:
    """Adding after removing takes the same places; unknown handles are -1."""
    live = LiveJobs()
    handles = _handles(0, 5000)
    slots = live.add(_jobs(live, handles))
    assert (live.slots(handles) == slots).all()
    live.remove(slots[:2000])
    assert (live.slots(handles[:2000]) == -1).all()
    assert (live.slots(handles[2000:]) == slots[2000:]).all()
    capacity = live.capacity
    more = _handles(10_000, 2000)
    again = live.add(_jobs(live, more))
    assert set(again.tolist()) == set(slots[:2000].tolist())
    assert live.capacity == capacity
    assert (live.id_high[live.slots(more)] == more + 1).all()
    assert len(live) == 5000


def test_reused_slot_has_nothing_of_its_last_job() -> None:
    """All columns start over."""
    live = LiveJobs()
    slot = live.add(_jobs(live, _handles(0, 1), layout=_BAG))
    for name in ("state", "run_state", "attempt", "failed_attempts", "flags", "start_time_us", "cluster", "node"):
        getattr(live, name)[slot] = 3
    live.begin_runs(slot, 1)
    live.remove(slot)
    again = live.add(_jobs(live, _handles(1, 1)))
    assert again.tolist() == slot.tolist()
    row = (
        live.state,
        live.run_state,
        live.attempt,
        live.failed_attempts,
        live.flags,
        live.cluster,
        live.node,
        live.bag,
    )
    assert [int(column[again[0]]) for column in row] == [1, 0, 0, 0, 0, -1, -1, -1]
    assert live.start_time_us[again[0]] == 0


@pytest.mark.parametrize("unique_specs", [False, True], ids=["shared-specs", "unique-specs"])
def test_a_live_job_costs_at_most_400_bytes(*, unique_specs: bool) -> None:
    """Columns, handle index and spec references included."""
    import tracemalloc

    count = 100_000
    tracemalloc.start()
    try:
        live = LiveJobs()
        before = tracemalloc.get_traced_memory()[0]
        for start in range(0, count, 10_000):
            live.add(_jobs(live, _handles(start, 10_000), unique_specs=unique_specs))
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert used / count <= 400
    assert live.nbytes / count <= 200


def test_values_are_forgotten_with_their_last_job() -> None:
    """Reference counts, in bulk."""
    live = LiveJobs()
    slots = live.add(_jobs(live, _handles(0, 10), unique_specs=True))
    live.remove(slots[:4])
    assert len(live.specs) == 6
    live.remove(slots[4:])
    assert len(live.specs) == 0


def test_spec_reference_gives_back_what_was_interned() -> None:
    """Hash, day and layout; the same spec has one index."""
    table = SpecTable()
    first = table.intern([(b"a" * 16, 7, _POD), (b"b" * 16, 7, _BAG), (b"a" * 16, 8, _POD), (b"a" * 16, 7, _POD)])
    assert first[0] == first[3]
    assert len(set(first.tolist())) == 3
    assert table.reference(int(first[1])) == (b"b" * 16, 7, _BAG)
    assert table.object_counts(first).tolist() == [1, 2, 1, 1]
    assert table.pod_counts(first).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"[]", id="no-pod"),
        pytest.param(b'[["Service","a"]]', id="only-a-service"),
        pytest.param(b'[["Pod","a"],["Service","b"]]', id="pod-not-last"),
    ],
)
def test_layout_without_its_pods_last_is_refused(text: bytes) -> None:
    """The scheduler counts pods from the end."""
    with pytest.raises(ValueError, match="layout"):
        Layout.parse(text)


def test_distinct_keeps_the_order_of_first_appearance() -> None:
    """Both ends of a stream touch their caches in this order."""
    values, which = distinct(np.array([7, 3, 7, 9, 3], dtype=np.int64))
    assert values.tolist() == [7, 3, 9]
    assert which.tolist() == [0, 1, 0, 2, 1]


@pytest.mark.parametrize("step", [1, 1 << 40], ids=["close together", "far apart"])
@pytest.mark.parametrize("count", [0, 5, 64, 65, 1000])
def test_distinct_values_come_in_order_of_first_appearance_however_many(count: int, step: int) -> None:
    """Few values, many that lie close together and many that do not are worked off in three ways, which agree."""
    values = (np.random.default_rng(count).integers(-20, 20, count) * step).astype(np.int64)
    found, which = distinct(values)
    assert found.tolist() == list(dict.fromkeys(values.tolist()))
    assert found[which].tolist() == values.tolist()


def test_durations_are_kept_per_job_and_none_is_left_to_the_next() -> None:
    """A job of which nothing is said has -1 everywhere, also in the slot of one that had options."""
    live = LiveJobs()
    slots = live.add(replace(_jobs(live, _handles(0, 2)), options=options_of((0, 60, 30), (-1, -1, 5))))
    assert live.lifetime_s[slots].tolist() == [0, -1]
    assert live.time_limit_s[slots].tolist() == [60, -1]
    assert live.estimate_s[slots].tolist() == [30, 5]
    live.remove(slots)
    again = live.add(_jobs(live, _handles(2, 2)))
    assert sorted(again.tolist()) == sorted(slots.tolist())
    for column in (live.lifetime_s, live.time_limit_s, live.estimate_s):
        assert column[again].tolist() == [-1, -1]


def test_a_value_counts_for_whoever_brings_it_first_while_anybody_refers_to_it() -> None:
    """Owners have room apart from each other; what was held before any bound is not refused."""
    table = ChargedTable()
    a, b, c = table.intern([b"a" * 6, b"b" * 6, b"c" * 6]).tolist()
    values = np.array([a, -1, b, c, a], dtype=np.int32)
    owners = np.array([1, 1, 1, 2, 2], dtype=np.int32)
    refused = table.charge(values, owners, 10)
    assert refused.tolist() == [False, False, True, False, False]
    assert (table.bytes_of(1), table.bytes_of(2)) == (6, 6)
    table.acquire(values[~refused])
    table.forget_unused(np.array([b], dtype=np.int32))
    table.release(np.array([a], dtype=np.int32))
    assert table.bytes_of(1) == 6, "the second owner's job has it, too"
    table.release(np.array([a], dtype=np.int32))
    assert (table.bytes_of(1), len(table)) == (0, 1)
    assert not table.charge(table.intern([b"d" * 60]), np.array([1], dtype=np.int32), None).any()
    assert table.bytes_of(1) == 60
