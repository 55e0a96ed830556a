"""The permit service without I/O: sessions with the agents of a cluster, answered from its ledger.

An agent's session begins with a hello, then brings its inventory and requests. Leases are renewed by whatever it says
and end with silence; a session that ended leaves its pods booked for as long as its agent may act on what it was told.
Silence counts only while somebody listens: what was said while the sampler stood still waits, and is read first.

Whatever cannot come from an agent that keeps the protocol ends its session: a sequence number out of turn, a pod named
twice in a message, a number of a pod that does not rise, too many pods. What one pod may not have is refused for it
alone. The shell is `argosy_sampler.permits`.

Source: design sections 5 "Resize" and 7 invariants 8, 9 and 11.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from argosy_core.arrays import Int8s, Int32s, Int64s
from argosy_core.errors import InvalidRequest, NotAllowedNow, QuotaExceeded
from argosy_core.ledger import NodeLedger, PermitNote, RefusalReason
from argosy_core.permits.messages import (
    AgentHello,
    AgentMessage,
    Directive,
    Directives,
    Goodbye,
    Inventory,
    PermitRequest,
    Permits,
    Refusals,
    Reply,
    Welcome,
)

__all__ = ["Outcome", "PermitService"]

_TICK_S: Final = 0.05
_IDLE_TICK_S: Final = 1.0
"""As often as people look at gauges: twenty ticks a second in every sampler cost more than all else that it does at
rest."""
_LISTENED_MOST_S: Final = 1.0
"""Most time between two ticks that counts as silence: in a longer one the sampler stood still and read nothing, and
what agents said meanwhile waits in their streams. It is the longest time between two ticks that is meant."""


@dataclass(slots=True)
class _Session:
    """One agent's session."""

    process: int
    """Number of its process."""
    renewed_s: float
    """When it was last heard."""
    listened_s: float
    """How long had been listened in all by then."""
    sequence: int = 1
    """Number of its latest message; the hello is the first."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What to say to whom, and whose sessions are over."""

    replies: list[tuple[int, Reply]] = field(default_factory=list)
    """(session, message), in order."""
    ended: list[int] = field(default_factory=list)
    """Sessions that are over, after a goodbye or in silence; their streams are to be ended."""
    broken: dict[int, InvalidRequest] = field(default_factory=dict)
    """Sessions that are over because a message broke the protocol, and how; nothing of it was taken in."""


