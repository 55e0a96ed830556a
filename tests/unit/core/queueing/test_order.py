"""Order of a queue's waiting jobs."""

from collections.abc import Callable
from copy import deepcopy

import numpy as np
import pytest

from argosy_core.queueing import Backlog, Entries, heads_of_all


class _Jobs:
    """Waiting jobs by handle; a slot is the handle."""

    def __init__(self, keys: Callable[[int], list[int]] | None = None) -> None:
        self.priority: dict[int, int] = {}
        self.keys = keys

    def class_of(self, slots: np.ndarray) -> np.ndarray:
        """Every third job is of class 1, the others of class 0."""
        return (slots % 3 == 0).astype(np.int32)

    def valid(self, entries: Entries) -> np.ndarray:
        pairs = zip(entries.handle.tolist(), entries.priority.tolist(), strict=True)
        return np.array([self.priority.get(handle) == priority for handle, priority in pairs], dtype=np.bool_)

    def add(self, order: Backlog, *rows: tuple[int, int, int]) -> None:
        """Add (handle, priority, submit time)."""
        self.priority.update({handle: priority for handle, priority, _ in rows})
        order.push(self.entries(*rows))

    def entries(self, *rows: tuple[int, int, int]) -> Entries:
        """Return entries of (handle, priority, submit time) with the keys of plugins, if there are any."""
        handle, priority, submit = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
        keys = np.array([self.keys(one) for one in handle.tolist()], dtype=np.int64) if self.keys else None
        return Entries(priority.astype(np.int32), submit, handle, handle.astype(np.int32), keys)


def _all(order: Backlog) -> list[int]:
    return order.heads(1000)[0].tolist()


@pytest.fixture(params=["no plugins", "plugins without an opinion"])
def jobs(request: pytest.FixtureRequest) -> _Jobs:
    """Jobs whose keys decide nothing."""
    return _Jobs() if request.param == "no plugins" else _Jobs(lambda _: [7, 7])


def test_heads_are_by_priority_then_submit_time_then_handle(jobs: _Jobs) -> None:
    """Higher priority first, then submit order; equal times go by handle."""
    order = Backlog(jobs.valid, jobs.class_of)
    jobs.add(order, (1, 0, 50), (2, 5, 90), (3, -2, 10))
    jobs.add(order, (5, 0, 20), (4, 0, 20), (6, -(2**31), 0), (7, 2**31 - 1, 99))
    assert _all(order) == [7, 2, 4, 5, 1, 3, 6]


def test_heads_pass_over_jobs_that_no_longer_wait(jobs: _Jobs) -> None:
    """Cancelled jobs are removed lazily."""
    order = Backlog(jobs.valid, jobs.class_of)
    jobs.add(order, *[(handle, 0, handle) for handle in range(1, 200)])
    for handle in range(1, 150):
        del jobs.priority[handle]
    slots, all_of_them = order.heads(3)
    assert slots.tolist() == [150, 151, 152]
    assert not all_of_them
    assert order.heads(50)[1]


def test_reprioritised_job_stands_once_at_its_new_place(jobs: _Jobs) -> None:
    """A job that moves and moves back is not there twice."""
    order = Backlog(jobs.valid, jobs.class_of)
    jobs.add(order, (1, 0, 1), (2, 0, 2), (3, 0, 3))
    jobs.add(order, (3, 9, 3))
    assert _all(order) == [3, 1, 2]
    jobs.add(order, (3, 0, 3))
    assert _all(order) == [1, 2, 3]


def test_position_counts_waiting_jobs_before_one(jobs: _Jobs) -> None:
    """Jobs that left, and old entries of jobs that moved, do not count."""
    order = Backlog(jobs.valid, jobs.class_of)
    jobs.add(order, *[(handle, 0, handle) for handle in range(1, 11)])
    jobs.add(order, (9, 4, 9))
    del jobs.priority[2]
    assert order.position(jobs.entries((5, 0, 5))) == 4  # 9, 1, 3, 4


