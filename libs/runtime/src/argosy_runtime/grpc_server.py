"""gRPC servers as every service runs them: bounded, inspectable, and open to this machine only unless told otherwise.

What holds for every method, limits above all, is `argosy_runtime.grpc_edge`; health answers besides on a port of its
own if one is set, where no other call can be in its way.

Source: design section 7, invariant 11; section 9.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio
from grpc_reflection.v1alpha import reflection

from argosy_core.errors import InvalidRequest
from argosy_runtime.access.files import WatchedFiles
from argosy_runtime.access.guard import Guard
from argosy_runtime.grpc_edge import MALFORMED_TEXT, EdgeInterceptor, EdgeLimits
from argosy_runtime.logs import Logger
from argosy_runtime.peers import PlaceLimits

__all__ = ["LIVENESS_SERVICE", "MALFORMED_TEXT", "EdgeInterceptor", "GrpcServer", "GrpcSettings", "is_loopback"]

_HANDSHAKE_MS: Final = 20_000
_PENDING: Final = 8192  # some KB each; about 3 s of work to look at
_IDLE_MS: Final = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSettings:
    """How a service listens."""

    listen: str = "127.0.0.1:50051"
    """host:port to listen on; port 0 takes a free one. An address other than loopback needs TLS and authentication."""
    insecure: bool = False
    """Allow an address other than loopback although connections are not encrypted or nobody proves who they are."""
    certificate_file: str = ""
    """PEM file of the certificate by which the server proves who it is, and of those that lead to its authority; read
    again when it changes. Empty serves without TLS."""
    key_file: str = ""
    """PEM file of the certificate's key."""
    client_authority_file: str = ""
    """PEM file of the authorities that sign clients' certificates; every client must have one then, on `mutual_listen`
    if that is set, else on `listen`. Empty asks for none."""
    mutual_listen: str = ""
    """host:port of a second port, for clients with certificates, so that those with tokens need none on `listen`. gRPC
    asks all clients of a port for certificates, or none. Empty opens none."""
    max_message_bytes: int = 4 << 20
    """Largest request taken; 4 MiB is what gRPC clients expect."""
    max_metadata_bytes: int = 16 << 10
    """Largest sum of a request's headers taken."""
    max_call_count: int = 512
    """Unary calls served at once; more are refused with RESOURCE_EXHAUSTED rather than queued."""
    max_call_count_per_host: int = 384
    """Unary calls of one host served at once, so that others find room beside it."""
    max_call_count_per_connection: int = 256
    """Unary calls of one connection served at once; a replica forwards to its leader over one."""
    max_stream_count: int = 2000
    """Streams of each service served at once; more are refused with RESOURCE_EXHAUSTED. Watches of users never take
    the places of executors' and samplers' streams."""
    max_stream_count_per_host: int = 1000
    """Streams of each service and one host served at once."""
    max_stream_count_per_connection: int = 250
    """Streams of each service and one connection served at once; executors and samplers use a connection for one."""
    calls_per_s: float = field(default=200.0, metadata={"may_be_zero": True})
    """Calls and watches that one connection may begin in a second for ever, and all of a host four times as many.
    Bursts of two seconds' worth pass, more waits a second at most, the rest is refused with RESOURCE_EXHAUSTED; a call
    that fails costs four more. Submits cost nothing unless they fail: they have limits of their own. 0 for no limit."""
    body_timeout_s: float = 10.0
    """How long the message of a request, or the first of a stream, may take to come after its headers."""
    max_connection_count: int = 4096
    """Connections open at once; further ones are closed. Must fit into the open files the process may have."""
    health_listen: str = ""
    """host:port on which health alone is served, for probes, without TLS: no other call can be in its way there. Empty
    opens none; health is served on `listen` in any case."""
    keepalive_s: float = 30.0
    """Silence after which a connection is probed; a dead peer's streams end one probe time-out later."""
    keepalive_timeout_s: float = 15.0
    """How long a probe may stay unanswered."""

    def __post_init__(self) -> None:
        """Refuse half of what TLS needs.

        Raises:
            InvalidRequest: A certificate stands without its key, or the reverse, or neither beside client authorities;
                or a port for clients with certificates stands without their authorities.
        """
        if bool(self.certificate_file) != bool(self.key_file) or (self.client_authority_file and not self.key_file):
            raise InvalidRequest("TLS needs both grpc.certificate_file and grpc.key_file")
        if self.mutual_listen and not self.client_authority_file:
            raise InvalidRequest("grpc.mutual_listen needs grpc.client_authority_file, which signs the certificates")

    def options(self) -> list[tuple[str, int]]:
        """Return the channel arguments of the server."""
        return [
            ("grpc.max_receive_message_length", self.max_message_bytes),
            ("grpc.max_send_message_length", 64 << 20),
            ("grpc.max_metadata_size", self.max_metadata_bytes),
            ("grpc.absolute_max_metadata_size", self.max_metadata_bytes),
            ("grpc.keepalive_time_ms", int(self.keepalive_s * 1000)),
            ("grpc.keepalive_timeout_ms", int(self.keepalive_timeout_s * 1000)),
            # gRPC heeds the longer of the two, and this one is a minute unless it is said.
            ("grpc.http2.ping_timeout_ms", int(self.keepalive_timeout_s * 1000)),
            ("grpc.keepalive_permit_without_calls", 1),
            # Clients of ours probe every 30 s; one that probes faster than 5 s is sent away.
            ("grpc.http2.min_ping_interval_without_data_ms", 5000),
            ("grpc.http2.max_ping_strikes", 3),
            # More wait at their client: all that may be under way, and some to be told that they are too many.
            (
                "grpc.max_concurrent_streams",
                self.max_call_count_per_connection + 2 * self.max_stream_count_per_connection,
            ),
            ("grpc.max_allowed_incoming_connections", self.max_connection_count),
            # Of what comes while as many have not been looked at, gRPC cancels some, whoever calls; its 1000 are less
            # than two connections may send at once.
            ("grpc.server.max_pending_requests", _PENDING),
            ("grpc.server.max_pending_requests_hard_limit", 2 * _PENDING),
            ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
            ("grpc.max_connection_idle_ms", _IDLE_MS),  # without calls; clients connect again by themselves
            ("grpc.so_reuseport", 0),  # a second process on the same port must fail, not share
        ]

    def limits(self) -> EdgeLimits:
        """Return how much is served."""
        return EdgeLimits(
            calls=PlaceLimits(
                name="grpc.max_call_count",
                total=self.max_call_count,
                per_host=self.max_call_count_per_host,
                per_connection=self.max_call_count_per_connection,
            ),
            streams=PlaceLimits(
                name="grpc.max_stream_count",
                total=self.max_stream_count,
                per_host=self.max_stream_count_per_host,
                per_connection=self.max_stream_count_per_connection,
            ),
            calls_per_s=self.calls_per_s,
            body_timeout_s=self.body_timeout_s,
        )


