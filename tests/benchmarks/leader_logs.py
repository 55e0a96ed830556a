"""Prints, as JSON, what the leader makes of a log of jobs in virtual time: the figures of `backfill.py`, of the mesh.

Usage: python tests/benchmarks/leader_logs.py LOG [--processors N] [--jobs N] [--order NAME...] [--estimates NAME]

A log is in the Standard Workload Format; its machine is one node of one cluster. Leader, sampler, executor and cluster
decide and act as they do in `argosy simulate`, with default settings but no cap. Estimates are time limits, too, but
for `none`; then run times are learned.

- `utilisation`, `mean_wait_s`, `max_wait_s`, `slowdown`: as of `backfill.py`.
- `broken_firm`: firm promises that could not be kept; `promises`: all that was counted of promises.
- `rounds`, `cpu_s`: rounds of the leader, processor time of the whole simulation.
"""

import argparse
import json
import sys
import time

import numpy as np

from argosy_local.node_files import TraceChoice, read_workload
from argosy_local.simulation import simulate
from argosy_workload.model import ESTIMATES


def measure(choice: TraceChoice, processors: int, order: str) -> dict[str, object]:
    """Return the figures of a log under one order."""
    workload, nodes = read_workload(choice)
    begun_s = time.process_time()
    done = simulate(workload, nodes, round_settings={"job_order": order})
    records, run_s = done.records, workload.run_s
    wait_s = records.running_s - records.submit_s
    cores = np.array([dict(shape.requests)["cpu"] / 1000 for shape in workload.shapes])[workload.shape]
    return {
        "jobs": len(workload),
        "order": order,
        "estimates": choice.estimates,
        "utilisation": round(float((cores * run_s).sum() / (processors * done.virtual_s)), 4),
        "mean_wait_s": round(float(wait_s.mean())),
        "max_wait_s": round(float(wait_s.max())),
        "slowdown": round(float(np.maximum((wait_s + run_s) / np.maximum(run_s, 10.0), 1.0).mean()), 1),
        "broken_firm": done.counters.get("firm_promises_broken", 0),
        "promises": {name: count for name, count in done.counters.items() if "promises" in name},
        "rounds": done.counters["rounds"],
        "cpu_s": round(time.process_time() - begun_s, 1),
    }


def main() -> int:
    """Run the log under each order; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", help="file in the Standard Workload Format")
    parser.add_argument("--processors", type=int, default=256, help="cores of the node")
    parser.add_argument("--jobs", type=int, help="only the first so many jobs")
    parser.add_argument("--order", nargs="+", default=["submit", "smallest-area"], help="orders within a queue")
    parser.add_argument("--estimates", choices=ESTIMATES, default="exact", help="what is known of run times")
    chosen = parser.parse_args()
    choice = TraceChoice(
        trace=chosen.log,
        nodes=f"1x{chosen.processors}cpu,1Ti",
        clusters=1,
        job_limit=chosen.jobs,
        seed=0,
        queue_by="auto",
        estimates=chosen.estimates,
        time_limits=chosen.estimates != "none",
    )
    json.dump([measure(choice, chosen.processors, order) for order in chosen.order], sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
