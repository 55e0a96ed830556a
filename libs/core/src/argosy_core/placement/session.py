"""A sampler's session with a pool's leader, without I/O: epochs, the list of placements, answers from the ledger.

Whatever comes from an epoch lower than one seen is refused, and nothing is sampled or committed before a full list of
placements was taken in on the present stream. A sampler of several pools has a session for each, on one ledger. Shells
are `argosy_sampler` and `argosy_simulation`.

Source: design section 5, "Sampler session"; section 7, invariants 8 and 9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from argosy_core.arrays import Int8s, Int32s, has_true, true_places
from argosy_core.errors import InvalidRequest, NotAllowedNow, StateConflict
from argosy_core.framework import PlacementBatch, Point
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.reading.scaling import SCALED
from argosy_core.job.tables.members import Members
from argosy_core.job.tables.rows import HeldAmounts
from argosy_core.ledger import NodeLedger
from argosy_core.ledger.records import ListOutcome
from argosy_core.placement.messages import (
    CommitReply,
    CommitRequest,
    Placements,
    PlaceReply,
    SampleReply,
    SampleRequest,
)
from argosy_core.placement.multibind import check_columns, commit, release
from argosy_core.placement.sampling import NodeSampler

__all__ = ["SamplerSession"]


class SamplerSession:
    """Answers the leader of one cluster's pool.

    Args:
        ledger: The cluster's ledger.
        sampler: Draws samples from it; its plugins judge commits, and are told of placements.
        rng: The sampler's chance.
        pool: Number of the pool in the ledger.
    """

    def __init__(self, ledger: NodeLedger, sampler: NodeSampler, rng: np.random.Generator, *, pool: int = 0) -> None:
        """Start without a stream and with epoch 0."""
        self.ledger = ledger
        self.sampler = sampler
        self.epoch = 0
        """Highest epoch seen."""
        self.ready = False
        """A full list was taken in on the present stream."""
        self._framework = sampler.framework
        self._rng = rng
        self._pool = pool
        self._told_whole = b""
        self._parts: list[Placements] = []
        self._told_classes: set[int] = set()
        """Classes that were told on this stream before the list was whole."""
        self._sampled_at = 0
        """Generation of the node table that the last answer was about: a round commits to what it was answered."""
        self._placed = Members.of([], [])
        """Members that were leased to the cluster, and of whose nodes the leader is to be told."""

    def begin(self) -> None:
        """Begin a new stream: a list must come before anything is answered."""
        self.ready = False
        self._told_whole = b""
        self._parts.clear()
        self._told_classes.clear()
        self._placed = Members.of([], [])
        self.sampler.start_over()

    def check_epoch(self, epoch: int) -> None:
        """Take the epoch of a message.

        Raises:
            StateConflict: A higher epoch was seen: its leader is not the leader any more.
        """
        if epoch < self.epoch:
            raise StateConflict(f"epoch {epoch} is over; epoch {self.epoch} leads the pool")
        self.epoch = epoch

    def check_request(self, epoch: int) -> None:
        """Refuse a request of an epoch that is over, and one that comes before the full list.

        Raises:
            StateConflict: The epoch is over.
            NotAllowedNow: The full list of placements has not come.
        """
        self.check_epoch(epoch)
        if not self.ready:
            raise NotAllowedNow("the full list of placements must come before requests")

    def define(self, classes: Iterable[tuple[int, SchedulingClass]]) -> None:
        """Make classes known."""
        for class_id, definition in classes:
            self.ledger.define_class(class_id, definition, self._pool)
            if not self.ready:
                self._told_classes.add(class_id)

    def forget(self, class_ids: Iterable[int]) -> None:
        """Let classes leave in time that the leader has dropped; it tells them again before it names them."""
        self.ledger.forget_classes(class_ids, self._pool)

    def take_placements(self, part: Placements, *, is_last: bool) -> ListOutcome | None:
        """Take a part of the full list; with the last one the list is taken in, and requests are answered from now on.

        Returns:
            What the list changed, None before its last part.

        Raises:
            InvalidRequest: A class is not defined, or a member stands twice.
        """
        self._parts.append(part)
        if not is_last:
            return None
        parts, self._parts = self._parts, []
        keys = Members.concatenate([part.members for part in parts])
        class_ids = np.concatenate([part.class_ids for part in parts])
        nodes = np.concatenate([self._rows(part) for part in parts])
        on_any = keys[nodes == self.ledger.nodes.any_row] if self.ledger.nodes.any_row >= 0 else keys[:0]
        outcome = self.ledger.take_list(keys, class_ids, nodes, self._pool)
        if self._framework.has(Point.EVENT):
            slots = self.ledger.classes.slots(class_ids)
            batch = PlacementBatch(
                table=self.ledger.nodes,
                classes=self.ledger.classes,
                members=keys,
                class_slots=slots,
                nodes=nodes,
            )
            self._framework.notify(batch)
        self._placed = on_any  # those that have nodes: the leader may not have been told which
        self.ready = True
        # Of what this leader, or another before it, has told on other streams it knows nothing.
        self.ledger.keep_classes(self._told_classes, self._pool)
        self._told_classes.clear()
        return outcome

    def _rows(self, part: Placements) -> Int32s:
        rows: Int32s = self.ledger.rows_of_names(part.nodes)
        return rows[part.node] if part.node.size else np.zeros(0, dtype=np.int32)

    def sample(
        self, epoch: int, request: SampleRequest, should_stop: Callable[[], bool] = lambda: False
    ) -> SampleReply:
        """Answer a sample request.

        Args:
            epoch: Epoch of the message.
            request: What is asked.
            should_stop: Whether the time to look is up.

        Raises:
            StateConflict: The epoch is over.
            NotAllowedNow: The full list of placements has not come.
        """
        self.check_request(epoch)
        self._sampled_at = self.ledger.nodes.generation
        return self.sampler.sample(request, self._rng, should_stop=should_stop)

    def commit(self, epoch: int, request: CommitRequest) -> CommitReply:
        """Place members of runs (MultiBind); see `commit`, and for those of gangs `GangPlacer.commit`.

        A gang's candidates are nodes that it does not get, all of them at its first member.

        Raises:
            StateConflict: The epoch is over.
            NotAllowedNow: The full list of placements has not come.
            InvalidRequest: The columns do not fit each other.
        """
        self.check_request(epoch)
        renamed = self.ledger.nodes.renamed_since(request.candidate, self._sampled_at)
        request = replace(request, candidate=np.where(renamed, np.int32(-1), request.candidate))
        node, outcome = self._commit_in_order(request) if self.ledger.classes.gangs else self._commit_members(request)
        return CommitReply(incarnation=self.sampler.incarnation, node=node, outcome=outcome)

    def _commit_in_order(self, request: CommitRequest) -> tuple[Int32s, Int8s]:
        """Place members, those of gangs and others by turns as they come: who stands first has the room."""
        offset, candidate = request.offset, request.candidate
        check_columns(request.members, class_ids=request.class_ids, offsets=offset, candidates=candidate)
        slots = self.ledger.classes.slots(request.class_ids)
        of_gangs = self.ledger.classes.are_gangs(slots)
        bounds = [0, *(true_places(np.diff(of_gangs)) + 1).tolist(), len(slots)]
        parts = []
        for begin, end in pairwise(bounds):
            some = slice(begin, end)
            part = replace(
                request,
                members=request.members[some],
                class_ids=request.class_ids[some],
                offset=offset[begin : end + 1] - offset[begin],
                candidate=candidate[offset[begin] : offset[end]],
            )
            is_gang = begin < end and of_gangs[begin]
            parts.append(self._commit_gangs(part, slots[some]) if is_gang else self._commit_members(part))
        nodes, outcomes = zip(*parts, strict=True)
        return np.concatenate(nodes), np.concatenate(outcomes)

    def _commit_members(self, request: CommitRequest) -> tuple[Int32s, Int8s]:
        any_row = self.ledger.nodes.any_row
        if any_row >= 0 and has_true(request.candidate == any_row):
            check_columns(
                request.members, class_ids=request.class_ids, offsets=request.offset, candidates=request.candidate
            )
            return self.sampler.whole.admit(request, self._pool)
        return commit(
            self.ledger,
            request.members,
            class_ids=request.class_ids,
            offsets=request.offset,
            candidates=request.candidate,
            framework=self._framework,
            checks=self.sampler.checks,
            pool=self._pool,
        )

    def _commit_gangs(self, request: CommitRequest, slots: Int32s) -> tuple[Int32s, Int8s]:
        avoided = np.split(request.candidate, request.offset[1:-1])
        return self.sampler.gangs.commit(request.members, slots, avoided, self._pool)

    def place(self, members: Members) -> PlaceReply:
        """Choose the nodes of members that are leased to the cluster, as its executor asks; see `ClusterPlacer.place`.

        The leader is to be told of it, see `take_placed`, also of what had a node before.

        Raises:
            NotAllowedNow: The full list of placements has not come.
            InvalidRequest: A member stands twice.
        """
        if not self.ready:
            raise NotAllowedNow("the full list of placements must come before requests")
        if not members.are_distinct():
            raise InvalidRequest("a request to place names a member of a run twice")
        reply = self.sampler.place(members)
        self._placed = Members.concatenate([self._placed, members]).distinct()
        return reply

    def take_placed(self) -> tuple[Members, tuple[str, ...]]:
        """Return members that were leased to the cluster and their nodes, each time of those that were asked for since.

        Complexity: O(members) in NumPy, nothing while there are none.
        """
        placed, self._placed = self._placed, Members.of([], [])
        if not len(placed):
            return placed, ()
        nodes = self.ledger.nodes_of(placed)
        has = (nodes >= 0) & (nodes != self.ledger.nodes.any_row)
        return placed[has], tuple(self.ledger.nodes.names[row] for row in nodes[has].tolist())

    def take_whole_nodes(self, *, anew: bool = False) -> HeldAmounts | None:
        """Return what members on nodes of their own hold, if that changed since it was told last.

        Args:
            anew: Whether to tell it in any case, if there is something to tell.
        """
        members, amounts = self.ledger.whole_nodes(self._pool)
        told = b"".join((members.handle.tobytes(), members.ordinal.tobytes(), amounts.tobytes()))
        is_news = told != self._told_whole
        self._told_whole = told
        if not len(members) or not (is_news or anew):
            return None
        used = np.flatnonzero(amounts.any(axis=0))
        names = tuple(self.ledger.axis.names[column] for column in used.tolist())
        return HeldAmounts(members=members, names=names, amounts=amounts[:, used])

    def take_permitted(self, *, anew: bool = False) -> HeldAmounts | None:
        """Return what pods that are resized hold by now, if the leader was not told; see `PermitLedger.take_held`.

        Args:
            anew: Whether to tell it of all of them: a leader heeds no word on runs that it has not yet stored.
        """
        permits = self.ledger.permits
        if not len(permits.pods):
            return None
        if anew:
            permits.forget_told(self._pool)
        members, amounts = permits.take_held(self._pool, self.ledger.classes.requests)
        return HeldAmounts(members=members, names=SCALED, amounts=amounts.T) if len(members) else None

    def release(self, epoch: int, members: Members) -> None:
        """Let the leader go of placements.

        Raises:
            StateConflict: The epoch is over.
        """
        self.check_epoch(epoch)
        release(self.ledger, members, self._framework, self._pool)