def is_loopback(address: str) -> bool:
    """Return whether `host:port` can be reached from this machine only; unix sockets can."""
    if address.startswith(("unix:", "unix-abstract:")):
        return True
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


LIVENESS_SERVICE: Final = "liveness"
"""What to ask health for whether the process answers at all; without a name it says whether it does its work."""


class GrpcServer:
    """One gRPC server with health and reflection.

    Use: make it, `add` servicers, `start`, and in the end `stop`.

    Args:
        settings: How to listen.
        guard: Admits callers; everybody is, where there is none.
        log: Where faults of ours go.

    Raises:
        InvalidRequest: The address is not loopback, TLS or the guard is missing, and `insecure` is not set; or a file
            of TLS cannot be used.
    """

    def __init__(self, settings: GrpcSettings, *, guard: Guard | None = None, log: Logger | None = None) -> None:
        """Make the server without opening its port."""
        is_secured = bool(settings.certificate_file) and guard is not None
        for address in filter(None, (settings.listen, settings.mutual_listen, settings.health_listen)):
            if not (is_secured or settings.insecure or is_loopback(address)):
                raise InvalidRequest(
                    f"listening on {address!r} would open the service to the network without TLS or without"
                    " authentication; set both up (docs/security.md), use a loopback address, or --grpc-insecure if"
                    " the network itself keeps others out"
                )
        self._settings = settings
        asks = bool(settings.client_authority_file)
        self._credentials = (
            _server_credentials(settings, asks=asks and not settings.mutual_listen)
            if settings.certificate_file
            else None
        )
        self._mutual_credentials = _server_credentials(settings, asks=True) if settings.mutual_listen else None
        self._edge = EdgeInterceptor(settings.limits(), guard=guard, log=log)
        self._health = health_aio.HealthServicer()
        self._names: list[str] = [health_pb2.DESCRIPTOR.services_by_name["Health"].full_name]
        self._server = self._make_server(self._edge)
        self._health_server: grpc.aio.Server | None = None
        if settings.health_listen:
            self._health_server = self._make_server(EdgeInterceptor(settings.limits(), log=log))
        self.health_port = 0
        """Port on which health alone is served, once started; 0 if there is none."""
        self.port = 0
        """Port it listens on, once started; 0 for unix sockets."""
        self.mutual_port = 0
        """Port for clients with certificates, once started; 0 if there is none of its own."""

    def _make_server(self, edge: EdgeInterceptor) -> grpc.aio.Server:
        """Return a server that knows health; limits are the edge's, since grpcio's own counts health's calls too."""
        made = grpc.aio.server(interceptors=[edge], options=self._settings.options())
        health_pb2_grpc.add_HealthServicer_to_server(self._health, made)
        return made

    @property
    def edge(self) -> EdgeInterceptor:
        """The outermost interceptor, for its counts."""
        return self._edge

    @property
    def address(self) -> str:
        """host:port it can be dialled at, once started."""
        if self._settings.listen.startswith("unix"):
            return self._settings.listen
        return f"{self._settings.listen.rpartition(':')[0]}:{self.port}"

    @property
    def mutual_address(self) -> str:
        """host:port at which processes of the installation dial it, once started."""
        if not self.mutual_port:
            return self.address
        return f"{self._settings.mutual_listen.rpartition(':')[0]}:{self.mutual_port}"

    def add(self, register: Callable[[Any, Any], object], servicer: object, service_name: str) -> None:
        """Serve a servicer.

        Args:
            register: The generated `add_XServicer_to_server`.
            servicer: Its servicer.
            service_name: Full name of the service, for health and reflection.
        """
        register(servicer, _ByName(self._server))
        self._names.append(service_name)

    async def start(self, *, serving: bool = True) -> None:
        """Open the port, serve, and answer SERVING to health checks (or NOT_SERVING until `set_serving`).

        Raises:
            InvalidRequest: The address cannot be listened on.
        """
        reflection.enable_server_reflection((*self._names, reflection.SERVICE_NAME), self._server)
        self.port = _open(self._server, self._settings.listen, self._credentials)
        if self._mutual_credentials is not None:
            self.mutual_port = _open(self._server, self._settings.mutual_listen, self._mutual_credentials)
        if self._health_server is not None:
            self.health_port = _open(self._health_server, self._settings.health_listen)
            await self._health_server.start()
        await self._server.start()
        await self.set_serving(True, [LIVENESS_SERVICE])
        await self.set_serving(serving)

    async def set_serving(self, serving: bool, services: Iterable[str] | None = None) -> None:  # noqa: FBT001 - a setter
        """Answer health checks so, for the named services or for all and the server as a whole."""
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", *self._names) if services is None else services:
            await self._health.set(name, status)

    async def stop_intake(self) -> None:
        """Answer NOT_SERVING and refuse new calls with UNAVAILABLE; calls under way go on."""
        await self._health.enter_graceful_shutdown()
        self._edge.refuse_new()

    async def stop(self, grace_s: float) -> None:
        """Close the port, wait for calls under way up to `grace_s` seconds, then cancel them."""
        await self._server.stop(grace_s)
        if self._health_server is not None:
            await self._health_server.stop(0)


