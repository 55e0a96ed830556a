"""Election: taking and keeping the epoch of a pool.

Whoever holds the row of `pools` until it expires (by the database's clock) leads. Taking it raises the epoch, and every
transaction of a leader checks its epoch, so a leader that does not know yet that it was replaced changes nothing.

Source: design section 5, "Leader lost"; reliability facts on leader checks that are not fences.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from argosy_core.errors import ArgosyError, BackendUnavailable, StateConflict

if TYPE_CHECKING:
    from argosy_server.leader.settings import LeaderSettings

__all__ = ["ElectionStore", "LeadershipLike", "stand_for_election"]

_log = structlog.get_logger(__name__)


class LeadershipLike(Protocol):
    """What taking a pool answers."""

    @property
    def epoch(self) -> int:
        """Epoch of this leadership."""


class ElectionStore(Protocol):
    """The part of the leader's store that elections need."""

    def try_lead(self, leader_id: str, address: str, lease_s: float) -> LeadershipLike | None:
        """Take the pool if it is free, expired or ours."""

    def renew(self, epoch: int, lease_s: float) -> None:
        """Extend the lease; StateConflict if it was lost."""

    def resign(self, epoch: int) -> None:
        """Give the pool up at once."""


async def stand_for_election(
    store: ElectionStore,
    settings: LeaderSettings,
    *,
    leader_id: str,
    address: str,
    lead: Callable[[Any], Coroutine[Any, Any, None]],
) -> None:
    """Lead the pool whenever it can be had, until cancelled.

    Args:
        store: Where the pool's row is.
        settings: Lease duration and pauses.
        leader_id: Unique id of this process.
        address: host:port at which clusters and replicas reach this process.
        lead: Runs while this process leads; it is cancelled when the lease is lost.
    """
    while True:
        leadership: LeadershipLike | None = None
        try:
            leadership = await asyncio.to_thread(store.try_lead, leader_id, address, settings.lease_s)
        except ArgosyError as error:
            _log.warning("the database does not let us stand for election", reason=error.message)
        if leadership is not None:
            await _lead_until_lost(store, settings, leadership, lead)
        await asyncio.sleep(settings.lease_s / 10)


async def _lead_until_lost(
    store: ElectionStore,
    settings: LeaderSettings,
    leadership: LeadershipLike,
    lead: Callable[[Any], Coroutine[Any, Any, None]],
) -> None:
    """Run `lead` and keep the lease; return when either ends. Resigns if the lease is still ours."""
    epoch = leadership.epoch
    _log.info("leading", epoch=epoch)
    leading: asyncio.Task[None] = asyncio.create_task(lead(leadership), name=f"lead-epoch-{epoch}")
    keeping = asyncio.create_task(_keep_lease(store, settings, epoch), name=f"lease-epoch-{epoch}")
    try:
        await asyncio.wait({leading, keeping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (leading, keeping):
            task.cancel()
        results = await asyncio.gather(leading, keeping, return_exceptions=True)
        for result in results:
            error = _first_leaf(result) if isinstance(result, BaseException) else None
            if isinstance(error, ArgosyError):
                _log.warning("leadership ended", epoch=epoch, kind=type(error).__name__, reason=error.message)
            elif isinstance(result, Exception):
                _log.error("leadership failed", epoch=epoch, exc_info=result)
        if not isinstance(results[1], StateConflict):
            await _resign(store, epoch)


def _first_leaf(error: BaseException) -> BaseException:
    """Return the first failure of a group that is no group itself."""
    return _first_leaf(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


async def _keep_lease(store: ElectionStore, settings: LeaderSettings, epoch: int) -> None:
    """Renew the lease three times per duration; return once it can no longer be ours."""
    renewed_s = time.monotonic()
    while True:
        await asyncio.sleep(settings.lease_s / 3)
        started_s = time.monotonic()
        try:
            await asyncio.to_thread(store.renew, epoch, settings.lease_s)
            renewed_s = started_s
        except BackendUnavailable as error:
            _log.warning("lease cannot be renewed", epoch=epoch, reason=error.message)
            if time.monotonic() - renewed_s > settings.lease_s:
                return


async def _resign(store: ElectionStore, epoch: int) -> None:
    """Give the pool up so that the next leader need not wait; harmless if it is no longer ours."""
    try:
        await asyncio.to_thread(store.resign, epoch)
    except ArgosyError as error:
        _log.info("could not resign", epoch=epoch, reason=error.message)
