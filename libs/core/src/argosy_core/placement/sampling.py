"""The sampling phase on the sampler: candidates for many classes at once.

Which nodes are looked at is in `looking`, how good they are in `ranking`. The best candidates of each class are
answered, with what is free on them, so that the leader can decide over several clusters.

Owns what is kept between requests, and the answer. May import everything else of the sampler but its session.

Source: seed 000 "Sampling Phase" (2-Smart Sampling); design section 5, "Round" 2.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, true_places
from argosy_core.errors import InvalidRequest
from argosy_core.framework import COMMIT, Framework
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger
from argosy_core.placement.delegated import ClusterPlacer
from argosy_core.placement.explained import ExplainedClasses
from argosy_core.placement.findings import Findings
from argosy_core.placement.gangs import GangPlacer
from argosy_core.placement.looking import Looks
from argosy_core.placement.messages import PlaceReply, SampleReply, SampleRequest
from argosy_core.placement.needs import NODE_BITS, Needs, nodes_of
from argosy_core.placement.ranking import Ranker
from argosy_core.placement.reasons import WaitReason
from argosy_core.placement.scarcity import ScarcityMemory
from argosy_core.placement.strategies import Strategy, strategy_of
from argosy_core.placement.waiting import ANY_KIND, WaitingClasses
from argosy_core.plugins import SCORES, build_framework

__all__ = ["NodeSampler", "sample"]

Bools = npt.NDArray[np.bool_]
Int8s = npt.NDArray[np.int8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_MANY_NODES: Final = 128
"""So many eligible nodes are looked at where devices are to be kept together."""
_ROUNDING: Final = 1e-9
_LARGE_BLOCK: Final = 3 << 20
_NO_NODES: Final = np.zeros(0, np.int32)
_NO_RANKS: Final = np.zeros(0, np.int64)


class NodeSampler:
    """Answers sampling requests for one cluster; keeps cursors and memory between them.

    Args:
        ledger: The cluster's ledger; define the classes there first.
        framework: Filters and scores of the sampling profile; by default those of `DEFAULT_PROFILE`.
        incarnation: Told with each answer, since rows of the node table mean nothing to another ledger.
        checks: The commit profile: what may find conflicts; nothing but the ledger by default.
    """

    def __init__(
        self,
        ledger: NodeLedger,
        framework: Framework | None = None,
        *,
        incarnation: int = 0,
        checks: Framework | None = None,
    ) -> None:
        """Start with an empty memory."""
        self.ledger = ledger
        self.incarnation = incarnation
        self.framework = framework or build_framework()
        self.checks = checks or Framework(kind=COMMIT)
        self.ranker = Ranker(ledger, self.framework)
        """Filters and scores for the present request."""
        self._strategies: dict[str, Strategy] = {}
        self._memory = ScarcityMemory()
        self._waiting = WaitingClasses(ledger, self.framework)
        self._explained = ExplainedClasses(ledger, self.framework)
        self.gangs = GangPlacer(ledger, self.framework, self.checks)
        """Answers and places gangs."""
        self._classes = ledger.classes
        """The table that slots are of in what is remembered."""
        self.whole = ClusterPlacer(ledger, self.framework, self._explain_now, checks=self.checks)
        """Answers and places what is leased to the cluster as a whole."""
        # The C library gives freed blocks of this size back to the system until a larger one was freed once; faulting
        # them in again would cost half as much as all the arithmetic.
        np.empty(_LARGE_BLOCK)

    def sample(
        self,
        request: SampleRequest,
        rng: np.random.Generator,
        *,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> SampleReply:
        """Return candidates for each class of a request.

        Args:
            request: What is asked. Classes that are not defined get no candidate.
            rng: Draws samples and breaks ties.
            should_stop: Asked between windows; once it says yes, what was found so far is the answer.

        Raises:
            InvalidRequest: The request's columns differ in length, Np is no share, or there is no such strategy.

        Complexity: about 5 us a class that finds its nodes at once; on a full cluster, about 1 us a class plus the
        nodes that changed.
        """
        self._check(request)
        self._follow_classes()
        findings = Findings(len(request.class_ids))
        asked = slots = self.ledger.classes.slots(request.class_ids)
        if self.ledger.classes.gangs:
            slots = np.where(self.ledger.classes.are_gangs(asked), np.int32(-1), asked)
        live_count = len(self.ledger.nodes.live())
        self.ranker.begin(slots, request, rng)
        # Who packs must see the nodes that are in use, wherever they are.
        ratio = 1.0 if self.ranker.packs else request.nodes_to_sample_ratio
        required = max(1, ceil(ratio * live_count - _ROUNDING)) + request.extra_count
        needs = Needs(
            self.ledger.nodes,
            self.ledger.classes,
            slots,
            wanted=request.wanted,
            enough=required,
            spare=request.spare_count + request.extra_count,
        )
        full = request.complete.astype(np.bool_)
        todo = true_places(slots >= 0)
        if live_count:
            looks = Looks(self.ranker, self._memory, slots, needs, findings=findings, rng=rng, should_stop=should_stop)
            todo = looks.where_scarce(todo)
            strategy = self._strategies.get(request.strategy) or strategy_of(request.strategy)
            self._strategies[request.strategy] = strategy
            looks.run(todo[full[todo]], strategy, required=live_count + 1)
            if self.ranker.keeps_devices:  # the fullest of few nodes is hardly fuller than any
                required = max(required, min(_MANY_NODES, live_count))
            looks.run(todo[~full[todo]], strategy, required=required)
        else:
            findings.complete[todo], findings.lacking[todo] = 1, True
        reply = self._reply(request, slots, findings, should_stop)
        if request.is_delegated:
            reply, short = self.whole.answer(reply, slots, request.wanted)
            self._waiting.note(slots[short], np.ones(int(short.sum()), np.bool_))
        if slots is asked:
            return reply
        return self.gangs.answer(reply, asked, self._waiting.kinds_when_empty, should_stop)

    def place(self, members: Members) -> PlaceReply:
        """Choose nodes for members that are leased to the cluster; classes that are returned wait for news from now on.

        See `ClusterPlacer.place`.
        """
        self._follow_classes()
        reply = self.whole.place(members)
        slots, self.whole.returned = np.array(self.whole.returned, np.int32), []
        self._waiting.note(slots, np.ones(slots.size, np.bool_))
        return reply

    def _explain_now(self, slots: Int32s) -> tuple[str, ...]:
        """Return which nodes come closest to holding classes now, and what they lack."""
        positions, asked = np.arange(slots.size), np.ones(slots.size, np.bool_)
        misses: tuple[str, ...] = self._explained.explain(positions, slots, asked, lambda: False)[1]
        return misses

    # --- news ---------------------------------------------------------------------------------------------------------

    @property
    def waiting_count(self) -> int:
        """Return how many classes wait for capacity to rise."""
        return len(self._waiting) + self.gangs.waiting_count

    def start_over(self) -> None:
        """Forget which classes wait: a new session asks for everything again."""
        self._waiting.clear()
        self.gangs.clear()

    def take_fitting(self) -> tuple[Int32s, Int64s]:
        """Return classes that were answered for want of nodes and that fit some node now; each is told once.

        Returns:
            k class ids, and how many pods of each fit on the nodes that rose.
        """
        self._follow_classes()
        slots, room = self._waiting.take_fitting()
        if self.gangs.waiting_count:
            of_gangs = self.gangs.take_fitting()
            slots, room = np.append(slots, of_gangs[0]), np.append(room, of_gangs[1])
        return self.ledger.classes.class_id[slots], room

    def _follow_classes(self) -> None:
        """Let what is remembered mean the slots of the ledger's table of classes, if another has taken its place."""
        classes, before = self.ledger.classes, self._classes
        if classes is before:
            return
        self._classes = classes
        moved = np.where(before.class_id >= 0, classes.slots(before.class_id), np.int32(-1))
        self._memory = ScarcityMemory()
        self._explained = ExplainedClasses(self.ledger, self.framework)
        self._waiting.rename(moved)
        self.gangs.rename(moved)

    # --- answering ----------------------------------------------------------------------------------------------------

    def _check(self, request: SampleRequest) -> None:
        """Refuse a request that makes no sense."""
        if not len(request.class_ids) == len(request.wanted) == len(request.complete):
            raise InvalidRequest("the columns of the sampling request differ in length")
        if len(request.for_promise) not in (0, len(request.class_ids)):
            raise InvalidRequest("the columns of the sampling request differ in length")
        if request.extra_count < 0:
            raise InvalidRequest(f"extra_count is {request.extra_count}, but must be 0 or more")
        if request.node_score and request.node_score not in SCORES:
            raise InvalidRequest(f"node_score is {request.node_score!r}, but must be one of {', '.join(SCORES)}")
        if not 0 <= request.nodes_to_sample_ratio <= 1:
            raise InvalidRequest(f"nodes_to_sample_ratio is {request.nodes_to_sample_ratio}, not between 0 and 1")
        if len(self.ledger.nodes) >= 1 << NODE_BITS:
            raise InvalidRequest(f"a cluster can have at most {(1 << NODE_BITS) - 1} nodes")

    def _reply(
        self, request: SampleRequest, slots: Int32s, findings: Findings, should_stop: Callable[[], bool]
    ) -> SampleReply:
        """Put the answer together."""
        table = self.ledger.nodes
        ranks = np.concatenate([_NO_RANKS, *findings.ranks])
        lengths = np.fromiter(map(len, findings.ranks), np.int32, len(findings.ranks))
        rows = nodes_of(ranks)
        place = np.zeros(len(table), np.int32)
        place[rows] = 1
        could_hold, could_hold_offset = self._could_hold(request, slots)
        place[could_hold] = 1
        nodes = true_places(place).astype(np.int32)
        place[nodes] = np.arange(len(nodes), dtype=np.int32)
        columns = [table.axis.names.index(name) if name in table.axis.names else -1 for name in request.resources]
        free = np.zeros((len(nodes), len(columns)), np.int64)
        total_free = np.zeros(len(columns), np.int64)
        sums = table.totals().free
        for position, column in enumerate(columns):
            if column >= 0:
                free[:, position] = table.free[column, nodes]
                total_free[position] = sums[column]
        faults = self.ranker.faults
        faulty = [p for p, slot in enumerate(slots.tolist() if faults else ()) if slot in faults]
        findings.complete[faulty] &= lengths[faulty] > 0  # a class that could not be judged is not known to fit nowhere
        kinds = np.full(len(slots), ANY_KIND, np.int64)
        reason, texts, retry_after_s = self._reasons(slots, findings, lengths == 0, kinds)
        nowhere = true_places((findings.complete > 0) & (lengths == 0))
        rejection, misses = self._explained.explain(nowhere, slots, request.complete.astype(np.bool_), should_stop)
        return SampleReply(
            incarnation=self.incarnation,
            node=nodes,
            free=free,
            offset=np.concatenate(([0], np.cumsum(lengths))).astype(np.int32),
            candidate=place[rows],
            score=self.ranker.scores(ranks),
            examined=findings.examined,
            eligible=findings.eligible,
            filters=self.framework.filter_names,
            filter_texts=self.framework.filter_texts,
            rejection=rejection,
            total_free=total_free,
            complete=findings.complete,
            nearest_misses=misses,
            reason=reason,
            texts=texts,
            retry_after_s=retry_after_s,
            node_kinds=kinds if has_true(kinds != ANY_KIND) else _NO_RANKS,
            could_hold_offset=could_hold_offset,
            could_hold=place[could_hold],
        )

    def _could_hold(self, request: SampleRequest, slots: Int32s) -> tuple[Int32s, Int32s]:
        """Return the nodes that could hold classes if nothing else ran there, where asked, and their offsets."""
        if not has_true(request.for_promise):
            return _NO_NODES, _NO_NODES
        is_wanted = request.for_promise.astype(np.bool_)
        wanted = is_wanted & (slots >= 0)
        found = self._waiting.could_hold(slots[wanted])
        if self.ledger.classes.gangs:
            slots = self.ledger.classes.slots(request.class_ids)
            singles, wanted = iter(found), is_wanted & (slots >= 0)
            gangs = self.ledger.classes.are_gangs(slots[wanted]).tolist()
            found = [
                self.gangs.could_hold(slot, request.kept, request.going) if is_gang else next(singles)
                for slot, is_gang in zip(slots[wanted].tolist(), gangs, strict=True)
            ]
        counts = np.zeros(len(slots) + 1, np.int32)
        counts[1:][wanted] = [len(nodes) for nodes in found]
        return np.concatenate([_NO_NODES, *found]), np.cumsum(counts, dtype=np.int32)

    def _reasons(
        self, slots: Int32s, findings: Findings, empty: Bools, kinds: Int64s
    ) -> tuple[Int8s, tuple[str, ...], npt.NDArray[np.float32]]:
        """Say why the nodes found do not hold what waits; remember the classes that wait for capacity to rise.

        Writes to `kinds` which kinds of nodes the classes without a candidate could ever fit.
        """
        faults = self.ranker.faults
        reason = np.zeros(len(slots), np.int8)
        short = (findings.complete > 0) & findings.lacking & (slots >= 0)
        reason[short] = WaitReason.NO_ROOM
        nowhere = true_places(short & empty)
        if nowhere.size:
            kinds[nowhere] = self._waiting.kinds_when_empty(slots[nowhere])
            reason[nowhere[kinds[nowhere] == 0]] = WaitReason.MISMATCH
        texts: list[str] = []
        retry_after_s = np.zeros(len(slots) if faults else 0, np.float32)
        if faults:
            texts = [""] * len(slots)
            for position in true_places(empty).tolist():
                fault = faults.get(int(slots[position]))
                if fault is not None:
                    reason[position] = WaitReason.PLUGIN if fault.is_objection else WaitReason.FAULT
                    texts[position] = f"{fault.plugin}: {fault.reason}"
                    retry_after_s[position] = fault.retry_after_s
            self._waiting.note_turned_away({slot: fault.plugin for slot, fault in faults.items()})
        waits = (reason == WaitReason.NO_ROOM) | (reason == WaitReason.MISMATCH)
        known = slots >= 0
        self._waiting.note(slots[known], waits[known])
        return reason, tuple(texts), retry_after_s


def sample(
    ledger: NodeLedger,
    request: SampleRequest,
    rng: np.random.Generator,
    *,
    should_stop: Callable[[], bool] = lambda: False,
) -> SampleReply:
    """Answer one request without memory of others; services keep a `NodeSampler`."""
    return NodeSampler(ledger).sample(request, rng, should_stop=should_stop)
