"""The sampling phase on the sampler: candidates for many classes at once.

Every class looks through the cluster's nodes in windows until it has found enough eligible ones and room for the pods
that wait (see `needs`), or has seen all. The windows of all classes are evaluated together, as (class, node) arrays.
The best candidates of each class are answered, with what is free on them, so that the leader can decide over several
clusters.

Source: seed 000 "Sampling Phase" (2-Smart Sampling); design section 5, "Round" 2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, true_places
from argosy_core.errors import InvalidRequest
from argosy_core.framework import COMMIT, Cycle, Fault, Framework, Point
from argosy_core.framework.cycle import Gather
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger
from argosy_core.placement.circle import Circle
from argosy_core.placement.delegated import ClusterPlacer
from argosy_core.placement.devices import DeviceClasses
from argosy_core.placement.explained import ExplainedClasses
from argosy_core.placement.findings import Findings
from argosy_core.placement.gangs import GangPlacer
from argosy_core.placement.messages import PlaceReply, SampleReply, SampleRequest
from argosy_core.placement.needs import NODE_BITS, Needs, nodes_of
from argosy_core.placement.reasons import WaitReason
from argosy_core.placement.scarcity import ScarcityMemory
from argosy_core.placement.strategies import Strategy, strategy_of
from argosy_core.placement.waiting import ANY_KIND, WaitingClasses
from argosy_core.plugins import PACKING_SCORES, SCORES, build_framework

__all__ = ["NodeSampler", "sample"]

Bools = npt.NDArray[np.bool_]
Int8s = npt.NDArray[np.int8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_TIE_BITS: Final = 12
_SCORE_STEPS: Final = 1000
"""Scores closer than one thousandth of a point are ties."""
_MAX_SCORE: Final = 2 ** (62 - NODE_BITS - _TIE_BITS)
_ZERO_SCORE: Final = _MAX_SCORE // 2
"""What a score of 0 is in a rank, which is never negative; so scores may be."""
_BLOCK: Final = 1 << 16
"""(class, node) pairs that are evaluated in one go; small enough that the arrays stay in the cache."""
_MAX_SCARCE: Final = 256
_MIN_WINDOW: Final = 8
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
        self._keeps_devices = any(one.name == "keep-devices" for one in self.framework.registered(Point.SCORE))
        self._strategies: dict[str, Strategy] = {}
        self._memory = ScarcityMemory()
        self._waiting = WaitingClasses(ledger, self.framework)
        self._node_score = ""
        """Score by which the present request wants nodes to be ranked."""
        self._devices: DeviceClasses | None = None
        """Which classes of the present request ask for devices; None unless these are to be kept together."""
        self._ties = _NO_RANKS
        """By node, for the present request: orders nodes of equal score, the same for all classes."""
        self._faults: dict[int, Fault] = {}
        """Slot -> what kept the class from being judged in this request."""
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
        self._node_score = request.node_score
        findings = Findings(len(request.class_ids))
        self._faults.clear()
        asked = slots = self.ledger.classes.slots(request.class_ids)
        if self.ledger.classes.gangs:
            slots = np.where(self.ledger.classes.are_gangs(asked), np.int32(-1), asked)
        live_count = len(self.ledger.nodes.live())
        self._devices = self._device_classes(slots, request)
        if self._devices is not None:  # classes that open another node open the same one
            self._ties = rng.integers(0, 1 << _TIE_BITS, len(self.ledger.nodes), dtype=np.int64)
        # Who packs must see the nodes that are in use, wherever they are.
        ratio = 1.0 if self.packs else request.nodes_to_sample_ratio
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
            enough = max(required, min(4 * required, _MAX_SCARCE))
            todo = self._look_where_scarce(todo, slots, needs, enough=enough, findings=findings, rng=rng)
            looks = _Looks(self, slots, needs, findings=findings, rng=rng, should_stop=should_stop, enough=enough)
            strategy = self._strategies.get(request.strategy) or strategy_of(request.strategy)
            self._strategies[request.strategy] = strategy
            looks.run(todo[full[todo]], strategy, required=live_count + 1)
            if self._devices is not None:  # the fullest of few nodes is hardly fuller than any
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

    # --- looking ------------------------------------------------------------------------------------------------------

    def _look_where_scarce(
        self,
        todo: npt.NDArray[np.intp],
        slots: Int32s,
        needs: Needs,
        *,
        enough: int,
        findings: Findings,
        rng: np.random.Generator,
    ) -> npt.NDArray[np.intp]:
        """Answer the classes that are remembered to fit on few nodes; return the classes still to look for."""
        memory, table = self._memory, self.ledger.nodes
        known = [p for p, slot in zip(todo.tolist(), slots[todo].tolist(), strict=True) if slot in memory]
        if not known:
            return todo
        generation, live_count = table.generation, len(table.live())
        for members, nodes in memory.possible(table, slots[known].tolist()):
            positions = np.array(known, np.intp)[members]
            step = max(1, _BLOCK // max(1, nodes.shape[1]))
            for begin in range(0, len(positions), step):
                part = positions[begin : begin + step]
                looked = nodes if len(nodes) == 1 else nodes[begin : begin + step]
                ranks, eligible = self.rank(slots[part], looked, rng)
                findings.eligible[part] = eligible
                findings.examined[part] = live_count
                findings.complete[part] = 1
                findings.lacking[part] = needs.are_lacking(part, ranks, eligible)
                self.note_scarce(part, slots, ranks, enough=enough, generation=generation)
                crowded = needs.node_count > ranks.shape[1] and not self.packs
                self.keep_best(findings, part, ranks, needs.limit_nodes(part, ranks), rng=rng, crowded=crowded)
        return np.asarray(todo[findings.examined[todo] == 0])

    def note_scarce(
        self,
        positions: npt.NDArray[np.intp],
        slots: Int32s,
        ranks: Int64s,
        *,
        enough: int,
        generation: int,
    ) -> None:
        """Remember where classes that looked at every node fitted, if that is on no more than `enough` nodes.

        Args:
            positions: Positions of k classes in the request.
            slots: Slots of all classes of the request.
            ranks: (k, n) ranks over every node on which the classes can fit.
            enough: With more nodes than that, looking again from anew is as cheap.
            generation: Generation of the node table that was looked at.
        """
        if not self.framework.filters_read_nodes_only:
            return
        fits = ranks >= 0
        counts = np.count_nonzero(fits, axis=1)
        nodes = nodes_of(ranks[fits])
        ends = np.cumsum(counts).tolist()
        for slot, count, end in zip(slots[positions].tolist(), counts.tolist(), ends, strict=True):
            if count > enough or slot in self._faults:
                self._memory.forget(slot)
            else:
                self._memory.remember(slot, generation, nodes[end - count : end] if count else _NO_NODES)

    def rank(
        self, slots: Int32s, nodes: npt.NDArray[np.integer], rng: np.random.Generator, *, gather: Gather | None = None
    ) -> tuple[Int64s, Int32s]:
        """Filter and score.

        Args:
            slots: k slots of the class table.
            nodes: (k, n) or (1, n) rows of the node table, -1 for none.
            rng: Breaks ties.
            gather: A faster way to look columns up for `nodes` (see `Cycle`).

        Returns:
            (k, w) ranks of the nodes that passed, in no order, greater is better: the score in thousandths, then a
            random number, then the node; -1 where there is none. (k,) how many passed.
        """
        cycle = Cycle(self.ledger.nodes, self.ledger.classes.batch(slots), nodes, gather)
        cycle.faults = self._faults
        self.framework.pre_filter(cycle)
        self.framework.filter(cycle)
        self.framework.post_filter(cycle)
        alive = cycle.alive
        eligible = np.count_nonzero(alive, axis=1).astype(np.int32)
        most = int(eligible.max(initial=0))
        if not most:
            return np.full((len(slots), 0), -1, np.int64), eligible
        if 2 * most < cycle.shape[1]:
            cycle = cycle.narrowed(most)
            alive = cycle.alive
        scores = SCORES[self._node_score](cycle) if self._node_score else self.framework.score(cycle)
        scores *= _SCORE_STEPS
        scores += _ZERO_SCORE
        np.clip(scores, 0, _MAX_SCORE, out=scores)
        ranks = scores.astype(np.int64)
        ranks <<= _TIE_BITS
        if self._devices is None:
            ranks |= rng.integers(0, 1 << _TIE_BITS, cycle.shape, dtype=np.uint16)
        else:
            ranks |= self._ties[cycle.nodes]
        ranks <<= NODE_BITS
        ranks |= cycle.nodes
        if not alive.all():
            ranks[~alive] = -1
        return ranks, eligible

    def keep_best(
        self,
        findings: Findings,
        positions: npt.NDArray[np.intp],
        ranks: Int64s,
        limits: Int64s,
        *,
        rng: np.random.Generator,
        crowded: bool,
    ) -> None:
        """Write the best ranks of k classes into the findings, at most `limits` of each.

        Args:
            findings: Where to write.
            positions: Positions of the classes in the request.
            ranks: (k, n) ranks.
            limits: (k,) how many to keep of each.
            rng: Draws where stretches begin.
            crowded: Whether the classes of the request want more nodes than there are eligible ones.
        """
        devices = self._devices
        asking = None if devices is None else devices.asking[positions]
        if devices is None or asking is None or not asking.any():
            findings.keep(positions, ranks, limits, rng=rng if crowded else None)
            return
        if not asking.all():
            others = ~asking
            findings.keep(positions[others], ranks[others], limits[others], rng=rng if crowded else None)
        findings.keep(positions[asking], ranks[asking], limits[asking], rng=rng, reach=devices.reach)

    # --- news ---------------------------------------------------------------------------------------------------------

    @property
    def packs(self) -> bool:
        """Whether the present request wants all classes on the same nodes, as long as these have room."""
        return self._node_score in PACKING_SCORES

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

    def _device_classes(self, slots: Int32s, request: SampleRequest) -> DeviceClasses | None:
        """Return which classes ask for devices; None if no node has any, or nodes are not ranked by that."""
        if self._node_score or not self._keeps_devices:
            return None
        table = self.ledger.nodes
        if not any(table.allocatable[column].any() for column in table.axis.devices):
            return None
        return DeviceClasses(table, self.ledger.classes, slots, request.wanted)

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
        faulty = [p for p, slot in enumerate(slots.tolist() if self._faults else ()) if slot in self._faults]
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
            score=(((ranks >> (_TIE_BITS + NODE_BITS)) - _ZERO_SCORE) / _SCORE_STEPS).astype(np.float32),
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
        reason = np.zeros(len(slots), np.int8)
        short = (findings.complete > 0) & findings.lacking & (slots >= 0)
        reason[short] = WaitReason.NO_ROOM
        nowhere = true_places(short & empty)
        if nowhere.size:
            kinds[nowhere] = self._waiting.kinds_when_empty(slots[nowhere])
            reason[nowhere[kinds[nowhere] == 0]] = WaitReason.MISMATCH
        texts: list[str] = []
        retry_after_s = np.zeros(len(slots) if self._faults else 0, np.float32)
        if self._faults:
            texts = [""] * len(slots)
            for position in true_places(empty).tolist():
                fault = self._faults.get(int(slots[position]))
                if fault is not None:
                    reason[position] = WaitReason.PLUGIN if fault.is_objection else WaitReason.FAULT
                    texts[position] = f"{fault.plugin}: {fault.reason}"
                    retry_after_s[position] = fault.retry_after_s
            self._waiting.note_turned_away({slot: fault.plugin for slot, fault in self._faults.items()})
        waits = (reason == WaitReason.NO_ROOM) | (reason == WaitReason.MISMATCH)
        known = slots >= 0
        self._waiting.note(slots[known], waits[known])
        return reason, tuple(texts), retry_after_s


class _Looks:
    """The windows of one request."""

    def __init__(
        self,
        sampler: NodeSampler,
        slots: Int32s,
        needs: Needs,
        *,
        findings: Findings,
        rng: np.random.Generator,
        should_stop: Callable[[], bool],
        enough: int,
    ) -> None:
        """Prepare to look."""
        self._enough = enough
        self._sampler = sampler
        self._slots = slots
        self._needs = needs
        self._findings = findings
        self._rng = rng
        self._should_stop = should_stop

    def run(self, positions: npt.NDArray[np.intp], strategy: Strategy, *, required: int) -> None:
        """Look until each class has `required` eligible nodes and room for what waits, or has seen all."""
        if not len(positions):
            return
        circle = strategy.circle(self._sampler.ledger.nodes, self._rng)
        window = min(len(circle), max(required, _MIN_WINDOW))
        step = max(1, _BLOCK // window)
        around = Circle(circle)
        for begin in range(0, len(positions), step):
            if self._should_stop():
                return
            part = positions[begin : begin + step]
            begins = strategy.begin(len(part), window, self._rng)
            strategy.looked(self._run_block(part, around, begins, window=window, required=required))

    def _run_block(
        self, positions: npt.NDArray[np.intp], circle: Circle, begins: Int64s, *, window: int, required: int
    ) -> int:
        """Look for as many classes as are evaluated in one go; return how many nodes were looked at."""
        sampler, findings, slots = self._sampler, self._findings, self._slots
        size, seen, looks = len(circle), 0, 0
        best: Int64s | None = None
        generation = sampler.ledger.nodes.generation
        while len(positions):
            windows = partial(circle.windows, begins + seen, window)
            nodes = cast("npt.NDArray[np.intp]", windows("", circle.nodes))
            gather = windows if nodes.size >= size else None
            ranks, eligible = sampler.rank(slots[positions], nodes, self._rng, gather=gather)
            looks += nodes.size
            seen += window
            findings.examined[positions] = seen
            findings.eligible[positions] += eligible
            best = ranks if best is None else np.concatenate((best, ranks), axis=1)
            found = findings.eligible[positions]
            lacking = self._needs.are_lacking(positions, best, found)
            findings.lacking[positions] = lacking
            going = (found < required) | lacking
            ended = going & (seen >= size)
            if has_true(ended):
                findings.complete[positions[ended]] = 1
                sampler.note_scarce(positions[ended], slots, best[ended], enough=self._enough, generation=generation)
            done = ~going | ended if seen < size and not self._should_stop() else np.ones(len(positions), np.bool_)
            if seen >= size:
                findings.complete[positions] = 1
            self._keep(positions[done], best[done], seen / size)
            positions, begins, best = positions[~done], begins[~done], best[~done]
            window = min(2 * window, size - seen)
        return looks

    def _keep(self, positions: npt.NDArray[np.intp], ranks: Int64s, seen_ratio: float) -> None:
        """Keep the best of what classes found when they had seen a share of the nodes."""
        if len(positions):
            eligible_count = float(self._findings.eligible[positions].mean()) / seen_ratio
            crowded = self._needs.node_count > eligible_count and not self._sampler.packs
            limits = self._needs.limit_nodes(positions, ranks)
            self._sampler.keep_best(self._findings, positions, ranks, limits, rng=self._rng, crowded=crowded)


def sample(
    ledger: NodeLedger,
    request: SampleRequest,
    rng: np.random.Generator,
    *,
    should_stop: Callable[[], bool] = lambda: False,
) -> SampleReply:
    """Answer one request without memory of others; services keep a `NodeSampler`."""
    return NodeSampler(ledger).sample(request, rng, should_stop=should_stop)
