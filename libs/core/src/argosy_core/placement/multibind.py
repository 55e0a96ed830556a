"""MultiBind: commit members of runs to the first of their candidates that still has room, best first.

Every commit is reserved before it is checked, so what is about to be taken is offered to nobody else, and is rolled
back if the node cannot bear it. The answer is the one that runs placed one after the other in the given order would
get; that they are placed together is only faster.

How together equals one by one: reserve every run's first candidate. A node that bears all of them is settled, unless a
run that will have to move may come to it. So the unsettled nodes are those that went negative, and, step by step, every
node among the candidates of runs that stand on an unsettled node and that could not bear all who may come. Runs on
settled nodes are final; the others are rolled back and placed one by one, in order.

Source: seed 000 "Commit Phase"; design section 6, "MultiBind, negative reservation".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, true_places
from argosy_core.errors import InvalidRequest
from argosy_core.framework import Framework, PlacementBatch, Point
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeFlag, Room

__all__ = ["CommitOutcome", "check_columns", "commit", "release"]

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


class CommitOutcome(IntEnum):
    """What became of one commit; values of argosy.sampler.v1.CommitOutcome."""

    PLACED = 1
    """Placed."""
    CONFLICT = 2
    """All candidates that can be used lack resources now, or there was no candidate."""
    NODE_UNAVAILABLE = 3
    """All candidates are gone, not ready or cordoned."""
    UNKNOWN_CLASS = 4
    """The class is not defined."""
    REFUSED = 5
    """A plugin refused all candidates that can be used, or the placement."""


@dataclass(slots=True)
class _Batch:
    """Runs that have to be placed, and their candidates that can be used."""

    keys: Members
    """(n,) what is placed."""
    class_slots: Int32s
    """(n,) slots of the class table."""
    offset: Int64s
    """(n + 1,) positions in `candidate`."""
    candidate: Int32s
    """(c,) rows of usable nodes, best first per run."""
    run: Int64s
    """(c,) position of the run that each candidate is of."""

    @property
    def first(self) -> Int32s:
        """(n,) first candidate of each run, -1 if it has none."""
        first = np.full(len(self.keys), -1, np.int32)
        has = self.offset[:-1] < self.offset[1:]
        first[has] = self.candidate[self.offset[:-1][has]]
        return first


def commit(  # noqa: PLR0913 - one per column, and who is asked
    ledger: NodeLedger,
    members: Members,
    *,
    class_ids: Int32s,
    offsets: Int32s,
    candidates: Int32s,
    framework: Framework | None = None,
    checks: Framework | None = None,
    pool: int = 0,
) -> tuple[Int32s, npt.NDArray[np.int8]]:
    """Place members of runs, in the order given.

    One that has a placement is answered with its node, so that a commit may be repeated. Post-score functions say
    beforehand which of the candidates a run may have; reserve functions are told what is placed, and may refuse it.

    Args:
        ledger: The cluster's ledger.
        members: n members of runs.
        class_ids: n class ids.
        offsets: n + 1 positions in `candidates`, rising from 0 to its length.
        candidates: Rows of the node table, best first per run.
        framework: Post-score, reserve and unreserve functions; none if not given.
        checks: Check-conflicts functions; none if not given.
        pool: Number of the pool whose leader commits.

    Returns:
        (n,) row of the node that each run has now, or -1; (n,) values of CommitOutcome.

    Raises:
        InvalidRequest: The columns do not fit each other.

    Complexity: about two microseconds a run; runs on contended nodes cost about five times that.
    """
    count = len(members)
    check_columns(members, class_ids=class_ids, offsets=offsets, candidates=candidates)
    nodes = ledger.claim(members, pool)
    outcomes = np.full(count, CommitOutcome.CONFLICT, np.int8)
    class_slots = ledger.classes.slots(class_ids)
    outcomes[class_slots < 0] = CommitOutcome.UNKNOWN_CLASS
    outcomes[nodes >= 0] = CommitOutcome.PLACED
    todo = true_places((nodes < 0) & (class_slots >= 0))
    if len(todo):
        batch, unavailable = _usable_candidates(
            ledger, todo, members, class_slots, offsets=offsets, candidates=candidates
        )
        outcomes[todo[unavailable]] = CommitOutcome.NODE_UNAVAILABLE
        if framework is not None and framework.has(Point.POST_SCORE):
            batch, refused = _accepted_candidates(ledger, batch, framework)
            outcomes[todo[refused]] = CommitOutcome.REFUSED
        chosen, kept = _place(ledger, batch)
        if checks is not None and checks.has(Point.CHECK_CONFLICTS):
            kept = _check(ledger, batch, chosen, kept, checks=checks)
        if framework is not None and framework.has(Point.RESERVE):
            standing = framework.reserve(_lines(ledger, batch.keys[kept], batch.class_slots[kept], chosen[kept]))
            undone, kept = kept[~standing], kept[standing]
            ledger.roll_back(batch.class_slots[undone], chosen[undone])
            again = batch.keys.is_in(batch.keys[undone])
            chosen[again] = -1
            outcomes[todo[again]] = CommitOutcome.REFUSED
        ledger.keep(batch.keys[kept], batch.class_slots[kept], chosen[kept], pool)
        nodes[todo] = chosen
        outcomes[todo[chosen >= 0]] = CommitOutcome.PLACED
        _answer_repeats(members, nodes, outcomes)
    return nodes, outcomes


def check_columns(members: Members, *, class_ids: Int32s, offsets: Int32s, candidates: Int32s) -> None:
    """Do nothing if the columns of a commit fit each other.

    Raises:
        InvalidRequest: They do not.
    """
    if not len(class_ids) == len(offsets) - 1 == len(members):
        raise InvalidRequest("the columns of the commit differ in length")
    if offsets[0] != 0 or offsets[-1] != len(candidates) or has_true(np.diff(offsets) < 0):
        raise InvalidRequest("the offsets of the commit do not rise from 0 to the number of candidates")


def release(ledger: NodeLedger, keys: Members, framework: Framework, pool: int = 0) -> int:
    """Let a pool's leader go of placements, as `NodeLedger.release`, and unreserve those of which no pod was seen."""
    if framework.has(Point.UNRESERVE):
        lost, class_slots, nodes = ledger.unseen(keys)
        if ledger.nodes.any_row >= 0:  # nothing was reserved for what has no node yet
            placed = nodes != ledger.nodes.any_row
            lost, class_slots, nodes = lost[placed], class_slots[placed], nodes[placed]
        if len(lost):
            framework.unreserve(_lines(ledger, lost, class_slots, nodes))
    return ledger.release(keys, pool)


