"""The server put together: which parts a process has, in which order they open, and in which they close.

Opening: database, leader role, API, gRPC port, election, background tasks. Closing goes backwards, after submits that
were taken have been stored and the leader has resigned.

Source: design sections 1 and 2.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from argosy.api.v1 import (
    access_pb2_grpc,
    cluster_pb2_grpc,
    event_pb2_grpc,
    job_pb2_grpc,
    queue_pb2_grpc,
    scheduling_pb2_grpc,
    server_pb2_grpc,
)
from argosy.debug.v1 import debug_pb2_grpc
from argosy.lease.v1 import outlook_pb2_grpc
from argosy_core.job.reading.pod_rights import PodLevel, PodRights
from argosy_core.job.reading.spec import SpecLimits
from argosy_eventlog.pulsar.settings import require_client
from argosy_runtime.access.guard import Authenticator, Guard
from argosy_runtime.addresses import with_brackets
from argosy_runtime.grpc_server import GrpcServer
from argosy_runtime.lifecycle import Lifecycle
from argosy_runtime.logs import get_logger
from argosy_runtime.readiness import begin_serving, open_ports
from argosy_server.api.access import AccessService
from argosy_server.api.clusters import ClusterService
from argosy_server.api.codecs.names import NamespaceRules
from argosy_server.api.debug import DebugService
from argosy_server.api.events import EventService
from argosy_server.api.explanations import JobExplanations
from argosy_server.api.grants import GrantedPermissions
from argosy_server.api.jobs import JobService, LeaderJobService
from argosy_server.api.joining import Joining
from argosy_server.api.kept_logs import KeptLogs
from argosy_server.api.leadership.leader_view import LeaderRoleLike, Servicer
from argosy_server.api.leadership.routing import LeaderRouter
from argosy_server.api.pool_settings import PoolSettings
from argosy_server.api.queue_cache import QueueCache
from argosy_server.api.queues import QueueService
from argosy_server.api.refused_calls import RefusedCalls
from argosy_server.api.rules import RULES
from argosy_server.api.scheduling import SchedulingService
from argosy_server.api.server_info import ServerService
from argosy_server.api.store_threads import StoreThreads
from argosy_server.api.submits.outlook import ClassOutlook, KnownNodes
from argosy_server.api.submits.outlook_service import OutlookService
from argosy_server.api.submits.planning import JobPlanning
from argosy_server.api.submits.specs import PolicySpecs
from argosy_server.api.submits.submit import Submission
from argosy_server.api.submits.submit_gather import SubmitGather
from argosy_server.api.submits.submit_quotas import SubmitQuotas
from argosy_server.api.watch import WatchHub
from argosy_server.config import ServerConfig
from argosy_server.maintenance import maintain
from argosy_server.outbox_age import show_outbox_age
from argosy_server.sealing import open_seal
from argosy_store.postgres.partitions import ensure_partitions
from argosy_store.replicas.api import ApiStore
from argosy_store.schema.migrate import check
from argosy_store.terms.outbox import EventOutbox

if TYPE_CHECKING:
    from argosy_kube.kubernetes.token_reviews import TokenReviews

__all__ = ["ServerApp", "start_server"]

_HAND_OVER_S: Final = 0.000_25
"""How long a busy thread keeps the interpreter from others that want it. The event loop wants it for each step of each
call, so Python's 5 ms would make all callers wait behind whoever has something long computed. Five hops to a thread and
back took 28 ms then, 7 with 1 ms, 4 with this, and 3 with 0.1 ms, which costs the busy thread time (measured)."""


class ServerApp:
    """One server process, or one server inside a process.

    Args:
        config: Its configuration.
        leader: The leader role; made from the configuration if the role asks for one and none is given.
    """

    def __init__(self, config: ServerConfig, *, leader: LeaderRoleLike | None = None) -> None:
        """Make the parts; nothing is opened yet."""
        self._config = config
        api = config.api
        self._log = get_logger()
        self.store = ApiStore(
            config.database_url,
            max_connections=api.reader_count,
            max_submits=api.submit_transaction_count + 1,  # one for what submits look up
            seal=open_seal(config.encryption_keys_file),
        )
        """The database."""
        self.threads = StoreThreads(reader_count=api.reader_count, submit_count=api.submit_transaction_count)
        """Where blocking calls run."""
        self.leader = leader if leader is not None or config.role not in {"leader", "both"} else _make_leader(config)
        """The leader role, if the process has one."""
        self.router = LeaderRouter(
            self.store,
            self.threads,
            role=self.leader,
            timeout_s=api.forward_timeout_s,
            credentials=config.credentials,
        )
        """Finds leaders."""
        self.permissions = GrantedPermissions(self.store, self.threads, config.access)
        """What callers may do."""
        self.refused_calls = RefusedCalls(self.store, self.threads)
        """Notes who was refused."""
        self._reviews: TokenReviews | None = None
        guard = self._make_guard() if config.asks_who_calls else None
        self.server = GrpcServer(config.grpc, guard=guard)
        """The gRPC server."""
        self.server.edge.leave_unmetered("/argosy.api.v1.JobService/SubmitJobs")  # `max_waiting_jobs` bounds them
        self.gather = SubmitGather(
            self.store,
            self.threads.submits,
            gather_s=api.gather_ms / 1000,
            interval_s=api.submit_interval_ms / 1000,
            max_waiting_jobs=api.max_waiting_jobs,
            max_batch_jobs=api.max_batch_jobs,
            quotas=SubmitQuotas(config.access.quotas, api.queue_stored_bytes_per_s),
        )
        """Stores submits."""
        self.hub = WatchHub(self.store, self.threads, poll_s=api.watch_poll_ms / 1000)
        """Serves watchers."""
        for register, servicer, name in self._servicers():
            self.server.add(register, servicer, name)

    def _make_guard(self) -> Guard:
        async def invited_by(token_hash: str) -> str:
            return await self.threads.look_up(self.store.invited_cluster, token_hash)

        return Guard(
            self._config.access,
            rules=RULES,
            permissions_of=self.permissions.of,
            invited_by=invited_by,
            authenticators=self._authenticators(),
            on_refused=self.refused_calls.note,
        )

    def _authenticators(self) -> list[Authenticator]:
        """Return what tells whose token one is; what only some installations need is loaded where it is configured."""
        access = self._config.access
        found: list[Authenticator] = []
        if access.oidc.issuer:
            from argosy_runtime.access.oidc import OidcTokens

            found.append(OidcTokens(access.oidc).find)
        if access.service_accounts.cluster:
            from argosy_kube.opening import open_token_reviews
            from argosy_server.service_accounts import ServiceAccountTokens

            self._reviews = open_token_reviews(access.service_accounts.cluster)
            found.append(ServiceAccountTokens(access.service_accounts, self._reviews).find)
        return found

    def _servicers(self) -> list[Servicer]:
        config = self._config
        if config.role == "relay":
            return []  # health only
        nodes = KnownNodes()
        kept = KeptLogs(config.log_archive)
        explanations = JobExplanations(self.store, self.threads, self.router, kept=kept, nodes=nodes)
        settings = PoolSettings(self.store, self.threads, self.router, config)
        shared: list[Servicer] = [
            (
                cluster_pb2_grpc.add_ClusterServiceServicer_to_server,
                ClusterService(self.store, self.threads, self.router),
                "argosy.api.v1.ClusterService",
            ),
            (
                scheduling_pb2_grpc.add_SchedulingServiceServicer_to_server,
                SchedulingService(self.router, settings, default_pool=config.pool),
                "argosy.api.v1.SchedulingService",
            ),
            (
                outlook_pb2_grpc.add_OutlookServiceServicer_to_server,
                OutlookService(self.router, nodes, default_pool=config.pool),
                "argosy.lease.v1.OutlookService",
            ),
            (
                debug_pb2_grpc.add_DebugServiceServicer_to_server,
                DebugService(self.router, default_pool=config.pool),
                "argosy.debug.v1.DebugService",
            ),
        ]
        if self.leader is not None:
            shared.extend(self.leader.servicers())
        level = PodLevel(config.api.pod_security_level)
        cache = QueueCache(
            self.store,
            self.threads,
            keep_s=config.api.queue_cache_s,
            default_limit=config.api.max_queued_count,
            level=level,
            namespaces=NamespaceRules(
                shares_default=config.shares_default_namespace, reserved=frozenset(config.api.reserved_namespaces)
            ),
        )
        limits = SpecLimits(rights=PodRights(level=level))
        specs = PolicySpecs(limits, max_count=config.api.spec_cache_count)
        submission = Submission(
            cache,
            specs,
            self.gather,
            store=self.store,
            threads=self.threads,
            max_job_count=config.api.max_jobs_per_request,
            missing=ClassOutlook(self.router, nodes).missing,
        )
        planning = JobPlanning(submission, self.router)
        if config.role == "leader":
            of_leader: object = LeaderJobService(explanations, planning)  # type: ignore[abstract]
            return [
                *shared,
                (job_pb2_grpc.add_JobServiceServicer_to_server, of_leader, "argosy.api.v1.JobService"),
            ]
        jobs = JobService(self.store, self.threads, submission=submission, explanations=explanations, planning=planning)
        queues = QueueService(self.store, self.threads, cache, default_pool=config.pool)
        events = EventService(self.store, self.threads, self.hub, max_batch_count=config.api.watch_batch_count)
        joining = Joining(self.store, self.threads, config.access)
        access = AccessService(self.store, self.threads, self.permissions, joining)
        return [
            *shared,
            (access_pb2_grpc.add_AccessServiceServicer_to_server, access, "argosy.api.v1.AccessService"),
            (job_pb2_grpc.add_JobServiceServicer_to_server, jobs, "argosy.api.v1.JobService"),
            (queue_pb2_grpc.add_QueueServiceServicer_to_server, queues, "argosy.api.v1.QueueService"),
            (event_pb2_grpc.add_EventServiceServicer_to_server, events, "argosy.api.v1.EventService"),
            (
                server_pb2_grpc.add_ServerServiceServicer_to_server,
                ServerService(config, limits),
                "argosy.api.v1.ServerService",
            ),
        ]

    async def start(self, life: Lifecycle) -> None:
        """Open everything and serve.

        Raises:
            NotAllowedNow: The database is not migrated.
            BackendUnavailable: The database cannot be reached.
            InvalidRequest: A port cannot be opened.
        """
        config = self._config
        life.on_close(self._close_store)
        await asyncio.to_thread(check, config.database_url)
        if config.role != "relay":
            await asyncio.to_thread(ensure_partitions, config.database_url, days_ahead=4)
        life.on_close(self._close_calls)
        await open_ports(life, self.server, metrics_listen=config.metrics_listen, grace_s=0.5)
        life.on_drain(self._drain)
        if config.role != "relay":
            retention_days = None if config.role == "api" else config.retention_days
            life.spawn(
                maintain(config.database_url, retention_days, config.access.audit_retention_days), name="maintenance"
            )
        if config.asks_who_calls and config.role != "relay":
            life.spawn(self.refused_calls.run(), name="refused calls")
        if config.role in {"api", "both"}:
            for number in range(config.api.submit_transaction_count):
                life.spawn(self.gather.work(), name=f"submits {number}")
            life.spawn(self.hub.poll(), name="watches")
        if config.role == "relay" or (config.role == "both" and config.events_url):
            await self._start_relay(life)
        if self.leader is not None and config.events_url:
            outbox = EventOutbox(config.database_url, config.pool)
            life.on_close(lambda: asyncio.to_thread(outbox.close))
            life.spawn(show_outbox_age(outbox, config.pool), name="age of the outbox")
        if self.leader is not None:
            await self.leader.start(life, address=with_brackets(config.advertise) or self.server.mutual_address)
        look = partial(asyncio.to_thread, check, config.database_url)
        await begin_serving(life, self.server.set_serving, look, not_ready_after_s=config.not_ready_after_s)
        self._log.info("listening", address=self.server.address, role=config.role, pool=config.pool)

    async def _start_relay(self, life: Lifecycle) -> None:
        from argosy_server.relay import AuditRelay, EventRelay  # late: it loads Pulsar's client

        for name, relay in (("events", EventRelay(self._config)), ("the audit", AuditRelay(self._config))):
            life.on_close(relay.close)
            life.spawn(relay.run(), name=f"relay of {name}")

    async def _drain(self) -> None:
        self.hub.close()
        await self.gather.drain()
        if self.leader is not None:
            await self.leader.stop()

    async def _close_calls(self) -> None:
        if self._reviews is not None:
            await self._reviews.close()
        await self.router.close()

    async def _close_store(self) -> None:
        self.threads.close()
        await asyncio.to_thread(self.store.close)


async def start_server(config: ServerConfig, life: Lifecycle) -> ServerApp:
    """Start a server in a life and return it.

    Raises:
        InvalidRequest: Brokers are named and Pulsar's client is not installed, or a port cannot be opened.
    """
    if config.event_log_url or config.events_url:
        require_client()
    sys.setswitchinterval(_HAND_OVER_S)
    app = ServerApp(config)
    await app.start(life)
    return app


def _make_leader(config: ServerConfig) -> LeaderRoleLike:
    # Late, because an API replica need not load what a leader needs.
    from argosy_server.leader.role import LeaderRole

    return LeaderRole(config)
