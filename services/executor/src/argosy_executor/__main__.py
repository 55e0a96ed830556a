"""`argosy-executor`: run one cluster's executor as this process."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from argosy_executor.app import start
from argosy_executor.config import ExecutorConfig
from argosy_runtime.main import run_main

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM; see `run_main` for arguments and exit codes."""
    return run_main(ExecutorConfig, start, argv)


if __name__ == "__main__":
    sys.exit(main())
