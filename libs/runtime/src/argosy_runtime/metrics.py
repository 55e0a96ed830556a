"""All metric names of Argosy in one place, each with its unit and meaning.

A service touches the ones it has; the others stay at zero and are not written out, because label sets appear when first
used and plain metrics of other services are left out by `expose`. Label values are bounded: methods, codes, phases,
queues, clusters; never jobs or users' texts.

Source: design section 9, "Metrics, logs and traces".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from argosy_runtime.addresses import every_interface

__all__ = ["METRICS", "METRICS_REGISTRY", "Metrics", "MetricsServer", "observe_counts"]

METRICS_REGISTRY: Final = CollectorRegistry(auto_describe=True)
"""The registry of this process."""

_FAST_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_SLOW_S: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_COUNTS: Final = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)


def _counter(name: str, text: str, labels: Sequence[str] = ()) -> Counter:
    return Counter(f"argosy_{name}", text, labels, registry=METRICS_REGISTRY)


def _gauge(name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
    return Gauge(f"argosy_{name}", text, labels, registry=METRICS_REGISTRY)


def _histogram(name: str, text: str, buckets: Sequence[float], labels: Sequence[str] = ()) -> Histogram:
    return Histogram(f"argosy_{name}", text, labels, buckets=buckets, registry=METRICS_REGISTRY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Every metric of every service."""

    # --- gRPC, all services
    grpc_calls: Counter = field(
        default_factory=lambda: _counter("grpc_calls", "Calls answered, by method and code.", ("method", "code"))
    )
    grpc_call_seconds: Histogram = field(
        default_factory=lambda: _histogram("grpc_call_seconds", "Time to answer a unary call.", _FAST_S, ("method",))
    )
    grpc_streams: Gauge = field(default_factory=lambda: _gauge("grpc_streams", "Streams under way.", ("method",)))
    grpc_refused: Counter = field(
        default_factory=lambda: _counter(
            "grpc_refused", "Calls refused because they were too many for the server or their peer.", ("reason",)
        )
    )
    grpc_faults: Counter = field(
        default_factory=lambda: _counter("grpc_faults", "Calls that met an error not ours to expect.", ("method",))
    )

    # --- server, API role
    submitted_jobs: Counter = field(default_factory=lambda: _counter("submitted_jobs", "Jobs accepted."))
    submit_batch_jobs: Histogram = field(
        default_factory=lambda: _histogram("submit_batch_jobs", "Jobs that shared a submit transaction.", _COUNTS)
    )
    submit_transaction_seconds: Histogram = field(
        default_factory=lambda: _histogram("submit_transaction_seconds", "Time of a submit transaction.", _FAST_S)
    )
    submit_waiting_jobs: Gauge = field(
        default_factory=lambda: _gauge("submit_waiting_jobs", "Jobs that wait for a submit transaction.")
    )
    changed_jobs: Counter = field(
        default_factory=lambda: _counter("changed_jobs", "Jobs a change request was set on, by kind.", ("kind",))
    )
    watched_job_sets: Gauge = field(default_factory=lambda: _gauge("watched_job_sets", "Watches under way."))
    parsed_specs: Counter = field(
        default_factory=lambda: _counter("parsed_specs", "Specs parsed because the cache had them not.")
    )

    # --- server, leader role
    leading: Gauge = field(default_factory=lambda: _gauge("leading", "1 while this process leads the pool.", ("pool",)))
    leader_epoch: Gauge = field(default_factory=lambda: _gauge("leader_epoch", "Epoch of the leader.", ("pool",)))
    rounds: Counter = field(default_factory=lambda: _counter("rounds", "Rounds run.", ("pool",)))
    round_phase_seconds: Histogram = field(
        default_factory=lambda: _histogram("round_phase_seconds", "Time of a round by phase.", _FAST_S, ("phase",))
    )
    leased_runs: Counter = field(default_factory=lambda: _counter("leased_runs", "Runs leased.", ("pool",)))
    commit_conflicts: Counter = field(
        default_factory=lambda: _counter("commit_conflicts", "Commits that met a conflict.", ("pool",))
    )
    promised_starts: Counter = field(
        default_factory=lambda: _counter(
            "promised_starts",
            "Promised starts by what became of them: firm, expected, kept, capacity, late.",
            ("pool", "outcome"),
        )
    )
    estimated_runs: Counter = field(
        default_factory=lambda: _counter(
            "estimated_runs", "Runs that ended and had an estimate, by whether they took longer.", ("pool", "exceeded")
        )
    )
    refused_leases: Counter = field(
        default_factory=lambda: _counter("refused_leases", "Leases refused at ingest.", ("pool",))
    )
    preempted_jobs: Counter = field(
        default_factory=lambda: _counter("preempted_jobs", "Jobs queued again after a preempted run.", ("pool",))
    )
    grown_members: Counter = field(
        default_factory=lambda: _counter(
            "grown_members", "Members that runs were given beyond their minima.", ("pool",)
        )
    )
    replaced_members: Counter = field(
        default_factory=lambda: _counter("replaced_members", "Members given in the place of lost ones.", ("pool",))
    )
    taken_back_members: Counter = field(
        default_factory=lambda: _counter("taken_back_members", "Members stopped so that others have room.", ("pool",))
    )
    requeued_jobs: Counter = field(
        default_factory=lambda: _counter("requeued_jobs", "Jobs queued again after a lost or returned run.", ("pool",))
    )
    finished_jobs: Counter = field(
        default_factory=lambda: _counter("finished_jobs", "Jobs that ended, by state.", ("state",))
    )
    queued_jobs: Gauge = field(
        default_factory=lambda: _gauge("queued_jobs", "Jobs that wait for their turn.", ("pool",))
    )
    pending_jobs: Gauge = field(default_factory=lambda: _gauge("pending_jobs", "Waiting heads.", ("pool",)))
    waiting_jobs: Gauge = field(
        default_factory=lambda: _gauge("waiting_jobs", "Queued jobs by the reason why they wait.", ("pool", "reason"))
    )
    live_runs: Gauge = field(default_factory=lambda: _gauge("live_runs", "Runs leased or running.", ("pool",)))
    considered_seconds: Histogram = field(
        default_factory=lambda: _histogram(
            "considered_seconds", "Time from acceptance to the first round that had the job.", _FAST_S
        )
    )
    leased_seconds: Histogram = field(
        default_factory=lambda: _histogram("leased_seconds", "Time from acceptance to the lease.", _SLOW_S)
    )
    queue_flow_cores: Gauge = field(
        default_factory=lambda: _gauge("queue_flow_cores", "Flow of the queue, in cores of weighted usage.", ("queue",))
    )
    queue_non_preemptible_flow_cores: Gauge = field(
        default_factory=lambda: _gauge(
            "queue_non_preemptible_flow_cores", "Flow of the queue's jobs without a lifetime, in cores.", ("queue",)
        )
    )
    queue_charged_core_min: Gauge = field(
        default_factory=lambda: _gauge(
            "queue_charged_core_min", "Excess flow budget of the queue that is taken, in core-minutes.", ("queue",)
        )
    )
    ingested_records: Counter = field(
        default_factory=lambda: _counter("ingested_records", "Log records ingested.", ("pool",))
    )
    log_lag_records: Gauge = field(
        default_factory=lambda: _gauge("log_lag_records", "Log records published, not yet ingested.", ("pool",))
    )
    quarantined_records: Counter = field(
        default_factory=lambda: _counter("quarantined_records", "Messages that could not be applied.", ("pool",))
    )
    suspects: Gauge = field(
        default_factory=lambda: _gauge("suspects", "Inputs that ended a leader term and are set aside.", ("pool",))
    )
    ended_sessions: Counter = field(
        default_factory=lambda: _counter(
            "ended_sessions", "Sessions of samplers and executors ended for what was said there.", ("pool", "role")
        )
    )
    foreign_states: Counter = field(
        default_factory=lambda: _counter(
            "foreign_states", "States that clusters told of runs that are live in another cluster.", ("pool",)
        )
    )
    abandoned_rounds: Counter = field(
        default_factory=lambda: _counter("abandoned_rounds", "Rounds that failed and were given up.", ("pool",))
    )
    outbox_oldest_seconds: Gauge = field(
        default_factory=lambda: _gauge(
            "outbox_oldest_seconds", "Time since the oldest job events that still have to be relayed.", ("pool",)
        )
    )
    known_clusters: Gauge = field(
        default_factory=lambda: _gauge("known_clusters", "Clusters that were not forgotten.", ("pool",))
    )
    connected_samplers: Gauge = field(
        default_factory=lambda: _gauge("connected_samplers", "Sampler sessions.", ("pool",))
    )
    connected_executors: Gauge = field(
        default_factory=lambda: _gauge("connected_executors", "Executor sessions.", ("pool",))
    )

    # --- sampler
    sampled_classes: Counter = field(
        default_factory=lambda: _counter("sampled_classes", "Classes sampled.", ("cluster",))
    )
    committed_placements: Counter = field(
        default_factory=lambda: _counter("committed_placements", "Placements kept by MultiBind.", ("cluster", "pool"))
    )
    filter_faults: Counter = field(
        default_factory=lambda: _counter(
            "filter_faults", "Classes that a failed filter kept from being judged.", ("cluster",)
        )
    )
    refused_placements: Counter = field(
        default_factory=lambda: _counter("refused_placements", "Placements refused by MultiBind.", ("cluster", "pool"))
    )
    delegated_placements: Counter = field(
        default_factory=lambda: _counter(
            "delegated_placements",
            "Nodes chosen for runs that were leased to the cluster as a whole.",
            ("cluster", "pool"),
        )
    )
    returned_placements: Counter = field(
        default_factory=lambda: _counter(
            "returned_placements",
            "Runs that were leased to the cluster as a whole, and that no node of it holds.",
            ("cluster", "pool"),
        )
    )
    conflicting_placements: Counter = field(
        default_factory=lambda: _counter(
            "conflicting_placements",
            "Placements refused by MultiBind because something else had taken all candidates.",
            ("cluster", "pool"),
        )
    )
    plugin_faults: Counter = field(
        default_factory=lambda: _counter(
            "plugin_faults",
            "Classes, placements or calls that a plugin of a sampler (owner: cluster) or leader (pool) failed on.",
            ("owner", "point", "plugin"),
        )
    )
    ledger_nodes: Gauge = field(default_factory=lambda: _gauge("ledger_nodes", "Nodes in the ledger.", ("cluster",)))
    ledger_placements: Gauge = field(
        default_factory=lambda: _gauge("ledger_placements", "Placements in the ledger.", ("cluster",))
    )
    agent_sessions: Gauge = field(
        default_factory=lambda: _gauge("agent_sessions", "Agents that resize pods, with a session.", ("cluster",))
    )
    scaled_pods: Gauge = field(default_factory=lambda: _gauge("scaled_pods", "Pods that are scaled.", ("cluster",)))
    deferred_pods: Gauge = field(
        default_factory=lambda: _gauge(
            "deferred_pods", "Scaled pods that wait for room to grow, of which some was denied.", ("cluster",)
        )
    )

    # --- agent
    autoscaled_pods: Gauge = field(
        default_factory=lambda: _gauge("autoscaled_pods", "Pods that the agent resizes.", ("cluster",))
    )
    pod_resizes: Counter = field(
        default_factory=lambda: _counter(
            "pod_resizes", "Resizes of pods, by what became of them.", ("cluster", "outcome")
        )
    )
    contract_answers: Counter = field(
        default_factory=lambda: _counter(
            "contract_answers",
            "What pods that name a port answer when they are asked: agrees (may shrink), keep, grow or silent.",
            ("cluster", "word"),
        )
    )
    usage_failures: Counter = field(
        default_factory=lambda: _counter("usage_failures", "Times that no metrics of pods could be read.", ("cluster",))
    )

    # --- executor
    created_objects: Counter = field(
        default_factory=lambda: _counter("created_objects", "Kubernetes objects created.", ("cluster",))
    )
    deleted_objects: Counter = field(
        default_factory=lambda: _counter("deleted_objects", "Kubernetes objects deleted.", ("cluster",))
    )
    reported_states: Counter = field(
        default_factory=lambda: _counter("reported_states", "Object states reported.", ("cluster",))
    )
    known_runs: Gauge = field(
        default_factory=lambda: _gauge("known_runs", "Runs the executor looks after.", ("cluster",))
    )
    fenced: Gauge = field(
        default_factory=lambda: _gauge("fenced", "1 while the executor may not act on its cluster.", ("cluster",))
    )
    unlistable_objects: Gauge = field(
        default_factory=lambda: _gauge(
            "unlistable_objects", "Objects of jobs that the cluster does not let the executor look at.", ("cluster",)
        )
    )
    shipped_logs: Counter = field(
        default_factory=lambda: _counter(
            "shipped_logs", "Logs of ended pods by whether they were kept.", ("cluster", "outcome")
        )
    )
    held_back_creates: Counter = field(
        default_factory=lambda: _counter(
            "held_back_creates", "Tries to create an object that a quota or a missing right refused.", ("cluster",)
        )
    )
    kube_calls: Counter = field(
        default_factory=lambda: _counter(
            "kube_calls",
            "Calls to an API server, by method (STREAM: start of a watch or log) and status; 0: no answer.",
            ("cluster", "method", "code"),
        )
    )
    kube_watch_heard_timestamp_seconds: Gauge = field(
        default_factory=lambda: _gauge(
            "kube_watch_heard_timestamp_seconds",
            "When the watch of a kind last brought something; bookmarks come about once a minute.",
            ("cluster", "kind"),
        )
    )
    session_reconnects: Counter = field(
        default_factory=lambda: _counter("session_reconnects", "Sessions begun with the leader.", ("cluster",))
    )


