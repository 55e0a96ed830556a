"""A pod on a node of the fake kubelet, and what is to be done for it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from argosy_testkit.fake_kubelet.behaviour import Behaviour, Pod
from argosy_testkit.fake_kubelet.nodes import FakeNode

__all__ = ["Work"]


@dataclass(slots=True, eq=False)
class Work:
    """A pod on one of our nodes, and what is to be done for it."""

    pod: Pod
    node: FakeNode
    behaviour: Behaviour
    request: dict[str, int]
    """What it has, which is what it asked for when it started or was resized last."""
    is_deferred: bool = False
    """It was told that the size that its spec asks for waits for room."""
    steps: deque[str] = field(default_factory=deque)
    """Steps to carry out, in order."""
    is_queued: bool = False
    """Some worker has it or will have it."""
    is_stopping: bool = False
    """Its deletion was seen."""
    has_taken: bool = False
    """It counts against its node."""
    is_over: bool = False
    """It ended or was refused: nothing runs any more."""
    started_s: float = 0.0
    """When its containers started, Unix time; 0 if they have not."""
    ended_s: float = 0.0
    """When they ended; 0 if they have not."""
    restarts: int = 0
    """How often they were started again."""
    exit_code: int = 0
    """Exit code they end with."""
    reason: str = ""
    """Reason they end with."""
