"""`argosy-cluster-agent`: run one cluster's sampler and executor as this process."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from argosy_cluster_agent.app import start
from argosy_cluster_agent.config import ClusterAgentConfig
from argosy_core.errors import InvalidRequest
from argosy_runtime.config import load_config, print_config
from argosy_runtime.lifecycle import Lifecycle, run_service
from argosy_runtime.logs import set_up_logs

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM; return the exit code: 0 stopped, 1 fault, 2 cannot run as configured.

    Args:
        argv: Flags; those of the process if not given.
    """
    try:
        config = load_config(ClusterAgentConfig, argv)
    except InvalidRequest as error:
        sys.stderr.write(f"argosy-cluster-agent: {error.message}\n")
        return 2
    set_up_logs(ClusterAgentConfig.SERVICE, level=config.log_level)
    print_config(config)

    async def begin(life: Lifecycle) -> None:
        await start(life, config)

    return run_service(f"{config.SERVICE} {config.cluster}", begin, drain_s=config.drain_s)


if __name__ == "__main__":
    sys.exit(main())
