"""Positions and sequence ids of the log on Pulsar.

Source: design section 5, "Ingest": sequence ids from 1; positions ascend.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy_core.errors import InvalidRequest, InvariantViolation, StateConflict
from argosy_eventlog.pulsar.numbers import epoch_of, ledger_and_entry, position_of, sequence_id_of

LEDGERS = st.integers(0, 2**38 - 1)
ENTRIES = st.integers(0, 2**24 - 1)
EPOCHS = st.integers(1, 2**31 - 1)
SEQUENCES = st.integers(1, 2**32 - 1)


@given(LEDGERS, ENTRIES)
def test_a_position_names_one_message_and_is_above_0(ledger: int, entry: int) -> None:
    """There and back; 0 stays free for the beginning, and the largest fits a signed 64-bit integer."""
    position = position_of(ledger, entry)
    assert 0 < position < 2**63
    assert ledger_and_entry(position) == (ledger, entry)


@given(st.tuples(LEDGERS, ENTRIES), st.tuples(LEDGERS, ENTRIES))
def test_positions_ascend_as_messages_do(one: tuple[int, int], other: tuple[int, int]) -> None:
    """Ledger first, entry second."""
    assert (position_of(*one) < position_of(*other)) == (one < other)


@pytest.mark.parametrize(
    ("ledger", "entry"), [(2**38, 0), (0, 2**24), (-1, 0), (5, -1)], ids=["ledger", "entry", "no-ledger", "no-entry"]
)
def test_a_message_without_a_position_is_a_fault(ledger: int, entry: int) -> None:
    """Rather than a wrong place."""
    with pytest.raises(InvariantViolation):
        position_of(ledger, entry)


@given(st.tuples(EPOCHS, SEQUENCES), st.tuples(EPOCHS, SEQUENCES))
def test_sequence_ids_grow_with_epoch_and_sequence(one: tuple[int, int], other: tuple[int, int]) -> None:
    """So a broker that drops what does not grow drops repeats, and everything of an older epoch."""
    assert (sequence_id_of(*one) < sequence_id_of(*other)) == (one < other)
    assert epoch_of(sequence_id_of(*one)) == one[0]
    assert 0 < sequence_id_of(*one) < 2**63


@pytest.mark.parametrize(
    ("epoch", "sequence", "error"),
    [(1, 0, InvalidRequest), (0, 1, InvalidRequest), (2**31, 1, InvalidRequest), (1, 2**32, StateConflict)],
    ids=["sequence-0", "epoch-0", "epoch-beyond", "sequences-used-up"],
)
def test_numbers_out_of_range_are_refused(epoch: int, sequence: int, error: type[Exception]) -> None:
    """Sequence 0 would be ignored by the broker's client; an epoch that has used up its own gives way to the next."""
    with pytest.raises(error):
        sequence_id_of(epoch, sequence)


def test_a_producer_without_history_has_no_epoch() -> None:
    """The broker says -1 for a name it does not know."""
    assert epoch_of(-1) < 1
