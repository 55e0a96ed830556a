"""Which event log a leader publishes to, and whether it may be trusted.

Source: design section 5, "Ingest": on Pulsar, or on Postgres where there is no Pulsar.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from argosy_core.errors import BackendUnavailable, InvalidRequest
from argosy_store.log import PostgresLog
from argosy_store.register import PostgresRegister

if TYPE_CHECKING:
    from argosy_eventlog import EventLog
    from argosy_server.config import ServerConfig

__all__ = ["await_safe_log", "open_log"]

_log = structlog.get_logger(__name__)
_PAUSE_S = 2.0


def open_log(config: ServerConfig) -> EventLog:
    """Return the pool's event log; nothing is dialled yet.

    Raises:
        InvalidRequest: `event_log_url` names no broker, or the broker would refuse records that a leader may publish.
    """
    if not config.event_log_url:
        return PostgresLog(config.database_url, config.pool)
    if config.leader.max_record_bytes > config.pulsar.max_message_bytes:
        raise InvalidRequest(
            f"leader.max_record_bytes is {config.leader.max_record_bytes}, more than pulsar.max_message_bytes, "
            f"{config.pulsar.max_message_bytes}: lower the one or raise the other"
        )
    from argosy_eventlog.pulsar.log import PulsarLog  # late: it loads Pulsar's client

    register = PostgresRegister(config.database_url, config.pool)
    return PulsarLog(config.event_log_url, config.pool, register, config.pulsar)


async def await_safe_log(config: ServerConfig) -> None:
    """Return once the log's broker has said that it would keep what it is given; waits for one that is away.

    Raises:
        NotAllowedNow: It would lose records, or keep some twice; the message says which setting is wrong.
        NotPermitted, NotAuthenticated: It does not let us look.
    """
    if not config.event_log_url or not config.pulsar.check:
        return
    from argosy_eventlog.pulsar.admin import AdminApi, check_log

    admin = AdminApi(config.event_log_url, config.pulsar)
    while True:
        try:
            await asyncio.to_thread(check_log, admin, config.pulsar, config.pool)
        except BackendUnavailable as error:
            _log.warning("the event log cannot be checked yet", reason=error.message)
            await asyncio.sleep(_PAUSE_S)
        else:
            return