class _ByName:
    """Has methods found by their names when they are called.

    Generated code would also have grpcio wait for the next call of each method by itself, at every call anew: with 40
    methods that was a quarter of the CPU of a call that does nothing (235 us for 320 us).
    """

    def __init__(self, server: grpc.aio.Server) -> None:
        """Keep the server."""
        self._server = server

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Pass handlers on, which know their methods by name."""
        self._server.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(self, service_name: str, handlers: Mapping[str, Any]) -> None:
        """Leave out what grpcio would wait for by itself."""


def _server_credentials(settings: GrpcSettings, *, asks: bool) -> grpc.ServerCredentials:
    """Return credentials of which each connection gets what the files hold when it comes.

    Args:
        settings: Names the files.
        asks: Whether clients must show certificates.

    Raises:
        InvalidRequest: A file cannot be read, or holds no PEM.
    """

    def read(contents: Sequence[bytes]) -> grpc.ServerCertificateConfiguration:
        # gRPC takes anything here and fails each handshake; a pair of which one half was replaced must not be shown.
        trial = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            trial.load_cert_chain(settings.certificate_file, settings.key_file)
            for authority in contents[2:]:
                trial.load_verify_locations(cadata=authority.decode("ascii"))
        except (OSError, ValueError) as cause:
            raise InvalidRequest("the files of TLS hold no certificate with its key, or no authority") from cause
        roots = contents[2] if contents[2:] else None
        return grpc.ssl_server_certificate_configuration([(contents[1], contents[0])], root_certificates=roots)

    paths = [settings.certificate_file, settings.key_file, *([settings.client_authority_file] if asks else [])]
    files = WatchedFiles(paths, read)
    return grpc.dynamic_ssl_server_credentials(files.current(), files.current, require_client_authentication=asks)


def _open(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None = None) -> int:
    """Return the port that an address was opened on.

    Raises:
        InvalidRequest: The address cannot be listened on.
    """
    try:
        if credentials is not None:
            return server.add_secure_port(address, credentials)
        return server.add_insecure_port(address)
    except RuntimeError as cause:
        raise InvalidRequest(f"cannot listen on {address!r}: the address is taken or not of this machine") from cause
