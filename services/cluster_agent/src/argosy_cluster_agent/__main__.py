"""`argosy-cluster-agent`: run one cluster's sampler and executor as this process."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from argosy_cluster_agent.app import start
from argosy_cluster_agent.config import ClusterAgentConfig
from argosy_runtime.main import run_main

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM; see `run_main` for arguments and exit codes."""
    return run_main(ClusterAgentConfig, start, argv)


if __name__ == "__main__":
    sys.exit(main())
