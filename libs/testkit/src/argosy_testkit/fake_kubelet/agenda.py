"""When the steps of pods are due, and which pods have some to carry out."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Mapping
from typing import Final

from argosy_testkit.fake_kubelet.work import Work

__all__ = ["DEADLINE", "Agenda"]

DEADLINE: Final = "DeadlineExceeded"
"""Reason of a pod that ran for as long as its spec lets it."""
_TICK_S: Final = 0.02


class Agenda:
    """Steps to come.

    Args:
        works: Pods by uid; a step that comes due when its pod is not there any more is dropped.
    """

    def __init__(self, works: Mapping[str, Work]) -> None:
        """Start with nothing to do."""
        self._works = works
        self._ready: asyncio.Queue[Work] = asyncio.Queue()
        self._timers: list[tuple[float, int, str, str]] = []
        self._numbers = itertools.count()

    async def take(self) -> Work:
        """Wait for a pod that has steps, and return it to the worker that carries them out."""
        work = await self._ready.get()
        work.is_queued = False
        return work

    def after(self, work: Work, delay_s: float, step: str) -> None:
        """Add a step once a time has passed."""
        if delay_s <= 0:
            self.add(work, step)
        else:
            due_s = time.monotonic() + delay_s
            heapq.heappush(self._timers, (due_s, next(self._numbers), work.pod.metadata.uid, step))

    def add(self, work: Work, step: str) -> None:
        """Add a step behind those that a pod has."""
        if step == "end" and not work.is_over and not work.ended_s:
            work.ended_s = time.time()  # a pod ends when it does, not when that can be told
        work.steps.append(step)
        self.queue(work)

    def queue(self, work: Work) -> None:
        """Let a worker take a pod, unless one has it or its node is cut off."""
        if not work.is_queued and not work.node.is_partitioned:
            work.is_queued = True
            self._ready.put_nowait(work)

    def end(self, work: Work, exit_code: int, reason: str) -> None:
        """End a pod now, unless it has ended."""
        if not work.is_over and not work.ended_s:
            work.exit_code, work.reason = exit_code, reason
            self.add(work, "end")

    def plan_end(self, work: Work) -> None:
        """Let a pod that runs end when its behaviour or its deadline says."""
        behaviour, deadline_s = work.behaviour, work.pod.spec.active_deadline_seconds
        since_s = time.time() - work.started_s
        work.exit_code, work.reason = behaviour.exit_code, behaviour.reason
        run_s = behaviour.run_time_s
        if deadline_s and deadline_s < run_s:
            run_s, work.reason = float(deadline_s), DEADLINE
        self.after(work, run_s - since_s, "end")

    async def tick_forever(self) -> None:
        """Add the steps whose moment has come."""
        while True:
            now_s = time.monotonic()
            while self._timers and self._timers[0][0] <= now_s:
                _, _, uid, step = heapq.heappop(self._timers)
                work = self._works.get(uid)
                if work is not None:
                    self.add(work, step)
            await asyncio.sleep(_TICK_S)
