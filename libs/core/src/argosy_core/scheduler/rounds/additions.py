"""Members that a round asks for beside whole jobs: in the places of lost ones of runs under way, and as runs grow.

They are asked of the sampler of their run's cluster before anything else of the round is committed, since the others of
their run hold nodes while they wait. What finds no room is tried again later, ever more seldom; a run that has waited
for too long is preempted, and its job waits for a whole new one.

Source: 003 "Distributed jobs"; decision 0023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from argosy_core.arrays import Int16s, Int32s, Int64s, has_true, true_places
from argosy_core.job.tables.interning import distinct
from argosy_core.job.tables.members import Members, place_of
from argosy_core.placement import CommitReply, CommitRequest
from argosy_core.scheduler.columns.codes import COMMIT_PLACED, COMMIT_REFUSED
from argosy_core.scheduler.columns.messages import ClusterRuns
from argosy_core.scheduler.memory.flows import advance_flows, note_lifetimes, raise_flows
from argosy_core.scheduler.memory.replacing import are_extras, may_be_added_to, vacant_members
from argosy_core.scheduler.memory.run_members import follow_members
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.memory.vacancies import HELD_MOST_S
from argosy_core.scheduler.outgoing.effects import AddedMembers
from argosy_core.scheduler.rounds.commits import promised_nodes
from argosy_core.scheduler.runs.preempting import preempt
from argosy_core.scheduler.runs.progress import broken_runs
from argosy_core.scheduler.turns.growing import choose_growth

__all__ = ["Additions", "give_up_waiting"]

_MOST_MEMBERS: Final = 1000
"""Most members that a round adds: as many as a job may have."""
_NONE: Final = np.zeros(0, dtype=np.int32)
_NO_ROOM: Final = "its cluster has no room for it now"
_AWAY: Final = "its cluster is not heard of, or its run is to end"
_REFUSED: Final = "a plugin of its cluster refused it"
_UNANSWERED: Final = "its cluster did not answer"


def give_up_waiting(state: PoolState, now_s: float) -> None:
    """Preempt runs that have waited too long for a member; their jobs wait for a whole new run."""
    overdue = state.vacancies.take_overdue(now_s)
    if not overdue:
        return
    slots = state.live.slots(np.array(overdue, dtype=np.int64))
    preempt(state, slots[slots >= 0], f"a lost member found no room for {HELD_MOST_S:.0f} s")


_Line = tuple[int, Int16s, Int32s]
"""Job, numbers of members to be added to its run, and node name indices that they are not to have."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """Members asked of one cluster."""

    slots: Int32s
    """Job of each."""
    members: Members
    """Who."""
    avoided: tuple[Int32s, ...]
    """For each the sampler's indices of the nodes that its run may not have; for the first of a run only."""


