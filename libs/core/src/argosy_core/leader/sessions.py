"""Sessions of clusters: who samples and executes, what each has been told, and when each was heard.

Source: design section 5, "Sync", "Sampler session", "Fencing executors"; section 7, invariant 9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from argosy_core.errors import InvalidRequest
from argosy_core.job.tables.members import Members
from argosy_core.job.tables.rows import HeldAmounts, PlacedNodes
from argosy_core.leader.events import (
    AmountsHeld,
    Bound,
    CapacityTold,
    ClusterSettings,
    MovesNamed,
    NodesChosen,
    Role,
    Session,
)
from argosy_core.leader.instructions import (
    ClassDefinitions,
    Close,
    Listen,
    NoteExcess,
    SendCommit,
    SendCordons,
    SendPlacements,
    SendReleases,
    SendRows,
    SendSample,
    SendStops,
    SendWeights,
    Welcome,
)
from argosy_core.leader.term import Term
from argosy_core.placement import CommitRequest, SampleRequest
from argosy_core.scheduler import (
    ClusterRuns,
    ClusterView,
    ExecutorRows,
    class_definitions,
    placements_of,
    preempt,
    queue_weights,
    rows_missing,
    set_cluster,
    take_held_amounts,
    take_nodes,
    update_capacity,
)

__all__ = ["ClusterSessions"]

_EXCESS_PERIOD_S = 3600.0
"""Time between two records of a cluster's capacity that does not count: 24 rows of the audit in a day."""
_MAX_SAID = 8
"""Resources that one of them names."""
_TOO_FULL = "its node is too full, and it may be moved"


@dataclass(slots=True)
class _SamplerLink:
    """A sampler's session."""

    session: Session
    ready: bool = False
    sent_classes: set[int] = field(default_factory=set)
    drop_count: int = 0
    """How often the pool had dropped classes when it was looked last which of those sent are gone."""
    releases: list[ClusterRuns] = field(default_factory=list)
    oldest_release_s: float = 0.0


