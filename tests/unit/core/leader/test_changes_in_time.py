"""How old changes are when a round takes them, in virtual time: each round begins with those that can be seen then."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from tests.unit.core.leader.told import NOBODY, Told, lead, submitted

from argosy_core.leader import instructions as say
from argosy_core.leader.events import Change, ChangesRead, Event, Explained, References, Stored, Tick

WAIT_S = 0.05
_CALL_S, _READ_S, _VISIBLE_S = 0.06, 0.004, 0.03


@dataclass
class Pool:
    """A leader whose rounds take a while, with a submit call every 60 ms and reports of executors all the time.

    Args:
        jobs: Jobs of a call.
        round_s: How long a round takes, and how much longer for each job.
        reports_per_s: Reports, each of which is news.
        read_s: How long a read takes.
    """

    jobs: int
    round_s: tuple[float, float]
    reports_per_s: float
    read_s: float = _READ_S

    def __post_init__(self) -> None:
        """Take over; the next transaction waits for the one before, so that storing is what takes time."""
        settings = {"busy_s": 0.2, "store_limit": -1, "read_wait_s": WAIT_S}
        self.told: Told = lead(**settings)
        self.rows: list[tuple[Change, References]] = []
        self.begun_s: list[float] = []
        self.taken: list[tuple[float, float]] = []
        self._is_reading = False
        self._seen_s: dict[int, float] = {}
        self._numbers = itertools.count(1)
        self._order = itertools.count()
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []

    def run(self, length_s: float) -> None:
        """Let time pass."""
        end_s = self.told.now_s + length_s
        self._every(_CALL_S, self._submit)
        self._every(0.02, self._read)
        self._every(1.0 / self.reports_per_s, lambda: self._tell(Explained()))
        while self._agenda[0][0] < end_s:
            self.told.now_s, _, act = heapq.heappop(self._agenda)
            act()

    def _after(self, length_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (self.told.now_s + length_s, next(self._order), act))

    def _every(self, period_s: float, act: Callable[[], None]) -> None:
        def repeat() -> None:
            act()
            self._after(period_s, repeat)

        self._after(period_s, repeat)

    def _submit(self) -> None:
        """Accept a call, which can be seen once it is stored."""
        number = next(self._numbers)
        self._seen_s[number] = self.told.now_s + _VISIBLE_S
        read = submitted(number, *range(number * self.jobs, (number + 1) * self.jobs))
        self._after(_VISIBLE_S, lambda: self.rows.append((read.changes[0], read.references)))

    def _read(self) -> None:
        """Read what can be seen, if nobody does and the machine has room."""
        machine = self.told.machine
        if self._is_reading or not machine.budget().changes:
            return
        self._is_reading = True
        seen = [row for row in self.rows if machine.is_new(row[0].change_id)]

        def hand_in() -> None:
            self._is_reading = False
            references = seen[0][1] if seen else References()
            self._tell(ChangesRead(changes=tuple(change for change, _ in seen), references=references))

        self._after(self.read_s, hand_in)

    def _tell(self, event: Event) -> None:
        machine = self.told.machine
        earliest_s, before = machine.earliest_round_s(), machine.totals["submitted"]
        for said in self.told.tell(event):
            if isinstance(said, say.ReadChanges):
                self._after(0.0, self._read)
            if isinstance(said, say.Store):
                self._begin(said, machine.totals["submitted"] - before)
        if machine.earliest_round_s() != earliest_s:
            self.begun_s.append(self.told.now_s)
        due_s = machine.due_s()
        if due_s is not None:
            self._after(max(due_s - self.told.now_s, 1e-4), self._tick)

    def _tick(self) -> None:
        due_s = self.told.machine.due_s()
        if due_s is not None and due_s <= self.told.now_s:
            self._tell(Tick())

    def _begin(self, store: say.Store, count: int) -> None:
        """Let a round that began take its time."""
        taken = set(store.transaction.change_ids)
        self.taken += [(self._seen_s[number], self.told.now_s) for number in taken]
        self.rows = [row for row in self.rows if row[0].change_id not in taken]
        took_s = self.round_s[0] + count * self.round_s[1]
        self._after(took_s, lambda: self._tell(Stored(number=store.number, refused=NOBODY)))


WORLDS = {
    "a handful of nodes": Pool(jobs=1, round_s=(0.004, 0.0001), reports_per_s=5),
    "ordinary": Pool(jobs=10, round_s=(0.02, 0.0003), reports_per_s=40),
    "large": Pool(jobs=100, round_s=(0.06, 0.0002), reports_per_s=97),
}


@pytest.mark.parametrize("name", WORLDS)
def test_round_takes_every_change_that_can_be_seen_when_it_begins(name: str) -> None:
    """What a round misses would wait for all of it; only what comes while it reads may."""
    pool = replace(WORLDS[name])
    pool.run(2.0)
    assert len(pool.taken) > 20
    for seen_s, taken_s in pool.taken:
        assert not [begun_s for begun_s in pool.begun_s if seen_s + _READ_S + 1e-3 < begun_s < taken_s]


def test_round_does_not_wait_for_long_where_changes_cannot_be_read() -> None:
    """What runs is led on while the database hangs."""
    pool = replace(WORLDS["ordinary"], read_s=10.0)
    pool.run(2.0)
    assert len(pool.begun_s) > 10


def test_changes_that_were_just_read_are_not_read_again_before_a_round() -> None:
    """A lone job costs one read that finds it."""
    told = lead(read_wait_s=WAIT_S)
    told.pass_time(1.0)
    assert say.ReadChanges not in told.kinds()
    told.tell(submitted(1, 1))
    told.pass_time(told.settings.window_idle_s)
    assert say.ReadChanges not in told.kinds()
    assert say.Store in told.kinds()
