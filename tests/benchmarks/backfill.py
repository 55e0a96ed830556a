"""Prints, as JSON, what promised starts and backfill make of a log of jobs, in virtual time.

Usage: python tests/benchmarks/backfill.py LOG... [--processors N] [--policy NAME...] [--estimates NAME...]

A log is in the Standard Workload Format; its machine is one node with as many cores as its header, or else the option,
says. `argosy_core.backfill` alone decides, at each arrival and each end. Jobs that state no run time are left out.

- `utilisation`: core-seconds of all jobs by those of the machine from the first arrival to the last end.
- `mean_wait_s`, `max_wait_s`: from arrival to start.
- `slowdown`: mean of (wait + run time) by run time, run times below 10 s taken as 10 s; at least 1.
- `broken_firm`, `broken_expected`: promises that could not be kept; `late`: firm promises after whose moment the job
  started (0 unless jobs run past their limit).

Policies: `easy` (submit order, one promise), `smallest-area`, and three settings of ours: `short-waits`, `full-use`,
and `slack`, for limits that are far too long.
Estimates: `stated` (the time asked for, at least the run time, as a time limit; where a log states none, the run time),
`none` (five days for every job), `learned` (from nothing but a job's class and user, as jobs end; the log's users, and
classes by run time: --classes many bands, with noise of --noise octaves), `refined` (limits as stated, order by their
geometric mean with what is learned from the user's jobs of like size and time asked for, which weighs --trust).
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from argosy_core.backfill import (
    SMALLEST_AREA,
    BackfillPolicy,
    OrderPolicy,
    Promise,
    PromiseKind,
    RunningWork,
    RunTimes,
    WaitingWork,
    choose_starts,
)
from argosy_workload.swf import read_swf

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
DAY_S = 86_400.0
PRIOR_S = 5 * DAY_S
POLICIES = {
    "easy": BackfillPolicy(),
    "smallest-area": BackfillPolicy(turns=SMALLEST_AREA, passing=SMALLEST_AREA),
    "short-waits": BackfillPolicy(
        turns=OrderPolicy(wait_exponent=0.5, run_time_exponent=1.5, size_exponent=1.0),
        passing=OrderPolicy(wait_exponent=3.0, size_exponent=-1.0),
        head_choice=32,
    ),
    "full-use": BackfillPolicy(
        turns=OrderPolicy(wait_exponent=3.0, run_time_exponent=1.25, size_exponent=-0.5),
        passing=OrderPolicy(wait_exponent=2.0, run_time_exponent=-1.0, size_exponent=-1.0),
        head_choice=64,
    ),
    "slack": BackfillPolicy(turns=SMALLEST_AREA, passing=SMALLEST_AREA, head_choice=32, slack_ratio=30.0),
}


@dataclass(frozen=True)
class Log:
    """Jobs in order of their arrival; n jobs."""

    submit_s: Floats
    run_s: Floats
    cores: Ints
    stated_s: Floats
    keys: Ints
    """(n, 2) class and user, for `learned`."""
    stated_keys: Ints
    """(n, 3) user, size and time asked for, without size, and user alone, for `refined`."""


@dataclass
class Machine:
    """One node and what runs on it."""

    free: int
    job: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    firm_end_s: Floats = field(default_factory=lambda: np.zeros(0))
    expected_end_s: Floats = field(default_factory=lambda: np.zeros(0))
    end_s: Floats = field(default_factory=lambda: np.zeros(0))

    def end(self, now_s: float, cores: Ints) -> Ints:
        """End what has ended and return it; `cores` are those of each job of the log."""
        ended = self.end_s <= now_s
        jobs = self.job[ended]
        self.free += int(cores[jobs].sum())
        for name in ("job", "firm_end_s", "expected_end_s", "end_s"):
            setattr(self, name, getattr(self, name)[~ended])
        return jobs

    def work(self, cores: Ints) -> RunningWork:
        """Return what runs."""
        return RunningWork(
            node=np.zeros(self.job.size, dtype=np.int32),
            demand=cores[self.job][:, None],
            firm_end_s=self.firm_end_s,
            expected_end_s=self.expected_end_s,
        )


def read_log(path: Path, class_count: int, noise: float) -> Log:
    """Return the jobs of a log that state a run time."""
    workload = read_swf(path, queue_by="user")
    chosen = np.flatnonzero(workload.run_s > 0)
    run_s = workload.run_s[chosen]
    cores = np.array([dict(shape.requests)["cpu"] for shape in workload.shapes])[workload.shape[chosen]] // 1000
    noisy = np.log2(run_s) + np.random.default_rng(0).normal(0.0, noise, run_s.size)
    bands = np.argsort(np.argsort(noisy)) * class_count // run_s.size
    stated_s = np.nan_to_num(workload.estimate_s[chosen])
    user = workload.queue[chosen].astype(np.int64)
    alike = [np.unique(np.stack(columns), axis=1, return_inverse=True)[1].ravel() * 3 + place for place, columns in
             enumerate([(user, cores, stated_s), (user, stated_s), (user,)])]  # fmt: skip
    return Log(
        submit_s=workload.submit_s[chosen],
        run_s=run_s,
        cores=cores.astype(np.int64),
        stated_s=np.maximum(stated_s, run_s),
        keys=np.stack([bands * 2, user * 2 + 1], axis=1),
        stated_keys=np.stack(alike, axis=1),
    )


def simulate(
    log: Log, cores: int, policy: BackfillPolicy, *, estimates: str, quantile: float, trust: float
) -> dict[str, float]:
    """Run a log through one node and return the figures."""
    count = log.submit_s.size
    has_limits, learns = estimates in {"stated", "refined"}, estimates in {"learned", "refined"}
    keys = log.stated_keys if has_limits else log.keys
    known = RunTimes(prior_s=np.inf if has_limits else PRIOR_S)
    machine = Machine(free=cores)
    limit_s = log.stated_s if has_limits else np.full(count, np.inf)
    estimate_s = log.stated_s.copy() if has_limits else np.full(count, PRIOR_S)
    start_s = np.full(count, np.nan)
    waiting: Ints = np.zeros(0, dtype=np.int64)
    promises: tuple[Promise, ...] = ()
    broken = dict.fromkeys(PromiseKind, 0)
    late, arrived = 0, 0
    first_promise: dict[int, float] = {}
    while arrived < count or waiting.size or machine.job.size:
        now_s = min([*log.submit_s[arrived : arrived + 1].tolist(), *machine.end_s.tolist()])
        jobs = machine.end(now_s, log.cores)
        if learns:
            known.error.add(estimate_s[jobs], log.run_s[jobs])
            known.observe(keys[jobs], log.run_s[jobs])
        until = int(np.searchsorted(log.submit_s, now_s, side="right"))
        waiting, arrived = np.append(waiting, np.arange(arrived, until)), until
        if not waiting.size or int(log.cores[waiting].min()) > machine.free:
            continue
        if learns:
            estimate_s[waiting] = refined(known.estimate(keys[waiting], quantile), limit_s[waiting], trust)
        if estimates == "learned":
            over = np.flatnonzero(machine.expected_end_s <= now_s)
            jobs = machine.job[over]
            longer_s = known.estimate(keys[jobs], quantile, now_s - start_s[jobs])
            machine.expected_end_s[over] = start_s[jobs] + longer_s
        starts = choose_starts(
            now_s,
            free=np.array([[machine.free]]),
            running=machine.work(log.cores),
            waiting=WaitingWork(
                job=waiting,
                demand=log.cores[waiting][:, None],
                size=log.cores[waiting].astype(np.float64),
                submit_s=log.submit_s[waiting],
                limit_s=limit_s[waiting],
                estimate_s=estimate_s[waiting],
            ),
            promises=promises,
            policy=policy,
        )
        promises = starts.promises
        for promise in starts.broken:
            broken[promise.kind] += 1
        for promise in promises:
            if promise.kind == PromiseKind.FIRM:
                first_promise.setdefault(promise.job, promise.moment_s)
        jobs = waiting[starts.rows]
        late += sum(now_s > first_promise.get(job, np.inf) for job in jobs.tolist())
        start_s[jobs] = now_s
        machine.free -= int(log.cores[jobs].sum())
        machine.job = np.append(machine.job, jobs)
        machine.firm_end_s = np.append(machine.firm_end_s, now_s + limit_s[jobs])
        machine.expected_end_s = np.append(machine.expected_end_s, now_s + estimate_s[jobs])
        machine.end_s = np.append(machine.end_s, now_s + log.run_s[jobs])
        waiting = np.delete(waiting, starts.rows)
    return figures(log, cores, start_s) | {
        "broken_firm": broken[PromiseKind.FIRM],
        "broken_expected": broken[PromiseKind.EXPECTED],
        "late": late,
        "estimates_exceeded_ratio": round(known.error.exceeded_count / max(1, known.error.count), 4),
        "estimate_error_octaves": round(known.error.log2_sum / max(1, known.error.count), 3),
    }


def refined(learned_s: Floats, limit_s: Floats, trust: float) -> Floats:
    """Return the geometric mean of what is learned and the limit, the learned alone where there is no limit."""
    has_limit = np.isfinite(limit_s)
    mean_s = np.minimum(learned_s, limit_s) ** trust * np.where(has_limit, limit_s, 1.0) ** (1.0 - trust)
    return np.where(has_limit, mean_s, learned_s)


def figures(log: Log, cores: int, start_s: Floats) -> dict[str, float]:
    """Return what the aims are about."""
    wait_s, end_s = start_s - log.submit_s, start_s + log.run_s
    span_s = float(end_s.max() - log.submit_s.min())
    return {
        "utilisation": round(float((log.run_s * log.cores).sum()) / (cores * span_s), 4),
        "mean_wait_s": round(float(wait_s.mean()), 1),
        "max_wait_s": round(float(wait_s.max()), 1),
        "slowdown": round(float(np.maximum(1.0, (wait_s + log.run_s) / np.maximum(log.run_s, 10.0)).mean()), 3),
    }


def main(arguments: list[str], write: Callable[[str], object] = sys.stdout.write) -> None:
    """Run every log under every policy with every kind of estimates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path, nargs="+")
    parser.add_argument("--processors", type=int, default=256, help="cores of the machine")
    parser.add_argument("--policy", nargs="+", choices=sorted(POLICIES), default=list(POLICIES))
    parser.add_argument("--estimates", nargs="+", choices=["stated", "none", "learned", "refined"], default=["stated"])
    parser.add_argument("--classes", type=int, default=200)
    parser.add_argument("--noise", type=float, default=1.0)
    parser.add_argument("--quantile", type=float, default=0.8)
    parser.add_argument("--trust", type=float, default=0.25)
    options = parser.parse_args(arguments)
    for path in options.log:
        log = read_log(path, options.classes, options.noise)
        for policy in options.policy:
            for estimates in options.estimates:
                begun_s = time.perf_counter()
                result = simulate(
                    log,
                    options.processors,
                    POLICIES[policy],
                    estimates=estimates,
                    quantile=options.quantile,
                    trust=options.trust,
                )
                rate = round(log.run_s.size / (time.perf_counter() - begun_s))
                line = {"log": path.name, "policy": policy, "estimates": estimates, **result, "jobs_per_s": rate}
                write(json.dumps(line) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
