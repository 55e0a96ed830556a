"""Prints, as JSON, what the scheduling core costs at three sizes of pool, and what a whole round costs as loads grow.

Usage: python tests/benchmarks/core_placement.py [NODES ...]
"""

import json
import sys

from argosy_workload import bench_core, bench_round


def main() -> None:
    """Measure each size that is named, or the three of the design."""
    sizes = [int(argument) for argument in sys.argv[1:]] or [1_000, 10_000, 31_250]
    placements = {str(nodes): bench_core.run(nodes=nodes) for nodes in sizes}
    print(json.dumps({"placements": placements, "rounds": bench_round.run()}, indent=2))  # noqa: T201


if __name__ == "__main__":
    main()
