"""Scaled pods as the leader remembers them for people."""

from __future__ import annotations

from typing import Any

import numpy as np

from argosy_server.leader.show.pod_sizes import SizeNotes


def told(*pods: tuple[int, int, int]) -> dict[str, Any]:
    """Return what a sampler tells: pods of (handle, what is permitted, state), which ask for 8 and have 1."""
    handles, approved, states = zip(*pods, strict=True) if pods else ((), (), ())
    count = len(pods)
    return {
        "resources": ("cpu",),
        "handle_column": np.array(handles, np.int64),
        "attempt_column": np.ones(count, np.int32),
        "member_column": np.zeros(0, np.int16),
        "requested_column": np.full((count, 1), 8),
        "approved_column": np.array(approved, np.int64).reshape(count, 1),
        "actual_column": np.full((count, 1), 1),
        "state_column": np.array(states, np.int8),
    }


def test_what_changed_is_remembered_with_its_time_and_what_did_not_is_as_old_as_it_was() -> None:
    """A pod that went is forgotten, and what it was before stays for a while."""
    notes = SizeNotes()
    notes.take(told((7, 1, 1), (5, 2, 1)), 10.0)
    notes.take(told((7, 4, 2), (5, 2, 1)), 20.0)
    assert [(pod.key[0], pod.approved, since_s) for pod, since_s in notes.pods()] == [(5, (2,), 10.0), (7, (4,), 20.0)]
    assert [(pod.key[0], pod.approved, since_s) for pod, since_s in notes.history()] == [(7, (1,), 10.0)]
    notes.take(told(), 30.0)
    assert list(notes.pods()) == []
    assert len(list(notes.history())) == 1
