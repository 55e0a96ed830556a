"""Faults on a schedule: what goes wrong when, drawn from the seed before the world begins.

Source: design section 7; section 5 for what each fault must not lead to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from argosy_core.placement import CommitRequest
from argosy_simulation.agenda import Process
from argosy_simulation.network import Stream
from argosy_simulation.parts import WorldParts
from argosy_simulation.sampler_actor import SamplerActor
from argosy_simulation.settings import FaultSettings

__all__ = ["FaultInjector"]


class FaultInjector(Process):
    """Lets things go wrong in a world until its phase with faults is over.

    Args:
        world: The world.
        settings: What, and how often.
        rng: Draws moments and victims.
        late_rng: Draws those of the kinds of faults that came later, so that the other worlds stay as they were.
    """

    def __init__(
        self, world: WorldParts, settings: FaultSettings, rng: np.random.Generator, late_rng: np.random.Generator
    ) -> None:
        """Put all faults on the agenda."""
        super().__init__("faults")
        self._world = world
        self._settings = settings
        self._rng = rng
        world.context.network.faults = settings
        kinds: tuple[tuple[int, Callable[[], None]], ...] = (
            (settings.leader_crashes, self.crash_leader),
            (settings.leader_depositions, self.depose_leader),
            (settings.sampler_crashes, self.crash_sampler),
            (settings.executor_crashes, self.crash_executor),
            (settings.executor_overlaps, self.overlap_executors),
            (settings.stream_cuts, self.cut_stream),
            (settings.stream_stalls, self.stall_stream),
            (settings.node_losses, self.lose_node),
            (settings.unmanaged_pods, self.admit_unmanaged_pods),
            (settings.watch_ends, self.end_watch),
            (settings.watch_lags, self.delay_watch),
        )
        for count, action in kinds:
            for moment_s in (rng.random(count) * settings.until_s).tolist():
                world.context.agenda.after(moment_s, self, self._strike, action)
        self._late_rng = late_rng
        self._held: dict[str, tuple[int, CommitRequest]] = {}
        """By cluster the epoch and the first commits of a leader that nobody has replaced yet, or was just."""
        late_kinds: tuple[tuple[int, Callable[[], None]], ...] = (
            (settings.api_crashes, self.crash_api),
            (settings.forgotten_clusters, self.lose_cluster),
            (settings.late_commits, self.deliver_late_commit),
            (settings.label_thefts, self.take_labels),
            (settings.executor_isolations, self.isolate_executor),
        )
        for count, action in late_kinds:
            for moment_s in (late_rng.random(count) * settings.until_s).tolist():
                world.context.agenda.after(moment_s, self, self._strike, action)
        if settings.late_commits:
            world.context.network.witness = self._hold
        world.context.agenda.after(settings.until_s, self, self.stop)

    def _strike(self, action: Callable[[], None]) -> None:
        """Let one thing go wrong."""
        self._world.context.counters[f"fault: {action.__name__.replace('_', ' ')}"] += 1
        action()

    def stop(self) -> None:
        """Let nothing go wrong any more."""
        self._world.context.network.faults = None

    def _draw(self, count: int) -> int:
        return int(self._rng.integers(count))

    def _length_s(self, bounds: tuple[float, float]) -> float:
        return float(self._rng.uniform(*bounds))

    def crash_leader(self) -> None:
        """Kill the leader."""
        leaders = self._world.leaders
        if leaders:
            leaders[-1].give_up()

    def depose_leader(self) -> None:
        """Let another lead while the leader goes on."""
        self._world.elect()

    def crash_sampler(self) -> None:
        """Kill a sampler; another starts a while later."""
        self._world.restart_sampler(self._draw(len(self._world.clusters)))

    def crash_executor(self) -> None:
        """Kill an executor; another starts a while later."""
        self._world.restart_executor(self._draw(len(self._world.clusters)))

    def overlap_executors(self) -> None:
        """Cut an executor off from its leader, and start another beside it."""
        length_s = self._length_s(self._settings.overlap_s)
        self._world.overlap_executors(self._draw(len(self._world.clusters)), length_s)

    def isolate_executor(self) -> None:
        """Cut an executor off from its leader."""
        length_s = float(self._late_rng.uniform(*self._settings.isolation_s))
        self._world.isolate_executor(int(self._late_rng.integers(len(self._world.clusters))), length_s)

    def cut_stream(self) -> None:
        """Break a stream."""
        streams = self._world.context.network.streams
        if streams:
            self._world.context.network.cut(streams[self._draw(len(streams))])

    def stall_stream(self) -> None:
        """Let nothing arrive on a stream for a while."""
        streams = self._world.context.network.streams
        if streams:
            length_s = self._length_s(self._settings.stall_s)
            self._world.context.network.stall(streams[self._draw(len(streams))], length_s)

    def lose_node(self) -> None:
        """Take a node away for a while."""
        cluster = self._world.clusters[self._draw(len(self._world.clusters))]
        names = sorted(cluster.nodes)
        if names:
            cluster.lose_node(names[self._draw(len(names))], self._length_s(self._settings.node_away_s))

    def admit_unmanaged_pods(self) -> None:
        """Let somebody else's pods come, one to each node of a cluster that has room."""
        cluster = self._world.clusters[self._draw(len(self._world.clusters))]
        amounts = (("cpu", 500 * (1 + self._draw(4))), ("memory", (1 + self._draw(2)) << 30))
        for node in sorted(cluster.nodes):
            cluster.admit_unmanaged_pod(node, amounts, self._length_s(self._settings.unmanaged_pod_s))

    def end_watch(self) -> None:
        """Break off a watch of some cluster, so that its executor lists anew."""
        cluster = self._world.clusters[self._draw(len(self._world.clusters))]
        if cluster.watches.active:
            cluster.watches.end(cluster.watches.active[self._draw(len(cluster.watches.active))])

    def delay_watch(self) -> None:
        """Let a watch fall behind."""
        cluster = self._world.clusters[self._draw(len(self._world.clusters))]
        if cluster.watches.active:
            watch = cluster.watches.active[self._draw(len(cluster.watches.active))]
            watch.lagging_until_us = self._world.context.agenda.now_us + round(
                self._length_s(self._settings.lag_s) * 1e6
            )

    def crash_api(self) -> None:
        """Kill the replica of the API."""
        if self._world.api is not None:
            self._world.api.crash()

    def lose_cluster(self) -> None:
        """Let a cluster go dark until after it was declared gone."""
        settings, rng = self._settings, self._late_rng
        gone_s = float(rng.uniform(*settings.forget_after_s))
        back_s = gone_s + float(rng.uniform(*settings.return_after_s))
        self._world.lose_cluster(int(rng.integers(len(self._world.clusters))), gone_s, back_s)

    def take_labels(self) -> None:
        """Kill an executor, and take the labels from pods of live runs before its successor starts."""
        index = int(self._late_rng.integers(len(self._world.clusters)))
        self._world.restart_executor(index)
        if not self._world.executors[index].alive:
            hit = self._world.clusters[index].take_labels(self._late_rng, self._world.context.store.is_live)
            self._world.context.counters["pods without labels"] += hit

    def _hold(self, _stream: Stream, to: Process, action: Callable[..., None], what: tuple[Any, ...]) -> None:
        """Keep the last commits of each epoch that were sent to each cluster, the older epoch's if there are two."""
        if getattr(action, "__name__", "") != "answer_commit" or not isinstance(to, SamplerActor):
            return
        _, epoch, request = what
        held = self._held.get(to.cluster.name)
        if held is None or held[0] == epoch or held[0] < epoch - 1:
            self._held[to.cluster.name] = epoch, request

    def deliver_late_commit(self) -> None:
        """Hand a commit of a replaced leader to a sampler that has greeted the next one."""
        for sampler in self._world.samplers:
            epoch, request = self._held.get(sampler.cluster.name, (0, None))
            if request is not None and sampler.alive and sampler.ready and sampler.epoch > epoch:
                del self._held[sampler.cluster.name]
                self._world.context.counters["late commits"] += 1
                sampler.answer_commit(sampler.stream, epoch, request)  # type: ignore[arg-type]
