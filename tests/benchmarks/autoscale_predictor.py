"""Prints, as JSON, how well pods are sized on recorded demand: units held at throttled intervals, changes of size.

Usage: python tests/benchmarks/autoscale_predictor.py TRACE... [--units 8] [--step-s 300]

A trace has one machine a line (plain or gzip), its load in percent of the largest size at each step. `predictor` is
what ships with its defaults; `last` sizes for the last demand and a tenth more, `peak` for the largest of the last six,
`quantile` for 93 % of the last four hours and the last one, `oracle` for what comes. The first step is not counted.
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


def scored(sizes: Floats, demand: Floats) -> dict[str, float]:
    """Return what sizes cost and what they were not enough for."""
    sizes, demand = sizes[:, 1:], demand[:, 1:]
    return {
        "mean_units": round(float(sizes.mean()), 3),
        "throttled_ratio": round(float((demand > sizes + 1e-9).mean()), 4),
        "changes_per_machine": round(float((np.diff(sizes, axis=1) != 0).sum(axis=1).mean()), 1),
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
        sizes = {
            "predictor": predicted(demand, args.units, args.step_s),
            "last": by_rule(demand, args.units, lambda past: past[:, -1] / 0.9),
            "peak": by_rule(demand, args.units, lambda past: past[:, -6:].max(axis=1)),
            "quantile": by_rule(
                demand, args.units, lambda past: np.maximum(np.quantile(past[:, -WINDOW:], 0.93, axis=1), past[:, -1])
            ),
            "oracle": np.maximum(1.0, np.ceil(demand)),
        }
        result[path.name.removesuffix(".gz")] = {name: scored(one, demand) for name, one in sizes.items()}
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
