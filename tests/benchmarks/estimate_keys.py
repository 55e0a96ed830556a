"""Prints, as JSON, how far learned run times are off, by which keys of a job they are learned and in which order.

Usage: python tests/benchmarks/estimate_keys.py LOG [--bands N] [--noise OCTAVES] [--keys ORDER...]

A log is in the Standard Workload Format and has users. Each job is estimated when it began and learned of when it
ended, at the times of the log. An order is letters: `U` user and class, `Q` queue and class, `c` class, `u` user, `q`
queue, `p` all. A class is what a job asks for; with --bands it is one of so many bands of run time, with a noise.

- `error_octaves`: mean absolute binary logarithm of the quantile's estimate by the run time.
- `exceeded_ratio`: jobs that ran longer than estimated.
- `pinball_octaves`: what a quantile minimises; less is better at the same quantile.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

from argosy_core.backfill import RunTimes
from argosy_workload.model import Workload
from argosy_workload.swf import read_swf

ORDERS = ("Qcqp", "UQcuqp", "UuQcqp", "UQucqp", "UQcqp", "QcuUqp")
QUANTILES = (0.5, 0.9)
PRIOR_S = 3600.0
Ints = npt.NDArray[np.int64]


def bands(run_s: npt.NDArray[np.float64], count: int, noise: float) -> Ints:
    """Return the band of each run time, blurred by a noise."""
    noisy = np.log2(np.maximum(run_s, 1.0)) + np.random.default_rng(0).normal(0.0, noise, run_s.size)
    return np.asarray(np.argsort(np.argsort(noisy)) * count // run_s.size, dtype=np.int64)


def keys_of(workload: Workload, classes: Ints, order: str) -> Ints:
    """Return (n, k) keys of jobs."""
    user, queue = np.asarray(workload.user, dtype=np.int64), workload.queue.astype(np.int64)
    known = {
        "U": user << 32 | classes,
        "Q": queue << 32 | classes,
        "c": classes,
        "u": user,
        "q": queue,
        "p": np.zeros_like(user),
    }
    return np.stack([known[letter] | place << 60 for place, letter in enumerate(order)], axis=1)


def measure(workload: Workload, keys: Ints) -> list[dict[str, float]]:
    """Return the figures for each quantile."""
    run_s, known = np.maximum(workload.run_s, 1.0), RunTimes(PRIOR_S, 8192)
    moments = np.concatenate([workload.submit_s + workload.run_s, workload.submit_s])
    estimate_s = np.zeros((len(QUANTILES), len(run_s)))
    for event in np.argsort(moments, kind="stable").tolist():
        job = event % len(run_s)
        if event < len(run_s):
            known.observe(keys[job : job + 1], run_s[job : job + 1])
        else:
            for row, quantile in enumerate(QUANTILES):
                estimate_s[row, job] = known.estimate(keys[job : job + 1], quantile)[0]
    lines = []
    for quantile, expected_s in zip(QUANTILES, estimate_s, strict=True):
        over = np.log2(run_s / expected_s)
        lines.append(
            {
                "quantile": quantile,
                "error_octaves": round(float(np.abs(over).mean()), 3),
                "exceeded_ratio": round(float((over > 0).mean()), 3),
                "pinball_octaves": round(float(np.maximum(quantile * over, (quantile - 1) * over).mean()), 3),
            }
        )
    return lines


def main() -> None:
    """Measure each order."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path)
    parser.add_argument("--bands", type=int, default=0)
    parser.add_argument("--noise", type=float, default=1.0)
    parser.add_argument("--keys", nargs="+", default=ORDERS)
    chosen = parser.parse_args()
    workload = read_swf(chosen.log, queue_by="queue")
    classes = bands(workload.run_s, chosen.bands, chosen.noise) if chosen.bands else workload.shape.astype(np.int64)
    for order in chosen.keys:
        for figures in measure(workload, keys_of(workload, classes, order)):
            sys.stdout.write(json.dumps({"keys": order, "bands": chosen.bands, **figures}) + "\n")


if __name__ == "__main__":
    main()
