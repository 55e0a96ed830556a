"""Prints, as JSON, what permits cost a sampler by processor time, so that other work beside it matters little.

Usage: python tests/benchmarks/permit_costs.py [PODS ...]; `permits.py` is the same pods over a socket, by the wall.

`request`, `tick` and `heartbeat` are the milliseconds in the middle of each, a request of ten pods. Then ten agents ask
for 5,000 permits a second, ten pods a message, on a clock that goes on by the processor time that the sampler takes for
reading, answering and writing: `p50_ms` and `p99_ms` are from when a message came until its answer was written. What
gRPC, the network and the agents take is not in it.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from permits import AGENTS, RATE, UNIT, make_ledger, make_uids

from argosy.autoscale.v1 import permit_pb2
from argosy_core.permits import AgentHello, PermitService
from argosy_sampler.permit_codec import read_agent_message, reply_message

PODS_A_MESSAGE = 10
SECONDS = 4.0
_TRIES = 300


class Sampler:
    """A permit service whose ten agents have told their pods."""

    def __init__(self, pods: int) -> None:
        self.now_s = 0.0
        self.service = PermitService(make_ledger(pods), cluster="c", cluster_uid="u")
        self._share = pods // AGENTS
        self._random = np.random.default_rng(1)
        self._sessions: list[int] = []
        self._sequences = [1] * AGENTS
        for agent in range(AGENTS):
            hello = AgentHello(cluster="c", cluster_uid="u", process_id=bytes([agent + 1]) * 16)
            self._sessions.append(self.service.begin(hello, self.now_s)[0].session)
            self.take([(agent, self._inventory(agent))])

    def _inventory(self, agent: int) -> bytes:
        inventory = permit_pb2.Inventory(
            uid_column=make_uids(agent * self._share, self._share).tobytes(),
            ceiling_column=np.tile(np.array(UNIT, np.int64), (self._share, 1)).tobytes(),
            held_column=bytes(self._share),
            number_column=np.ones(self._share, np.int64).tobytes(),
        )
        return self._message(agent, inventory=inventory)

    def _message(self, agent: int, **message: Any) -> bytes:
        self._sequences[agent] += 1
        return permit_pb2.SessionRequest(sequence=self._sequences[agent], **message).SerializeToString()

    def request(self, agent: int) -> bytes:
        """Return a request for one to eight units for each of ten pods."""
        first = agent * self._share + int(self._random.integers(0, self._share - PODS_A_MESSAGE + 1))
        units = self._random.integers(1, 9, (PODS_A_MESSAGE, 1))
        request = permit_pb2.PermitRequest(
            uid_column=make_uids(first, PODS_A_MESSAGE).tobytes(),
            wanted_column=(units * np.array(UNIT, np.int64)).tobytes(),
            number_column=np.full(PODS_A_MESSAGE, self._sequences[agent] + 1, np.int64).tobytes(),
        )
        return self._message(agent, request=request)

    def heartbeat(self, agent: int) -> bytes:
        """Return a message that renews leases."""
        return self._message(agent, heartbeat=permit_pb2.Heartbeat())

    def take(self, said: list[tuple[int, bytes]]) -> None:
        """Take in what agents said, at most one message of each, and write the answers."""
        messages = []
        for agent, sent in said:
            request = permit_pb2.SessionRequest.FromString(sent)
            messages.append((self._sessions[agent], request.sequence, read_agent_message(request)))
        outcome = self.service.take(messages, self.now_s)
        assert not outcome.broken
        assert not outcome.ended
        for session, reply in outcome.replies:
            reply_message(reply, self.service.confirmed(session)).SerializeToString()

    def tick(self) -> None:
        """Let time pass."""
        for session, reply in self.service.tick(self.now_s).replies:
            reply_message(reply, self.service.confirmed(session)).SerializeToString()


def cost_s(act: Callable[[], None]) -> float:
    """Return the processor time of something, seconds."""
    began_s = time.thread_time()
    act()
    return time.thread_time() - began_s


def each_ms(sampler: Sampler) -> dict[str, float]:
    """Return what a request, a tick and a heartbeat cost in the middle, milliseconds."""
    costs: dict[str, list[float]] = {"request": [], "tick": [], "heartbeat": []}
    for turn in range(_TRIES):
        agent = turn % AGENTS
        sampler.now_s += PODS_A_MESSAGE / RATE
        for kind, sent in (("request", sampler.request(agent)), ("heartbeat", sampler.heartbeat(agent))):
            costs[kind].append(cost_s(lambda said=[(agent, sent)]: sampler.take(said)))  # type: ignore[misc]
        costs["tick"].append(cost_s(sampler.tick))
    return {f"{kind}_ms": round(1e3 * float(np.median(found)), 3) for kind, found in costs.items()}


def paced_ms(sampler: Sampler) -> dict[str, float]:
    """Return how long requests take at the rate, by a clock of processor time."""
    gap_s, begun_s = PODS_A_MESSAGE * AGENTS / RATE, sampler.now_s
    next_s = begun_s + np.random.default_rng(2).random(AGENTS) * gap_s
    due_s, waits, busy_s = begun_s, [], 0.0
    while sampler.now_s < begun_s + SECONDS:
        sampler.now_s = max(sampler.now_s, min(float(next_s.min()), due_s))
        here = np.flatnonzero(next_s <= sampler.now_s).tolist()
        took_s = 0.0
        if here:
            said = [(agent, sampler.request(agent)) for agent in here]
            took_s = cost_s(lambda said=said: sampler.take(said))  # type: ignore[misc]
            waits += (sampler.now_s + took_s - next_s[here]).tolist()
            next_s[here] += gap_s
        sampler.now_s += took_s
        if sampler.now_s >= due_s:
            ticked_s = cost_s(sampler.tick)
            sampler.now_s, took_s = sampler.now_s + ticked_s, took_s + ticked_s
            due_s = sampler.now_s + sampler.service.tick_s
        busy_s += took_s
    p50, p99 = np.quantile(waits, (0.5, 0.99))
    elapsed_s = sampler.now_s - begun_s
    return {
        "permits_per_s": round(PODS_A_MESSAGE * len(waits) / elapsed_s),
        "busy_ratio": round(busy_s / elapsed_s, 2),
        "p50_ms": round(1e3 * float(p50), 2),
        "p99_ms": round(1e3 * float(p99), 2),
    }


def main() -> None:
    """Measure each size in turn."""
    for pods in [int(word) for word in sys.argv[1:]] or [1000, 10_000]:
        sampler = Sampler(pods)
        paced_ms(sampler)  # until about one request in ten waits for room
        print(json.dumps({"pods": pods, **each_ms(sampler), **paced_ms(sampler)}))  # noqa: T201 - the result


if __name__ == "__main__":
    main()
