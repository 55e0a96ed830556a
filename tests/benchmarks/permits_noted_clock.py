"""Prints, as JSON, how long permits wait for notes at an API server of a given pace, by a clock of its own.

Usage: python tests/benchmarks/permits_noted_clock.py [--pods 1000] [--notes-per-s 800] [--seconds 8] [--every 1]

The parts are those of a sampler with durable permits that has just started (`PermitService` and its ledger); the agent,
the time and the writes of notes are played here, so a busy machine changes nothing but the duration of the program.
The pods and nodes are those of `permits.py`. The agent has permits of before under leases; `told_s` is when each was
told again. Then 5,000 permits a second are asked for, ten pods a message, or every so-many-th of them. `waits` are by
quarter of the time, from request to permit; `noted_s` is when the sampler had its own note on each pod.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import time

import numpy as np
from permits import UNIT, make_ledger, make_uids

from argosy_core.ledger import PermitNote
from argosy_core.permits import AgentHello, Heartbeat, Inventory, Outcome, PermitRequest, Permits, PermitService

_STEP_S = 0.002
_ASKED = 10
_TICK_S = 0.05
_HEARTBEAT_S = 2.0
_CALL_S = 0.005
"""How long a write takes at an API server that has nothing else to do."""
_AT_ONCE = 32


class World:
    """A sampler's permits, one agent, and an API server that takes so many notes a second."""

    def __init__(self, pods: int, notes_per_s: float) -> None:
        """Let the agent tell its pods."""
        ledger = make_ledger(pods, is_started=True, noted_by="p")
        ledger.permits.start(0.0)
        ledger.permits.has_listed = True
        self._pods = ledger.permits.pods
        self.service = PermitService(ledger, cluster="c", cluster_uid="u")
        hello = AgentHello(cluster="c", cluster_uid="u", process_id=b"a" * 16)
        self.session = self.service.begin(hello, 0.0)[0].session
        self.uids, self.count = make_uids(0, pods), pods
        self.now_s = self.told_s = self.note_count = 0.0
        self.waits: list[tuple[float, float]] = []
        self._note_s, self._busy_s = 1 / notes_per_s, 0.0
        self._writing: list[tuple[float, float, PermitNote]] = []
        self._asked: dict[int, tuple[int, float]] = {}
        self._sequence = self._number = 1
        self._untold = pods
        self._random = random.Random(1)
        sizes = np.tile(np.array(UNIT, np.int64)[:, np.newaxis], (1, pods))
        held, numbers = np.ones(pods, np.bool_), np.ones(pods, np.int64)
        self._say(Inventory(uids=self.uids, ceilings=sizes, held=held, permitted=held, numbers=numbers))

    @property
    def is_told(self) -> bool:
        """Whether the permit of each pod was told once."""
        return self._untold == 0

    @property
    def is_noted(self) -> bool:
        """Whether no pod's note is still that of the sampler before."""
        return not self._pods.needs_note[self._pods.live()].any()

    def _say(self, message: Inventory | PermitRequest | Heartbeat) -> None:
        self._sequence += 1
        self._hear(self.service.take([(self.session, self._sequence, message)], self.now_s))

    def _hear(self, outcome: Outcome) -> None:
        assert not outcome.broken
        for _, reply in outcome.replies:
            assert isinstance(reply, Permits), reply
            for pod, number in zip(reply.uids[:, 0].tolist(), reply.numbers.tolist(), strict=True):
                self._untold -= number == 1 and not self.is_told
                if self._asked.get(pod, (0, 0.0))[0] == number:
                    self.waits.append((self._asked.pop(pod)[1], self.now_s))

    def ask(self) -> None:
        """Ask for ten pods; one that still waits goes on waiting since it asked first."""
        self._number += 1
        first = self._random.randrange(self.count - _ASKED + 1)
        uids = self.uids[first : first + _ASKED]
        for pod in uids[:, 0].tolist():
            self._asked[pod] = self._number, self._asked.get(pod, (0, self.now_s))[1]
        units = np.array([self._random.randint(1, 8) for _ in range(_ASKED)])
        wanted = np.array(UNIT, np.int64)[:, np.newaxis] * units
        numbers = np.full(_ASKED, self._number, np.int64)
        self._say(PermitRequest(uids=uids, wanted=wanted, bundle=np.zeros(_ASKED, np.bool_), numbers=numbers))

    def pass_time(self) -> None:
        """Let a step pass: writes end, the sampler ticks, the agent is heard, writes begin."""
        before_s, self.now_s = self.now_s, self.now_s + _STEP_S
        ended = []
        while self._writing and self._writing[0][0] <= self.now_s:
            ended.append(heapq.heappop(self._writing)[2])
        if ended:
            self._hear(self.service.end_notes([(note.uid, note.after) for note in ended], self.now_s))
        if before_s // _TICK_S != self.now_s // _TICK_S:
            self._hear(self.service.tick(self.now_s))
        if before_s // _HEARTBEAT_S != self.now_s // _HEARTBEAT_S:
            self._say(Heartbeat())
        for note in self.service.take_notes(_AT_ONCE):
            self.note_count += 1
            self._busy_s = max(self._busy_s, self.now_s) + self._note_s
            heapq.heappush(self._writing, (self._busy_s + _CALL_S, self.note_count, note))
        if not self.is_told:
            self.told_s = self.now_s


def main() -> None:
    """Play one world."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--notes-per-s", type=float, default=800.0)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=8.0)
    options = parser.parse_args()
    world = World(options.pods, options.notes_per_s)
    while not world.is_told:
        world.pass_time()
    steps = noted_s = 0
    while world.now_s < world.told_s + options.seconds:
        world.pass_time()
        if steps % options.every == 0:
            world.ask()
        steps += 1
        noted_s = noted_s or (world.now_s if world.is_noted else 0)
    since, until = np.array(world.waits).T
    quarter = ((since - world.told_s) / options.seconds * 4).astype(int)
    waits = [
        {name: round(1e3 * float(np.quantile((until - since)[quarter == part], level)), 1)
         for name, level in (("p50_ms", 0.5), ("p99_ms", 0.99))}
        for part in range(4)
    ]  # fmt: skip
    found = {"told_s": round(world.told_s, 2), "noted_s": round(noted_s, 2), "notes": int(world.note_count)}
    cpu_s = round(time.process_time(), 1)
    print(json.dumps({"pods": options.pods, **found, "waits": waits, "cpu_s": cpu_s}))  # noqa: T201 - the result of the program


if __name__ == "__main__":
    main()
