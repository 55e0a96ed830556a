"""Prints, as JSON, how much more work nodes take when pods are resized: the same jobs, autoscaling on and off.

Usage: python tests/benchmarks/autoscale_mix.py TRACE [--nodes 5] [--node-units 64] [--units 8] [--step-s 300]
       [--days 6] [--watermark 0.56] [--short-ratio 0.02] [--seed 1]

Each job uses what one machine of the trace used, for a day of its own. Off, it has all its units from the start; on, it
starts with two, and the agent's machine (`argosy_core.autoscale.Agent`) asks a ledger that grants what is free on its
node. A new job goes to the node with most room as soon as there is room; with autoscaling none starts on a node above
the watermark. A step is throttled if a job uses more than it has. Both run over the same days. Goals are to be short
for `short-ratio` of the time only, since full nodes and first steps come on top.
"""

import argparse
import json
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from autoscale_predictor import read_trace

from argosy_core.autoscale import Agent, AgentSettings, Amounts, PredictorSettings, next_actions
from argosy_core.autoscale.events import (
    Leased,
    MetricsSeen,
    Permit,
    PermitRequest,
    PermitsTold,
    PodGone,
    PodSeen,
    ResizeEnded,
    ResizeOutcome,
    ScalingPolicy,
    SessionUp,
)

UNIT = Amounts(1000, 1 << 30)
FIRST_UNITS = 2
FOREVER_S = 1e12


@dataclass
class Node:
    """A node and what its pods are booked at, units."""

    free: int
    pods: dict[str, int] = field(default_factory=dict)


@dataclass
class Tally:
    """What came of a run."""

    finished: int = 0
    running_steps: int = 0
    throttled: int = 0
    used: float = 0.0
    held: int = 0
    resizes: int = 0


