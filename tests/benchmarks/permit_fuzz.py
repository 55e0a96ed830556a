"""Prints, as JSON, how often a node was promised twice in random worlds of agents, sampler and leader.

Usage: python tests/benchmarks/permit_fuzz.py [EVENTS] [FIRST_SEED]; every second world has durable permits.

A world lives for 20,000 events (`argosy_testkit.permit_world`); `make test` holds a sample. The first node that is
promised twice ends the run with its seed.
"""

import json
import sys
import time
from collections import Counter

from argosy_testkit.permit_world import PermitWorld

_EVENTS_A_WORLD = 20_000


def main() -> int:
    """Play as many events; return 1 if a node was promised twice."""
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    counts: Counter[str] = Counter()
    begun_s, played, broken = time.monotonic(), 0, ""
    while played < events and not broken:
        world = PermitWorld(seed, restart_ratio=0.001, has_notes=seed % 2 == 1)
        try:
            for _ in range(min(_EVENTS_A_WORLD, events - played)):
                world.step()
                played += 1
            world.check_ledger()
        except AssertionError as error:
            broken = f"seed {seed}: {error}"
        counts.update(world.counts)
        seed += 1
    figures = {
        "events": played,
        "over_commitments": int(bool(broken)),
        "broken": broken,
        "took_s": round(time.monotonic() - begun_s, 1),
        **dict(sorted(counts.items())),
    }
    print(json.dumps(figures))  # noqa: T201 - the result of the program
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
