"""Logs kept in Loki, where people look at them beside others, and found again by their key.

Loki's streams are few: one of a cluster, since each combination of labels costs memory there. Which log a line is of is
its structured metadata (Loki 3.0 and newer), which costs none. A line's place in time is that at which it was sent,
since Loki refuses lines far older than their stream's newest; its own time stands before it, as in every kept log.

The calls are `/loki/api/v1/push` and `/loki/api/v1/query_range` of its HTTP API.

Source: `docs/executor.md`, "Logs of pods that are gone".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, Final
from urllib.parse import quote

from argosy_core.errors import BackendUnavailable
from argosy_runtime.log_archives.archive import KeptLog, LogArchiveSettings
from argosy_runtime.log_archives.http_archive import OK, HttpCaller, authorization

__all__ = ["LokiArchive"]

_SERVICE: Final = "argosy"
_PAGE: Final = 5000
"""Lines that Loki answers at once unless it is configured otherwise."""
_MOST_LINE_LETTERS: Final = 200_000
"""Loki refuses longer lines than 256 KB."""
_LOOKBACK_NS: Final = 30 * 86_400 * 10**9
"""How far back is looked; Loki's own bound of a query is an hour more."""


class LokiArchive:
    """Logs as lines of one stream.

    Args:
        caller: Calls Loki.
        settings: Where, and as whom.
        cluster: Whose logs; a label.
        clock_ns: The time since the Unix epoch, nanoseconds.
    """

    def __init__(
        self, caller: HttpCaller, settings: LogArchiveSettings, cluster: str, clock_ns: Callable[[], int]
    ) -> None:
        """Connect when needed."""
        self._caller = caller
        self._settings = settings
        self._url = settings.target.removeprefix("loki+").rstrip("/")
        self._labels = {"service_name": _SERVICE, "cluster": cluster}
        self._clock_ns = clock_ns

    async def put(self, key: str, text: bytes) -> None:
        """See LogArchive; what a log was before is not shown any more."""
        kept = KeptLog.decode(text)
        if kept is None:
            raise BackendUnavailable(f"{key} is no kept log")
        now_ns = self._clock_ns()
        about = {
            "log": key,
            "container": kept.container,
            "whole": str(kept.is_whole).lower(),
            "empty": str(not kept.data).lower(),
            "sent": str(now_ns),
        }
        lines = (
            kept.data.decode(errors="replace").removesuffix("\n").split("\n") if kept.data else ["nothing was written"]
        )
        values = [[str(now_ns + at), line[:_MOST_LINE_LETTERS], about] for at, line in enumerate(lines)]
        body = json.dumps({"streams": [{"stream": self._labels, "values": values}]}).encode()
        await self._call("POST", "push", body)

    async def get(self, key: str) -> bytes | None:
        """See LogArchive."""
        chosen = ",".join(f"{name}={json.dumps(value)}" for name, value in self._labels.items())
        query = f"{{{chosen}}} | log={json.dumps(key)}"
        now_ns = self._clock_ns()
        found: list[tuple[int, str]] = []
        about: Mapping[str, str] = {}
        end_ns = now_ns + 60 * 10**9  # clocks differ
        while len(found) < self._settings.max_line_count:
            page = await self._page(query, now_ns - _LOOKBACK_NS, end_ns)
            if page and not about:
                about = max(page, key=itemgetter(0))[2]
                query += f" | sent={json.dumps(about['sent'])}"
            found += [(at_ns, line) for at_ns, line, other in page if other["sent"] == about["sent"]]
            if len(page) < _PAGE:
                break
            end_ns = min(at_ns for at_ns, _, _ in page)
        if not about:
            return None
        data = "" if about["empty"] == "true" else "".join(f"{line}\n" for _, line in sorted(found))
        return KeptLog(container=about["container"], data=data.encode(), is_whole=about["whole"] == "true").encode()

    async def close(self) -> None:
        """See LogArchive."""
        await self._caller.close()

    async def _page(self, query: str, start_ns: int, end_ns: int) -> list[tuple[int, str, Mapping[str, str]]]:
        """Return the newest lines of a query: time, text and labels."""
        answer = await self._call(
            "GET",
            f"query_range?query={quote(query, safe='')}&start={start_ns}&end={end_ns}&limit={_PAGE}&direction=backward",
        )
        try:
            streams: list[Any] = json.loads(answer)["data"]["result"]
            return [
                (
                    int(value[0]),
                    str(value[1]),
                    {"sent": "", "container": "", "whole": "", "empty": "", **stream["stream"]},
                )
                for stream in streams
                for value in stream["values"]
            ]
        except (ValueError, KeyError, TypeError, IndexError) as cause:
            raise BackendUnavailable(f"{self._url} answered what is no list of lines") from cause

    async def _call(self, method: str, path: str, body: bytes | None = None) -> bytes:
        status, answer = await self._caller.call(method, f"{self._url}/loki/api/v1/{path}", self._headers, body)
        if status not in OK:
            why = answer[:200].decode(errors="replace").strip()
            raise BackendUnavailable(f"{self._url} answered {status} to a log: {why}")
        return answer

    def _headers(self) -> Mapping[str, str]:
        return {"Content-Type": "application/json", **authorization(self._settings)}
