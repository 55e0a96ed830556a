"""Health that says what a process can do now, and not what it could when it began."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from argosy_core.errors import ArgosyError
from argosy_runtime.elapsed import elapsed_s
from argosy_runtime.grpc_server import GrpcServer
from argosy_runtime.lifecycle import Lifecycle
from argosy_runtime.logs import get_logger
from argosy_runtime.metrics import MetricsServer

__all__ = ["SetServing", "begin_serving", "follow_readiness", "open_ports"]

SetServing = Callable[[bool], Awaitable[None]]
"""Sets what health says of a process, or of a part of it."""

_LOOKS: Final = 3
"""How often is looked within the time after which a process is not ready: once may be bad luck."""


async def open_ports(life: Lifecycle, server: GrpcServer, *, metrics_listen: str, grace_s: float) -> None:
    """Serve within a life what a server has, and metrics; health says NOT_SERVING until it is set.

    Args:
        life: What closes them.
        server: Has its servicers.
        metrics_listen: host:port of the metrics page; empty opens none.
        grace_s: How long calls under way may take when it closes, seconds.

    Raises:
        InvalidRequest: An address cannot be listened on.
    """
    await server.start(serving=False)
    life.on_close(partial(server.stop, grace_s))
    life.on_stop_intake(server.stop_intake)
    if metrics_listen:
        metrics = MetricsServer(metrics_listen)
        life.on_close(partial(asyncio.to_thread, metrics.close))


async def begin_serving(
    life: Lifecycle, set_serving: SetServing, look: Callable[[], Awaitable[object]], *, not_ready_after_s: float
) -> None:
    """Say SERVING, and follow from then on whether that holds; see `follow_readiness`."""
    await set_serving(True)
    life.spawn(follow_readiness(set_serving, look, patience_s=not_ready_after_s), name="readiness")


async def follow_readiness(
    set_serving: SetServing, look: Callable[[], Awaitable[object]], *, patience_s: float
) -> None:
    """Say whether the process serves, until cancelled: not once it has lacked something for a while, and then again.

    Whoever sends it calls by its health, as a service of Kubernetes does, sends them to others meanwhile. It goes on
    answering those that come, and is not restarted: that would mend nothing.

    Args:
        set_serving: Sets what health says; the process serves when this begins.
        look: Returns if there is what it needs.
        patience_s: After how long without it the process is not ready.
    """
    log = get_logger()
    had_s, is_ready = elapsed_s(), True
    while True:
        await asyncio.sleep(patience_s / _LOOKS)
        try:
            async with asyncio.timeout(patience_s):
                await look()
        except (ArgosyError, TimeoutError) as error:
            if is_ready and elapsed_s() - had_s >= patience_s:
                is_ready = False
                log.warning("not ready", reason=str(error) or "no answer in time")
                await set_serving(False)
            continue
        had_s = elapsed_s()
        if not is_ready:
            is_ready = True
            log.info("ready again")
            await set_serving(True)
