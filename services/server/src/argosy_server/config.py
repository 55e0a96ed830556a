"""Configuration of the server.

Source: design section 9, "Settings".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from argosy_eventlog.pulsar.settings import PulsarSettings
from argosy_runtime.access.guard import AccessSettings
from argosy_runtime.channel import ChannelCredentials
from argosy_runtime.config import require_names
from argosy_runtime.grpc_server import GrpcSettings
from argosy_runtime.log_archives.archive import LogArchiveSettings
from argosy_runtime.logs import LogLevel
from argosy_server.leader.settings import LeaderSettings

__all__ = ["ApiSettings", "ServerConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """Limits and paces of the API role."""

    max_jobs_per_request: int = 100_000
    """Jobs of one SubmitJobs, counts included; one request is one transaction, which must stay short."""
    max_queued_count: int = 1_000_000
    """Open jobs a queue may have waiting unless the queue has a limit of its own; the leader keeps each in memory."""
    max_waiting_jobs: int = 200_000
    """Jobs that may wait for a submit transaction on this replica; more are refused with RESOURCE_EXHAUSTED."""
    max_batch_jobs: int = 20_000
    """Jobs that share a submit transaction, unless one request alone is larger."""
    gather_ms: float = field(default=2.0, metadata={"may_be_zero": True})
    """How long a submit waits for others to share its transaction; a commit costs about as much (measured)."""
    submit_interval_ms: float = field(default=40.0, metadata={"may_be_zero": True})
    """Time between the beginnings of submit transactions in the long run; eight may begin at once after a pause. Under
    load more submits share one, and a job of a transaction of 300 costs half of one of 100 (measured)."""
    queue_stored_bytes_per_s: float = field(default=8_388_608.0, metadata={"may_be_zero": True})
    """Bytes of specs that a queue may have stored in a second for ever through this replica, whoever submits; an hour's
    worth at once. 0 for no limit."""
    submit_transaction_count: int = 2
    """Submit transactions under way at once; more only contend for the same disk."""
    reader_count: int = 8
    """Threads that read from the database."""
    spec_cache_count: int = field(default=20_000, metadata={"may_be_zero": True})
    """Specs whose reading is remembered; one is about 2 kB, and reading it again costs 50 us."""
    queue_cache_s: float = field(default=1.0, metadata={"may_be_zero": True})
    """How long a queue's row is remembered; a queue deleted at another replica takes submits so long at most."""
    watch_poll_ms: float = 100.0
    """How often watched job sets are looked at; events come at most this much late."""
    watch_batch_count: int = 2_000
    """Most events in one message of a watch."""
    forward_timeout_s: float = 5.0
    """How long a call that was forwarded to the leader may take."""
    pod_security_level: Literal["privileged", "baseline", "restricted"] = "baseline"
    """Level of Kubernetes' Pod Security Standards that pods of queues without a policy of their own must keep to."""
    default_namespace: Literal["auto", "shared", "own"] = "auto"
    """Whether queues that name no namespaces may use `default` besides the one of their own name: `shared` all may,
    `own` none, and `auto` none where callers are asked who they are."""
    reserved_namespaces: tuple[str, ...] = ()
    """Namespaces that no queue may use, besides `kube-*` and `argosy`: those in which parts of this installation run,
    in any cluster. Their secrets are the credentials of services, and a pod there could name them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """Configuration of argosy-server: the API role, the leader role, the relay of events, or all in one process."""

    SERVICE: ClassVar[str] = "server"

    database_url: str
    """PostgreSQL URL, as in postgresql://user:password@host:5432/argosy; the schema must be migrated."""
    database_password_file: str = ""
    """File that holds the password of the URL's user, as a mounted secret; empty if the URL has it or needs none."""
    encryption_keys_file: str = ""
    """File of keys by which bodies of specs, with the secrets of jobs' bags, are sealed in the database: `ID KEY` a
    line, as `argosy admin encryption-key` draws them. The first one seals, all of them open. API replicas and leaders
    need the same file, which is read again when it changes; empty stores bodies as they are."""
    role: Literal["api", "leader", "relay", "both"] = "both"
    """What the process does; roles scale and fail apart when they are processes apart. `both` is all of them, the relay
    of job events included if `events_url` is set."""
    event_log_url: str = ""
    """Brokers of the event log, as in pulsar://host:6650 or pulsar+ssl://host:6651; empty keeps it in the database."""
    events_url: str = ""
    """Brokers to which job events are relayed for other systems, as in pulsar://host:6650; empty relays none. Leaders
    need it, too: they note what is to be relayed."""
    pool: str = "default"
    """Pool that the leader role stands for, and that queues without a pool belong to."""
    advertise: str = ""
    """host:port at which other processes of the installation reach this one: with `grpc.mutual_listen` of that port. An
    IPv6 address may stand without its brackets. Empty takes the listen address."""
    metrics_listen: str = ""
    """host:port of the metrics page; empty opens none."""
    log_level: LogLevel = "info"
    """Least severe level that is logged."""
    retention_days: int = 7
    """Full days that ended jobs, their events and their client ids are kept; open jobs always are."""
    drain_s: float = field(default=10.0, metadata={"may_be_zero": True})
    """How long calls under way may take after SIGTERM."""
    not_ready_after_s: float = 15.0
    """After how long without its database health says NOT_SERVING, so that calls go to other processes; a fail-over of
    the database takes less as a rule."""
    grpc: GrpcSettings = field(default_factory=GrpcSettings)
    """How gRPC is served."""
    access: AccessSettings = field(default_factory=AccessSettings)
    """How it is known who calls; with nothing set here, and no client certificates, everybody may do everything."""
    credentials: ChannelCredentials = field(default_factory=ChannelCredentials)
    """How this server proves to other servers who it is when it forwards calls."""
    api: ApiSettings = field(default_factory=ApiSettings)
    """Limits and paces of the API role."""
    leader: LeaderSettings = field(default_factory=LeaderSettings)
    """How a leader decides."""
    log_archive: LogArchiveSettings = field(default_factory=LogArchiveSettings)
    """Where executors keep the ends of logs, as in their own settings: servers read them there while an executor is
    away, and keep none themselves."""
    pulsar: PulsarSettings = field(default_factory=PulsarSettings)
    """How Pulsar is reached, and what the topics are called."""

    def __post_init__(self) -> None:
        """Refuse names that are none.

        Raises:
            InvalidRequest: `pool` or `leader.installation` is none.
        """
        require_names({"pool": self.pool, "leader.installation": self.leader.installation})

    @property
    def asks_who_calls(self) -> bool:
        """Whether callers must prove who they are."""
        access = self.access
        known = access.tokens_file or access.oidc.issuer or access.service_accounts.cluster
        return bool(known or self.grpc.client_authority_file)

    @property
    def shares_default_namespace(self) -> bool:
        """Whether queues that name no namespaces may use `default`."""
        wanted = self.api.default_namespace
        return wanted == "shared" or (wanted == "auto" and not self.asks_who_calls)
