"""Prints, as JSON, how much work preemption for fair shares costs two bursty tenants, over half times of the flow.

Usage: python tests/benchmarks/preempted_work.py [--cores N] [--hours N] [--half-times S,S,...]

Two tenants of equal weight share a pool. Each has bursts: at moments of its own, for some minutes, it wants the whole
pool with jobs of one core that may be preempted at once. Every second ended jobs leave, waiting jobs begin where cores
are free by the rule that leaders use, and a tenant whose flow is under its share has jobs of the other stopped, the
least lost work first (`preemption.Excess`): what is stopped begins anew. A half time of nearly 0 is dominant-resource
fairness at each instant, since flow is usage then.

Reported by half time: core-seconds of work that were lost by preemption, by what was done in all and by what is lost
at a half time of nearly 0; and how far apart the two tenants were in what they had while both wanted more, over windows
of an hour: the mean of the difference by the sum.
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


def measure(cores: int, seconds: int, half_time_s: float) -> dict[str, float]:
    """Return what one half time costs."""
    rng = np.random.default_rng(3)
    wants = np.stack([_bursts(rng, seconds), _bursts(rng, seconds)])
    runs: list[deque[tuple[int, int]]] = [deque(), deque()]  # (begin, end), oldest first
    flow, had = np.zeros(2), np.zeros((2, seconds))
    lost = done = 0
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
            if not waiting[one]:
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
    gaps = []
    for begin in range(0, seconds, _WINDOW_S):
        part = slice(begin, begin + _WINDOW_S)
        sums = had[:, part][:, both[part]].sum(axis=1)
        if sums.sum():
            gaps.append(abs(sums[0] - sums[1]) / sums.sum())
    return {"lost_core_s": float(lost), "lost_by_done": lost / max(done, 1), "hourly_gap": float(np.mean(gaps))}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cores", type=int, default=64)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--half-times", default="10,60,300,900,3600")
    given = parser.parse_args()
    seconds = given.hours * 3600
    instant = measure(given.cores, seconds, _INSTANT_S)
    worlds: list[dict[str, Any]] = [{"half_time_s": 0.0, **instant}]
    for half_time_s in map(float, given.half_times.split(",")):
        found = measure(given.cores, seconds, half_time_s)
        worlds.append(
            {"half_time_s": half_time_s, **found, "of_instant": found["lost_core_s"] / instant["lost_core_s"]}
        )
    json.dump({"preempted_work": worlds}, sys.stdout, indent=2)


if __name__ == "__main__":
    main()