METRICS: Final = Metrics()


def observe_counts(histogram: Histogram, values: npt.NDArray[np.float64], counts: npt.NDArray[np.int64]) -> None:
    """Observe each value as often as its count says, at a cost of the histogram's buckets and not of the counts.

    The library has `observe` for one value only, so this adds to its buckets itself.

    Args:
        histogram: Without labels, or one of its children.
        values: (n,) values.
        counts: (n,) how often each was seen, 0 or more.
    """
    if not counts.any():
        return
    places = np.searchsorted(np.asarray(histogram._upper_bounds), values)  # noqa: SLF001 - see above
    for place, count in enumerate(np.bincount(places, weights=counts).tolist()):
        if count:
            histogram._buckets[place].inc(count)  # noqa: SLF001 - see above
    histogram._sum.inc(float(values @ counts))  # noqa: SLF001 - see above


"""The metrics of this process."""

ProcessCollector(registry=METRICS_REGISTRY)
PlatformCollector(registry=METRICS_REGISTRY)
GCCollector(registry=METRICS_REGISTRY)


class MetricsServer:
    """HTTP server that answers `GET /metrics` from a thread of its own.

    Args:
        listen: host:port; port 0 takes a free one, the host `0.0.0.0` every address, those of IPv6 too.
    """

    def __init__(self, listen: str) -> None:
        """Open the port and serve."""
        host, _, port = listen.rpartition(":")
        self._server, self._thread = start_http_server(int(port), addr=every_interface(host), registry=METRICS_REGISTRY)

    @property
    def port(self) -> int:
        """Port it listens on."""
        return int(self._server.server_port)

    def close(self) -> None:
        """Stop serving and close the port; waits for the thread."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
