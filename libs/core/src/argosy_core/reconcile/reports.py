"""States on their way to the leader: gathered, sent in numbered batches, sent again until they are stored.

A state that is overtaken within one interval still goes up, before the one that overtook it, so that events are whole.
After a reconnect nothing is replayed: each object whose stored state is behind is reported once as it is now.

Source: design section 5, "Sync": "last states go up ... in batches" (200 ms here: fewer, larger batches cost less).
"""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import true_places
from argosy_core.job.states import IS_RUN_TERMINAL, ObjectState
from argosy_core.job.tables.members import Members
from argosy_core.reconcile.columns import ReportBatch
from argosy_core.reconcile.object_table import ObjectTable

__all__ = ["MAX_BATCH_COUNT", "MAX_MESSAGE_LENGTH", "REPORT_INTERVAL_S", "ReportQueue"]

REPORT_INTERVAL_S: Final = 0.2
"""Least time between batches, seconds."""
MAX_BATCH_COUNT: Final = 20_000
"""Most states in a batch: about 1 MB."""
MAX_MESSAGE_LENGTH: Final = 256
"""Characters of a message that travel."""

Int64Array = npt.NDArray[np.int64]
Int8Array = npt.NDArray[np.int8]


class ReportQueue:
    """The reports of one reconciler.

    Args:
        table: Where the objects are.
    """

    def __init__(self, table: ObjectTable) -> None:
        """Start with nothing to report."""
        self._table = table
        self._waiting: list[tuple[Int64Array, Int8Array, Int64Array]] = []
        self._sent: deque[tuple[int, Int64Array, Members, Int8Array]] = deque()
        self._last_number = 0
        self._last_sent_s = -REPORT_INTERVAL_S

    @property
    def is_empty(self) -> bool:
        """Whether everything was sent and stored."""
        return not self._waiting and not self._sent

    def note(self, slots: Int64Array, states: Int8Array, times_us: Int64Array) -> None:
        """Give objects a new state, to be reported.

        Args:
            slots: int64[n], distinct.
            states: int8[n], ObjectState.
            times_us: int64[n], microseconds since the Unix epoch.
        """
        if slots.size:
            self._table.state[slots] = states
            self._table.time_us[slots] = times_us
            self._waiting.append((slots, states, times_us))

    def next_batch(self, now_s: float) -> ReportBatch | None:
        """Return the next batch to send, or None if there is nothing or the last one is too fresh."""
        if not self._waiting or now_s < self._last_sent_s + REPORT_INTERVAL_S:
            return None
        slots = np.concatenate([chunk[0] for chunk in self._waiting])
        states = np.concatenate([chunk[1] for chunk in self._waiting])
        times_us = np.concatenate([chunk[2] for chunk in self._waiting])
        self._waiting.clear()
        if slots.size > MAX_BATCH_COUNT:
            # The rest goes at once: the interval bounds the number of small batches, not the rate of states.
            self._waiting.append((slots[MAX_BATCH_COUNT:], states[MAX_BATCH_COUNT:], times_us[MAX_BATCH_COUNT:]))
            slots, states, times_us = slots[:MAX_BATCH_COUNT], states[:MAX_BATCH_COUNT], times_us[:MAX_BATCH_COUNT]
        else:
            self._last_sent_s = now_s
        self._last_number += 1
        self._sent.append((self._last_number, slots, self._table.members(slots), states))
        return self._build(slots, states, times_us)

    def _build(self, slots: Int64Array, states: Int8Array, times_us: Int64Array) -> ReportBatch:
        """Return the columns of a batch."""
        table = self._table
        ended = IS_RUN_TERMINAL.take(states)
        members = table.members(slots)
        message_column = np.full(slots.size, -1, dtype=np.int32)
        exit_codes, failures = np.zeros(slots.size, dtype=np.int32), np.zeros(slots.size, dtype=np.int8)
        texts: dict[str, int] = {}
        for place, _, record in table.troubled(slots):
            if ended[place]:
                exit_codes[place], failures[place] = record.exit_code, record.failure
                if record.message is not None:
                    message_column[place] = texts.setdefault(record.message[:MAX_MESSAGE_LENGTH], len(texts))
        return ReportBatch(
            number=self._last_number,
            handle_column=members.handle,
            ordinal_column=members.ordinal,
            object_column=table.object[slots],
            state_column=states,
            time_us_column=times_us,
            exit_code_column=exit_codes,
            failure_column=failures,
            message_column=message_column,
            uid_column=table.uid.take(slots, axis=0).view(np.uint8).reshape(-1, 16),
            texts=tuple(texts),
        )

    def acknowledge(self, number: int) -> Int64Array:
        """Note that batches up to a number are stored; return the slots whose end is now stored."""
        table = self._table
        ended: list[Int64Array] = []
        while self._sent and self._sent[0][0] <= number:
            _, slots, members, states = self._sent.popleft()
            # A slot may have gone to another run since a batch that was sent twice.
            same = table.members(slots).equal(members)
            slots, states = slots[same], states[same]
            table.stored_state[slots] = states
            ended.append(slots[IS_RUN_TERMINAL.take(states)])
        return np.concatenate(ended) if ended else np.zeros(0, dtype=np.int64)

    def restart(self) -> None:
        """Begin a new session: number from 1 and report what the leader may not have."""
        table = self._table
        self._waiting.clear()
        self._sent.clear()
        self._last_number = 0
        self._last_sent_s = -REPORT_INTERVAL_S
        behind = true_places((table.state != table.stored_state) & (table.state != ObjectState.LEASED))
        if behind.size:
            self._waiting.append((behind, table.state[behind], table.time_us[behind]))
