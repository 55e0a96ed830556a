"""Random worlds with faults, many of them: what `make nightly` runs.

Each seed is two worlds, one with everything that `make test` samples and a wide one (bags of several pods, an API that
dies, clusters that are declared gone, labels taken from pods). A world fails if an invariant does not hold, or if it
does not come to rest.

    python tests/benchmarks/simulated_worlds.py --first 0 --count 1000 --journal nightly.txt

With a journal each seed that passed is a line there, and a run that was ended goes on where it stopped; seeds that
failed are run again. It belongs to one state of the sources: begin a new one after a change.

Prints the seeds that failed, each as the call that repeats it, and seeds per minute; ends with 1 if there are any.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from argosy_simulation import draw_world

CHECK_STEPS = 25
REPORT_PERIOD_S = 60.0


def try_seed(seed: int) -> list[str]:
    """Run the worlds of a seed; return what failed, for people."""
    failures = []
    for wide, gangs in ((False, False), (True, False), (False, True)):
        try:
            draw_world(seed, wide=wide, gangs=gangs, check_steps=CHECK_STEPS).run()
        except Exception as error:  # noqa: BLE001 - whatever ends a world is a finding
            failures.append(f"draw_world({seed}, wide={wide}, gangs={gangs}): {type(error).__name__}: {error}")
    return failures


def tell(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run the worlds; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=1000, help="number of seeds")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--journal", type=Path, help="file of the seeds that passed, to go on where a run was ended")
    chosen = parser.parse_args()
    journal: Path = chosen.journal or Path(os.devnull)
    passed = {int(line) for line in journal.read_text(encoding="utf-8").split()} if journal.exists() else set()
    seeds = [seed for seed in range(chosen.first, chosen.first + chosen.count) if seed not in passed]
    begin_s = told_s = time.monotonic()
    failed = 0
    with ProcessPoolExecutor(chosen.workers) as pool, journal.open("a", encoding="utf-8") as journalled:
        trials = {pool.submit(try_seed, seed): seed for seed in seeds}
        for done, trial in enumerate(as_completed(trials), 1):
            found = trial.result()
            failed += bool(found)
            for failure in found:
                tell(failure)
            if not found:
                journalled.write(f"{trials[trial]}\n")
                journalled.flush()
            now_s = time.monotonic()
            if now_s - told_s >= REPORT_PERIOD_S or done == len(seeds):
                told_s = now_s
                rate = done / (now_s - begin_s) * 60
                tell(f"{done:,} of {len(seeds):,} seeds, {rate:,.0f} a minute, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
