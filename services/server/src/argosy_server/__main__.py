"""`argosy-server`: run API, leader, relay or all of them as this process.

Source: design section 2.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence

from argosy_runtime.lifecycle import Lifecycle
from argosy_runtime.main import run_main
from argosy_server.config import ServerConfig
from argosy_store.postgres.connection import with_password_file

__all__ = ["main"]


async def _start(life: Lifecycle, config: ServerConfig) -> None:
    from argosy_server.app import start_server  # late, so that --help and wrong flags answer at once

    url = with_password_file(config.database_url, config.database_password_file)
    await start_server(dataclasses.replace(config, database_url=url), life)


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM; see `run_main` for arguments and exit codes."""
    return run_main(ServerConfig, _start, argv)


if __name__ == "__main__":
    sys.exit(main())