class ClusterSessions:
    """The one live session of each cluster's sampler, and of its executor.

    Args:
        term: The term.
    """

    def __init__(self, term: Term) -> None:
        """Start without sessions."""
        self._term = term
        self._samplers: dict[str, _SamplerLink] = {}
        self._releasing: dict[str, _SamplerLink] = {}
        """Those of them with placements that ended to tell, in the order in which these began to wait."""
        self._executors: dict[str, Session] = {}
        self._settings: dict[str, ClusterSettings] = {}
        self._contacts: dict[tuple[str, str], tuple[int, int]] = {}
        self._heard_s: dict[str, float] = {}
        self.has_departures = False
        """Whether a process left since contacts were last stored: its successor waits for that."""
        self._silent_from_s: dict[str, float] = {}
        self._excess_due_s: dict[str, float] = {}
        """When operators may be told again of capacity that does not count."""

    # --- coming and going ---------------------------------------------------------------------------------------------

    def configure(self, settings: ClusterSettings) -> None:
        """Take what an administrator decided about a cluster, and tell its sampler."""
        self._settings[settings.name] = settings
        link = self._samplers.get(settings.name)
        self._show(settings.name)
        if link is not None:
            self._term.say(SendCordons(session=link.session, nodes=settings.cordoned_nodes))

    def enter(self, event: Bound) -> bool:
        """Make a session its cluster's live one, and end the one before; return False if a newer process holds one."""
        session = event.session
        live = self._live(session.cluster, session.role)
        if live is not None and live.incarnation > session.incarnation:
            reason = f"a newer process serves cluster {session.cluster!r}; this incarnation must end"
            self._term.say(Close(session=session, reason=reason))
            return False
        if live is not None:
            self._term.say(Close(session=live, reason="replaced by a newer session of the same cluster"))
        self._settings[session.cluster] = event.settings
        if session.role is Role.SAMPLER:
            self._samplers[session.cluster] = _SamplerLink(session)
            self._releasing.pop(session.cluster, None)
            self._show(session.cluster)
        else:
            self._executors[session.cluster] = session
            self._silent_from_s.pop(session.cluster, None)
            self._heard_s[session.cluster] = self._term.now.mono_s
            self._show(session.cluster, incarnation=self._incarnation(session.cluster))
            self._term.state.silence.end(self._term.state.clusters.index(session.cluster))
        return True

    def greet(self, event: Bound) -> None:
        """Welcome a peer; a sampler gets its cluster's cordons and full list of placements."""
        session, term = event.session, self._term
        term.say(Welcome(session=session, is_first=event.is_first))
        if session.role is not Role.SAMPLER:
            return
        term.say(SendCordons(session=session, nodes=event.settings.cordoned_nodes))
        self._tell_weights(session)
        placements = placements_of(term.state, session.cluster)
        classes = self._unseen(self._samplers[session.cluster], sorted(set(placements.class_ids.tolist())))
        term.say(SendPlacements(session=session, placements=placements, classes=classes))

    def catch_up(self, session: Session, known: Members) -> None:
        """Send an executor what it lacks and what it shall stop; from now on its states are read."""
        if self._executors.get(session.cluster) != session:
            return
        term = self._term
        lacking = rows_missing(term.state, session.cluster, known)
        # Leases taken in since the hello are not stored yet; their rows follow the commit, as to everybody.
        unstored = np.array(sorted(term.unstored), dtype=np.int64)
        # Stops first: what a predecessor has deleted already must not be made again for want of the word that it goes.
        self.send_stops(lacking.unknown)
        self.send_stops(lacking.stops)
        rows = lacking.rows.without(unstored) if unstored.size else lacking.rows
        self.send_rows(rows.without_members(term.unstored_members) if len(term.unstored_members) else rows)
        term.say(Listen(session=session))

    def leave(self, session: Session, kept_s: float | None) -> bool:
        """Forget a session that ended; return whether it was the live one.

        Args:
            session: Which.
            kept_s: How long its process keeps its place; None for as long as since it was heard.
        """
        if self._live(session.cluster, session.role) != session:
            return False
        if kept_s is not None:
            self._contacts[session.cluster, session.role] = 0, self._term.now.db_us + round(kept_s * 1e6)
            self.has_departures = True
        if session.role is Role.SAMPLER:
            del self._samplers[session.cluster]
            self._releasing.pop(session.cluster, None)
            self._show(session.cluster, incarnation=session.incarnation)
        else:
            del self._executors[session.cluster]
            heard_s = self._heard_s.pop(session.cluster, -math.inf)
            self._silent_from_s[session.cluster] = heard_s + self._term.settings.fence_s
            self._begin_silence(session.cluster)
        return True

    def is_live(self, session: Session) -> bool:
        """Return whether a session is its cluster's live one."""
        return self._live(session.cluster, session.role) == session

    def _live(self, cluster: str, role: Role) -> Session | None:
        if role is Role.EXECUTOR:
            return self._executors.get(cluster)
        link = self._samplers.get(cluster)
        return link.session if link is not None else None

    def _is_executed(self, cluster: str) -> bool:
        """Return whether a cluster's executor is there, or was heard lately enough to be taken for there."""
        return cluster in self._executors or cluster in self._silent_from_s

    def _incarnation(self, cluster: str) -> int:
        """Return the incarnation of the sampler under which a cluster is known; 0 if it never had one."""
        clusters = self._term.state.clusters
        index = clusters.find(cluster)
        return 0 if index is None else int(clusters.incarnation[index])

    def _show(self, cluster: str, *, incarnation: int = 0) -> None:
        """Tell the scheduler how a cluster stands."""
        link = self._samplers.get(cluster)
        settings = self._settings.get(cluster)
        view = ClusterView(
            name=cluster,
            # What is placed where no executor makes it waits in vain, and holds what others could use.
            connected=link is not None and link.ready and self._is_executed(cluster),
            cordoned=settings is not None and settings.cordoned,
            cordoned_nodes=settings.cordoned_nodes if settings is not None else (),
            max_capacity=settings.max_capacity if settings is not None else (),
            delegated=settings is not None and settings.delegated,
            incarnation=link.session.incarnation if link is not None else incarnation,
        )
        set_cluster(self._term.state, view)

    # --- samplers -----------------------------------------------------------------------------------------------------

    def take_capacity(self, event: CapacityTold) -> bool:
        """Take in what a cluster's nodes are; return whether there may be room that was not known."""
        if not self.is_live(event.session):
            return False
        state = self._term.state
        before = state.change_count
        try:
            update_capacity(state, event.session.cluster, event.columns)
        except InvalidRequest as error:
            self._term.say(Close(session=event.session, reason=error.message, is_fault=True))
        else:
            self._note_excess(event.session)
        # What is known already, because this leader took it or gave it back, is no news.
        return state.change_count != before

    def _note_excess(self, session: Session) -> None:
        """Tell operators of capacity that does not count, of each cluster seldom, for it decides how often it lies."""
        term = self._term
        uncounted = term.state.clusters.uncounted(session.cluster)
        if uncounted and term.now.mono_s >= self._excess_due_s.get(session.cluster, -math.inf):
            self._excess_due_s[session.cluster] = term.now.mono_s + _EXCESS_PERIOD_S
            said = [f"{name} {told}, of which {most} count" for name, (told, most) in uncounted.items()]
            more = f", and {len(said) - _MAX_SAID} more" if len(said) > _MAX_SAID else ""
            term.say(NoteExcess(session=session, text=f"tells {', '.join(said[:_MAX_SAID])}{more}"))

    def take_amounts(self, event: AmountsHeld) -> HeldAmounts | None:
        """Count runs with what a sampler says that they hold; return what is to be stored, None if nothing is."""
        if not self.is_live(event.session):
            return None
        term = self._term
        try:
            held = take_held_amounts(term.state, event.held, term.now.db_s, event.session.cluster)
        except InvalidRequest as error:
            term.say(Close(session=event.session, reason=error.message, is_fault=True))
            return None
        return held if len(held.members) else None

    def take_nodes(self, event: NodesChosen) -> PlacedNodes | None:
        """Take where a sampler placed what is leased to its cluster; return what is to be stored, None if nothing."""
        if not self.is_live(event.session):
            return None
        placed = take_nodes(self._term.state, event.session.cluster, event.placed)
        return placed if placed.nodes else None

    def take_moves(self, event: MovesNamed) -> bool:
        """Preempt the runs of a cluster that its sampler names; return whether any is preempted by that."""
        state = self._term.state
        if not self.is_live(event.session):
            return False
        live, members = state.live, event.members
        slots = live.slots(members.handle)
        there = (slots >= 0) & (live.attempt[slots] == members.attempt)
        there &= live.cluster[slots] == state.clusters.index(event.session.cluster)
        return preempt(state, np.unique(slots[there]), _TOO_FULL).size > 0

    def tell_weights(self) -> None:
        """Tell all samplers what queues weigh and how permits are given."""
        for link in self._samplers.values():
            self._tell_weights(link.session)

    def _tell_weights(self, session: Session) -> None:
        state = self._term.state
        self._term.say(SendWeights(session=session, weights=queue_weights(state), rules=state.settings.permits))

    def note_ready(self, session: Session) -> bool:
        """From now on a cluster may be asked; return whether the session is the live one."""
        if not self.is_live(session):
            return False
        self._samplers[session.cluster].ready = True
        self._show(session.cluster)
        return True

    def send_sample(self, request: SampleRequest) -> bool:
        """Ask a cluster's sampler for candidates; return False if there is none to ask."""
        link = self._samplers.get(request.cluster)
        if link is None or not link.ready:
            return False
        self._send_releases(link)
        dropped = self._dropped(link)
        classes = self._unseen(link, request.class_ids.tolist())
        self._term.say(SendSample(session=link.session, request=request, classes=classes, dropped_classes=dropped))
        return True

    def send_commit(self, request: CommitRequest) -> bool:
        """Ask a cluster's sampler to place runs; return False if there is none to ask."""
        link = self._samplers.get(request.cluster)
        if link is None or not link.ready:
            return False
        self._term.say(SendCommit(session=link.session, request=request))
        return True

    def _unseen(self, link: _SamplerLink, class_ids: Sequence[int]) -> ClassDefinitions:
        """Return the definitions of classes that a session has not seen, and note that it has them now."""
        unseen = [class_id for class_id in class_ids if class_id not in link.sent_classes]
        if not unseen:
            return ()
        link.sent_classes.update(unseen)
        return tuple(zip(unseen, class_definitions(self._term.state, unseen), strict=True))

    def _dropped(self, link: _SamplerLink) -> tuple[int, ...]:
        """Return the classes that a session has seen and that the pool has dropped, and note that it lacks them now."""
        classes = self._term.state.classes
        if link.drop_count == classes.drop_count:
            return ()
        link.drop_count = classes.drop_count
        dropped = tuple(sorted(class_id for class_id in link.sent_classes if class_id not in classes.ids))
        link.sent_classes.difference_update(dropped)
        return dropped

    def release(self, runs: ClusterRuns) -> None:
        """Tell a cluster's sampler of placements that ended; one without a session gets the full list when it comes.

        They are kept until there is something else to say, which saves the sampler a message.
        """
        link = self._samplers.get(runs.cluster)
        if link is None or not len(runs.members):
            return
        if not link.releases:
            link.oldest_release_s = self._term.now.mono_s
            self._releasing[runs.cluster] = link
        link.releases.append(runs)

    def send_due_releases(self) -> None:
        """Send the placements that ended and have waited for long enough."""
        now_s = self._term.now.mono_s
        while (due_s := self.releases_due_s()) is not None and due_s <= now_s:
            self._send_releases(next(iter(self._releasing.values())))

    def releases_due_s(self) -> float | None:
        """Return when the next placements that ended must be told, monotonic seconds."""
        for link in self._releasing.values():
            return self._release_due_s(link)
        return None

    def _release_due_s(self, link: _SamplerLink) -> float:
        # What waits for room waits for just these.
        return link.oldest_release_s + (0.0 if self._term.state.heads.size else self._term.settings.release_wait_s)

    def _send_releases(self, link: _SamplerLink) -> None:
        parts = link.releases
        self._releasing.pop(link.session.cluster, None)
        if parts:
            members = Members.concatenate([part.members for part in parts])
            runs = ClusterRuns(cluster=link.session.cluster, members=members)
            link.releases = []
            self._term.say(SendReleases(session=link.session, runs=runs))

    # --- executors ----------------------------------------------------------------------------------------------------

    def send_rows(self, rows: ExecutorRows, *, round_number: int = 0) -> None:
        """Send rows to a cluster's executor; one without a session asks for what it lacks when it comes."""
        session = self._executors.get(rows.cluster)
        if session is not None and rows.handle.size:
            self._term.say(SendRows(session=session, rows=rows, round_number=round_number))

    def send_stops(self, stops: ClusterRuns) -> None:
        """Send runs to stop to a cluster's executor."""
        session = self._executors.get(stops.cluster)
        if session is not None and len(stops.members):
            self._term.say(SendStops(session=session, runs=stops))

    def stop_unknown(self, session: Session, runs: Members) -> None:
        """Let an executor stop those runs that are not this leader's; the rows of the others were sent before."""
        if self._executors.get(session.cluster) == session:
            lacking = rows_missing(self._term.state, session.cluster, runs)
            self.send_stops(lacking.unknown)
            self.send_stops(lacking.stops)

    # --- who is heard -------------------------------------------------------------------------------------------------

    def note_contact(self, session: Session) -> None:
        """Note that a process was heard."""
        if self.is_live(session):
            now, fence_s = self._term.now, self._term.settings.fence_s
            self._contacts[session.cluster, session.role] = now.db_us, now.db_us + round(fence_s * 1e6)
            if session.role is Role.EXECUTOR:
                self._heard_s[session.cluster] = now.mono_s

    def note_silence(self) -> None:
        """Give no more work to clusters whose executors are gone, and were not heard for as long as they may act.

        A stream that stands counts as heard: the shell ends one on which nothing comes.
        """
        now_s = self._term.now.mono_s
        for cluster in [cluster for cluster, due_s in self._silent_from_s.items() if due_s <= now_s]:
            del self._silent_from_s[cluster]
            self._show(cluster, incarnation=self._incarnation(cluster))

    def await_executors(self) -> None:
        """Count from now on how long executors are not heard: before, nobody was there to hear them."""
        for cluster in self._term.state.clusters.names:
            if cluster not in self._executors:
                self._begin_silence(cluster)

    def _begin_silence(self, cluster: str) -> None:
        """Take note that an executor is not heard from now on; runs there end later than it ends them, if it can."""
        settings, state = self._term.settings, self._term.state
        margin_s = max(settings.executor_lost_margin_s, settings.fence_s)
        state.silence.begin(state.clusters.index(cluster), self._term.now.db_s + margin_s)

    def silence_due_s(self) -> float:
        """Return when the next cluster is to be given no more work, monotonic seconds."""
        return min(self._silent_from_s.values(), default=math.inf)

    @property
    def has_contacts(self) -> bool:
        """Whether samplers or executors were heard since their contacts were last stored."""
        return bool(self._contacts)

    def take_contacts(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Return what is to be stored of who was heard since the last time, see `Transaction.contacts`."""
        contacts, self._contacts, self.has_departures = self._contacts, {}, False
        return contacts