def _lines(ledger: NodeLedger, keys: Members, class_slots: Int32s, nodes: Int32s) -> PlacementBatch:
    return PlacementBatch(
        table=ledger.nodes, classes=ledger.classes, members=keys, class_slots=class_slots, nodes=nodes
    )


def _accepted_candidates(ledger: NodeLedger, batch: _Batch, framework: Framework) -> tuple[_Batch, Bools]:
    """Return the batch without candidates that plugins refuse, and which runs are left without any by that."""
    lines = _lines(ledger, batch.keys[batch.run], batch.class_slots[batch.run], batch.candidate)
    accepted = framework.post_score(lines)
    run = batch.run[accepted]
    offset = np.searchsorted(run, np.arange(len(batch.keys) + 1))
    refused = (np.diff(batch.offset) > 0) & (np.diff(offset) == 0)
    return replace(batch, candidate=batch.candidate[accepted], run=run, offset=offset), refused


def _answer_repeats(keys: Members, nodes: Int32s, outcomes: npt.NDArray[np.int8]) -> None:
    """Answer runs of unknown class that an earlier line of the same commit placed as another class."""
    unknown = true_places(outcomes == CommitOutcome.UNKNOWN_CLASS)
    for position in unknown.tolist():
        earlier = true_places((keys[:position].equal(keys[position : position + 1])) & (nodes[:position] >= 0))
        if len(earlier):
            nodes[position] = nodes[earlier[0]]
            outcomes[position] = CommitOutcome.PLACED


