"""Lists, page by page, consistent as a whole.

A list is one snapshot however many pages it has; a page that comes too late (410) starts it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from argosy_kube.kubernetes.api.answers import GONE, ApiFailure, decode
from argosy_kube.kubernetes.api.documents import ListDocument
from argosy_kube.kubernetes.api.rate_limiter import Priority
from argosy_kube.kubernetes.api.transport import JSON, ApiServer

__all__ = ["named_query", "read_list"]

_TRIES: Final = 3

T = TypeVar("T")


def named_query(name: str) -> str:
    """Return the query by which one object is listed; that takes the right to list, and no other."""
    return f"fieldSelector={quote(f'metadata.name={name}', safe='')}"


async def read_list(
    server: ApiServer,
    path: str,
    decoder: msgspec.json.Decoder[ListDocument[T]],
    *,
    begin: Callable[[], Callable[[list[T]], None]],
    query: str = "",
    accept: str = JSON,
) -> str:
    """Read a list and return the resource version to watch from.

    Args:
        server: Where.
        path: Of what.
        decoder: Reads a page.
        begin: Called when the list starts, also when it starts again; gives what takes each page.
        query: Selectors, already quoted.
        accept: Type of the answer.

    Raises:
        ApiFailure: It was not answered, or refused.
    """
    for tries in range(1, _TRIES + 1):
        take, next_page = begin(), ""
        while True:
            parts = [
                f"limit={server.settings.page_count}",
                query,
                f"continue={quote(next_page, safe='')}" if next_page else "",
            ]
            where = f"{path}?{'&'.join(part for part in parts if part)}"
            try:
                body = await server.call("GET", where, priority=Priority.READ, accept=accept)
            except ApiFailure as failure:
                if failure.code == GONE and next_page and tries < _TRIES:
                    break
                raise
            page = decode(decoder, body)
            take(page.items or [])
            next_page = page.metadata.next_page
            if not next_page:
                return page.metadata.resource_version
    raise AssertionError("unreachable")
