"""Prints, as JSON, what extension points without a plugin cost a round.

Usage: python tests/benchmarks/plugin_points.py [ROUNDS]

Whole rounds as `bench_round` plays them are measured in turns: as they are, and with each look at what is registered at
an empty point answered by a constant. `ratio` is the median of the first over that of the second.
"""

import json
import sys
from statistics import median
from unittest.mock import patch

from argosy_core.framework import Framework
from argosy_core.queueing.order import Entries
from argosy_core.scheduler import PoolState
from argosy_workload import bench_round

PAIRS = 7


def main() -> None:
    """Measure in interleaved pairs."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20

    def entries(state: PoolState, slots: object) -> Entries:
        live = state.live
        return Entries(live.priority[slots], live.submit_time_us[slots], live.handle[slots], slots)  # type: ignore[index,arg-type]

    def nothing(*_: object) -> None:
        return None

    without = {"pre_filter": nothing, "post_filter": nothing, "has": lambda *_: False, "take_woken": set}
    with_points, without_points = [], []
    for _ in range(PAIRS):
        with_points.append(bench_round.measure(bench_round.BASE, rounds=rounds)["round_us"])
        with patch.multiple(Framework, **without), patch.object(PoolState, "entries", entries):
            without_points.append(bench_round.measure(bench_round.BASE, rounds=rounds)["round_us"])
    figures = {"round_us": median(with_points), "round_without_us": median(without_points)}
    print(json.dumps({**figures, "ratio": round(figures["round_us"] / figures["round_without_us"], 3)}))  # noqa: T201


if __name__ == "__main__":
    main()
