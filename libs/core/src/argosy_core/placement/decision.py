"""The decision phase on the leader: which nodes each run is tried on, best first.

The leader tries waiting runs in fairness order (never class by class) over the candidates that the samplers answered. A
run gets up to m candidates that can hold it, over all clusters; the first one is taken off what is free there, so that
the next runs, of whatever class, see what is left. Candidates of equal score come in random order.

Source: seed 000 "Decision Phase"; design section 5, "Round" 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import find_begins, true_places
from argosy_core.errors import InvalidRequest
from argosy_core.placement.candidates import CandidatePool, CandidateQueue, choose, choose_first

__all__ = ["Decider", "Decision", "decide"]

Bools = npt.NDArray[np.bool_]
Int16s = npt.NDArray[np.int16]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_DRAWS: Final = 512
"""Random numbers that are drawn at once."""
_FEW: Final = 8
"""So few candidates of a class are all looked at."""
_FEW_RUNS: Final = 4
"""For so many runs of a class, further candidates are drawn; for more, all are put in order at once."""
_TRIES: Final = 12
"""Draws for each further candidate before all are looked at: of ten clusters half are asked, so one draw in five hits
the cluster of the first candidate, and 12 find none in 7 % of cases while every node has room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Commit candidates per run, best first; n runs, k candidates."""

    offset: Int32s
    """(n + 1,) positions in the columns below."""
    cluster: Int16s
    """(k,) cluster."""
    node: Int32s
    """(k,) node index in that cluster."""


class Decider:
    """Chooses commit candidates run by run; what is given away is taken off the pool, so later runs see what is left.

    The first candidate of each run is the best. Its further ones are nodes that have room left once all runs have their
    first choices, each held for one run alone as long as there are enough, drawn at random and from the cluster of the
    first one if it has some. Were they the next best, they would be the first choices of the runs behind it and of
    other leaders: who loses its own node would take theirs, and so on.

    Args:
        pool: Candidates of the round.
        commit_candidate_count: m, at least 1.
        rng: Orders candidates of equal score, and draws further candidates.
        takes_best: Further candidates are chosen with the first one, the next best, so that `chosen_last` has them all.

    Complexity: about 6 us a run for m = 3; where the round's candidates run short, 1 us for each of the class, once.
    """

    def __init__(
        self,
        pool: CandidatePool,
        commit_candidate_count: int,
        rng: np.random.Generator,
        *,
        takes_best: bool = False,
    ) -> None:
        """Start with no run decided.

        Raises:
            InvalidRequest: m is below 1.
        """
        if commit_candidate_count < 1:
            raise InvalidRequest(f"commit_candidate_count is {commit_candidate_count}, but must be 1 or more")
        self._pool = pool
        self._count = commit_candidate_count
        self._rng = rng
        self._takes_best = takes_best
        self._chosen: list[list[int]] = []
        """Entries of each run."""
        self._lacking: list[tuple[int, int]] = []
        """(run, its class) of those that are to get further candidates."""
        self._class_id = -1
        self._queue: CandidateQueue | None = None

    def place(
        self, class_id: int, last_choice: frozenset[int] = frozenset(), barred: frozenset[int] = frozenset()
    ) -> bool:
        """Choose candidates for one more run; return whether there is any. A run without one is not counted.

        Args:
            class_id: Its class.
            last_choice: Entries that it gets only where there are not enough others.
            barred: Entries that it does not get.
        """
        if class_id != self._class_id:
            self._class_id, self._queue = class_id, self._pool.queue(class_id, self._rng)
        if self._queue is None:
            return False
        if not (self._takes_best or last_choice or barred):
            entry = choose_first(self._pool, self._queue)
            if entry < 0:
                return False
            if self._count > 1:
                self._lacking.append((len(self._chosen), class_id))
            self._chosen.append([entry])
            return True
        chosen: list[int] = []
        choose(self._pool, self._queue, self._count, chosen, last_choice=last_choice, barred=barred)
        if chosen:
            self._chosen.append(chosen)
        return bool(chosen)

    def chosen_last(self) -> list[int]:
        """Return the entries of the last run that was placed, as far as they are chosen."""
        return self._chosen[-1]

    def decision(self) -> Decision:
        """Return the candidates of the runs that have any, in the order in which they were placed."""
        # All look at what the first choices left, before any takes, so that no class is without only since another one
        # was asked about before it.
        if self._pool.is_full:
            self._lacking.clear()  # the first choices left nothing to anybody
        spares: dict[int, _Spares] = {}
        alike: dict[int, list[list[int]]] = {}
        looks = _Looks(self._pool, self._rng) if self._lacking else None
        run_counts = Counter([class_id for _, class_id in self._lacking])
        for run, class_id in self._lacking:
            spare = spares.get(class_id)
            if spare is None:
                queue = self._pool.queue(class_id, self._rng)
                assert queue is not None
                assert looks is not None
                spare = spares[class_id] = _Spares(queue, looks, run_counts[class_id])
            if spare.has_own:
                spare.add(self._chosen[run], self._count)
            else:
                alike.setdefault(class_id, []).append(self._chosen[run])
        for class_id, runs in alike.items():
            spares[class_id].share_out(runs, self._count)
        self._lacking.clear()
        pool, sizes = self._pool, [len(entries) for entries in self._chosen]
        entries = np.fromiter(chain.from_iterable(self._chosen), np.int64, sum(sizes))
        offset = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
        return Decision(offset=offset, cluster=pool.cluster[entries], node=pool.node[entries])


class _Looks:
    """What all classes' spares share: the room that the first choices left, and numbers drawn at random.

    Args:
        pool: Candidates of the round, all first choices taken off.
        rng: Draws.
    """

    def __init__(self, pool: CandidatePool, rng: np.random.Generator) -> None:
        """Look before any spare is given."""
        self.pool = pool
        self.rng = rng
        self._left = np.array(pool.room.free, np.int64).reshape(-1, pool.room.width)
        """(entry, resource): what the first choices left; stays as it is."""
        self._claims = pool.room.claims.copy()
        """Ports that first choices have."""
        self.cluster = pool.cluster.tolist()
        """Cluster of each entry."""
        self.stock: list[float] = []
        """Numbers from 0 to 1; drawn many at once, since a generator's calls are dear."""

    def fits(self, queue: CandidateQueue) -> Bools:
        """Return on which candidates of a class the first choices leave room for one of its runs."""
        entries = self.pool.entry_column[queue.begin : queue.end]
        left = self._left[entries]
        fits = np.ones(len(entries), dtype=np.bool_)
        for column, amount in queue.asked:
            fits &= left[:, column] >= amount
        for place in true_places(fits).tolist() if queue.ports else ():
            fits[place] = self._claims.is_free(int(entries[place]), queue.ports)
        return fits

    def draw(self, count: int) -> list[float]:
        """Return a stock of at least so many numbers, from whose end they are taken."""
        if len(self.stock) < count:
            self.stock = self.rng.random(count + _DRAWS).tolist()
        return self.stock


