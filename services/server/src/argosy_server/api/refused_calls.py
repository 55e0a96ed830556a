"""Calls that were refused for who makes them, noted in the audit: counted, and a bounded number of rows.

Whoever tries all methods, or all tokens, writes no more rows than there are kinds of refusals, and no more of those in
ten seconds than fit here.

Source: docs/security.md, "Who changed what".
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from argosy_core.access import Principal
from argosy_core.errors import ArgosyError
from argosy_runtime.logs import get_logger
from argosy_runtime.peers import PEER
from argosy_server.api.store_threads import StoreThreads
from argosy_store.replicas.api import ApiStore
from argosy_store.replicas.audit import Actor

__all__ = ["RefusedCalls"]

_INTERVAL_S: Final = 10.0
_MAX_KINDS: Final = 100
_OTHERS: Final = Actor(method="others", principal="", acted_by="", host="")


class RefusedCalls:
    """Counts refused calls, and stores the counts now and then.

    Args:
        store: Where the audit is.
        threads: Where blocking calls run.
    """

    def __init__(self, store: ApiStore, threads: StoreThreads) -> None:
        """Start with none."""
        self._store = store
        self._threads = threads
        self._counts: Counter[tuple[Actor, str]] = Counter()

    def note(self, method: str, principal: Principal, code: str) -> None:
        """Count a call. O(1); of more kinds than 100 in ten seconds the rest is counted together."""
        actor = Actor(method=method, principal=principal.name, acted_by=principal.acted_by, host=PEER.get().host)
        kind = (actor, code)
        if kind not in self._counts and len(self._counts) >= _MAX_KINDS:
            kind = (_OTHERS, code)
        self._counts[kind] += 1

    async def store_counts(self) -> None:
        """Store what was counted; what cannot be stored is dropped."""
        counts, self._counts = self._counts, Counter()
        if not counts:
            return
        rows = [(actor, f"{code}, {count} times") for (actor, code), count in counts.items()]
        try:
            await self._threads.run(self._store.note_refused_calls, rows)
        except ArgosyError as error:
            get_logger().warning("refused calls are not noted", reason=error.message)

    async def run(self) -> None:
        """Store every ten seconds, until cancelled."""
        while True:
            await asyncio.sleep(_INTERVAL_S)
            await self.store_counts()
