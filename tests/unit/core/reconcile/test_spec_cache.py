"""The cache that two ends keep equal."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.errors import StateConflict
from argosy_core.reconcile import SpecCache


def body(spec_hash: bytes) -> bytes:
    """Return the body of a hash, 100 bytes or more."""
    return b"body of " + spec_hash + b"." * 100


def test_body_travels_once_while_both_ends_remember_it() -> None:
    """The second message with the same spec carries no body, and the other end still knows it."""
    leader, executor = SpecCache(), SpecCache()
    first = leader.send([b"a", b"b"], body)
    assert first == [body(b"a"), body(b"b")]
    assert executor.receive([b"a", b"b"], first) == first
    second = leader.send([b"b", b"c", b"a"], body)
    assert second == [b"", body(b"c"), b""]
    assert executor.receive([b"b", b"c", b"a"], second) == [body(b"b"), body(b"c"), body(b"a")]


def test_least_recently_used_body_travels_again() -> None:
    """What was used longest ago is forgotten first, at both ends."""
    leader = SpecCache(capacity_bytes=250)
    leader.send([b"a", b"b"], body)
    leader.send([b"a"], body)
    leader.send([b"c"], body)
    assert leader.missing([b"a", b"b", b"c"]) == [b"b"]
    assert leader.size_bytes <= 250
    assert len(leader) == 2


def test_ends_stay_equal_for_any_sequence_of_messages() -> None:
    """However specs repeat, the executor can resolve every hash, even when one message exceeds the capacity."""
    rng = np.random.default_rng(3)
    leader, executor = SpecCache(capacity_bytes=1000), SpecCache(capacity_bytes=1000)
    sent = 0
    for _ in range(300):
        hashes = [bytes([number]) for number in rng.integers(0, 30, size=int(rng.integers(1, 20))).tolist()]
        bodies = leader.send(hashes, body)
        sent += sum(1 for item in bodies if item)
        assert executor.receive(hashes, bodies) == [body(spec_hash) for spec_hash in hashes]
        assert len(leader) == len(executor)
        assert leader.size_bytes == executor.size_bytes <= 1000
    assert sent < 3000


@pytest.mark.parametrize(("hashes", "bodies"), [([b"a"], [b""]), ([b"a", b"b"], [b"x"])], ids=["unknown", "count"])
def test_receive_refuses_what_the_ends_do_not_agree_on(hashes: list[bytes], bodies: list[bytes]) -> None:
    """A hash that is neither held nor sent means that the stream must start anew."""
    with pytest.raises(StateConflict):
        SpecCache().receive(hashes, bodies)


def test_send_changes_nothing_when_a_body_cannot_be_had() -> None:
    """A failed read does not make this end believe the other holds the body."""
    leader = SpecCache()
    with pytest.raises(KeyError):
        leader.send([b"a", b"b"], {b"a": b"x"}.__getitem__)
    assert leader.missing([b"a", b"b"]) == [b"a", b"b"]
