"""`argosy-sampler`: run one cluster's sampler as this process."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from argosy_runtime.main import run_main
from argosy_sampler.app import start
from argosy_sampler.config import SamplerConfig

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM; see `run_main` for arguments and exit codes."""
    return run_main(SamplerConfig, start, argv)


if __name__ == "__main__":
    sys.exit(main())
