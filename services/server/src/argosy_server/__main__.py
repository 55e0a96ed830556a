"""The process argosy-server: `python -m argosy_server --help`.

Source: design section 2.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence

from argosy_core.errors import InvalidRequest
from argosy_runtime.config import load_config, print_config
from argosy_runtime.lifecycle import Lifecycle, run_service
from argosy_runtime.logs import set_up_logs
from argosy_server.config import ServerConfig
from argosy_store.connection import with_password_file

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a server until it is asked to stop.

    Args:
        argv: Flags; those of the process if not given.

    Returns:
        Exit code: 0 stopped as asked, 1 fault, 2 wrong configuration or surroundings.
    """
    try:
        config = load_config(ServerConfig, argv)
        url = with_password_file(config.database_url, config.database_password_file)
    except InvalidRequest as error:
        sys.stderr.write(f"error: {error.message}\n")
        return 2
    set_up_logs(ServerConfig.SERVICE, level=config.log_level)
    print_config(config)
    config = dataclasses.replace(config, database_url=url)

    from argosy_server.app import start_server  # late, so that --help and wrong flags answer at once

    async def start(life: Lifecycle) -> None:
        await start_server(config, life)

    return run_service(ServerConfig.SERVICE, start, drain_s=config.drain_s)


if __name__ == "__main__":
    sys.exit(main())