class _Spares:
    """Candidates of one class that first choices leave room on, in random order; each is one run's if there are enough.

    Args:
        queue: Candidates of the class.
        looks: What all classes share.
        run_count: For how many runs they are.

    Complexity: O(m) draws a run for a few runs while most candidates have room. Else the candidates of the class are
    put in order once, in NumPy, and a run costs O(m).
    """

    def __init__(self, queue: CandidateQueue, looks: _Looks, run_count: int) -> None:
        """Start with none given."""
        self._queue = queue
        self._looks = looks
        self._draws = run_count <= _FEW_RUNS and queue.end - queue.begin > _FEW
        self._given: set[int] = set()
        """Entries that runs have been given by draws."""
        self._fits: Bools | None = None
        """(candidates of the class,) first choices leave room on them; None until they are put in order."""
        self._clusters: dict[int, list[int]] | None = None
        """Places of those that have not been given, by cluster and in random order; None while they are drawn."""
        self._shared: list[int] | None = None
        """Places of all that first choices leave room on, once there are not enough for each run to have its own."""
        self._next = 0

    @property
    def has_own(self) -> bool:
        """Return whether some candidate may still be given to one run alone; until then none is given to several."""
        return self._shared is None or bool(self._clusters)

    def add(self, chosen: list[int], count: int) -> None:
        """Give a run candidates until it has `count`, best first: its own, and then what others have as well.

        Those of its first one's cluster come before others.
        """
        first, places = chosen[0], list[int]()
        own = self._looks.cluster[first]
        if self._draws:
            self._draw(first, own, places, count - 1)
        if len(places) < count - 1:
            self._draws = False
            if self._clusters is None:
                self._clusters = self._in_order()
            if own in self._clusters:
                self._take(own, first, places, count - 1)
            if len(places) < count - 1:
                for cluster in list(self._clusters):
                    self._take(cluster, first, places, count - 1)
                self._share(first, places, count - 1)
        places.sort()
        entries = self._looks.pool.entries
        chosen[1:] = [entries[place] for place in places]

    def _draw(self, first: int, own: int, places: list[int], count: int) -> None:
        """Give a run candidates of its first one's cluster that draws find."""
        queue, given, looks = self._queue, self._given, self._looks
        begin, size = queue.begin, queue.end - queue.begin
        entries, room, cluster, tries = looks.pool.entries, looks.pool.room, looks.cluster, _TRIES * count
        pop, fits, asked, ports = looks.draw(tries).pop, room.fits, queue.asked, queue.ports
        for _ in range(tries):
            place = begin + int(pop() * size)
            entry = entries[place]
            if cluster[entry] != own or entry == first or entry in given or not fits(entry, asked, ports):
                continue
            room.take(entry, asked, ports)
            given.add(entry)
            places.append(place)
            if len(places) == count:
                break

    def _in_order(self) -> dict[int, list[int]]:
        """Return the places of all candidates that first choices leave room on, by cluster and in random order."""
        looks = self._looks
        drawn = self._drawn()
        if not drawn.size:
            return {}
        cluster = looks.pool.cluster[looks.pool.entry_column[drawn]]
        by_cluster = np.argsort(cluster, kind="stable")
        begins = find_begins(cluster[by_cluster]).tolist()
        places, ends = drawn[by_cluster].tolist(), [*begins[1:], len(drawn)]
        numbers = cluster[by_cluster][begins].tolist()
        return {number: places[begin:end] for number, begin, end in zip(numbers, begins, ends, strict=True)}

    def _drawn(self) -> npt.NDArray[np.intp]:
        """Return the places of all candidates that first choices leave room on, in random order."""
        queue, looks = self._queue, self._looks
        if self._fits is None:
            self._fits = looks.fits(queue)
        drawn = looks.rng.permutation(queue.end - queue.begin)
        return queue.begin + drawn[self._fits[drawn]]

    def _take(self, cluster: int, first: int, places: list[int], count: int) -> None:
        """Give a run candidates of a cluster that nobody else gets."""
        assert self._clusters is not None
        spare, pool, queue, given = self._clusters[cluster], self._looks.pool, self._queue, self._given
        entries, room = pool.entries, pool.room
        first_place = -1
        while spare and len(places) < count:
            place = spare.pop()
            entry = entries[place]
            if entry == first:
                first_place = place
            elif entry not in given and room.fits(entry, queue.asked, queue.ports):
                room.take(entry, queue.asked, queue.ports)
                places.append(place)
        if first_place >= 0:
            spare.append(first_place)
        if not spare:
            del self._clusters[cluster]

    def _share(self, first: int, places: list[int], count: int) -> None:
        """Give a run candidates that others have as well, in turn."""
        entries = self._looks.pool.entries
        if self._shared is None:
            self._shared = self._drawn().tolist()
        for _ in range(len(self._shared) if len(places) < count else 0):
            place = self._shared[self._next]
            self._next = (self._next + 1) % len(self._shared)
            if entries[place] != first and place not in places:
                places.append(place)
                if len(places) == count:
                    break

    def share_out(self, runs: Sequence[list[int]], count: int) -> None:
        """Give runs candidates as `add` does once there are none of their own: what others have as well, in turn.

        Hundreds of runs may share a few nodes, so which come next from each place on is worked out once.
        """
        shared, entries = self._shared or [], self._looks.pool.entries
        size, wanted = len(shared), count - 1
        if size <= wanted:
            for chosen in runs:
                self.add(chosen, count)
            return
        ring = shared + shared[:wanted]
        windows: list[list[int] | None] = [None] * size
        for chosen in runs:
            at = self._next
            window = windows[at]
            if window is None:
                window = windows[at] = [entries[place] for place in sorted(ring[at : at + wanted])]
            if chosen[0] in window:
                self.add(chosen, count)
            else:
                chosen.extend(window)
                self._next = (at + wanted) % size


def decide(pool: CandidatePool, waiting: Int32s, commit_candidate_count: int, rng: np.random.Generator) -> Decision:
    """Choose commit candidates for runs in a given order; a run without a candidate has an empty part.

    Args:
        pool: Candidates of the round.
        waiting: n class ids, in the order of the runs.
        commit_candidate_count: m, at least 1.
        rng: Orders candidates of equal score.

    Raises:
        InvalidRequest: m is below 1.
    """
    decider = Decider(pool, commit_candidate_count, rng)
    placed = [decider.place(class_id) for class_id in waiting.tolist()]
    decision = decider.decision()
    counts = np.zeros(len(placed), np.int32)
    counts[np.array(placed, np.bool_)] = np.diff(decision.offset)
    offset = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return Decision(offset=offset, cluster=decision.cluster, node=decision.node)
