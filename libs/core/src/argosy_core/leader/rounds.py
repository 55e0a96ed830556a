"""A round and its requests to samplers: who is asked what, who is awaited, and until when.

Source: design section 5, "Round", steps 2 to 4; "Sampler session".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from argosy_core.arrays import Int64s, true_places
from argosy_core.errors import InvalidRequest
from argosy_core.leader.events import CommitAnswered, OriginKind, SampleAnswered, Session
from argosy_core.leader.instructions import Close, Warn
from argosy_core.leader.sessions import ClusterSessions
from argosy_core.leader.suspects import origins_of
from argosy_core.leader.term import Phase, Term
from argosy_core.placement import CommitReply, SampleReply
from argosy_core.scheduler import LeasePlan, Round, begin_round, hold_up

__all__ = ["ROUND_GIVEN_UP", "RoundRequests"]

ROUND_GIVEN_UP: Final = "a round was given up, and the classes that it asked for wait"
"""Warning of a round that failed."""


class RoundRequests:
    """The round under way.

    Args:
        term: The term.
        sessions: Sessions of samplers.
        finish: Takes the plan of a round that ended; None if it was given up.
    """

    def __init__(self, term: Term, sessions: ClusterSessions, finish: Callable[[LeasePlan | None], None]) -> None:
        """Start without a round."""
        self._term = term
        self._sessions = sessions
        self._finish = finish
        self._round: Round | None = None
        self._stage = 0
        self._awaited: set[str] = set()
        self.deadline_s = math.inf
        """When the samplers that have not answered are given up, monotonic seconds."""

    def begin(self) -> None:
        """Begin a round and ask the samplers, all at once."""
        term = self._term
        term.enter(Phase.PRIORITISING)
        try:
            round_ = self._round = begin_round(term.state, term.now.db_s, term.rng)
        except Exception as error:
            waiting = true_places(term.state.classes.waiting_count > 0)
            if not waiting.size:
                raise
            self._abandon(waiting, error)
            return
        term.enter(Phase.SAMPLING)
        self._stage = 0
        self._awaited = {request.cluster for request in round_.requests if self._sessions.send_sample(request)}
        for request in round_.requests:
            if request.cluster not in self._awaited:
                round_.take_sample(request.cluster, None)
        self._await()

    def _await(self) -> None:
        """Go on when nobody is awaited, at the latest when the time is up."""
        if self._awaited:
            self.deadline_s = self._term.now.mono_s + self._term.settings.response_timeout_s
        else:
            self._go_on()

    def give_up(self) -> None:
        """Go on without the samplers that have not answered in time."""
        self._term.totals["unanswered"] += len(self._awaited)
        for cluster in sorted(self._awaited):
            self._term.say(Warn(text="sampler did not answer in time", subject=cluster))
        for cluster in sorted(self._awaited):
            self.lose(cluster)

    def lose(self, cluster: str) -> None:
        """Take note that no answer will come from a cluster."""
        if cluster in self._awaited:
            self._take(cluster, None)
            self._go_on_unless_awaiting()

    def take_sample(self, event: SampleAnswered) -> None:
        """Take a sampler's candidates; an answer that nobody awaits is dropped."""
        if self._awaits(event, 0):
            self._take_reply(event.session, event.reply)

    def take_commits(self, event: CommitAnswered) -> None:
        """Take the outcome of commits; an answer that nobody awaits is dropped."""
        if self._awaits(event, event.stage):
            self._take_reply(event.session, event.reply)

    def _awaits(self, event: SampleAnswered | CommitAnswered, stage: int) -> bool:
        return (
            self._round is not None
            and event.session.cluster in self._awaited
            and self._sessions.is_live(event.session)
            and (event.round_number, stage) == (self._round.number, self._stage)
        )

    def _take_reply(self, session: Session, reply: SampleReply | CommitReply) -> None:
        """Take an answer; one that does not fit its request ends the session, and nothing of it is applied."""
        try:
            self._take(session.cluster, reply)
        except InvalidRequest as error:
            self._term.say(Close(session=session, reason=error.message))
            self._take(session.cluster, None)
        self._go_on_unless_awaiting()

    def _take(self, cluster: str, reply: SampleReply | CommitReply | None) -> None:
        assert self._round is not None
        self._awaited.discard(cluster)
        if self._stage:
            assert not isinstance(reply, SampleReply)
            self._round.take_commits(cluster, reply)
        else:
            assert not isinstance(reply, CommitReply)
            self._round.take_sample(cluster, reply)

    def _go_on_unless_awaiting(self) -> None:
        if not self._awaited:
            self._go_on()

    def _go_on(self) -> None:
        """Ask the samplers to place what is left, or finish."""
        term, round_ = self._term, self._round
        assert round_ is not None
        self.deadline_s = math.inf
        if self._stage == 0:
            term.enter(Phase.DECIDING)
            try:
                requests = round_.decide(term.rng)
            except Exception as error:  # noqa: BLE001 - nothing was placed yet, so the leader can go on without
                self._abandon(self._asked(round_), error)
                return
            term.enter(Phase.COMMITTING)
        try:
            requests = requests if self._stage == 0 else round_.next_commits()
            plan = None if requests else round_.finish(term.now.db_s)
        except Exception:
            asked = term.state.classes.class_id[self._asked(round_)]
            term.blame.decide(origins_of(OriginKind.CLASS, asked.tolist()))
            raise
        if plan is not None:
            self._round = None
            self._finish(plan)
            return
        self._stage += 1
        self._awaited = {request.cluster for request in requests if self._sessions.send_commit(request)}
        for request in requests:
            if request.cluster not in self._awaited:
                round_.take_commits(request.cluster, None)
        self._await()

    def _asked(self, round_: Round) -> Int64s:
        """Return the indices of the classes that the round asked for."""
        asked = np.unique(np.concatenate([np.zeros(0, np.int64), *(request.class_ids for request in round_.requests)]))
        found = [self._term.state.classes.ids.find(class_id) for class_id in asked.tolist()]
        return np.array([index for index in found if index is not None], dtype=np.int64)

    def _abandon(self, classes: Int64s, error: Exception) -> None:
        """Give up a round that failed before anything was placed; what it asked for waits, and the leader goes on."""
        term = self._term
        term.state.round = self._round = None
        self._awaited.clear()
        self.deadline_s = math.inf
        term.totals["abandoned_rounds"] += 1
        text = f"the round failed: {type(error).__name__}: {error}"
        term.say(Warn(text=ROUND_GIVEN_UP, subject=text))
        hold_up(term.state, classes, text, now_s=term.now.db_s, rng=term.rng)
        self._finish(None)
