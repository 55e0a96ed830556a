"""The clusters of a `LeaderWorld`, and the events that it keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.tables.members import Members
from argosy_core.leader import events as hear
from argosy_core.leader import instructions as say
from argosy_core.leader.events import Event, Role, Session
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeSpec
from argosy_core.placement import NodeSampler, SamplerSession
from argosy_core.scheduler import EventDraft, ExecutorRows
from argosy_simulation import JobTimes
from argosy_testkit.world_rows import Report, capacity_columns, report_columns

__all__ = ["EventKeeper", "WorldCluster"]

MakeLedger = Callable[[], tuple[NodeLedger, int]]
"""Returns the ledger of a sampler that starts, and the pool's number there."""
_MOST_JOBS = 40_000


class WorldCluster:
    """One cluster: its sampler, and the sessions of sampler and executor.

    Args:
        name: Its name.
        specs: Its nodes.
        make_ledger: Returns the ledger of a sampler that starts, and the pool's number there.
        rng: Of all randomness.
    """

    def __init__(self, name: str, specs: list[NodeSpec], make_ledger: MakeLedger, rng: np.random.Generator) -> None:
        """Start its first sampler."""
        self.specs = specs
        """Its nodes."""
        self.sampler = Session(name, Role.SAMPLER, 0, 0)
        """The sampler's session."""
        self.executor = Session(name, Role.EXECUTOR, 0, 0)
        """The executor's session."""
        self.batch = 0
        """States reported so far."""
        self.made: set[tuple[int, int]] = set()
        """(handle, ordinal) of the members whose rows the executor was sent."""
        self._rng = rng
        self.sampling = self._start(make_ledger)
        """What its sampler knows."""

    @property
    def ledger(self) -> NodeLedger:
        """The sampler's ledger."""
        return self.sampling.ledger

    def _start(self, make_ledger: MakeLedger) -> SamplerSession:
        ledger, pool = make_ledger()
        ledger.put_nodes(self.specs)
        return SamplerSession(ledger, NodeSampler(ledger, incarnation=self.sampler.incarnation), self._rng, pool=pool)

    # --- the sampler --------------------------------------------------------------------------------------------------

    def restart_sampler(self, make_ledger: MakeLedger) -> None:
        """Start another sampler, which knows its nodes in another order."""
        self.specs.reverse()
        self.sampler = _next(self.sampler)
        self.sampling = self._start(make_ledger)

    def set_nodes(self, node_amounts: Mapping[str, int]) -> None:
        """Give the nodes other amounts."""
        self.specs = [replace(spec, total=dict(node_amounts)) for spec in self.specs]
        self.ledger.put_nodes(self.specs)

    def define(self, classes: say.ClassDefinitions) -> None:
        """Let the sampler know classes."""
        self.sampling.define((class_id, SchedulingClass.parse(definition)) for class_id, definition in classes)

    def take_placements(self, epoch: int, sent: say.SendPlacements) -> Iterator[Event]:
        """Let the sampler take the leader's list of placements; yield what it answers."""
        self.sampling.check_epoch(epoch)
        self.define(sent.classes)
        self.sampling.take_placements(sent.placements, is_last=True)
        yield hear.SamplerReady(session=sent.session)
        yield self.capacity()

    def capacity(self) -> hear.CapacityTold:
        """Return what the sampler tells of its nodes and totals."""
        columns = capacity_columns(self.sampling.sampler, self.sampler.incarnation)
        return hear.CapacityTold(session=self.sampler, columns=columns)

    # --- the executor -------------------------------------------------------------------------------------------------

    def restart_executor(self, live_runs: Iterable[tuple[int, int]]) -> Members:
        """Start another executor, which has made all that it was told to make; return what it knows of some runs."""
        self.executor = _next(self.executor)
        return Members(*np.array([run for run in live_runs if run in self.made], dtype=np.int64).reshape(-1, 2).T)

    def make(self, rows: ExecutorRows) -> None:
        """Let the executor make the members of runs."""
        self.made.update(Members.of(rows.handle, rows.attempt, rows.member).pairs())

    def report(self, reports: Sequence[Report], there_s: float, sent_s: float) -> hear.StatesReported:
        """Return the next report of the executor.

        Args:
            reports: What it reports.
            there_s: What the cluster's clock shows.
            sent_s: What the executor's own shows.
        """
        self.batch += 1
        columns = report_columns(reports, there_s)
        return hear.StatesReported(
            session=self.executor, batch=self.batch, columns=columns, sent_us=round(sent_s * 1e6)
        )


def _next(session: Session) -> Session:
    return session._replace(incarnation=session.incarnation + 1, serial=session.serial + 1)


class EventKeeper(JobTimes):
    """Keeps every event beside the times."""

    def __init__(self) -> None:
        """Start with none."""
        super().__init__(_MOST_JOBS)
        self.kinds: list[tuple[int, int]] = []
        """(handle, kind) in order."""

    def take(self, draft: EventDraft, offset: int) -> None:
        """Take events as they are stored."""
        super().take(draft, offset)
        self.kinds.extend(zip(draft.handle.tolist(), draft.kind.tolist(), strict=True))
