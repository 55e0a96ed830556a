"""The leader of a pool, without I/O: it is told events, and answers instructions for its shell.

::

    machine = LeaderMachine("default", epoch, settings=MachineSettings(), rng=rng)
    instructions = machine.start(now)
    instructions = machine.handle(event, now)     # again and again
    machine.due_s()                               # when `Tick` is due if nothing comes before

It is for one thread. Everything happens inside `handle`, which does not wait: what has to be waited for is asked for by
an instruction and comes back as an event. What a shell may read of changes and states at any time, so that nothing
piles up here, is `budget`. A raised error is a fault of ours, or says that the term is over: the shell ends the term.

Source: design section 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from argosy_core.leader.cycle import Cycle
from argosy_core.leader.events import (
    AmountsHeld,
    Bound,
    CapacityTold,
    Change,
    ChangesRead,
    CommitAnswered,
    EndsRead,
    Event,
    Explained,
    Heard,
    Loaded,
    MarkerPublished,
    Moment,
    MovesNamed,
    NodesChosen,
    Origin,
    OriginKind,
    PluginAnswered,
    Published,
    RecordsRead,
    Role,
    RowsLost,
    RunsSeen,
    SampleAnswered,
    SamplerReady,
    Session,
    SessionLost,
    StatesReported,
    Stored,
    Tick,
)
from argosy_core.leader.instructions import Instruction
from argosy_core.leader.intake import Intake, Lacking
from argosy_core.leader.line import CatchUp, StoreLine, TakenOver
from argosy_core.leader.sessions import ClusterSessions
from argosy_core.leader.settings import MachineSettings
from argosy_core.leader.story import Step
from argosy_core.leader.suspects import origins_of, session_origin
from argosy_core.leader.takeover import Takeover
from argosy_core.leader.term import Observer, Phase, Term
from argosy_core.placement import DecisionProfile
from argosy_core.scheduler import PoolState

__all__ = ["Budget", "LeaderMachine"]


class Budget(NamedTuple):
    """How much a shell may hand in now."""

    changes: int
    """Rows of `changes` to read, those that are held included; 0 to wait."""
    state_batches: int
    """State batches."""


class LeaderMachine:
    """The leader of one pool for one epoch.

    Args:
        pool: Pool.
        epoch: Epoch, taken by the shell.
        settings: When rounds begin, and limits.
        rng: The term's chance.
        observer: Is told phases and times, for gauges.
        decision_profile: Filters and scores of the decision phase; those that the settings name if None.
    """

    def __init__(
        self,
        pool: str,
        epoch: int,
        *,
        settings: MachineSettings,
        rng: np.random.Generator,
        observer: Observer | None = None,
        decision_profile: DecisionProfile | None = None,
    ) -> None:
        """Start before the marker is published."""
        term = self._term = Term(pool, epoch, settings, rng=rng, observer=observer, decision_profile=decision_profile)
        self._sessions = ClusterSessions(term)
        self._intake = Intake(term, self._sessions)
        self._line = StoreLine(term)
        self._cycle = Cycle(term, self._sessions, self._intake, self._line)
        self._takeover = Takeover(
            term, sessions=self._sessions, intake=self._intake, line=self._line, cycle=self._cycle
        )
        self._handlers: dict[type, Callable[[Any], None]] = {
            MarkerPublished: self._takeover.take_marker,
            Loaded: self._takeover.take_loaded,
            RecordsRead: self._takeover.take_records,
            ChangesRead: self._take_changes,
            EndsRead: self._take_ends,
            Published: self._cycle.take_published,
            Stored: self._take_stored,
            Bound: self._bind,
            SessionLost: self._lose,
            Heard: lambda event: self._sessions.note_contact(event.session),
            RunsSeen: lambda event: self._sessions.stop_unknown(event.session, event.runs),
            CapacityTold: self._take_capacity,
            AmountsHeld: self._take_amounts,
            NodesChosen: self._take_nodes,
            MovesNamed: self._take_moves,
            SamplerReady: self._take_ready,
            SampleAnswered: self._take_sample,
            CommitAnswered: self._take_commits,
            StatesReported: self._take_states,
            RowsLost: self._take_lost_rows,
            PluginAnswered: self._cycle.permits.take_answer,
            Explained: lambda _: self._cycle.note_news(),
            Tick: lambda _: None,
        }

    # --- what a shell uses --------------------------------------------------------------------------------------------

    def start(self, now: Moment) -> list[Instruction]:
        """Return the first instructions."""
        self._term.now = now
        return self._term.take_instructions()

    def handle(self, event: Event, now: Moment) -> list[Instruction]:
        """Take an event, do what is due, and return what the shell has to do, in order.

        Raises:
            InvariantViolation: The shell told what cannot be; the term must end.
            Exception: Nobody foresaw it; the term must end, with `blamed` stored as suspect before.
        """
        self._term.now = now
        session: Session | None = getattr(event, "session", None)
        if session is None:
            self._handlers[type(event)](event)
        else:
            with self._term.blame.of(session_origin(session)):
                self._handlers[type(event)](event)
        if self._takeover.is_over:
            self._sessions.note_silence()
            self._sessions.send_due_releases()
            self._cycle.run_due()
        return self._term.take_instructions()

    def due_s(self) -> float | None:
        """Return when `Tick` is due, monotonic seconds; None if only an event helps."""
        due_s = self._cycle.due_s()
        releases_s = self._sessions.releases_due_s()
        due_s = due_s if releases_s is None else min(due_s, releases_s)
        due_s = min(due_s, self._sessions.silence_due_s())
        return due_s if due_s < math.inf else None

    def earliest_round_s(self) -> float:
        """Return before which moment no round begins, whatever arrives, monotonic seconds."""
        return self._cycle.earliest_s()

    def budget(self) -> Budget:
        """Return how much may be handed in now; what a round under way would not see may wait outside."""
        settings = self._term.settings
        changes = 0
        has_room = self.phase is Phase.IDLE and self._intake.has_room
        if has_room or self.phase is Phase.LOADING:
            changes = settings.changes_per_round + self._intake.held_count
        return Budget(changes, max(settings.inbox_limit - len(self._intake.inbox), 0))

    def is_new(self, change_id: int) -> bool:
        """Return whether a change that was read is neither held here nor deleted since the read began."""
        return self._intake.is_new(change_id)

    def lacking(self, changes: Sequence[Change]) -> Lacking:
        """Return what must be read before changes are handed in. Complexity: O(n log n) in the number of jobs."""
        return self._intake.lacking(changes)

    def unsettled(self) -> tuple[int, ...]:
        """Return the handles of jobs that others wait for and of which only the database knows the end."""
        return tuple(self._term.state.dependencies.unsettled)

    # --- what people may look at --------------------------------------------------------------------------------------

    @property
    def blamed(self) -> tuple[Origin, ...]:
        """Whose input was being applied when `handle` raised; empty if it was nobody's."""
        return self._term.blame.origins

    @property
    def pool(self) -> str:
        """Name of the pool that it leads."""
        return self._term.pool

    @property
    def epoch(self) -> int:
        """Number of this term; what a lower one says counts for nothing."""
        return self._term.epoch

    @property
    def phase(self) -> Phase:
        """What the leader is about."""
        return self._term.phase

    @property
    def state(self) -> PoolState:
        """The pool's memory, to be read."""
        return self._term.state

    @property
    def settings_version(self) -> int:
        """Version of the settings of rounds in effect; 0 for those of the configuration."""
        return self._term.settings_version

    @property
    def totals(self) -> dict[str, int]:
        """Counts since the term began."""
        return self._term.totals

    @property
    def on_hold_count(self) -> int:
        """Placements that plugins hold back."""
        return self._cycle.permits.on_hold_count

    @property
    def is_at_rest(self) -> bool:
        """Whether everything is taken over, decided and stored."""
        return self.phase is Phase.IDLE and self._line.is_empty and not self.on_hold_count

    def is_live(self, session: Session) -> bool:
        """Return whether a session is its cluster's live one."""
        return self._sessions.is_live(session)

    def follow(self, handle: int) -> None:
        """Keep the story of a job from now on."""
        self._term.stories.follow(handle)

    def story(self, handle: int) -> list[Step]:
        """Return what was done with a job since somebody follows it, its last steps."""
        return self._term.stories.read(handle)

    # --- events -------------------------------------------------------------------------------------------------------

    def _take_changes(self, event: ChangesRead) -> None:
        if not self._takeover.is_over:
            self._takeover.take_changes(event)
            return
        if self._intake.receive(event):
            self._cycle.note_news()
        self._cycle.note_read()

    def _take_ends(self, event: EndsRead) -> None:
        """Let what became of others' jobs wait for a round, if any of them has ended."""
        if any(event.states.values()):
            self._intake.receive_ends(event)
            self._cycle.note_news()

    def _take_stored(self, event: Stored) -> None:
        """Do what follows a commit, and what waited only for that."""
        ready = self._line.take(event)
        if not self._takeover.is_over:
            self._takeover.note_refused(event.refused)
        with self._term.blame.of(*origins_of(OriginKind.JOB, event.refused.tolist())):
            self._cycle.follow(ready, event.refused)
        for further in self._line.rest():
            if isinstance(further, TakenOver):
                self._takeover.serve()
            else:
                self._cycle.follow(further)
        if self._takeover.is_over:
            self._cycle.go_on()
        else:
            self._takeover.go_on()

    def _bind(self, event: Bound) -> None:
        """Take a session; an executor gets its rows once everything decided so far is stored."""
        session = event.session
        if not self._sessions.enter(event):
            return
        self._intake.note_bound(session.cluster)
        if session.role is Role.EXECUTOR:
            self._cycle.note_news()
        if session.role is Role.SAMPLER:
            self._cycle.requests.lose(session.cluster)
        self._sessions.greet(event)
        if event.known is not None:
            # No row may be sent that a crash could take back.
            for ready in self._line.put(None, CatchUp(session=session, known=event.known)):
                self._cycle.follow(ready)

    def _lose(self, event: SessionLost) -> None:
        if not self._sessions.leave(event.session, event.kept_s):
            return
        if event.session.role is Role.SAMPLER:
            self._cycle.requests.lose(event.session.cluster)
        else:
            self._cycle.note_news()  # runs there may have to be given up a while later

    def _take_sample(self, event: SampleAnswered) -> None:
        self._sessions.note_contact(event.session)
        self._cycle.requests.take_sample(event)

    def _take_commits(self, event: CommitAnswered) -> None:
        self._sessions.note_contact(event.session)
        self._cycle.requests.take_commits(event)

    def _take_capacity(self, event: CapacityTold) -> None:
        self._sessions.note_contact(event.session)
        if self._sessions.take_capacity(event):
            self._cycle.note_news()

    def _take_amounts(self, event: AmountsHeld) -> None:
        self._sessions.note_contact(event.session)
        held = self._sessions.take_amounts(event)
        if held is not None:
            self._cycle.note_held(held)

    def _take_nodes(self, event: NodesChosen) -> None:
        self._sessions.note_contact(event.session)
        placed = self._sessions.take_nodes(event)
        if placed is not None:
            self._cycle.note_placed(placed)

    def _take_moves(self, event: MovesNamed) -> None:
        self._sessions.note_contact(event.session)
        if self._sessions.take_moves(event):
            self._cycle.note_news()

    def _take_ready(self, event: SamplerReady) -> None:
        if self._sessions.note_ready(event.session):
            self._cycle.note_news()

    def _take_states(self, event: StatesReported) -> None:
        """Let states wait for a round; those of a session that is over are reported again by the next."""
        if self._sessions.is_live(event.session):
            self._sessions.note_contact(event.session)
            self._intake.receive_states(event)
            self._cycle.note_news()

    def _take_lost_rows(self, event: RowsLost) -> None:
        """Let the runs of rows that cannot be made fail, as if their executor had said so."""
        if self._sessions.is_live(event.session):
            self._intake.note_failed(event.session.cluster, event.runs, event.reason)
            self._cycle.note_news()
