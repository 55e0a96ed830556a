"""A mesh's event log on a broker that runs already: a namespace of its own, made with the mesh and removed with it.

Epochs of a mesh with a new database begin at 1, below those that an older mesh's topic has seen; so no two meshes share
a topic.

Source: design section 9, "`argosy up | down`".
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass

from argosy_core.errors import ArgosyError, NotFound
from argosy_eventlog.pulsar import PulsarSettings

__all__ = ["MeshLog", "make_mesh_log"]

_POOL = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshLog:
    """The namespace of one mesh's log."""

    url: str
    """Brokers."""
    admin_url: str
    """Admin API; empty takes the broker's usual port."""
    namespace: str
    """Namespace below the usual tenant."""

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
        """
        from argosy_eventlog.pulsar.admin import AdminApi, set_up_log

        settings = self._settings()
        set_up_log(AdminApi(self.url, settings), settings, [_POOL])

    def remove(self) -> None:
        """Remove what `make` made, as far as the broker can be reached."""
        from argosy_eventlog.pulsar.admin import AdminApi

        settings = self._settings()
        admin = AdminApi(self.url, settings)
        topic = settings.log_topic(_POOL).replace("://", "/")
        with suppress(ArgosyError):
            with suppress(NotFound):
                admin.call("DELETE", f"{topic}?force=true")
            admin.call("DELETE", f"namespaces/{settings.tenant}/{settings.namespace}")

    def _settings(self) -> PulsarSettings:
        return PulsarSettings(namespace=self.namespace, admin_url=self.admin_url)


def make_mesh_log(url: str, admin_url: str) -> MeshLog:
    """Make a namespace for a new mesh.

    Raises:
        InvalidRequest: The URL names no broker.
        BackendUnavailable: The broker cannot be reached.
    """
    log = MeshLog(url=url, admin_url=admin_url, namespace=f"mesh-{secrets.token_hex(4)}")
    log.make()
    return log