class Mix:
    """Nodes that are filled with jobs."""

    def __init__(self, loads: npt.NDArray[np.float64], options: argparse.Namespace, *, resizes: bool) -> None:
        """Begin with empty nodes."""
        self.loads, self.options, self.resizes = loads, options, resizes
        self.nodes = [Node(options.node_units) for _ in range(options.nodes)]
        self.rng = np.random.default_rng(options.seed)
        self.begun: dict[str, tuple[int, int]] = {}
        predictor = PredictorSettings(short_ratio=options.short_ratio)
        self.agent = Agent(AgentSettings(max_units=options.units, metrics_timeout_s=2 * options.step_s), predictor)
        self.agent.take(SessionUp(1), 0.0)
        self.agent.take(Leased(1, FOREVER_S), 0.0)
        self.policy = ScalingPolicy(least=UNIT, most=UNIT.times(options.units), load_ratio=1.0)
        self.place: dict[str, Node] = {}
        self.asked: dict[str, PermitRequest] = {}
        self.tally = Tally()
        self.made = 0

    def start_jobs(self, step: int) -> None:
        """Place jobs as long as there is room."""
        units = FIRST_UNITS if self.resizes else self.options.units
        kept = round(self.options.node_units * (1.0 - self.options.watermark)) if self.resizes else 0
        while (node := max(self.nodes, key=lambda one: one.free)).free - kept >= units:
            uid, self.made = f"job-{self.made}", self.made + 1
            node.free -= units
            node.pods[uid] = units
            self.place[uid] = node
            self.begun[uid] = step, int(self.rng.integers(len(self.loads)))
            size = UNIT.times(units)
            if self.resizes:
                seen = PodSeen(uid=uid, version=1, policy=self.policy, desired=size, allocated=size, actual=size)
                self.agent.take(seen, self.now_s(step))

    def now_s(self, step: int) -> float:
        """Return the time of a step."""
        return step * self.options.step_s

    def demand(self, uid: str, step: int) -> float:
        """Return what a job uses, units."""
        begun, machine = self.begun[uid]
        return float(self.loads[machine, step - begun])

    def step(self, step: int) -> None:
        """Let a step pass: jobs use what they use, end, start, and are resized."""
        for uid, node in list(self.place.items()):
            demand, held = self.demand(uid, step), node.pods[uid]
            self.tally.running_steps += 1
            self.tally.held += held
            self.tally.used += min(demand, held)
            self.tally.throttled += demand > held + 1e-9
            if step - self.begun[uid][0] + 1 >= self.loads.shape[1]:
                self.tally.finished += 1
                node.free += node.pods.pop(uid)
                del self.place[uid], self.begun[uid]
                self.asked.pop(uid, None)
                self.agent.take(PodGone(uid), self.now_s(step))
        if self.resizes:
            self.resize(step)
        self.start_jobs(step + 1)
        if self.resizes:
            self.act(step)

    def resize(self, step: int) -> None:
        """Tell the agent what jobs use, and do what it wants until it wants no more."""
        uids = tuple(self.place)
        cores = np.array([self.demand(uid, step) for uid in uids])
        used = np.full(len(uids), 0.5 * UNIT.memory_bytes)
        self.agent.take(MetricsSeen(uids=uids, load_cores=cores, memory_bytes=used), self.now_s(step))
        self.act(step)

    def act(self, step: int) -> None:
        """Grant what is free, in the order of asking; resizes are done at once."""
        now_s = self.now_s(step)
        for uid in [uid for uid, one in self.asked.items() if self.place[uid].pods[uid] < one.wanted.units(UNIT)]:
            self.grant(self.asked[uid], now_s)
        while True:
            actions = next_actions(self.agent, now_s)
            for request in actions.requests:
                self.asked[request.uid] = request
                self.grant(request, now_s)
            for one in actions.resizes:
                self.tally.resizes += 1
                seen = self.agent.pods[one.uid].seen
                ended = ResizeEnded(
                    uid=one.uid, number=one.number, outcome=ResizeOutcome.ACCEPTED, version=seen.version + 1
                )
                self.agent.take(ended, now_s)
                size = one.amounts
                done = replace(seen, version=seen.version + 2, desired=size, allocated=size, actual=size)
                self.agent.take(done, now_s)
            if not actions.requests and not actions.resizes:
                return

    def grant(self, request: PermitRequest, now_s: float) -> None:
        """Book what is wanted as far as there is room, and permit it."""
        node, uid = self.place[request.uid], request.uid
        units = min(request.wanted.units(UNIT), node.pods[uid] + node.free)
        node.free -= units - node.pods[uid]
        node.pods[uid] = units
        assert node.free >= 0
        permit = Permit(uid=uid, sequence=request.sequence, amounts=UNIT.times(units), unit=UNIT)
        self.agent.take(PermitsTold(1, (permit,)), now_s)

    def run(self, step_count: int) -> dict[str, float]:
        """Let steps pass and return what came of them."""
        self.start_jobs(0)
        for step in range(step_count):
            self.step(step)
        tally, room = self.tally, self.options.nodes * self.options.node_units * step_count
        return {
            "jobs_finished": tally.finished,
            "jobs_running_mean": round(tally.running_steps / step_count, 1),
            "throttled_ratio": round(tally.throttled / tally.running_steps, 4),
            "used_utilisation": round(tally.used / room, 4),
            "booked_utilisation": round(tally.held / room, 4),
            "resizes_per_job_and_day": round(tally.resizes / (tally.running_steps / self.loads.shape[1]), 2),
        }


def main(argv: list[str]) -> int:
    """Run both and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--node-units", type=int, default=64)
    parser.add_argument("--units", type=int, default=8)
    parser.add_argument("--step-s", type=float, default=300.0)
    parser.add_argument("--days", type=int, default=6)
    parser.add_argument("--watermark", type=float, default=0.56)
    parser.add_argument("--short-ratio", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    loads = read_trace(options.trace) / 100.0 * options.units
    steps = options.days * loads.shape[1]
    off, on = (Mix(loads, options, resizes=resizes).run(steps) for resizes in (False, True))
    result = {"off": off, "on": on, "jobs_ratio": round(on["jobs_finished"] / max(off["jobs_finished"], 1), 2)}
    sys.stdout.write(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
