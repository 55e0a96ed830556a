"""Prints, as JSON, what the scheduling core costs at three sizes of pool.

Usage: python tests/benchmarks/core_placement.py [NODES ...]
"""

import json
import sys

from argosy_workload import bench_core


def main() -> None:
    """Measure each size that is named, or the three of the design."""
    sizes = [int(argument) for argument in sys.argv[1:]] or [1_000, 10_000, 31_250]
    print(json.dumps({str(nodes): bench_core.run(nodes=nodes) for nodes in sizes}, indent=2))  # noqa: T201


if __name__ == "__main__":
    main()
