"""Why pods do not start although none of their containers says so: the warnings that others wrote about them.

A volume that cannot be mounted, a sandbox that cannot be made, a scheduler that finds no node: kubelets and controllers
tell such things in events only. Events are asked for when a pod of ours has waited for a while without a word, all pods
of a namespace together and ever more seldom, for an API server looks through all events of a namespace each time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec

from argosy_kube.kubernetes.api.answers import ApiFailure, decode
from argosy_kube.kubernetes.api.documents import ListDocument, Metadata, PodDocument
from argosy_kube.kubernetes.api.rate_limiter import Priority
from argosy_kube.kubernetes.api.resources import Resource
from argosy_kube.kubernetes.api.transport import ApiServer
from argosy_kube.kubernetes.ours.places import PlaceIndex
from argosy_kube.kubernetes.reading.columns import uid_bytes
from argosy_kube.kubernetes.reading.details import one_line
from argosy_kube.port import Detail, PodPhase

__all__ = ["OTHER_WARNING", "PodWarnings", "Warned"]

OTHER_WARNING: Final = "Warning"
"""Reason of pods about which something was written that is not one of the words we know; the message has it."""
_EVENTS: Final = Resource("Event", "v1", "events")
_REASONS: Final = frozenset(
    {
        "FailedAttachVolume",
        "FailedBinding",
        "FailedCreatePodContainer",
        "FailedCreatePodSandBox",
        "FailedMapVolume",
        "FailedMount",
        "FailedPrepareDynamicResources",
        "FailedScheduling",
        "FailedSync",
        "NetworkNotReady",
        "NodeNotReady",
    }
)
"""Warnings that say why a pod does not start; anybody who may write events may write others."""
_LONGEST_PAUSE_S: Final = 300.0
_MOST_NAMESPACES: Final = 20
"""Namespaces that are asked about at once; the others come next time."""
_MOST_PAGES: Final = 20
_PAGE_COUNT: Final = 500


class _Involved(msgspec.Struct, rename="camel"):
    uid: str = ""


class _Series(msgspec.Struct, rename="camel"):
    last_observed_time: str | None = None


class _Event(msgspec.Struct, rename="camel"):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    involved_object: _Involved = msgspec.field(default_factory=_Involved)
    type: str = ""
    reason: str | None = None
    message: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None

    def time(self) -> str:
        """Return when it happened last; such texts are in the order of time."""
        series = self.series.last_observed_time if self.series else None
        return max(series or "", self.last_timestamp or "", self.event_time or "") or (
            self.metadata.creation_timestamp or ""
        )


_LIST: Final = msgspec.json.Decoder(ListDocument[_Event])


@dataclass(frozen=True, slots=True)
class Warned:
    """The last warning about a pod."""

    reason: str
    """A word that Kubernetes uses, or OTHER_WARNING."""
    detail: Detail
    """What was said."""


@dataclass(slots=True)
class _Waiting:
    namespace: str
    due_s: float
    pause_s: float
    warned: Warned | None = None


class PodWarnings:
    """Keeps which pods of ours wait without a word, and what was written about them.

    Args:
        server: Where.
        places: Where our pods are; those that are not there any more are forgotten.
    """

    def __init__(self, server: ApiServer, places: PlaceIndex) -> None:
        """Know no pod."""
        self._server = server
        self._places = places
        self._after_s = server.settings.warnings_after_s
        self._waiting: dict[str, _Waiting] = {}
        self._fresh: set[str] = set()

    def note(self, pod: PodDocument, phase: PodPhase, reason: str, *, is_there: bool) -> Warned | None:
        """Take how a pod of ours is; return what was written about it if it waits without saying why.

        Args:
            pod: The pod.
            phase: Its phase.
            reason: What it says itself.
            is_there: It was not deleted.
        """
        uid = pod.metadata.uid
        if phase != PodPhase.PENDING or reason or not is_there or pod.metadata.deletion_timestamp is not None:
            self._waiting.pop(uid, None)
            return None
        waiting = self._waiting.get(uid)
        if waiting is None and self._after_s > 0:
            due_s = asyncio.get_running_loop().time() + self._after_s
            self._waiting[uid] = _Waiting(pod.metadata.namespace, due_s, self._after_s)
        return waiting.warned if waiting is not None else None

    def take_fresh(self) -> list[str]:
        """Return the uids of pods of which there is something new to tell."""
        fresh, self._fresh = self._fresh, set()
        return [uid for uid in fresh if uid in self._waiting]

    async def follow(self, wake: Callable[[], None]) -> None:
        """Read events as they are due, until cancelled; call `wake` when there is something new."""
        while self._after_s > 0:
            await asyncio.sleep(self._after_s / 2)
            await self._read_due()
            if self._fresh:
                wake()

    async def _read_due(self) -> None:
        now_s = asyncio.get_running_loop().time()
        due: dict[str, list[str]] = {}
        for uid, waiting in [item for item in self._waiting.items() if item[1].due_s <= now_s]:
            if self._places.find(uid_bytes(uid)) is None:
                del self._waiting[uid]
            else:
                due.setdefault(waiting.namespace, []).append(uid)
        for namespace, uids in list(due.items())[:_MOST_NAMESPACES]:
            with contextlib.suppress(ApiFailure):  # nothing depends on it
                self._take(await self._read(namespace, uids))
            for uid in uids:
                asked = self._waiting.get(uid)
                if asked is not None:
                    asked.pause_s = min(2 * asked.pause_s, _LONGEST_PAUSE_S)
                    asked.due_s = asyncio.get_running_loop().time() + asked.pause_s

    async def _read(self, namespace: str, uids: list[str]) -> dict[str, _Event]:
        """Return the last warning about each of some pods of a namespace.

        Raises:
            ApiFailure: The API server did not answer, or we may not read events.
        """
        query = "fieldSelector=involvedObject.kind%3DPod%2Ctype%3DWarning"
        if len(uids) == 1:
            query += f"%2CinvolvedObject.uid%3D{uids[0]}"
        wanted, last, more = set(uids), dict[str, _Event](), ""
        for _ in range(_MOST_PAGES):
            path = f"{_EVENTS.path(namespace)}?{query}&limit={_PAGE_COUNT}{more}"
            page = decode(_LIST, await self._server.call("GET", path, priority=Priority.UPKEEP))
            for event in page.items or ():
                uid = event.involved_object.uid
                if uid in wanted and event.type == "Warning" and (uid not in last or last[uid].time() <= event.time()):
                    last[uid] = event
            if not page.metadata.next_page:
                break
            more = f"&continue={quote(page.metadata.next_page, safe='')}"
        return last

    def _take(self, last: dict[str, _Event]) -> None:
        for uid, event in last.items():
            waiting = self._waiting.get(uid)
            warned = _warned(event)
            if waiting is not None and warned != waiting.warned:
                waiting.warned = warned
                self._fresh.add(uid)


def _warned(event: _Event) -> Warned:
    reason = event.reason or ""
    if reason in _REASONS:
        return Warned(reason, Detail("", one_line(event.message)))
    return Warned(OTHER_WARNING, Detail("", one_line(f"{reason}: {event.message or ''}")))
