"""Prints, as JSON, how much work preemption for fair shares costs two bursty tenants, over half times of the flow.

Usage: python tests/benchmarks/preempted_work.py [--cores N] [--hours N] [--draws N] [--half-times S,S,...]
    [--delays S,S,...]

Two tenants of equal weight share a pool. Each has bursts: at moments of its own, for some minutes, it wants the whole
pool with jobs of one core that may be preempted at once. Every second ended jobs leave, waiting jobs begin where cores
are free by the rule that leaders use, and a tenant whose flow is under its share has jobs of the other stopped, the
least lost work first (`preemption.Excess`): what is stopped begins anew. A half time of nearly 0 is dominant-resource
fairness at each instant, since flow is usage then.

Reported by half time: core-seconds of work that were lost by preemption, by what was done in all and by what is lost
at a half time of nearly 0; and how far apart the two tenants were over windows of an hour, the mean of the difference
by the sum: in what they had while both wanted more (`overlap_gap`), and in all that they had (`hourly_gap`). The same
for rules without a memory: shares at each instant, but nobody is stopped before a tenant was below its share for a
while. All are means over draws of the bursts.
"""

import argparse
import json
import sys
from collections import deque
from typing import Any

import numpy as np

from argosy_core.preemption import Excess
from argosy_core.queueing import advance_flow

_INSTANT_S = 1e-3
_BOTH = np.ones(2)
_WINDOW_S = 3600


def _bursts(rng: np.random.Generator, seconds: int) -> np.ndarray:
    """Return for each second whether a tenant wants cores: bursts of 2 to 12 minutes, as much apart."""
    wants = np.zeros(seconds, dtype=np.bool_)
    at = int(rng.integers(0, 600))
    while at < seconds:
        length = int(rng.integers(120, 720))
        wants[at : at + length] = True
        at += length + int(rng.integers(120, 720))
    return wants


def measure(cores: int, seconds: int, half_time_s: float, *, delay_s: int = 0, draw: int = 0) -> dict[str, float]:
    """Return what one half time costs, if nobody is stopped for who was below its share for less than a delay."""
    rng = np.random.default_rng(3 + draw)
    wants = np.stack([_bursts(rng, seconds), _bursts(rng, seconds)])
    runs: list[deque[tuple[int, int]]] = [deque(), deque()]  # (begin, end), oldest first
    flow, had = np.zeros(2), np.zeros((2, seconds))
    lost = done = 0
    since_s = [0, 0]
    for now in range(seconds):
        for one in (0, 1):
            ended = [run for run in runs[one] if run[1] <= now]
            done += sum(end - begin for begin, end in ended)
            runs[one] = deque(run for run in runs[one] if run[1] > now)
        held = np.array([len(runs[0]), len(runs[1])], dtype=np.float64)
        flow = advance_flow(np.maximum(flow, held), held, elapsed_s=1.0, half_time_s=half_time_s)
        free = cores - int(held.sum())
        waiting = [bool(wants[one, now]) for one in (0, 1)]
        while free and any(waiting):
            one = min(
                (one for one in (0, 1) if waiting[one]), key=lambda one: (max(flow[one], held[one] + 1), held[one])
            )
            runs[one].append((now, now + int(rng.integers(60, 600))))
            held[one] += 1
            free -= 1
        flow = np.maximum(flow, held)
        for one in (0, 1):
            if not waiting[one] or 2 * held[one] >= cores:
                since_s[one] = now
            if not waiting[one] or now - since_s[one] < delay_s:
                continue
            excess = Excess(
                flow, held, weight=_BOTH, has_work=np.array(waiting) | (held > 0), capacity_cores=float(cores)
            )
            while runs[1 - one] and excess.may_gain(one, 1.0) and excess.over()[1 - one] >= 1.0:
                begin, _ = runs[1 - one].pop()  # the youngest has done least
                lost += now - begin
                excess.note(1 - one, -1.0)
                excess.note(one, 1.0)
                runs[one].append((now, now + int(rng.integers(60, 600))))
                held += (1.0, -1.0) if one == 0 else (-1.0, 1.0)
            flow = np.maximum(flow, held)
        had[:, now] = held
    both = wants[0] & wants[1]
    return {
        "lost_core_s": float(lost),
        "lost_by_done": lost / max(done, 1),
        "overlap_gap": _gap(np.where(both, had, 0.0)),
        "hourly_gap": _gap(had),
    }


def _gap(had: np.ndarray) -> float:
    """Return how far apart what two tenants had is, by its sum, in the mean over windows."""
    sums = [had[:, begin : begin + _WINDOW_S].sum(axis=1) for begin in range(0, had.shape[1], _WINDOW_S)]
    return float(np.mean([abs(one - other) / (one + other) for one, other in sums if one and other]))


def _mean(cores: int, seconds: int, half_time_s: float, *, delay_s: int = 0, draws: int) -> dict[str, float]:
    """Return the means of all that is measured."""
    found = [measure(cores, seconds, half_time_s, delay_s=delay_s, draw=draw) for draw in range(draws)]
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cores", type=int, default=64)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--half-times", default="60,300,450,600,900")
    parser.add_argument("--delays", default="60,120,100000")
    given = parser.parse_args()
    seconds = given.hours * 3600
    instant = _mean(given.cores, seconds, _INSTANT_S, draws=given.draws)
    rules = [(float(text), 0) for text in given.half_times.split(",")]
    rules += [(_INSTANT_S, int(text)) for text in given.delays.split(",")]
    worlds: list[dict[str, Any]] = [{"half_time_s": 0.0, "delay_s": 0, **instant}]
    for half_time_s, delay_s in rules:
        found = _mean(given.cores, seconds, half_time_s, delay_s=delay_s, draws=given.draws)
        of_instant = found["lost_core_s"] / instant["lost_core_s"]
        worlds.append({"half_time_s": half_time_s, "delay_s": delay_s, **found, "of_instant": of_instant})
    json.dump({"preempted_work": worlds}, sys.stdout, indent=2)


if __name__ == "__main__":
    main()
