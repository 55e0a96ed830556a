"""Streams between clusters' processes and leaders: ordered, delayed, and gone all at once when they break.

A stream is what gRPC gives: messages arrive in order and once, or the stream ends. So a message is never lost by
itself; it is lost with the stream. Messages that their receiver must bear twice may be repeated in place.

Heartbeats are not sent one by one, because a world that idles for days must cost nothing; a stream knows when its last
one would have been confirmed.

Source: design section 5, "Sync" and "Sampler session".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from argosy_simulation.agenda import Agenda, Process
from argosy_simulation.settings import FaultSettings, Range, WorldSettings

__all__ = ["Network", "Stream"]

_SILENT_HEARTBEATS = 3


class Stream:
    """One stream from a cluster's process to a leader."""

    def __init__(self, name: str, client: Process, server: Process, began_us: int) -> None:
        """Start open."""
        self.name = name
        self.client = client
        self.server = server
        self.open = True
        self.closed_by: Process | None = None
        """The end that closed it while the other does not know yet."""
        self.began_us = began_us
        self.stalled_from_us = 0
        self.stalled_until_us = 0
        self.last_us = {client.name: 0, server.name: 0}
        """Arrival of the last message to each end."""


class Network:
    """Carries messages.

    Args:
        agenda: Where arrivals are put down.
        settings: Delays.
        rng: Draws them.
    """

    def __init__(self, agenda: Agenda, settings: WorldSettings, rng: np.random.Generator) -> None:
        """Start without streams and without faults."""
        self._agenda = agenda
        self._settings = settings
        self._rng = rng
        self._count = 0
        self.streams: list[Stream] = []
        """Open streams, oldest first."""
        self.faults: FaultSettings | None = None
        """Set while messages may be repeated."""
        self.witness: Callable[[Stream, Process, Callable[..., None], tuple[Any, ...]], None] | None = None
        """Sees every message that is sent."""

    def draw_s(self, bounds: Range) -> float:
        """Return a duration."""
        low, high = bounds
        return low if low == high else low + (high - low) * float(self._rng.random())

    def happens(self, ratio: float) -> bool:
        """Return whether something with a probability happens; never outside of the phase with faults."""
        return self.faults is not None and ratio > 0 and bool(self._rng.random() < ratio)

    @property
    def is_calm(self) -> bool:
        """Whether every message that is sent now will arrive, without much delay."""
        now_us = self._agenda.now_us
        return self.faults is None and all(stream.stalled_until_us <= now_us for stream in self.streams)

    def dial(self, client: Process, server: Process) -> Stream:
        """Open a stream."""
        self._count += 1
        stream = Stream(f"{client.name}>{server.name}#{self._count}", client, server, self._agenda.now_us)
        self.streams.append(stream)
        return stream

    def tell(self, stream: Stream, action: str, *arguments: Any, repeatable: bool = False) -> None:  # noqa: ANN401
        """Send a message to the leader of a stream, named by what takes it there: its senders need no leader's type."""
        self.send(stream, stream.server, getattr(stream.server, action), stream, *arguments, repeatable=repeatable)

    def send(
        self,
        stream: Stream,
        to: Process,
        action: Callable[..., None],
        *arguments: Any,  # noqa: ANN401
        repeatable: bool = False,
    ) -> None:
        """Send a message to one end: it does something on arrival unless the stream has ended before.

        Args:
            stream: The stream.
            to: Its client or its server.
            action: What the receiver does.
            *arguments: With what.
            repeatable: The receiver must bear it twice.
        """
        if not stream.open or stream.closed_by is not None:
            return
        if self.witness is not None:
            self.witness(stream, to, action, arguments)
        repeated = repeatable and self.faults is not None and self.happens(self.faults.repeat_ratio)
        for _ in range(2 if repeated else 1):
            arrival_us = self._agenda.now_us + round(self.draw_s(self._settings.message_s) * 1e6)
            arrival_us = max(arrival_us, stream.last_us[to.name], stream.stalled_until_us)
            stream.last_us[to.name] = arrival_us
            self._agenda.at(arrival_us, to, self._arrive, to, stream, action, arguments)

    def _arrive(self, to: Process, stream: Stream, action: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        """Hand a message over, unless the stream has ended for its receiver."""
        if stream.open and stream.closed_by is not to:
            action(*arguments)

    def cut(self, stream: Stream) -> None:
        """Break a stream with everything on its way; both ends notice after a while."""
        if self._forget(stream):
            for end in (stream.client, stream.server):
                self._agenda.after(self.draw_s(self._settings.message_s), end, _notice, end, stream)

    def close(self, stream: Stream, by: Process) -> None:
        """End a stream from one end, which knows; what it sent before still arrives, then the other end notices."""
        if stream not in self.streams:
            return
        self.streams.remove(stream)
        stream.closed_by = by
        other = stream.server if by is stream.client else stream.client
        arrival_us = self._agenda.now_us + round(self.draw_s(self._settings.message_s) * 1e6)
        arrival_us = max(arrival_us, stream.last_us[other.name], stream.stalled_until_us)
        self._agenda.at(arrival_us, other, self._end, other, stream)

    def _end(self, end: Process, stream: Stream) -> None:
        """Let the other end notice that a stream was closed, unless it has."""
        if stream.open:
            stream.open = False
            _notice(end, stream)

    def stall(self, stream: Stream, length_s: float) -> None:
        """Let nothing arrive on a stream for a while; too long a silence ends it."""
        now_us = self._agenda.now_us
        stream.stalled_from_us, stream.stalled_until_us = now_us, now_us + round(length_s * 1e6)
        timeout_s = _SILENT_HEARTBEATS * self._settings.heartbeat_s
        if length_s > timeout_s:
            for end in (stream.client, stream.server):
                wait_s = timeout_s + self.draw_s((0.0, self._settings.heartbeat_s))
                self._agenda.after(wait_s, end, self._give_up, stream)

    def _give_up(self, stream: Stream) -> None:
        """End a stream on which nothing was heard for too long."""
        if not stream.open or stream.stalled_until_us <= self._agenda.now_us:
            return
        if stream.closed_by is None:
            self.cut(stream)
        else:  # that the other end closed it has not arrived
            self._end(stream.server if stream.closed_by is stream.client else stream.client, stream)

    def end_all(self, process: Process) -> None:
        """End the streams of a process that died."""
        for stream in self._of(process):
            self.close(stream, process)

    def confirmed_s(self, stream: Stream) -> float:
        """Return when the last heartbeat was sent that the leader has confirmed by now, seconds."""
        now_us = self._agenda.now_us
        beat_us = round(self._settings.heartbeat_s * 1e6)
        round_trip_us = round(2e6 * self._settings.message_s[1])
        known_us = min(now_us, stream.stalled_from_us) if stream.stalled_until_us > now_us else now_us
        beats = max(known_us - round_trip_us - stream.began_us, 0) // beat_us
        return (stream.began_us + beats * beat_us) / 1e6

    def _of(self, process: Process) -> list[Stream]:
        return [stream for stream in self.streams if process in (stream.client, stream.server)]

    def _forget(self, stream: Stream) -> bool:
        """Take a stream out; return whether it was open."""
        stream.open = False
        if stream not in self.streams:
            return False
        self.streams.remove(stream)
        return True


def _notice(end: Process, stream: Stream) -> None:
    """Tell an end that its stream is over."""
    if end.alive:
        end.stream_closed(stream)  # type: ignore[attr-defined]