class PermitService:
    """Answers all agents of one cluster.

    Args:
        ledger: The cluster's ledger.
        cluster: Name of the cluster.
        cluster_uid: Its uid.
        max_pod_count: Most pods that one message may name.
        max_session_count: Most sessions at once.
    """

    def __init__(
        self,
        ledger: NodeLedger,
        *,
        cluster: str,
        cluster_uid: str,
        max_pod_count: int = 20_000,
        max_session_count: int = 1000,
    ) -> None:
        """Start without sessions."""
        self._permits = ledger.permits
        self._pressure = ledger.pressure
        self._cluster = cluster, cluster_uid
        self._max_pod_count = max_pod_count
        self._max_session_count = max_session_count
        self._sessions: dict[int, _Session] = {}
        self._last = 0
        self._ticked_s = -np.inf
        self._listened_s = 0.0
        """How long has been listened by the last tick, seconds."""
        self._was_idle = False
        """Nothing was scaled and nobody spoke when time passed last."""

    @property
    def tick_s(self) -> float:
        """How long after a tick the next one is due, seconds; whatever an agent says may make it sooner."""
        return _IDLE_TICK_S if self._is_idle else _TICK_S

    @property
    def _is_idle(self) -> bool:
        """No agent has a session, and no pod is scaled."""
        return not self._sessions and not self.scaled_count

    @property
    def scaled_count(self) -> int:
        """How many pods are scaled."""
        return len(self._permits.pods)

    @property
    def deferred_count(self) -> int:
        """How many pods wait for room to grow."""
        return int(np.count_nonzero(self._permits.pods.deferred(self._permits.pods.live()).any(axis=0)))

    def confirmed(self, session: int) -> int:
        """Return the number of the latest message of a session that was taken in; 0 if it is over."""
        return self._sessions[session].sequence if session in self._sessions else 0

    def begin(self, hello: AgentHello, now_s: float) -> tuple[Welcome, list[int]]:
        """Begin a session; return the welcome, and sessions of the same process that it replaces.

        Args:
            hello: The first message, whose sequence number is 1.
            now_s: Present time of the sampler's own clock, seconds.

        Raises:
            InvalidRequest: The agent is of another cluster, or its process id has not 16 bytes.
            NotAllowedNow: The pods of the cluster have not been listed.
            QuotaExceeded: There are too many sessions.
        """
        if (hello.cluster, hello.cluster_uid) != self._cluster:
            raise InvalidRequest(f"this sampler serves cluster {self._cluster[0]!r}, not {hello.cluster!r} or its uid")
        if len(hello.process_id) != 16:
            raise InvalidRequest("the process id has not 16 bytes")
        if not self._permits.has_listed:
            raise NotAllowedNow("the sampler has not yet listed the cluster's pods; try again")
        self._permits.advance(now_s)
        process = int.from_bytes(hello.process_id[:8], "little", signed=True) or 1
        replaced = [number for number, session in self._sessions.items() if session.process == process]
        for number in replaced:
            self.end(number, now_s)
        if len(self._sessions) >= self._max_session_count:
            raise QuotaExceeded(f"{len(self._sessions)} agents have sessions, which is as many as are served")
        self._last += 1
        self._sessions[self._last] = _Session(process, now_s, self._listened_s)
        lease_s = self._permits.open_session(self._last)
        welcome = Welcome(
            session=self._last, lease_s=lease_s, heartbeat_s=lease_s / 3, max_pod_count=self._max_pod_count
        )
        return welcome, replaced

    def take(self, messages: Sequence[tuple[int, int, AgentMessage]], now_s: float) -> Outcome:
        """Take in what agents have said; room is shared out once for all of it.

        Args:
            messages: (session, sequence number, message); those of one session in the order of its stream.
            now_s: Present time of the sampler's own clock, seconds.

        Complexity: half a millisecond for each time that some session speaks again, and microseconds a pod.
        """
        outcome = Outcome()
        self._permits.set_time(now_s)
        wave: dict[int, tuple[int, AgentMessage]] = {}
        for session, sequence, message in messages:
            if session in wave:
                self._take_wave(wave, now_s, outcome)
                wave = {}
            wave[session] = sequence, message
        self._take_wave(wave, now_s, outcome)
        return outcome

    def end(self, session: int, now_s: float) -> None:
        """Note that a stream ended; what its agent was permitted stays booked for as long as it may act on it."""
        known = self._sessions.pop(session, None)
        if known is not None:
            self._permits.advance(now_s)
            self._permits.cut_off(session, known.renewed_s)

    def tick(self, now_s: float) -> Outcome:
        """Let time pass: end silent sessions, give back what nobody can take any more, push what room has come.

        A session is silent that was listened to for a lease in which nothing was heard of it.

        Complexity: next to nothing while no pod is scaled and no agent speaks, as where nobody scales anything.
        """
        outcome = Outcome()
        self._listened_s += min(max(now_s - self._ticked_s, 0.0), _LISTENED_MOST_S)
        self._ticked_s = max(self._ticked_s, now_s)
        is_idle = self._is_idle
        if is_idle and self._was_idle:
            self._permits.set_time(now_s)
            return outcome
        self._was_idle = is_idle
        for number in [number for number, one in self._sessions.items() if self._is_silent(number, one, now_s)]:
            self.end(number, now_s)
            outcome.ended.append(number)
        self._permits.advance(now_s)
        self._tell(self._permits.settle(np.zeros(0, np.int32)), outcome)
        self._direct(outcome)
        self._pressure.name_moves()
        notices = self._permits.notices
        for rows, directive in (
            *((rows, Directive.DRAIN if drains else Directive.RESUME) for rows, drains in notices.take_drained()),
            *((rows, Directive.MIGRATE if moves else Directive.RESUME) for rows, moves in notices.take_moved()),
        ):
            for session, own in self._by_session(rows):
                self._directive(session, own, directive, outcome)
        return outcome

    def take_notes(self, most_count: int) -> list[PermitNote]:
        """Return notes to be written on pods; tell how each ended with `end_notes`.

        Args:
            most_count: Most notes that are being written at once.
        """
        return self._permits.notes.begin(self._permits.now_s, most_count)

    def end_notes(self, found: Sequence[tuple[bytes, str | None]], now_s: float) -> Outcome:
        """Take in how notes were written, and tell the permits that they allow.

        Args:
            found: (uid of a pod, note that it has now; None if that is not known).
            now_s: Present time of the sampler's own clock, seconds.
        """
        outcome = Outcome()
        self._permits.set_time(now_s)
        rows = [row for uid, text in found if (row := self._permits.end_note(uid, text))]
        self._tell(np.unique(np.array(rows, np.int32)), outcome)
        return outcome

    # --- parts --------------------------------------------------------------------------------------------------------

    def _is_silent(self, number: int, session: _Session, now_s: float) -> bool:
        """Return whether a session was listened to for a lease, and nothing was heard."""
        silent_s = min(self._listened_s - session.listened_s, now_s - session.renewed_s)
        return silent_s > self._permits.lease_s(number)

    def _take_wave(self, wave: dict[int, tuple[int, AgentMessage]], now_s: float, outcome: Outcome) -> None:
        """Take in one message each of some sessions."""
        self._direct(outcome)  # before anything renews a lease in its agent's eyes
        answered: list[Int32s] = [np.zeros(0, np.int32)]
        requests: list[tuple[int, PermitRequest, Int32s]] = []
        for session, (sequence, message) in wave.items():
            known = self._sessions.get(session)
            if known is None:
                continue
            try:
                if sequence != known.sequence + 1:
                    raise InvalidRequest(f"message {sequence} came after message {known.sequence}")
                if isinstance(message, Inventory | PermitRequest):
                    self._check_uids(message.uids)
                    rows = self._permits.pods.rows(message.uids)
                    if isinstance(message, Inventory):
                        answered.append(self._join(session, known.process, message, rows, outcome=outcome))
                    else:
                        self._permits.check_numbers(rows, message.numbers, session)
                        requests.append((session, message, rows))
            except InvalidRequest as error:
                self.end(session, now_s)
                outcome.broken[session] = error
                continue
            known.sequence, known.renewed_s = sequence, max(known.renewed_s, now_s)
            known.listened_s = self._listened_s
            if isinstance(message, Goodbye):
                self._permits.leave(session)
                del self._sessions[session]
                outcome.ended.append(session)
        if requests:
            answered.append(self._request(requests, outcome))
        taken = np.concatenate(answered)
        if len(taken):
            self._tell(np.union1d(taken, self._permits.settle(taken)).astype(np.int32), outcome)

    def _join(self, session: int, process: int, message: Inventory, rows: Int32s, *, outcome: Outcome) -> Int32s:
        """Take in an inventory; return the rows that the session holds by it."""
        refused = self._permits.join(
            rows, message.ceilings, message.held, numbers=message.numbers, session=session, process=process
        )
        if refused.any():
            outcome.replies.append((session, self._refusals(message, rows, refused)))
        taken: Int32s = rows[refused == 0]
        self._permits.notes.keep(taken, message.permitted[refused == 0])
        return taken

    def _request(self, requests: list[tuple[int, PermitRequest, Int32s]], outcome: Outcome) -> Int32s:
        """Take in requests of distinct sessions at once; return the rows of pods that were not refused."""
        counts = [len(rows) for _, _, rows in requests]
        rows = np.concatenate([rows for _, _, rows in requests])
        refused = self._permits.request(
            rows,
            np.concatenate([message.wanted for _, message, _ in requests], axis=1),
            np.concatenate([message.bundle for _, message, _ in requests]),
            numbers=np.concatenate([message.numbers for _, message, _ in requests]),
            session=np.repeat([session for session, _, _ in requests], counts),
        )
        if refused.any():
            ends = np.cumsum(counts)[:-1]
            for (session, message, own), reasons in zip(requests, np.split(refused, ends), strict=True):
                if reasons.any():
                    outcome.replies.append((session, self._refusals(message, own, reasons)))
        taken: Int32s = rows[refused == 0]
        return taken

    def _check_uids(self, uids: Int64s) -> None:
        if len(uids) > self._max_pod_count:
            raise InvalidRequest(f"a message names {len(uids)} pods; at most {self._max_pod_count} are taken")
        ordered = uids[np.lexsort(uids.T)]
        if len(uids) > 1 and (ordered[1:] == ordered[:-1]).all(axis=1).any():
            raise InvalidRequest("a message names a pod twice")

    def _refusals(self, message: Inventory | PermitRequest, rows: Int32s, refused: Int8s) -> Refusals:
        permits, wrong = self._permits, refused != 0
        reasons = refused[wrong]
        wait_s = np.zeros(len(reasons), np.float32)
        wait_s[reasons == RefusalReason.UNKNOWN_POD] = 1.0
        wait_s[reasons == RefusalReason.TOO_OFTEN] = 1.0
        awaited = reasons == RefusalReason.HELD_BY_ANOTHER
        wait_s[awaited] = np.maximum(permits.pods.floor_until_s[rows[wrong][awaited]] - permits.now_s, 1.0)
        return Refusals(uids=message.uids[wrong], numbers=message.numbers[wrong], reasons=reasons, retry_after_s=wait_s)

    def _tell(self, rows: Int32s, outcome: Outcome) -> None:
        """Say to each session what its pods among these may have, as far as their notes allow it."""
        pods = self._permits.pods
        for session, own in self._by_session(self._permits.notes.may_tell(rows)):
            permits = Permits(
                uids=pods.uid[own],
                numbers=pods.number[own],
                permits=pods.permit[:, own],
                deferred=pods.deferred(own),
                units=pods.unit[:, own],
            )
            outcome.replies.append((session, permits))

    def _direct(self, outcome: Outcome) -> None:
        """Say which pods are not scaled any more."""
        for session, row in self._permits.notices.take_stopped():
            self._directive(session, np.array([row], np.int32), Directive.STOP, outcome)

    def _directive(self, session: int, rows: Int32s, directive: Directive, outcome: Outcome) -> None:
        if session in self._sessions:
            kinds = np.full(len(rows), directive, np.int8)
            outcome.replies.append((session, Directives(uids=self._permits.pods.uid[rows], directives=kinds)))

    def _by_session(self, rows: Int32s) -> Iterable[tuple[int, Int32s]]:
        """Yield (session, its rows)."""
        of = self._permits.pods.session[rows]
        for session in np.unique(of).tolist():
            if session:
                yield session, rows[of == session]
