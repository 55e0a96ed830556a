"""Order of the jobs of one queue: keys of plugins if there are any, then higher priority first, then submit order.

A backlog is a handful of sorted runs of entries, merged when they are of like size, so that mostly ordered arrays are
appended and anything else costs O(log n) amortised per job. Nothing is deleted from the middle: an entry counts only
while the job it names still waits with the priority the entry was made with, which the owner's `valid` function says.

Heads may be asked for of some classes only. What stands before the first of them is remembered together with its
classes, and passed over at no cost until one of these classes is wanted again: so jobs that cannot run keep their
places without being looked at again and again.

Source: 003 "Scheduler architecture" (jobs within each queue are ordered by priority); 002 "Scheduling queue sort";
design section 6, "order in a queue".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, true_places

__all__ = ["Backlog", "Entries", "heads_of_all"]

_SWEEP_SLACK: Final = 4096
_FEWEST_LOOKED_AT: Final = 128
"""Entries that are looked at together, at least: fewer cost as much."""
_LEAST_SPARE: Final = 32
"""Places that are kept free behind a run, at least: queues of a few jobs would be copied at every other push."""
_NO_CLASSES: Final = np.zeros(0, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class Entries:
    """Waiting jobs as columns."""

    priority: npt.NDArray[np.int32]
    """Priorities when the entries were made."""
    submit_time_us: npt.NDArray[np.int64]
    """Acceptance, microseconds since the Unix epoch."""
    handle: npt.NDArray[np.int64]
    """Job handles."""
    slot: npt.NDArray[np.int32]
    """Slots."""
    keys: npt.NDArray[np.int64] | None = None
    """(n, k) keys that plugins sort by, smaller first and the first column most important; None without plugins."""

    def __len__(self) -> int:
        """Return the number of entries."""
        return int(self.handle.size)

    def take(self, rows: npt.NDArray[np.integer] | npt.NDArray[np.bool_] | slice) -> Entries:
        """Return some of the entries."""
        keys = self.keys[rows] if self.keys is not None else None
        return Entries(self.priority[rows], self.submit_time_us[rows], self.handle[rows], self.slot[rows], keys)

    def sorted(self) -> Entries:
        """Return the entries in queue order; those that are in order already are not copied."""
        if len(self) < 2:
            return self
        priority, submit, handle = self.priority, self.submit_time_us, self.handle
        if self.keys is not None:
            return self.take(np.lexsort((handle, submit, ~priority, *self.keys.T[::-1])))
        later = submit[1:] - submit[:-1]
        same = priority[1:] == priority[:-1]
        if same.all() and ((later > 0) | ((later == 0) & (handle[1:] >= handle[:-1]))).all():
            return self
        # ~p falls as p rises and, unlike -p, exists for every int32.
        return self.take(np.lexsort((handle, submit, ~priority)))

    def grouped(self, groups: npt.NDArray[np.integer]) -> tuple[Entries, npt.NDArray[np.intp]]:
        """Return the entries by ascending group, each group in queue order, and where each of them stood."""
        keys = () if self.keys is None else self.keys.T[::-1]
        places = np.lexsort((self.handle, self.submit_time_us, ~self.priority, *keys, groups))
        return self.take(places), places

    def key(self, row: int) -> tuple[int, ...]:
        """Return the sort key of one entry."""
        first = self.keys[row].tolist() if self.keys is not None else ()
        return *first, ~int(self.priority[row]), int(self.submit_time_us[row]), int(self.handle[row])

    @staticmethod
    def join(parts: Sequence[Entries]) -> Entries:
        """Return several columns in one."""
        keys = [part.keys for part in parts if part.keys is not None]
        return Entries(
            np.concatenate([part.priority for part in parts]),
            np.concatenate([part.submit_time_us for part in parts]),
            np.concatenate([part.handle for part in parts]),
            np.concatenate([part.slot for part in parts]),
            np.concatenate(keys) if keys else None,
        )


Valid = Callable[[Entries], npt.NDArray[np.bool_]]
"""Says which entries still stand for a job that waits with that priority."""
ClassOf = Callable[[npt.NDArray[np.int32]], npt.NDArray[np.int32]]
"""Returns the class index of slots."""
Wanted = npt.NDArray[np.bool_] | None
"""By class index, which classes are asked for; None for all."""


class _Run:
    """A sorted run that can grow at its end and shrink at its head."""

    __slots__ = ("_entries", "_length", "_skipped_classes", "_skipped_to", "head")

    def __init__(self, entries: Entries) -> None:
        """Take over sorted entries."""
        self._entries = entries
        self._length = len(entries)
        self._skipped_to = [0, 0]
        self._skipped_classes = [_NO_CLASSES, _NO_CLASSES]
        self.head = 0

    def __len__(self) -> int:
        return self._length - self.head

    def window(self, count: int, begin: int = 0) -> Entries:
        """Return `count` entries from the first but `begin`, as views."""
        start = self.head + begin
        return self._entries.take(slice(start, min(start + count, self._length)))

    def skipped(self, view: int, wanted: npt.NDArray[np.bool_]) -> int:
        """Return how many entries from the head on are none of the wanted classes, as far as is remembered."""
        if self._skipped_to[view] <= self.head:
            self._skipped_classes[view] = _NO_CLASSES
            return 0
        if has_true(wanted[self._skipped_classes[view]]):
            self.look_again(view)
            return 0
        return self._skipped_to[view] - self.head

    def skip(self, view: int, count: int, classes: npt.NDArray[np.int32]) -> None:
        """Remember that the first `count` entries from the head on are of these classes only, or count no more."""
        self._skipped_to[view] = self.head + count
        self._skipped_classes[view] = np.unique(np.concatenate([self._skipped_classes[view], classes]))

    def look_again(self, view: int) -> None:
        """Forget what may be passed over."""
        self._skipped_to[view], self._skipped_classes[view] = 0, _NO_CLASSES

    def last_key(self) -> tuple[int, ...]:
        """Return the sort key of the last entry: what does not come before it may simply follow."""
        return self._entries.key(self._length - 1)

    def append(self, entries: Entries) -> None:
        """Add sorted entries behind the last; amortised O(n)."""
        end = self._length + len(entries)
        if end > len(self._entries):
            kept = self.window(len(self))
            room = max((len(kept) + len(entries)) // 2, _LEAST_SPARE)
            spare = Entries(
                np.zeros(room, dtype=np.int32),
                np.zeros(room, dtype=np.int64),
                np.zeros(room, dtype=np.int64),
                np.zeros(room, dtype=np.int32),
                np.zeros((room, kept.keys.shape[1]), dtype=np.int64) if kept.keys is not None else None,
            )
            self._skipped_to = [end - self.head for end in self._skipped_to]
            self._length, self.head = len(kept) + len(entries), 0
            self._entries = Entries.join([kept, entries, spare])
            return
        place = slice(self._length, end)
        self._entries.priority[place] = entries.priority
        self._entries.submit_time_us[place] = entries.submit_time_us
        self._entries.handle[place] = entries.handle
        self._entries.slot[place] = entries.slot
        if self._entries.keys is not None and entries.keys is not None:
            self._entries.keys[place] = entries.keys
        self._length = end


class Backlog:
    """The one order: keys of plugins, then priority, then submit time, then handle."""

    def __init__(self, valid: Valid, class_of: ClassOf) -> None:
        """Start empty.

        Args:
            valid: Says which entries still count.
            class_of: Says of what class the jobs of slots are.
        """
        self.valid = valid
        """Says which entries still count."""
        self._class_of = class_of
        self._runs: list[_Run] = []
        self._sweep_at = _SWEEP_SLACK

    @property
    def entry_count(self) -> int:
        """Return the number of entries held, those that no longer count included."""
        return sum(len(run) for run in self._runs)

    def push(self, entries: Entries) -> None:
        """Add waiting jobs; an entry for a job that is already in stands beside the old one and counts once.

        Complexity: O(n) for entries in order, else O(n log n) and O(log total) amortised each.
        """
        if len(entries):
            self.push_sorted(entries.sorted())

    def push_sorted(self, entries: Entries) -> None:
        """Add waiting jobs that are in queue order, at least one; see `push`."""
        self._runs = [run for run in self._runs if len(run)]
        first = entries.key(0)
        target = max((run for run in self._runs if run.last_key() <= first), key=len, default=None)
        if target is None:
            # The caller's arrays must not change under the run, nor the run's appends write into them.
            self._runs.append(_Run(entries.take(np.arange(len(entries)))))
        else:
            target.append(entries)
        if len(self._runs) > 1:
            self._runs.sort(key=len, reverse=True)
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            last, previous = self._runs.pop(), self._runs.pop()
            self._runs.append(_Run(self._sweep(Entries.join([previous.window(len(previous)), last.window(len(last))]))))
            self._runs.sort(key=len, reverse=True)
        if self.entry_count > self._sweep_at:
            swept = [self._sweep(run.window(len(run))) for run in self._runs]
            self._runs = [_Run(entries) for entries in swept if len(entries)]
            self._sweep_at = 2 * self.entry_count + _SWEEP_SLACK

    def _sweep(self, entries: Entries) -> Entries:
        """Return the entries that count, sorted, as a copy."""
        return entries.take(true_places(self.valid(entries))).sorted()

    def heads(self, count: int, wanted: Wanted = None, view: int = 0) -> tuple[npt.NDArray[np.int32], bool]:
        """Return the slots of the first jobs of wanted classes in order, at most `count`, and whether these are all.

        Args:
            count: At least 1.
            wanted: Classes asked for.
            view: 0 or 1: who asks. Each remembers apart from the other what may be passed over.

        Complexity: O(count * runs), and what was passed over: ended jobs once for good, jobs of other classes once for
        each time that one of their classes was wanted. Runs are at most the logarithm of the jobs.
        """
        parts: list[Entries] = []
        exhausted = True
        for run in self._runs:
            part, all_of_it = self._head_of(run, count, wanted, view)
            exhausted &= all_of_it
            if len(part):
                parts.append(part)
        if not parts:
            return np.zeros(0, dtype=np.int32), exhausted
        merged = parts[0] if len(parts) == 1 else Entries.join(parts).sorted()
        handles = merged.handle
        if merged.keys is not None:
            # A plugin that changed its mind about a job has it stand at two places: the first one counts.
            merged = merged.take(np.sort(np.unique(handles, return_index=True)[1]))
            handles = merged.handle
        slots = merged.slot
        if handles.size > 1:
            repeated = handles[1:] == handles[:-1]
            slots = slots[np.concatenate([[True], ~repeated])] if has_true(repeated) else slots
        return slots[:count], exhausted and slots.size <= count

    def front(self, count: int) -> Entries | None:
        """Return the first entries, as many as `heads` looks at for a count; None if several runs are to be merged."""
        return self._runs[0].window(max(count, _FEWEST_LOOKED_AT)) if len(self._runs) == 1 else None

    def heads_of_front(
        self, size: int, passed: int, slots: npt.NDArray[np.int32], count: int
    ) -> tuple[npt.NDArray[np.int32], bool] | None:
        """Return what `heads` does for any class, told which entries of the front count; None if those are too few.

        Args:
            size: Entries of the front.
            passed: How many stand before the first one that counts.
            slots: Those that count.
            count: As for the front.
        """
        all_of_it = size == len(self._runs[0])
        if not all_of_it and slots.size < count:
            return None
        self._runs[0].head += passed  # what no longer counts at the very front never counts again
        return slots[:count], all_of_it and slots.size <= count

    def _head_of(self, run: _Run, count: int, wanted: Wanted, view: int) -> tuple[Entries, bool]:
        """Return the first `count` entries of a run that count and are wanted, and whether it has no more."""
        begin, step = 0 if wanted is None else run.skipped(view, wanted), max(count, _FEWEST_LOOKED_AT)
        while True:
            window = run.window(step, begin)
            valid = self.valid(window)
            if not begin and valid.size and not valid[0]:
                # What no longer counts at the very front never counts again: it is passed over for good.
                passed = int(np.argmax(valid)) or valid.size  # 0 is the first one, which does not count
                run.head += passed
                window, valid = window.take(slice(passed, None)), valid[passed:]
            if wanted is not None:
                # The slot of an entry that counts no more may have a class of its own by now, or none.
                classes = self._class_of(window.slot)
                rows = true_places(valid & wanted.take(classes, mode="clip"))
                first = int(rows[0]) if rows.size else len(window)
                if first:
                    run.skip(view, begin + first, classes[:first][valid[:first]])
                    begin += first
                    window, rows = window.take(slice(first, None)), rows - first
            else:
                rows = true_places(valid)
            all_of_it = begin + len(window) >= len(run)
            if all_of_it or rows.size >= count:
                chosen = slice(count) if rows.size == len(window) else rows[:count]  # views cost less than copies
                return window.take(chosen), all_of_it and rows.size <= count
            step *= 2

    def look_again(self, view: int) -> None:
        """Forget what may be passed over, for one who asks: a job there is of another class now."""
        for run in self._runs:
            run.look_again(view)

    def position(self, entry: Entries) -> int:
        """Return how many waiting jobs stand before the one entry given. Complexity: O(jobs of the queue)."""
        handles: list[npt.NDArray[np.int64]] = []
        own = entry.key(0)
        for run in self._runs:
            window = run.window(len(run))
            columns = (*(window.keys.T if window.keys is not None else ()), ~window.priority, window.submit_time_us)
            earlier = window.handle < own[-1]
            for column, value in zip(reversed(columns), reversed(own[:-1]), strict=True):
                earlier = (column < value) | ((column == value) & earlier)
            before = window.take(true_places(earlier))
            handles.append(before.handle[self.valid(before)])
        return int(np.unique(np.concatenate(handles)).size) if handles else 0


def heads_of_all(orders: Sequence[Backlog], count: int) -> list[tuple[npt.NDArray[np.int32], bool]]:
    """Return for each of several orders of one pool what `Backlog.heads` does for any class.

    Their fronts are looked at together: NumPy takes as long for the jobs of one queue as for those of all.

    Args:
        orders: The orders.
        count: At least 1.
    """
    found: dict[int, tuple[npt.NDArray[np.int32], bool] | None] = {}
    fronts = {place: front for place, order in enumerate(orders) if (front := order.front(count)) is not None}
    if len(fronts) > 1:
        entries = Entries.join([*fronts.values()])
        rows = true_places(orders[0].valid(entries))
        slots, handles = entries.slot[rows], entries.handle[rows]
        begins = [0, *accumulate(len(front) for front in fronts.values())]
        cuts, places = np.searchsorted(rows, begins).tolist(), rows.tolist()
        if entries.keys is not None or has_true(handles[1:] == handles[:-1]):
            fronts, begins, cuts = {}, [0], [0]  # a job may stand twice, and counts once
        for place, (begin, end), (first, last) in zip(fronts, pairwise(begins), pairwise(cuts), strict=True):
            passed = (places[first] if last > first else end) - begin
            found[place] = orders[place].heads_of_front(end - begin, passed, slots[first:last], count)
    return [found.get(place) or order.heads(count) for place, order in enumerate(orders)]
