"""Prints, as JSON, how far above its need a pod is worth sizing, when an API server takes so many patches a second.

Usage: python tests/benchmarks/autoscale_ahead.py TRACE... [--units 8] [--step-s 300] [--patches-per-s 800]
       [--ahead 0 1 2] [--pods 10000 1000000 50000000]

A trace is as for `autoscale_predictor.py`, or a CSV of jobs with `timestamp`, `duration`, `num_gpus` and `cluster`:
then each cluster's day is a machine, its load what is in use of the most that the cluster ever had.

With `--ahead` units a pod that must grow is given so many more than the predictor's goal, and shrinks only once it has
more than twice as many above it; with 0 it follows the goal. `in_time` is with an API server that is never busy;
`by_pods` says what is throttled if so many pods share one, those that lack most first, and the others in later steps.
`begin_s` is how long the patches of the first step of 10,000 pods take, which all begin with one unit; `burst_s` the
same of the busiest step after the first hour.

`same_by_price` is what the predictor holds, following its goal, if it may be short as rarely as that way comes to.
"""

import argparse
import csv
import gzip
import json
import sys
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
from autoscale_predictor import predicted, read_trace, scored

Floats = npt.NDArray[np.float64]
DAY_S = 86_400.0
BURST_PODS = 10_000


def read_jobs(path: Path, step_s: float) -> Floats:
    """Return the load of each cluster on each of its days, percent of the most that it ever had in use."""
    events: dict[str, list[tuple[float, int]]] = defaultdict(list)
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for row in csv.DictReader(lines):
            begun_s = datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC).timestamp()
            events[row["cluster"]] += [
                (begun_s, int(row["num_gpus"])),
                (begun_s + float(row["duration"]), -int(row["num_gpus"])),
            ]
    days = []
    per_day = round(DAY_S / step_s)
    for changes in events.values():
        at_s, by = np.array(sorted(changes)).T
        edges = np.arange(at_s[0], min(at_s[-1], at_s[0] + 200 * DAY_S), step_s)
        used = np.cumsum(by)[np.searchsorted(at_s, edges, side="right") - 1]
        whole = used[: len(used) // per_day * per_day].reshape(-1, per_day)
        days.append(100.0 * whole / max(used.max(), 1.0))
    return np.concatenate(days)


def sized_ahead(goals: Floats, ahead: int, units: int, budget: int) -> Floats:
    """Return the sizes of pods that ask for more than their goal, of which so many are patched in each step."""
    sizes = np.ones_like(goals)
    for step in range(1, goals.shape[1]):
        have, goal = sizes[:, step - 1], goals[:, step]
        wants = np.where((goal > have) | (goal < have - 2 * ahead), np.minimum(goal + ahead, units), have)
        changed = np.flatnonzero(wants != have)
        if len(changed) > budget:
            changed = changed[np.argsort(have[changed] - wants[changed], kind="stable")[:budget]]
        sizes[:, step] = have
        sizes[changed, step] = wants[changed]
    return sizes


def figures(demand: Floats, options: argparse.Namespace) -> dict[str, dict[str, object]]:
    """Return what each way of asking costs."""
    goals = predicted(demand, options.units, options.step_s)
    found: dict[str, dict[str, object]] = {}
    settled = round(3600.0 / options.step_s)
    days = (demand.shape[1] - 1) * options.step_s / DAY_S
    for ahead in options.ahead:
        free = sized_ahead(goals, ahead, options.units, len(goals))
        changes = np.diff(free, axis=1) != 0
        scores = scored(free, demand)
        priced = predicted(demand, options.units, options.step_s, scores["throttled_ratio"])
        late = {}
        for pods in options.pods:
            budget = round(len(goals) * options.patches_per_s * options.step_s / pods)
            late[str(pods)] = scored(sized_ahead(goals, ahead, options.units, budget), demand)["throttled_ratio"]
        found[str(ahead)] = {
            "in_time": scores,
            "patches_per_s_of_10000": round(BURST_PODS * changes.sum() / len(goals) / (days * DAY_S), 2),
            "same_by_price": scored(priced, demand),
            "begin_s": round(BURST_PODS * float(changes[:, 0].mean()) / options.patches_per_s, 2),
            "burst_s": round(BURST_PODS * float(changes[:, settled:].mean(axis=0).max()) / options.patches_per_s, 2),
            "by_pods": late,
        }
    return found


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--units", type=int, default=8)
    parser.add_argument("--step-s", type=float, default=300.0)
    parser.add_argument("--patches-per-s", type=float, default=800.0)
    parser.add_argument("--ahead", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--pods", type=int, nargs="+", default=[10_000, 1_000_000, 50_000_000])
    options = parser.parse_args()
    result = {}
    for path in options.traces:
        has_jobs = b"num_gpus" in (gzip.open if path.suffix == ".gz" else open)(path, "rb").readline()
        loads = read_jobs(path, options.step_s) if has_jobs else read_trace(path)
        result[path.name.removesuffix(".gz")] = figures(loads / 100.0 * options.units, options)
    sys.stdout.write(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
