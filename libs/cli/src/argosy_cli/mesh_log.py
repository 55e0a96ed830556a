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
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

from argosy_core.errors import ArgosyError, NotFound
from argosy_eventlog.pulsar import PulsarSettings

__all__ = ["MeshEvents", "MeshLog", "make_mesh_events", "make_mesh_log"]

_POOL: Final = "default"
_PREFIX: Final = "ARGOSY_SERVER_PULSAR_"
_REACHING: Final = ("tenant", "tls_trust_file", "token", "token_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshLog:
    """The namespace of one mesh's log."""

    url: str
    """Brokers."""
    admin_url: str
    """Admin API; empty takes the broker's usual port."""
    namespace: str
    """Namespace below the tenant."""

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of a server that publishes there."""
        flags = ("--event-log-url", self.url, "--pulsar-namespace", self.namespace)
        return (*flags, "--pulsar-admin-url", self.admin_url) if self.admin_url else flags

    def to_builtins(self) -> dict[str, str]:
        """Return the value for `of`."""
        return asdict(self)

    @classmethod
    def of(cls, value: Mapping[str, str]) -> MeshLog:
        """Return what `to_builtins` wrote down."""
        return cls(**value)

    def make(self) -> None:
        """Make the namespace and the pool's topic.

        Raises:
            BackendUnavailable: The broker cannot be reached.
            NotAuthenticated, NotPermitted: It refuses us.
        """
        from argosy_eventlog.pulsar.admin import AdminApi, set_up_log

        settings = self._settings()
        set_up_log(AdminApi(self.url, settings), settings, [_POOL])

    def remove(self) -> None:
        """Remove what `make` made, as far as the broker can be reached."""
        settings = self._settings()
        _remove(self.url, settings, settings.log_topic(_POOL), settings.namespace)

    def _settings(self) -> PulsarSettings:
        return PulsarSettings(namespace=self.namespace, admin_url=self.admin_url, **_reaching())


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshEvents:
    """The namespace of one mesh's job events for other systems."""

    url: str
    """Brokers."""
    admin_url: str
    """Admin API; empty takes the broker's usual port."""
    namespace: str
    """Namespace below the tenant."""

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of leaders, which note what is to be relayed, and of the relay."""
        return ("--events-url", self.url, "--pulsar-events-namespace", self.namespace)

    @property
    def topic(self) -> str:
        """The topic that other systems read."""
        return self._settings().events_topic(_POOL)

    def to_builtins(self) -> dict[str, str]:
        """Return the value for `of`."""
        return asdict(self)

    @classmethod
    def of(cls, value: Mapping[str, str]) -> MeshEvents:
        """Return what `to_builtins` wrote down."""
        return cls(**value)

    def make(self) -> None:
        """Make the namespace and the pool's topic.

        Raises:
            BackendUnavailable: The broker cannot be reached.
            NotAuthenticated, NotPermitted: It refuses us.
        """
        from argosy_eventlog.pulsar.admin import AdminApi, set_up_events

        settings = self._settings()
        set_up_events(AdminApi(self.url, settings), settings, [_POOL])

    def remove(self) -> None:
        """Remove what `make` made, as far as the broker can be reached."""
        _remove(self.url, self._settings(), self.topic, self.namespace)

    def _settings(self) -> PulsarSettings:
        return PulsarSettings(events_namespace=self.namespace, admin_url=self.admin_url, **_reaching())


def make_mesh_log(url: str, admin_url: str) -> MeshLog:
    """Make a namespace for a new mesh's log.

    Raises:
        InvalidRequest: The URL names no broker.
        BackendUnavailable: The broker cannot be reached.
    """
    log = MeshLog(url=url, admin_url=admin_url, namespace=f"mesh-{secrets.token_hex(4)}")
    log.make()
    return log


def make_mesh_events(url: str, admin_url: str) -> MeshEvents:
    """Make a namespace for a new mesh's job events.

    Raises:
        InvalidRequest: The URL names no broker.
        BackendUnavailable: The broker cannot be reached.
    """
    events = MeshEvents(url=url, admin_url=admin_url, namespace=f"mesh-{secrets.token_hex(4)}-events")
    events.make()
    return events


def _reaching() -> dict[str, Any]:
    """Return what the servers' variables say of reaching the broker."""
    found = {name: os.environ.get(_PREFIX + name.upper(), "") for name in _REACHING}
    return {name: value for name, value in found.items() if value}


def _remove(url: str, settings: PulsarSettings, topic: str, namespace: str) -> None:
    from argosy_eventlog.pulsar.admin import AdminApi

    admin = AdminApi(url, settings)
    with suppress(ArgosyError):
        with suppress(NotFound):
            admin.call("DELETE", f"{topic.replace('://', '/')}?force=true")
        admin.call("DELETE", f"namespaces/{settings.tenant}/{namespace}")