def _usable_candidates(
    ledger: NodeLedger,
    todo: npt.NDArray[np.intp],
    keys: Members,
    class_slots: Int32s,
    *,
    offsets: Int32s,
    candidates: Int32s,
) -> tuple[_Batch, Bools]:
    """Return the runs to place with the candidates that can be used, and which runs have candidates but none usable."""
    lengths = np.diff(offsets).astype(np.int64)[todo]
    begins = offsets[:-1].astype(np.int64)[todo]
    run = np.repeat(np.arange(len(todo)), lengths)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    candidate = candidates[np.arange(len(run)) - starts[run] + begins[run]]
    known = (candidate >= 0) & (candidate < len(ledger.nodes))
    usable = np.zeros(len(candidate), np.bool_)
    usable[known] = ledger.nodes.flags[candidate[known]] == NodeFlag.READY
    run, candidate = run[usable], candidate[usable]
    offset = np.searchsorted(run, np.arange(len(todo) + 1))
    batch = _Batch(keys=keys[todo], class_slots=class_slots[todo], offset=offset, candidate=candidate, run=run)
    return batch, (lengths > 0) & (np.diff(offset) == 0)


def _place(ledger: NodeLedger, batch: _Batch) -> tuple[Int32s, Int64s]:
    """Reserve for the runs of a batch; return the node of each, or -1, and which distinct runs hold a reservation."""
    first = batch.first
    if not batch.keys.are_distinct():
        # A run named twice: the second time it answers what the first time gave, so nothing can be done together.
        contended = np.ones(len(first), np.bool_)
    else:
        placed = true_places(first >= 0)
        ledger.reserve(batch.class_slots[placed], first[placed])
        contended = _contended(ledger, batch, first)
        undone = true_places(contended & (first >= 0))
        ledger.roll_back(batch.class_slots[undone], first[undone])
    kept = true_places(~contended & (first >= 0))
    chosen = np.where(contended, np.int32(-1), first)
    if has_true(contended):
        kept = np.concatenate([kept, _place_in_order(ledger, batch, true_places(contended), chosen)])
    return chosen, kept


def _check(ledger: NodeLedger, batch: _Batch, chosen: Int32s, kept: Int64s, *, checks: Framework) -> Int64s:
    """Ask for conflicts of what is reserved; return which runs hold a reservation at last.

    All are asked about together; those that conflict so are placed again one by one, in order, each on the first
    candidate from the one it was on that holds it and that it bears. Writes the nodes of all into `chosen`.

    Complexity: as one call of the functions, and one more for each candidate of a run that conflicts.
    """
    borne = checks.check_conflicts(_lines(ledger, batch.keys[kept], batch.class_slots[kept], chosen[kept]))
    if borne.all():
        return kept
    undone = np.sort(kept[~borne])
    ledger.roll_back(batch.class_slots[undone], chosen[undone])
    standing = kept[borne].tolist()
    for run in undone.tolist():
        candidates = batch.candidate[batch.offset[run] : batch.offset[run + 1]]
        first = int(true_places(candidates == chosen[run])[0])
        chosen[run] = _place_alone(ledger, batch, run, candidates[first:], checks=checks)
        if chosen[run] >= 0:
            standing.append(run)
    found = np.array(sorted(standing), np.int64)
    for run in np.setdiff1d(true_places(chosen >= 0), found).tolist():  # named twice
        same = found[batch.keys[found].equal(batch.keys[np.full(found.size, run)])]
        chosen[run] = chosen[same[0]] if same.size else -1
    return found


