"""How a failed call ends: with a code, a text that is safe to show and google.rpc details.

What is not ours is INTERNAL with a request id and nothing else, and goes to the log.

Source: design section 9.
"""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass
from typing import Any

import grpc

from argosy.error_details import DETAILS_KEY
from argosy_core.errors import ArgosyError, NotAuthenticated, NotPermitted, QuotaExceeded
from argosy_runtime.access.guard import CALLER, Guard
from argosy_runtime.errors import code_of, details_of, from_rpc_error, message_of
from argosy_runtime.logs import Logger
from argosy_runtime.metrics import METRICS

__all__ = ["Answer", "alone", "answer_of", "end_call", "told"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a failed call ends."""

    code: grpc.StatusCode
    text: str = ""
    """Empty if the handler has given its answer already."""
    details: bytes = b""
    """google.rpc.Status, or empty."""

    async def abort(self, context: Any) -> None:  # noqa: ANN401 - see `answer_of`
        """End the call, by raising what grpcio waits for."""
        try:
            if self.text:
                await context.abort(self.code, self.text, ((DETAILS_KEY, self.details),) if self.details else ())
        except grpc.aio.AbortError as ended:
            raise alone(ended) from None
        finally:
            del context


def told(error: ArgosyError) -> Answer:
    """Return the answer that says an error of ours as it is."""
    return Answer(code=code_of(error), text=message_of(error), details=details_of(error))


def answer_of(
    error: Exception,
    context: Any,  # noqa: ANN401 - the generated type is private
    method: str,
    *,
    guard: Guard | None,
    log: Logger,
) -> Answer:
    """Return how a call ends that failed, and count it where it was too much, or a fault of ours, which is logged.

    Args:
        error: Why.
        context: Of the call.
        method: What was called.
        guard: Is told of callers that are refused.
        log: Where faults of ours go.
    """
    if isinstance(error, grpc.aio.AbortError):  # the handler aborted by itself
        return Answer(code=_code_of_context(context))
    if isinstance(error, grpc.aio.AioRpcError) and error.code() != grpc.StatusCode.UNKNOWN:
        error = from_rpc_error(error)  # the answer of the server that the call was forwarded to
    if isinstance(error, ArgosyError) and code_of(error) != grpc.StatusCode.INTERNAL:
        if isinstance(error, QuotaExceeded) and error.resource is not None and error.resource.kind == "Server":
            METRICS.grpc_refused.labels(error.reason).inc()
        if guard is not None and isinstance(error, (NotAuthenticated, NotPermitted)):
            guard.on_refused(method, CALLER.get().principal, code_of(error).name)
        return told(error)
    if isinstance(error, NotImplementedError) and _code_of_context(context) == grpc.StatusCode.UNIMPLEMENTED:
        # What generated base classes do for a method that a role does not serve.
        return Answer(code=grpc.StatusCode.UNIMPLEMENTED, text="this process does not serve the method")
    request_id = secrets.token_hex(8)
    log.error("request failed", method=method, request_id=request_id, exc_info=error)
    METRICS.grpc_faults.labels(method).inc()
    return Answer(code=grpc.StatusCode.INTERNAL, text=f"internal error; request id {request_id}")


def _code_of_context(context: Any) -> grpc.StatusCode:  # noqa: ANN401 - see `answer_of`
    code = context.code()
    return next(
        (known for known in grpc.StatusCode if known is code or known.value[0] == code), grpc.StatusCode.UNKNOWN
    )


async def end_call(answer: Answer, context: Any) -> None:  # noqa: ANN401 - see `answer_of`
    """End a call beside its handler, which ends by it."""
    # It raises what ends the handler, and other errors if the peer is gone or the call has ended meanwhile.
    try:
        with contextlib.suppress(Exception):
            await answer.abort(context)
    finally:
        del context  # see `alone`


def alone(ended: Exception) -> Exception:
    """Return what ends a call without the way that led to it.

    grpcio keeps it with the call. If it led back to the call, by a frame that knows the call's context, all of the call
    would stay until the garbage collector looks for cycles, which then holds every other call up: 18,000 such objects,
    which a flood of refused calls leaves in a second, take it 45 ms. So frames on its way forget the context, too.
    """
    ended.__context__ = None
    return ended.with_traceback(None)
