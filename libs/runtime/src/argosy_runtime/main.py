"""From a command line to a process that ran: what every service's `__main__` calls."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar, Protocol, TypeVar

from argosy_core.errors import InvalidRequest
from argosy_runtime.config import load_config, print_config
from argosy_runtime.lifecycle import Lifecycle, run_service
from argosy_runtime.logs import LogLevel, set_up_logs

__all__ = ["ServiceConfig", "run_main"]


class ServiceConfig(Protocol):
    """What the configuration of each service has."""

    SERVICE: ClassVar[str]
    """Name of the service; its command is `argosy-SERVICE`."""

    @property
    def log_level(self) -> LogLevel:
        """Least severe level that is logged."""
        ...

    @property
    def drain_s(self) -> float:
        """Most time to finish what was accepted, seconds."""
        ...


Config = TypeVar("Config", bound=ServiceConfig)


def run_main(
    kind: type[Config], start: Callable[[Lifecycle, Config], Awaitable[None]], argv: Sequence[str] | None = None
) -> int:
    """Run a service as this process until SIGTERM or SIGINT.

    Args:
        kind: Type of its configuration; one that has a `cluster` is named with it.
        start: Starts the service within a life.
        argv: Flags; those of the process if not given.

    Returns:
        Exit code: 0 stopped as asked, 1 fault, 2 cannot run as configured.
    """
    try:
        config = load_config(kind, argv)
    except InvalidRequest as error:
        sys.stderr.write(f"argosy-{kind.SERVICE}: {error.message}\n")
        return 2
    set_up_logs(kind.SERVICE, level=config.log_level)
    print_config(config)

    async def begin(life: Lifecycle) -> None:
        await start(life, config)

    return run_service(f"{kind.SERVICE} {getattr(config, 'cluster', '')}".rstrip(), begin, drain_s=config.drain_s)
