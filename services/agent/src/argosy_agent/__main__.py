"""`argosy-agent`: resize the running pods of one cluster as this process."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from argosy_agent.app import start
from argosy_agent.config import AgentConfig
from argosy_runtime.main import run_main

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM; see `run_main` for arguments and exit codes."""
    return run_main(AgentConfig, start, argv)


if __name__ == "__main__":
    sys.exit(main())
