"""Numbers of the log on Pulsar: positions from ledger and entry, sequence ids from epoch and sequence.

A position is `ledger << 24 | entry`, plus one, so that 0 stands before everything. A broker closes a ledger after
50,000 entries unless told otherwise and counts ledgers for the whole installation, so 2^24 entries and 2^38 ledgers are
far off; a message outside of them is refused rather than given a wrong place. Positions ascend and leave gaps.

A sequence id is `epoch << 32 | sequence`. It grows with every record and every epoch, so that a broker that drops what
it has had drops a repeated record, and everything of an older epoch behind the first record of a newer one.
"""

from __future__ import annotations

from typing import Final

from argosy_core.errors import InvalidRequest, InvariantViolation, StateConflict

__all__ = ["epoch_of", "ledger_and_entry", "position_of", "sequence_id_of"]

_ENTRY_BITS: Final = 24
_LEDGER_BITS: Final = 38
_SEQUENCE_BITS: Final = 32
_EPOCH_BITS: Final = 31


def position_of(ledger: int, entry: int) -> int:
    """Return the position of a message.

    Raises:
        InvariantViolation: The numbers are too large for a position.
    """
    if not (0 <= ledger < 1 << _LEDGER_BITS and 0 <= entry < 1 << _ENTRY_BITS):
        raise InvariantViolation(
            f"message {ledger}:{entry} has no position: ledgers end at 2^{_LEDGER_BITS}, entries at 2^{_ENTRY_BITS};"
            " lower managedLedgerMaxEntriesPerLedger"
        )
    return (ledger << _ENTRY_BITS | entry) + 1


def ledger_and_entry(position: int) -> tuple[int, int]:
    """Return (ledger, entry) of a position from 1 on."""
    return (position - 1) >> _ENTRY_BITS, (position - 1) & ((1 << _ENTRY_BITS) - 1)


def sequence_id_of(epoch: int, sequence: int) -> int:
    """Return the sequence id of a record.

    Args:
        epoch: Epoch, from 1.
        sequence: Place in the leader's order, from 1.

    Raises:
        InvalidRequest: The sequence is below 1, or the epoch out of range.
        StateConflict: The epoch has used up its sequences; the next one begins anew.
    """
    if sequence < 1 or not 1 <= epoch < 1 << _EPOCH_BITS:
        raise InvalidRequest(f"epoch {epoch} must be 1 to 2^{_EPOCH_BITS}, and sequence {sequence} at least 1")
    if sequence >= 1 << _SEQUENCE_BITS:
        raise StateConflict(f"epoch {epoch} has published all it can; another must go on")
    return epoch << _SEQUENCE_BITS | sequence


def epoch_of(sequence_id: int) -> int:
    """Return the epoch of a sequence id; 0 or less if there is none."""
    return sequence_id >> _SEQUENCE_BITS
