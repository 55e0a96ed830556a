"""`python -m argosy_sampler`: one sampler as a process."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from argosy_core.errors import InvalidRequest
from argosy_runtime.config import load_config, print_config
from argosy_runtime.lifecycle import Lifecycle, run_service
from argosy_runtime.logs import set_up_logs
from argosy_sampler.app import start
from argosy_sampler.config import SamplerConfig

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a sampler until SIGTERM or SIGINT; return the exit status: 0 stopped, 1 fault, 2 cannot start."""
    try:
        config = load_config(SamplerConfig, arguments)
    except InvalidRequest as error:
        sys.stderr.write(f"argosy-sampler: {error.message}\n")
        return 2
    set_up_logs("sampler", level=config.log_level)
    print_config(config)

    async def begin(life: Lifecycle) -> None:
        await start(life, config)

    return run_service(f"sampler {config.cluster}", begin, drain_s=config.drain_s)


if __name__ == "__main__":
    sys.exit(main())
