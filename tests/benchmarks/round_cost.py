"""Prints, as JSON, what a round costs the leader however little is in it, what each job adds, and where that goes.

Usage: python tests/benchmarks/round_cost.py [--clusters N] [--seconds S] [--rates R,R,...] [--core-only]

A mesh in Armada's shape is measured at several rates. The leader's CPU time per round lies on a line over the jobs per
round, fitted by least squares: its intercept is the fixed cost of a round (polling, timers and heartbeats of the time
between two rounds included), its slope the cost of a job. Then the same line for each step of a round in the leader's
core alone, without network and database, where what is left of the intercept is the shell's: sessions, event log,
database. Times are of the processor; on a busy machine compare two checkouts by runs in turn.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from argosy_workload import bench_round

_ARRIVALS = (20, 100, 300, 600)
_SAMPLERS = ("sample_us", "commit_us", "release_us")
"""Steps of the samplers, which the leader does not pay for."""


def _fit(jobs: list[float], us: list[float]) -> dict[str, float]:
    """Return the line of least squares through (jobs per round, microseconds per round)."""
    slope, intercept = np.polyfit(jobs, us, 1)
    return {"fixed_us": round(float(intercept), 1), "job_us": round(float(slope), 2)}


def measure_mesh(rates: list[float], clusters: int, seconds: float) -> dict[str, Any]:
    """Return the line of the whole leader process, and its points; calls are small, so that each round has jobs."""
    command = [sys.executable, "-m", "argosy_cli", "bench", "mesh", "--shape=armada", "--generators=2", "--output=json"]
    command += [f"--clusters={clusters}", f"--seconds={seconds:g}", "--call-size=10"]
    points = []
    for rate in rates:
        output = subprocess.run([*command, f"--rate={rate:g}"], check=True, stdout=subprocess.PIPE, text=True).stdout
        (result,) = json.loads(output)["results"]
        rounds, jobs = result["counters"]["rounds"], result["counters"]["leases"]
        cpu_us = result["cpu_us_per_job"]["leader"] * result["counters"]["succeeded"]
        points.append(
            {
                "rate": rate,
                "rounds_per_s": round(rounds / seconds, 2),
                "jobs_per_round": round(jobs / rounds, 1),
                "leader_us_per_round": round(cpu_us / rounds),
                "considered_p99_ms": round(result["latency_ms"]["considered"]["p99_ms"]),
                "central_us_per_job": round(result["central_cpu_us_per_job"], 1),
            }
        )
    line = _fit([one["jobs_per_round"] for one in points], [one["leader_us_per_round"] for one in points])
    return {**line, "points": points}


def measure_core(rounds: int) -> dict[str, dict[str, float]]:
    """Return the line of each step of a round in the leader's core, with ten clusters."""
    base = replace(bench_round.BASE, jobs=2_000)
    found = [bench_round.measure(replace(base, arrivals=count), rounds=rounds) for count in _ARRIVALS]
    jobs = [one["leased"] for one in found]
    steps = [name for name in found[0] if name.endswith("_us") and name not in ("round_us", "leased_us", *_SAMPLERS)]
    lines = {name.removesuffix("_us"): _fit(jobs, [one[name] for one in found]) for name in steps}
    lines["together"] = _fit(jobs, [sum(one[name] for name in steps) for one in found])
    return lines


def main() -> None:
    """Measure the mesh and the core, or the core alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--rates", default="150,500,1500,3000")
    parser.add_argument("--rounds", type=int, default=30, help="rounds of the core per point")
    parser.add_argument("--core-only", action="store_true")
    given = parser.parse_args()
    report: dict[str, Any] = {"core": measure_core(given.rounds)}
    if not given.core_only:
        rates = [float(rate) for rate in given.rates.split(",")]
        report["leader"] = measure_mesh(rates, given.clusters, given.seconds)
    print(json.dumps(report, indent=2))  # noqa: T201


if __name__ == "__main__":
    main()
