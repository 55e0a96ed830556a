"""From a command to the server: which one, and one client for the command's calls.

Source: design section 9.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from argosy_cli.options import Settings
from argosy_core.errors import BackendUnavailable, InvalidRequest

if TYPE_CHECKING:
    from argosy_client import ArgosyClient
    from argosy_client.contexts import ClientContext
    from argosy_local.mesh_state import MeshState

__all__ = ["CREDENTIAL_VARIABLES", "DEFAULT_ADDRESS", "call", "client_opener", "local_mesh", "server_address"]

DEFAULT_ADDRESS = "127.0.0.1:50051"
"""Where a server listens unless told otherwise, and where the compose stack publishes its API."""
CREDENTIAL_VARIABLES: Final = {
    "authority_file": "ARGOSY_AUTHORITY_FILE",
    "server_name": "ARGOSY_SERVER_NAME",
    "certificate_file": "ARGOSY_CERTIFICATE_FILE",
    "key_file": "ARGOSY_KEY_FILE",
    "token_file": "ARGOSY_TOKEN_FILE",
}
"""Variables that say how a server is known and who calls, by the field of `argosy_client.ChannelCredentials`."""
_LOOK_S = 0.5
_HOST_PORT: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]]+):(\d{1,5})")
_LARGEST_PORT: Final = 65_535

_Answer = TypeVar("_Answer")


def server_address(settings: Settings) -> str:
    """Return host:port of the server a command talks to.

    That is the one named, that of the user's context in use, the mesh's, or what listens at the default.

    Raises:
        InvalidRequest: What was named is no HOST:PORT.
        BackendUnavailable: None was named, and neither a mesh nor another server runs on this machine.
    """
    return _target(settings)[0]


def _target(settings: Settings) -> tuple[str, ClientContext | None]:
    """Return host:port of the server, and the user's context if that names it.

    Raises:
        InvalidRequest: What was named is no HOST:PORT, or the user's contexts cannot be read.
        NotFound: The context that is named, or in use, does not exist.
        BackendUnavailable: None was named, and neither a mesh nor another server runs on this machine.
    """
    if settings.server:
        found = _HOST_PORT.fullmatch(settings.server)
        if not found or not 0 < int(found[2]) <= _LARGEST_PORT:
            raise InvalidRequest(
                f"the server {settings.server!r}, of --server or ARGOSY_SERVER, is no HOST:PORT; one is, for instance,"
                f" {DEFAULT_ADDRESS}"
            )
        return settings.server, None
    from argosy_client.contexts import read_contexts

    context = read_contexts().find(os.environ.get("ARGOSY_CONTEXT", ""))
    if context is not None:
        return context.server, context
    state = local_mesh(settings)
    if state is not None and not state.stopped:
        return state.server, _secured(state)
    if _listens(DEFAULT_ADDRESS):
        return DEFAULT_ADDRESS, None
    if state is not None:
        raise BackendUnavailable("no server: the mesh is stopped; `argosy up` goes on with it")
    raise BackendUnavailable(
        "no server: start a mesh with `argosy up`, or name a server with --server or ARGOSY_SERVER"
    )


def _secured(state: MeshState) -> ClientContext | None:
    """Return how a secured mesh of this machine is reached; None for one that asks nobody who they are."""
    if not state.secrets:
        return None
    from argosy_client.contexts import ClientContext
    from argosy_local.security import MeshSecrets

    return ClientContext(server=state.server, credentials=MeshSecrets(folder=Path(state.secrets)).credentials)


def local_mesh(settings: Settings) -> MeshState | None:
    """Return what is written down about the mesh of `argosy up`; None if there is none, or none can be started here.

    Raises:
        InvalidRequest: Its file is damaged.
    """
    try:
        from argosy_local.mesh_state import read_state
    except ModuleNotFoundError:
        return None
    return read_state(settings.mesh_directory)


def _listens(address: str) -> bool:
    """Return whether anybody takes connections at host:port."""
    return not _hindrance(address)


def _hindrance(address: str) -> str:
    """Return why nobody can be reached at host:port; empty if somebody takes connections there."""
    import socket

    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_LOOK_S).close()
    except (socket.gaierror, UnicodeError):
        return f"no host named {host} is known"
    except OSError as error:
        return f"nothing takes connections there ({error.strerror or error})"
    return ""


def client_opener(settings: Settings, *, total_s: float) -> Callable[[], ArgosyClient]:
    """Return what opens a client of the server that a command talks to, as whoever the user is there.

    Args:
        settings: The command's.
        total_s: For how long calls are repeated.

    Raises:
        InvalidRequest: What was named is no HOST:PORT, or the user's contexts cannot be read.
        NotFound: The context that is named, or in use, does not exist.
        BackendUnavailable: None was named, and neither a mesh nor another server runs on this machine.
    """
    return _opener(*_target(settings), total_s)


def _opener(address: str, context: ClientContext | None, total_s: float) -> Callable[[], ArgosyClient]:
    from argosy_client import ArgosyClient, ChannelCredentials, RetryPolicy

    known = ChannelCredentials() if context is None else context.credentials
    given = {name: os.environ.get(variable, "") for name, variable in CREDENTIAL_VARIABLES.items()}
    credentials = replace(known, **{name: value for name, value in given.items() if value})
    login = None if context is None or given["token_file"] else context.open_login()
    return lambda: ArgosyClient(address, retries=RetryPolicy(total_s=total_s), credentials=credentials, login=login)


def call(settings: Settings, action: Callable[[ArgosyClient], Awaitable[_Answer]]) -> _Answer:
    """Return what an action answers with a client that is closed afterwards.

    Raises:
        ArgosyError: The action failed.
    """
    from argosy_cli.interrupts import run_to_end

    address, context = _target(settings)
    opened = _opener(address, context, settings.timeout_s)

    async def run() -> _Answer:
        async with opened() as client:
            return await action(client)

    try:
        return run_to_end(run())
    except BackendUnavailable as error:
        hindrance = _hindrance(address)
        if not hindrance:
            raise BackendUnavailable(f"server {address}: {error.message}") from error
        raise BackendUnavailable(
            f"server {address} cannot be reached: {hindrance}; see that it runs, or name another with --server or"
            " ARGOSY_SERVER"
        ) from error