class Additions:
    """The members that one round adds to runs."""

    def __init__(self, state: PoolState, now_s: float) -> None:
        """Choose whom to ask for."""
        self._state = state
        self._now_s = now_s
        self._asked: dict[int, _Asked] = {}
        self._session = state.clusters.session.copy()
        self._placed: list[Members] = []
        self._releases: list[ClusterRuns] = []
        lines = self._vacant() if len(state.vacancies) else []
        left = _MOST_MEMBERS - sum(numbers.size for _, numbers, _ in lines)
        lines += [(slot, numbers, _NONE) for slot, numbers in choose_growth(state, now_s, left)]
        if lines:
            self._ask(lines, promised_nodes(state))

    def __bool__(self) -> bool:
        """Return whether an answer is awaited."""
        return bool(self._asked)

    def _vacant(self) -> list[_Line]:
        """Return whom runs miss whose places are to be filled now."""
        state, live = self._state, self._state.live
        due = np.array(state.vacancies.due(self._now_s), dtype=np.int64)
        slots = live.slots(due)
        may_be = (slots >= 0) & may_be_added_to(state, slots) & state.clusters.usable()[live.cluster[slots]]
        self._put_off_handles(due[~may_be], _AWAY)
        slots = slots[may_be]
        left = _MOST_MEMBERS
        lines: list[_Line] = []
        for slot in slots.tolist():
            vacant = vacant_members(state, slot)
            if not vacant.numbers.size:
                state.vacancies.drop(int(live.handle[slot]))
                continue
            if vacant.numbers.size > left:
                break
            left -= vacant.numbers.size
            one = state.vacancies.get(int(live.handle[slot]))
            # The first time another node is tried than those where members were lost.
            tried = one.tried_count if one is not None else 0
            lines.append((slot, vacant.numbers, vacant.last_nodes if tried == 0 else vacant.last_nodes[:0]))
        return lines

    def _ask(self, lines: list[_Line], avoided: dict[int, Int32s]) -> None:
        """Note what to ask each cluster.

        Args:
            lines: Members of runs.
            avoided: By cluster the sampler's indices of the nodes that are promised to others.
        """
        state, live = self._state, self._state.live
        for cluster in {int(live.cluster[slot]) for slot, _, _ in lines}:
            mine = [line for line in lines if live.cluster[line[0]] == cluster]
            of = np.concatenate([np.full(numbers.size, slot, dtype=np.int32) for slot, numbers, _ in mine])
            numbers = np.concatenate([numbers for _, numbers, _ in mine])
            promised, by_sampler = avoided.get(cluster, _NONE), state.clusters.nodes[cluster].by_sampler
            kept: list[Int32s] = []
            for _, wanted, last_nodes in mine:
                own = true_places(np.isin(by_sampler, last_nodes[last_nodes >= 0])).astype(np.int32)
                kept += [np.union1d(promised, own).astype(np.int32), *[_NONE] * (wanted.size - 1)]
            members = Members.of(live.handle[of], live.attempt[of], numbers)
            self._asked[cluster] = _Asked(of, members, tuple(kept))

    def requests(self, round_number: int) -> tuple[CommitRequest, ...]:
        """Return what to ask the samplers; each answers with `take`."""
        state = self._state
        return tuple(
            CommitRequest(
                cluster=state.clusters.names[cluster],
                round_number=round_number,
                stage=1,
                members=asked.members,
                class_ids=state.classes.class_id[state.live.class_index[asked.slots]],
                offset=np.cumsum([0, *(nodes.size for nodes in asked.avoided)]).astype(np.int32),
                candidate=np.concatenate(asked.avoided).astype(np.int32),
                of_gang=np.ones(len(asked.members), dtype=np.bool_),
            )
            for cluster, asked in sorted(self._asked.items())
        )

    def take(self, cluster: int, reply: CommitReply | None) -> None:
        """Take a cluster's answer; one that was not asked is ignored.

        Args:
            cluster: Cluster index.
            reply: The answer; None, or one of another incarnation, session or length says nothing: what it may have
                placed is released.
        """
        asked = self._asked.pop(cluster, None)
        if asked is None:
            return
        state, live = self._state, self._state.live
        known = reply is not None and reply.outcome.size == len(asked.members) == reply.node.size
        known = known and self._session[cluster] == state.clusters.session[cluster]
        if reply is None or not known or reply.incarnation != state.clusters.incarnation[cluster]:
            self._release(cluster, asked.members)
            self._put_off(asked.members, _UNANSWERED)
            return
        placed = reply.outcome == COMMIT_PLACED
        nodes = state.clusters.nodes[cluster].translate(np.where(placed, reply.node, 0).astype(np.int32))
        still = placed & (nodes >= 0) & (live.handle[asked.slots] == asked.members.handle)
        still &= (live.attempt[asked.slots] == asked.members.attempt) & may_be_added_to(state, asked.slots)
        still &= live.members.find(asked.slots, asked.members.member) < 0
        still &= ~np.isin(asked.slots, broken_runs(state, np.unique(asked.slots)))
        self._release(cluster, asked.members[placed & ~still])
        refused = reply.outcome == COMMIT_REFUSED
        self._put_off(asked.members[refused], _REFUSED)
        self._put_off(asked.members[~placed & ~refused], _NO_ROOM)
        slots, numbers = asked.slots[still], asked.members[still].member
        live.members.add(slots, numbers, nodes[still])
        first = place_of(numbers) == 0
        live.node[slots[first]] = nodes[still][first]
        touched = np.unique(slots)
        advance_flows(state, self._now_s)
        if has_true(are_extras(state, slots, numbers)):
            note_lifetimes(state)  # extras are no work that lasts, as what has a lifetime
        follow_members(state, touched)
        raise_flows(state)
        self._placed.append(asked.members[still])

    def close(self) -> None:
        """Take missing answers as not known."""
        for cluster in list(self._asked):
            self.take(cluster, None)

    def finish(self) -> tuple[AddedMembers | None, tuple[ClusterRuns, ...]]:
        """Return the members that are added, None for none, and placements to release."""
        self.close()
        if not self._placed:
            return None, tuple(self._releases)
        state, live = self._state, self._state.live
        members = Members.concatenate([Members.of([], []), *self._placed])
        slots = live.slots(members.handle)
        rows = np.where(slots >= 0, live.members.find(slots, members.member), -1)
        there = (rows >= 0) & (live.attempt[slots] == members.attempt)
        members, slots, rows = members[there], slots[there], rows[there]
        # The placements of the others were released with their runs.
        if not len(members):
            return None, tuple(self._releases)
        clusters, cluster = distinct(live.cluster[slots])
        nodes, node = state.clusters.node_names(live.cluster[slots], live.members.node[rows])
        added = AddedMembers(
            members=members,
            cluster=cluster.astype(np.int32),
            node=node.astype(np.int32),
            clusters=tuple(state.clusters.names[index] for index in clusters.tolist()),
            nodes=tuple(nodes),
        )
        return added, tuple(self._releases)

    def _release(self, cluster: int, members: Members) -> None:
        if len(members):
            self._releases.append(ClusterRuns(cluster=self._state.clusters.names[cluster], members=members))

    def _put_off(self, members: Members, text: str) -> None:
        self._put_off_handles(np.unique(members.handle), text)

    def _put_off_handles(self, handles: Int64s, text: str) -> None:
        for handle in handles.tolist():
            self._state.vacancies.put_off(handle, self._now_s, text)
