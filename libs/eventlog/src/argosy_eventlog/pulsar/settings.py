"""Settings of everything that speaks to Pulsar, and the names that follow from them."""

from __future__ import annotations

import importlib.util
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from argosy_core.errors import InvalidRequest

__all__ = ["SUBSCRIPTION", "PulsarSettings", "admin_url_of", "check_url", "require_client"]

SUBSCRIPTION: Final = "argosy-ingest"
"""Subscription on a pool's log whose cursor stands behind what was applied; what it has not passed is never deleted."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_SCHEMES: Final = {"pulsar": ("http", 8080), "pulsar+ssl": ("https", 8443)}


def require_client() -> None:
    """Do nothing if Pulsar's client is installed.

    Raises:
        InvalidRequest: It is not.
    """
    if importlib.util.find_spec("_pulsar") is None:
        raise InvalidRequest("Pulsar's client is not installed: install argosy-eventlog[pulsar], or name no brokers")


@dataclass(frozen=True, slots=True, kw_only=True)
class PulsarSettings:
    """How Pulsar is reached and what the topics are called. Units are in the names."""

    tenant: str = "argosy"
    """Tenant of the topics."""
    namespace: str = "log"
    """Namespace of the pools' logs; nothing else belongs in it."""
    events_namespace: str = "events"
    """Namespace of the job events that other systems read; its policies are yours. The audit has one of its own beside
    it, which is called like it with `-audit` behind."""
    admin_url: str = ""
    """Address of the admin REST API; empty takes port 8080 (8443 with TLS) of the first broker host."""
    check: bool = True
    """Whether a leader looks at the broker's settings before it stands; without it, a wrong setting loses data."""
    tls_trust_file: str = ""
    """PEM file of the authorities that vouch for the brokers; empty takes the system's."""
    token: str = field(default="", metadata={"secret": True})
    """Bearer token; better kept in a file."""
    token_file: str = ""
    """File with the bearer token, read anew at every connection, so that it can be rotated."""
    operation_timeout_s: float = 5.0
    """How long opening a producer or a reader, a look-up or an admin call may take."""
    publish_timeout_s: float = 20.0
    """How long a publish is repeated before its result counts as unknown and the leader gives up its epoch; a broker
    that restarts sooner costs a pause and no change of leaders."""
    max_message_bytes: int = 5_000_000
    """Largest record; the broker's maxMessageSize (5 MiB unless set) less its headers."""

    def __post_init__(self) -> None:
        """Refuse what cannot work.

        Raises:
            InvalidRequest: A value is out of its range.
        """
        for name in ("tenant", "namespace", "events_namespace"):
            value: str = getattr(self, name)
            if not _NAME.fullmatch(value):
                raise InvalidRequest(f"pulsar.{name} is {value!r}; use letters, digits, - _ and .")
        if self.namespace in (self.events_namespace, self.audit_namespace):
            raise InvalidRequest("pulsar.namespace and pulsar.events_namespace must differ: their policies do")
        if self.token and self.token_file:
            raise InvalidRequest("set one of pulsar.token and pulsar.token_file, not both")
        if self.operation_timeout_s < 1 or self.publish_timeout_s <= 0 or self.max_message_bytes < 1:
            raise InvalidRequest(
                "pulsar.operation_timeout_s must be at least 1, publish_timeout_s and max_message_bytes above 0"
            )

    def read_token(self) -> str:
        """Return the bearer token as it is now, empty if none is set.

        Raises:
            InvalidRequest: Its file cannot be read, or is empty.
        """
        if not self.token_file:
            return self.token
        try:
            token = Path(self.token_file).read_text(encoding="ascii").strip()
        except (OSError, ValueError) as cause:
            reason = getattr(cause, "strerror", "") or "it is no text"  # the file's content is never repeated
            raise InvalidRequest(f"pulsar.token_file {self.token_file} cannot be read: {reason}") from None
        if not token:
            raise InvalidRequest(f"pulsar.token_file {self.token_file} is empty; write the token into it")
        return token

    @property
    def credentials(self) -> str:
        """Which token is shown to the broker, for messages: never the token itself."""
        if self.token_file:
            return f"the token in pulsar.token_file {self.token_file}"
        return "the token of pulsar.token" if self.token else "no token, for none is set: name one by pulsar.token_file"

    def check_trust_file(self) -> None:
        """Raise if the file of authorities cannot be read.

        Raises:
            InvalidRequest: It cannot.
        """
        if not self.tls_trust_file:
            return
        try:
            ssl.create_default_context(cafile=self.tls_trust_file)
        except OSError as cause:  # what is wrong inside a file is an OSError, too
            reason = cause.strerror or str(cause)
            raise InvalidRequest(
                f"pulsar.tls_trust_file {self.tls_trust_file} cannot be read as PEM certificates: {reason}"
            ) from cause

    def log_topic(self, pool: str) -> str:
        """Return the topic of a pool's log."""
        return self._topic(self.namespace, "leases", pool)

    def events_topic(self, pool: str) -> str:
        """Return the topic of a pool's job events."""
        return self._topic(self.events_namespace, "job-events", pool)

    @property
    def audit_namespace(self) -> str:
        """Namespace of the audit: who may read job events may not read it for that."""
        return f"{self.events_namespace}-audit"

    @property
    def audit_topic(self) -> str:
        """The topic of the audit, one of an installation."""
        return f"persistent://{self.tenant}/{self.audit_namespace}/records"

    def _topic(self, namespace: str, kind: str, pool: str) -> str:
        if not _NAME.fullmatch(pool):
            raise InvalidRequest(f"pool {pool!r} cannot name a topic; use letters, digits, - _ and .")
        return f"persistent://{self.tenant}/{namespace}/{kind}-{pool}"


def check_url(url: str) -> None:
    """Refuse a URL that names no broker.

    Raises:
        InvalidRequest: It is not of the form pulsar://host:6650 or pulsar+ssl://host:6651.
    """
    try:
        parts = urlsplit(url.split(",", 1)[0])
        fine = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.path in {"", "/"}
    except ValueError:
        fine = False
    if not fine:
        raise InvalidRequest(f"{url!r} names no broker; write pulsar://host:6650 or pulsar+ssl://host:6651")


def admin_url_of(url: str, settings: PulsarSettings) -> str:
    """Return the address of the admin API that belongs to a service URL."""
    if settings.admin_url:
        return settings.admin_url.rstrip("/")
    check_url(url)
    parts = urlsplit(url.split(",", 1)[0])
    scheme, port = _SCHEMES[parts.scheme]
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{scheme}://{host}:{port}"
