"""A mesh's topics on a broker that runs already: namespaces of its own, made with the mesh and removed with it.

Epochs of a mesh with a new database begin at 1, below those that an older mesh's topic has seen, and so do the numbers
of its events; so no two meshes share a topic.

How the broker is reached beyond its address (token, TLS, tenant) is taken from the variables that the mesh's servers
read, as `ARGOSY_SERVER_PULSAR_TOKEN_FILE`.

Source: design section 9, "`argosy up | down`".
"""

from __future__ import annotations

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from argosy_core.errors import ArgosyError, NotFound
from argosy_eventlog.pulsar import PulsarSettings

if TYPE_CHECKING:
    from argosy_eventlog.pulsar.admin import AdminApi
    from argosy_local.compose import MeshPlan
    from argosy_local.mesh_state import MeshState

__all__ = ["MeshEvents", "MeshLog", "make_topics", "topics_of"]

_POOL: Final = "default"
_PREFIX: Final = "ARGOSY_SERVER_PULSAR_"
_REACHING: Final = ("tenant", "tls_trust_file", "token", "token_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class _MeshTopic(ABC):
    """A namespace of one mesh and the pool's topic in it."""

    url: str
    """Brokers."""
    admin_url: str
    """Admin API; empty takes the broker's usual port."""
    namespace: str
    """Namespace below the tenant."""

    ENDING: ClassVar[str]
    """End of the names of such namespaces."""

    @property
    @abstractmethod
    def flags(self) -> tuple[str, ...]:
        """Flags of the servers that use the topic."""

    @property
    @abstractmethod
    def topic(self) -> str:
        """Full name of the topic."""

    @property
    def topics(self) -> tuple[str, ...]:
        """Full names of all topics that are the mesh's, each in a namespace of its own."""
        return (self.topic,)

    @abstractmethod
    def _set_up(self) -> None: ...

    @abstractmethod
    def _settings(self) -> PulsarSettings: ...

    def to_builtins(self) -> dict[str, str]:
        """Return the value for `of`."""
        return asdict(self)

    @classmethod
    def of(cls, value: Mapping[str, str]) -> Self:
        """Return what `to_builtins` wrote down."""
        return cls(**value)

    @classmethod
    def make(cls, url: str, admin_url: str) -> Self:
        """Make a namespace for a new mesh, with the pool's topic.

        Raises:
            InvalidRequest: The URL names no broker.
            BackendUnavailable: The broker cannot be reached.
            NotAuthenticated, NotPermitted: It refuses us.
        """
        made = cls(url=url, admin_url=admin_url, namespace=f"mesh-{secrets.token_hex(4)}{cls.ENDING}")
        made._set_up()
        return made

    def remove(self) -> None:
        """Remove what `make` made, as far as the broker can be reached."""
        admin = self._admin()
        for topic in self.topics:
            path = topic.replace("://", "/")
            with suppress(ArgosyError):
                with suppress(NotFound):
                    admin.call("DELETE", f"{path}?force=true")
                admin.call("DELETE", f"namespaces/{'/'.join(path.split('/')[1:3])}")

    def _admin(self) -> AdminApi:
        from argosy_eventlog.pulsar.admin import AdminApi

        return AdminApi(self.url, self._settings())


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshLog(_MeshTopic):
    """The namespace of one mesh's log."""

    ENDING: ClassVar = ""

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of a server that publishes there."""
        flags = ("--event-log-url", self.url, "--pulsar-namespace", self.namespace)
        return (*flags, "--pulsar-admin-url", self.admin_url) if self.admin_url else flags

    @property
    def topic(self) -> str:
        """The topic that leaders publish on."""
        return self._settings().log_topic(_POOL)

    def _set_up(self) -> None:
        from argosy_eventlog.pulsar.admin import set_up_log

        set_up_log(self._admin(), self._settings(), [_POOL])

    def _settings(self) -> PulsarSettings:
        return PulsarSettings(namespace=self.namespace, admin_url=self.admin_url, **_reaching())


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshEvents(_MeshTopic):
    """The namespace of one mesh's job events for other systems."""

    ENDING: ClassVar = "-events"

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of leaders, which note what is to be relayed, and of the relay."""
        return ("--events-url", self.url, "--pulsar-events-namespace", self.namespace)

    @property
    def topic(self) -> str:
        """The topic that other systems read."""
        return self._settings().events_topic(_POOL)

    @property
    def topics(self) -> tuple[str, ...]:
        """That and the audit's."""
        return (self.topic, self._settings().audit_topic)

    def _set_up(self) -> None:
        from argosy_eventlog.pulsar.admin import set_up_events

        set_up_events(self._admin(), self._settings(), [_POOL])

    def _settings(self) -> PulsarSettings:
        return PulsarSettings(events_namespace=self.namespace, admin_url=self.admin_url, **_reaching())


def make_topics(plan: MeshPlan, tell: Callable[[str], None]) -> tuple[MeshLog | None, MeshEvents | None]:
    """Make the topics that the plan asks for; what was made is removed again if the rest cannot be.

    Raises:
        InvalidRequest: A URL names no broker.
        BackendUnavailable: The broker cannot be reached.
        NotAuthenticated, NotPermitted: It refuses us.
    """
    log = None
    if plan.event_log_url or plan.events_url:
        tell("making topics")
    if plan.event_log_url:
        log = MeshLog.make(plan.event_log_url, plan.event_log_admin_url)
    if not plan.events_url:
        return log, None
    try:
        return log, MeshEvents.make(plan.events_url, plan.event_log_admin_url)
    except BaseException:
        if log is not None:
            log.remove()
        raise


def topics_of(state: MeshState) -> tuple[MeshLog | None, MeshEvents | None]:
    """Return what a mesh has on brokers: its log, and its job events."""
    log = MeshLog.of(state.event_log) if state.event_log else None
    return log, MeshEvents.of(state.events) if state.events else None


def _reaching() -> dict[str, Any]:
    """Return what the servers' variables say of reaching the broker."""
    found = {name: os.environ.get(_PREFIX + name.upper(), "") for name in _REACHING}
    return {name: value for name, value in found.items() if value}
