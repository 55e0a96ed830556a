"""Tests of the table of scaled pods."""

from __future__ import annotations

import numpy as np

from argosy_core.ledger.scaled_pods import UNBOUNDED, ScaledPodTable


def test_table_grows_and_keeps_what_it_has() -> None:
    """A thousand pods, many more than there was room for: each has its row, and its amounts, as they were set."""
    table, count = ScaledPodTable(), 1000
    uids = np.column_stack([np.arange(1, count + 1), np.arange(count)]).astype(np.int64)
    rows = np.array([table.add(uid, slot) for slot, uid in enumerate(uids)])
    assert len(set(rows.tolist())) == len(table) == count
    table.permit[:, rows] = np.stack([rows, 2 * rows])
    more = np.column_stack([np.arange(1, count + 1), np.arange(count, 2 * count)]).astype(np.int64)
    for slot, uid in enumerate(more, count):
        table.add(uid, slot)
    assert table.rows(uids).tolist() == rows.tolist()
    assert table.uid[rows].tolist() == uids.tolist()
    assert table.slot[rows].tolist() == list(range(count))
    assert table.permit[:, rows].tolist() == [rows.tolist(), (2 * rows).tolist()]
    assert len(table.live()) == len(table) == 2 * count
    assert (table.noted[:, table.live()] == UNBOUNDED).all()
    assert not table.rows(np.array([[count + 1, 0]])).any()


def test_rows_of_pods_that_went_are_used_again_and_remember_nothing() -> None:
    """The table is as large as what is scaled at once."""
    table = ScaledPodTable()
    capacity = table.slot.size
    for number in range(5 * capacity):
        row = table.add(np.array([1, number]), number)
        assert not table.permit[:, row].any()
        table.permit[:, row] = number + 1
        table.drop(np.array([row], np.int32))
    assert (len(table), table.slot.size) == (0, capacity)
