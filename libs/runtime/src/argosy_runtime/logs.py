"""Structured logs: one JSON object a line on stderr, with fixed keys.

A message is a constant; what varies stands in keys. So that logs of several processes can be joined, a thing has one
key everywhere: the table in `docs/telemetry.md`, which a test holds against all calls.

Source: design section 9, "Metrics, logs and traces".
"""

from __future__ import annotations

import logging
import sys
from typing import Final, Literal, TextIO, cast

# With rich installed, as the command wants it, structlog would load it to draw tracebacks on terminals: 70 ms of CPU at
# the start of every process, for lines of JSON.
sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
import structlog  # noqa: E402

if not sys.modules.get("rich"):
    del sys.modules["rich"]

__all__ = ["LogLevel", "Logger", "get_logger", "set_up_logs"]

LogLevel = Literal["debug", "info", "warning", "error"]
"""Least severe level that is written."""
Logger = structlog.typing.FilteringBoundLogger
"""What `get_logger` gives."""

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def set_up_logs(service: str, *, level: LogLevel = "info", stream: TextIO | None = None) -> None:
    """Write logs of this process as JSON lines, each with `service`, `level`, `time` and `event`.

    Args:
        service: Name of the service, put on every line.
        level: Least severe level that is written.
        stream: Where to; stderr if not given.
    """
    target = stream if stream is not None else sys.stderr
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(default=str),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(file=target),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(service=service)


def get_logger(**values: object) -> Logger:
    """Return a logger that puts `values` on each of its lines."""
    return cast("Logger", structlog.get_logger(**values))
