"""Prints, as JSON, how well pods are sized on recorded demand: units held at throttled intervals, changes of size.

Usage: python tests/benchmarks/autoscale_predictor.py TRACE... [--units 8] [--step-s 300]

A trace has one machine a line (plain or gzip), its load in percent of the largest size at each step. `predictor` is
what ships with its defaults; `last` sizes for the last demand and a tenth more, `peak` for the largest of the last six,
`quantile` for 93 % of the last four hours and the last one, `oracle` for what comes. The first step is not counted.

At the ratio of `predictor`: `peak_by_hindsight` and `quantile_by_hindsight` with the shortest window and the
lowest level that are throttled no more on this very trace, and `oracle_at_ratio`, the least that sizes can hold, with
all that comes known and one unit at least.
"""

import argparse
import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from argosy_core.autoscale import DemandHistory, PredictorSettings

Floats = npt.NDArray[np.float64]
WINDOW = 48


def read_trace(path: Path) -> Floats:
    """Return the load of each machine at each step, percent."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        return np.array([[float(one) for one in line.split(",")] for line in lines if line[:1].isdigit()])


def predicted(demand: Floats, units: int, step_s: float, short_ratio: float | None = None) -> Floats:
    """Return the sizes that the predictor gives, with its defaults or short for another part of the time."""
    history = DemandHistory(units, None if short_ratio is None else PredictorSettings(short_ratio=short_ratio))
    slots = history.add(len(demand))
    bounds = np.full(len(slots), 1), np.full(len(slots), units)
    sizes = np.ones_like(demand)
    for step in range(1, demand.shape[1]):
        history.observe(slots, demand[:, step - 1], step_s)
        sizes[:, step] = history.goals(slots, sizes[:, step - 1].astype(int), bounds, np.full(len(slots), True))
    return sizes


def by_rule(demand: Floats, units: int, rule: Callable[[Floats], Floats]) -> Floats:
    """Return the sizes that a rule of the past demands gives."""
    sizes = np.ones_like(demand)
    for step in range(1, demand.shape[1]):
        sizes[:, step] = np.clip(np.ceil(rule(demand[:, :step])), 1, units)
    return sizes


def peak(demand: Floats, units: int, count: int) -> Floats:
    """Return sizes for the largest of the last demands."""
    return by_rule(demand, units, lambda past: past[:, -count:].max(axis=1))


def quantile(demand: Floats, units: int, level: float) -> Floats:
    """Return sizes for a part of the last four hours, and the last demand."""
    return by_rule(demand, units, lambda past: np.maximum(np.quantile(past[:, -WINDOW:], level, axis=1), past[:, -1]))


def by_hindsight(make: Callable[[int], Floats], values: range, demand: Floats, ratio: float) -> tuple[int, Floats]:
    """Return the lowest value, and its sizes, with which demand is throttled no more than in a part of the time.

    More of the value is throttled less; if none is enough, the highest counts.
    """
    low, high = 0, len(values) - 1
    while low < high:
        middle = (low + high) // 2
        is_enough = scored(make(values[middle]), demand)["throttled_ratio"] <= ratio
        low, high = (low, middle) if is_enough else (middle + 1, high)
    return values[low], make(values[low])


def oracle_at_ratio(demand: Floats, ratio: float) -> Floats:
    """Return the cheapest sizes that are too small in a part of the time: where they would be largest, they are one."""
    sizes = np.maximum(1.0, np.ceil(demand))
    counted = sizes[:, 1:].ravel()
    counted[np.argsort(-counted, kind="stable")[: int(ratio * counted.size)]] = 1.0
    sizes[:, 1:] = counted.reshape(sizes[:, 1:].shape)
    return sizes


def scored(sizes: Floats, demand: Floats) -> dict[str, float]:
    """Return what sizes cost and what they were not enough for."""
    sizes, demand = sizes[:, 1:], demand[:, 1:]
    return {
        "mean_units": round(float(sizes.mean()), 3),
        "throttled_ratio": round(float((demand > sizes + 1e-9).mean()), 4),
        "changes_per_machine": round(float((np.diff(sizes, axis=1) != 0).sum(axis=1).mean()), 1),
    }


def all_sizes(demand: Floats, units: int, step_s: float) -> dict[str, Floats]:
    """Return the sizes that each rule gives."""
    ours = predicted(demand, units, step_s)
    ratio = scored(ours, demand)["throttled_ratio"]
    count, longest = by_hindsight(lambda last: peak(demand, units, last), range(1, 49), demand, ratio)
    level, highest = by_hindsight(
        lambda permille: quantile(demand, units, permille / 1000), range(800, 1001), demand, ratio
    )
    return {
        "predictor": ours,
        "last": by_rule(demand, units, lambda past: past[:, -1] / 0.9),
        "peak": peak(demand, units, 6),
        "quantile": quantile(demand, units, 0.93),
        f"peak_by_hindsight of {count}": longest,
        f"quantile_by_hindsight at {level / 1000}": highest,
        "oracle": np.maximum(1.0, np.ceil(demand)),
        "oracle_at_ratio": oracle_at_ratio(demand, ratio),
    }


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--units", type=int, default=8)
    parser.add_argument("--step-s", type=float, default=300.0)
    args = parser.parse_args()
    result = {}
    for path in args.traces:
        demand = read_trace(path) / 100.0 * args.units
        sizes = all_sizes(demand, args.units, args.step_s)
        result[path.name.removesuffix(".gz")] = {name: scored(one, demand) for name, one in sizes.items()}
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