def _place_alone(ledger: NodeLedger, batch: _Batch, run: int, candidates: Int32s, *, checks: Framework) -> int:
    """Reserve for one run on the first candidate that holds it and that it bears; return the node, -1 for none."""
    key, slot = batch.keys[run : run + 1], batch.class_slots[run : run + 1]
    for candidate in candidates.tolist():
        node = np.array([candidate], np.int32)
        alone = _Batch(keys=key, class_slots=slot, offset=np.array([0, 1]), candidate=node, run=np.zeros(1, np.int64))
        if _place(ledger, alone)[0][0] < 0:
            continue
        if checks.check_conflicts(_lines(ledger, key, slot, node)).all():
            return int(candidate)
        ledger.roll_back(slot, node)
    return -1


def _contended(ledger: NodeLedger, batch: _Batch, first: Int32s) -> Bools:
    """Return which runs the order matters for; every first candidate is reserved."""
    nodes = ledger.nodes
    has = first >= 0
    contended = np.zeros(len(first), np.bool_)
    if not has_true(has):
        return contended
    if not has_true(ledger.classes.port[batch.class_slots]) and not has_true(nodes.free[:, first[has]] < 0):
        return contended
    unsettled: Bools = np.asarray(np.any(nodes.free < 0, axis=0))
    # Ports are not summed up: runs with host ports go one by one, and so do those that stand where they may come.
    with_ports = true_places(ledger.classes.port[batch.class_slots[batch.run]])
    unsettled[batch.candidate[with_ports]] = True
    while True:
        moving = has & unsettled[first]
        added = moving & ~contended
        if not has_true(added):
            return contended
        contended |= added
        may_come = moving[batch.run] & (batch.candidate != first[batch.run])
        worst = nodes.free.copy()
        requests = ledger.classes.requests[batch.class_slots[batch.run[may_come]]]
        for column, amounts in zip(worst, requests.T, strict=True):
            np.subtract.at(column, batch.candidate[may_come], amounts)
        reached = np.zeros(len(unsettled), np.bool_)
        reached[batch.candidate[may_come]] = True
        unsettled |= reached & (worst < 0).any(axis=0)


def _place_in_order(ledger: NodeLedger, batch: _Batch, runs: npt.NDArray[np.intp], chosen: Int32s) -> Int64s:
    """Place runs one by one, each on its first candidate that holds it, and reserve.

    Writes their nodes into `chosen`; returns which runs hold a reservation, each key once.
    """
    classes, nodes = ledger.classes, ledger.nodes
    own = np.zeros(len(chosen), np.bool_)
    own[runs] = True
    rows = np.unique(batch.candidate[own[batch.run]])
    slots = batch.class_slots.tolist()
    asked = {
        slot: [(column, amount) for column, amount in enumerate(classes.requests[slot].tolist()) if amount]
        for slot in set(batch.class_slots[runs].tolist())
    }
    ports = {slot: classes.ports[int(classes.port[slot])] for slot in asked}
    claims = nodes.ports.at(rows.tolist()) if any(ports.values()) else None
    room = Room(nodes.free[:, rows].T.ravel().tolist(), len(nodes.axis), claims)
    places = np.searchsorted(rows, batch.candidate).tolist()
    offset, candidate, keys = batch.offset.tolist(), batch.candidate.tolist(), batch.keys.pairs()
    placed: dict[tuple[int, int], int] = {}
    for run in runs.tolist():
        if keys[run] in placed:
            chosen[run] = chosen[placed[keys[run]]]
            continue
        demand = asked[slots[run]], ports[slots[run]]
        for position in range(offset[run], offset[run + 1]):
            if room.fits(places[position], *demand):
                room.take(places[position], *demand)
                chosen[run] = candidate[position]
                placed[keys[run]] = run
                break
    kept = np.fromiter(placed.values(), np.int64, len(placed))
    ledger.reserve(batch.class_slots[kept], chosen[kept])
    return kept
