"""Prints, as JSON, what the leader makes of a log of jobs in virtual time: the figures of `backfill.py`, of the mesh.

Usage: python tests/benchmarks/leader_logs.py LOG [--processors N] [--jobs N] [--policy NAME...] [--estimates NAME]
           [--choice N] [--queue-by FIELD]

A log is in the Standard Workload Format; its machine is one node of one cluster. Leader, sampler, executor and cluster
decide and act as they do in `argosy simulate`, with default settings but no cap. Estimates are time limits, too, but
for `none` and `days`: nothing is said, or five days of every job, and run times are learned. With `days` jobs are in as
many job sets as --classes says: bands of run time, with a noise of --noise octaves.

Policies are settings of the round: `submit` and `smallest-area` are orders within a queue; `short-waits` and `full-use`
begin what has room in submit order, and choose who is promised a start among those of smallest area, `--choice` many
if it is given; `slack` begins the smallest area first, and its promises bound how long others may go before them.

- `utilisation`, `mean_wait_s`, `max_wait_s`, `slowdown`: as of `backfill.py`.
- `broken_firm`: firm promises that could not be kept; `promises`: all that was counted of promises.
- `rounds`, `cpu_s`: rounds of the leader, processor time of the whole simulation.
"""

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from argosy_local.node_files import TraceChoice, read_workload
from argosy_local.simulation import simulate
from argosy_workload.model import ESTIMATES, NodeSet, Workload

DAY_S = 86_400.0
POLICIES: dict[str, dict[str, object]] = {
    "submit": {},
    "smallest-area": {"job_order": "smallest-area"},
    "short-waits": {
        "promise_order": "smallest-area",
        "promise_choice": 32,
        "promise_one_run": True,
        "age_bound_s": 20 * DAY_S,
    },
    "slack": {
        "job_order": "smallest-area",
        "promise_order": "smallest-area",
        "promise_choice": 32,
        "promise_one_run": True,
        "promise_slack_ratio": 30.0,
        "age_bound_s": 20 * DAY_S,
    },
    "full-use": {
        "promise_order": "response-ratio",
        "promise_choice": 128,
        "promise_one_run": True,
        "size_lead_s": 200_000.0,
        "age_bound_s": 1e9,
    },
}


def in_bands(workload: Workload, class_count: int, noise: float) -> Workload:
    """Return jobs of which five days are said, and whose job sets are bands of their run times."""
    noisy = np.log2(np.maximum(workload.run_s, 1.0))
    noisy += np.random.default_rng(0).normal(0.0, noise, noisy.size)
    bands = np.argsort(np.argsort(noisy)) * class_count // noisy.size
    return replace(
        workload,
        estimate_s=np.full(noisy.size, 5 * DAY_S),
        job_sets=tuple(f"band-{band}" for band in range(class_count)),
        job_set=bands.astype(np.int32),
    )


def measure(workload: Workload, nodes: NodeSet, policy: str, *, choice: int | None = None) -> dict[str, object]:
    """Return the figures of a log under one policy, with another `promise_choice` if one is given."""
    settings = POLICIES[policy] if choice is None else {**POLICIES[policy], "promise_choice": choice}
    processors = sum(dict(model.allocatable)["cpu"] for model in nodes.models) / 1000
    begun_s = time.process_time()
    done = simulate(workload, nodes, round_settings=settings)
    records, run_s = done.records, workload.run_s
    wait_s = records.running_s - records.submit_s
    cores = np.array([dict(shape.requests)["cpu"] / 1000 for shape in workload.shapes])[workload.shape]
    return {
        "jobs": len(workload),
        "policy": policy,
        "promise_choice": settings.get("promise_choice", 1),
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
    parser.add_argument("--policy", nargs="+", choices=sorted(POLICIES), default=list(POLICIES))
    parser.add_argument("--estimates", choices=[*ESTIMATES, "days"], default="exact", help="what is said of run times")
    parser.add_argument("--choice", type=int, help="promise_choice instead of the policies' own")
    parser.add_argument("--queue-by", choices=["auto", "queue", "user"], default="auto", help="as of `argosy simulate`")
    parser.add_argument("--classes", type=int, default=200)
    parser.add_argument("--noise", type=float, default=1.0)
    chosen = parser.parse_args()
    choice = TraceChoice(
        trace=chosen.log,
        nodes=f"1x{chosen.processors}cpu,1Ti",
        clusters=1,
        job_limit=chosen.jobs,
        seed=0,
        queue_by=chosen.queue_by,
        estimates="none" if chosen.estimates == "days" else chosen.estimates,
        time_limits=chosen.estimates not in {"none", "days"},
    )
    workload, nodes = read_workload(choice)
    if chosen.estimates == "days":
        workload = in_bands(workload, chosen.classes, chosen.noise)
    for policy in chosen.policy:
        line = {
            "log": Path(chosen.log).name,
            "estimates": chosen.estimates,
            **measure(workload, nodes, policy, choice=chosen.choice),
        }
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