def test_keys_of_plugins_decide_before_the_default_order() -> None:
    """The first key that differs decides, then the next, then priority and submit order; a position counts so, too."""
    jobs = _Jobs(lambda handle: [handle % 2, int(handle > 4)])
    order = Backlog(jobs.valid, jobs.class_of)
    for handles in ((8, 1, 5), (2, 7, 3), (6, 4)):  # runs of several lengths, merged and appended to
        jobs.add(order, *[(handle, handle, 0) for handle in handles])
    assert _all(order) == [4, 2, 8, 6, 3, 1, 7, 5]
    assert [order.position(jobs.entries((handle, handle, 0))) for handle in _all(order)] == list(range(8))


def test_job_of_which_a_plugin_changed_its_mind_stands_once() -> None:
    """An entry with another key does not make it two jobs."""
    minds = [3, 1]
    jobs = _Jobs(lambda handle: [minds.pop(0) if handle == 1 else 2])
    order = Backlog(jobs.valid, jobs.class_of)
    jobs.add(order, (1, 0, 0), (2, 0, 0))
    assert _all(order) == [2, 1]
    jobs.add(order, (1, 0, 0))
    assert _all(order) == [1, 2]


def test_backlog_of_mostly_ordered_jobs_stays_in_few_runs_and_bounded_memory() -> None:
    """Appending costs no merge, and what left is swept out in time."""
    jobs = _Jobs()
    order = Backlog(jobs.valid, jobs.class_of)
    for start in range(0, 60_000, 100):
        jobs.priority = dict.fromkeys(range(start + 1, start + 101), 0)
        order.push(_Jobs().entries(*[(handle, 0, handle) for handle in range(start + 1, start + 101)]))
    assert order.entry_count < 10_000
    assert _all(order) == list(range(59_901, 60_001))


def test_jobs_of_other_classes_are_passed_over_without_being_looked_at_again() -> None:
    """A long stretch of jobs that cannot run costs one look, until their class is wanted."""
    looked: list[int] = []

    def valid(entries: Entries) -> np.ndarray:
        looked.append(len(entries))
        return np.ones(len(entries), dtype=np.bool_)

    order = Backlog(valid, lambda slots: (slots >= 50_000).astype(np.int32))
    handles = np.arange(50_010)
    order.push(Entries(np.zeros(50_010, np.int32), handles, handles, handles.astype(np.int32)))
    only_one = np.array([False, True])
    assert order.heads(3, only_one)[0].tolist() == [50_000, 50_001, 50_002]
    looked.clear()
    assert order.heads(3, only_one)[0].tolist() == [50_000, 50_001, 50_002]
    assert sum(looked) <= 10
    assert order.heads(2, np.array([True, True]))[0].tolist() == [0, 1]
    assert order.heads(2, only_one)[0].tolist() == [50_000, 50_001]
    order.look_again(0)
    assert order.heads(2, only_one)[0].tolist() == [50_000, 50_001]


@pytest.mark.parametrize("seed", range(20))
def test_orders_looked_at_together_have_the_heads_that_each_has_alone(jobs: _Jobs, seed: int) -> None:
    """Whatever stands in front, counts no more, stands twice, or is spread over several runs."""
    rng = np.random.default_rng(seed)
    orders = [Backlog(jobs.valid, jobs.class_of) for _ in range(5)]
    for handle in range(1, 1000):
        order = orders[handle * handle % 5]
        jobs.add(order, (handle, int(rng.integers(2)) * (seed % 4 // 2), handle))
        if seed % 2 and rng.random() < 0.01:
            jobs.add(order, (handle, jobs.priority[handle], handle))
    for count in (1, 3, 100, 1000):
        for handle in [*range(1, int(rng.integers(2, 400))), *rng.integers(1, 1000, 20).tolist()]:
            jobs.priority.pop(handle, None)
        alone = [order.heads(count) for order in deepcopy(orders, {id(jobs): jobs})]
        together = heads_of_all(orders, count)
        assert [(slots.tolist(), is_all) for slots, is_all in together] == [
            (slots.tolist(), is_all) for slots, is_all in alone
        ]
