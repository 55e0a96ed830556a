"""Contexts: named servers, and how each is reached, in one file of the user; commands and programs share it.

The file is `$ARGOSY_CONFIG`, else `argosy/config.toml` below `$XDG_CONFIG_HOME`, else `~/.config/argosy/config.toml`::

    current = "work"

    [contexts.work]
    server = "argosy.example:50051"
    authority_file = "~/authority.pem"
    token_file = "~/token"

It names files of secrets and holds none. A context whose user logs in at an issuer has `issuer` and `client_id`, and if
need be `issuer_authority_file` and `scope`; `argosy login` keeps the tokens in `NAME/login.json` beside it.

Source: `docs/security.md`.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Final

from argosy.channel_credentials import ChannelCredentials
from argosy_client.login import Login, LoginSettings
from argosy_core.errors import InvalidRequest, NotFound

__all__ = [
    "ClientContext",
    "ClientContexts",
    "contexts_path",
    "export_context",
    "import_context",
    "read_contexts",
    "write_contexts",
]

_FILES: Final = {
    "authority_file": "authority.pem",
    "certificate_file": "certificate.pem",
    "key_file": "key.pem",
    "token_file": "token",
}
_LOGIN: Final = {
    "issuer": "issuer",
    "client_id": "client_id",
    "issuer_authority_file": "authority_file",
    "scope": "scope",
}
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientContext:
    """A server, and how it is reached."""

    server: str
    """host:port."""
    credentials: ChannelCredentials = field(default_factory=ChannelCredentials)
    """How it is known, and who calls."""
    login: LoginSettings | None = None
    """Where the user logs in, if servers take tokens of an issuer."""

    def open_login(self) -> Login | None:
        """Return the user's login, for `ArgosyClient`; None for a context that needs none."""
        return None if self.login is None else Login(self.login)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientContexts:
    """What the file says."""

    current: str = ""
    """Name of the context in use; empty for none."""
    contexts: Mapping[str, ClientContext] = field(default_factory=dict)
    """Contexts by name."""

    def find(self, name: str = "") -> ClientContext | None:
        """Return a context by name, else the one in use; None if none is.

        Raises:
            NotFound: There is none by that name.
        """
        wanted = name or self.current
        if not wanted:
            return None
        if wanted not in self.contexts:
            raise NotFound(f"there is no context {wanted!r}; there are {', '.join(sorted(self.contexts)) or 'none'}")
        return self.contexts[wanted]


def contexts_path() -> Path:
    """Return where the user's contexts are, whether there are any or not."""
    named = os.environ.get("ARGOSY_CONFIG")
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "argosy" / "config.toml"


def read_contexts(path: Path | None = None) -> ClientContexts:
    """Return the contexts of a file, the user's if none is named; none if there is no such file.

    Raises:
        InvalidRequest: It cannot be read, or says what no context has; the message names the place.
    """
    path = path or contexts_path()
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ClientContexts()
    except (OSError, ValueError) as cause:
        raise InvalidRequest(f"{path} cannot be read: {cause}") from cause
    tables = document.get("contexts", {})
    current = document.get("current", "")
    if not isinstance(tables, dict) or not isinstance(current, str) or not document.keys() <= {"contexts", "current"}:
        raise InvalidRequest(f"{path}: may have current, the name of a context, and the tables contexts.NAME")
    return ClientContexts(current=current, contexts={name: _read(path, name, tables[name]) for name in tables})


def write_contexts(contexts: ClientContexts, path: Path | None = None) -> None:
    """Write contexts, in one step, to a file that is the user's alone.

    Raises:
        InvalidRequest: A name has other signs than letters, digits, `-` and `_`.
        OSError: The file cannot be written.
    """
    path = path or contexts_path()
    lines = [f"current = {json.dumps(contexts.current)}"]
    for name, context in sorted(contexts.contexts.items()):
        if not _NAME.fullmatch(name):
            raise InvalidRequest(f"{name!r} is no context's name: 1 to 63 letters, digits, '-' and '_'")
        values = {"server": context.server, **asdict(context.credentials)}
        if context.login is not None:
            values |= {key: getattr(context.login, name) for key, name in _LOGIN.items()}
        # Strings of JSON are strings of TOML.
        lines += ["", f"[contexts.{name}]", *(f"{key} = {json.dumps(text)}" for key, text in values.items() if text)]
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    fresh.replace(path)


def export_context(context: ClientContext) -> str:
    """Return a context with what its files hold, JSON: a secret.

    Raises:
        InvalidRequest: A file cannot be read, or its user logs in, which everybody does for themselves.
    """
    if context.login is not None:
        raise InvalidRequest(
            f"users of this context log in at {context.login.issuer}; make it with `argosy context set`"
        )
    bundle: dict[str, object] = {"server": context.server, "server_name": context.credentials.server_name}
    for key in _FILES:
        place = str(getattr(context.credentials, key))
        try:
            bundle[key] = place if place in {"", "system"} else Path(place).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as cause:
            raise InvalidRequest(f"file {place!r} cannot be read: {cause}") from cause
    return json.dumps(bundle, indent=1)


def import_context(text: str, name: str) -> ClientContext:
    """Return the context of what `export_context` returned; its files go beside the user's contexts, mode 0600.

    Raises:
        InvalidRequest: It is none, or the name is none.
        OSError: A file cannot be written.
    """
    try:
        bundle = json.loads(text)
    except ValueError:
        bundle = None
    wanted = {"server", "server_name", *_FILES}
    if not isinstance(bundle, dict) or bundle.keys() != wanted or not all(isinstance(v, str) for v in bundle.values()):
        raise InvalidRequest("what was read is no context that `argosy context export` printed")
    if not _NAME.fullmatch(name):
        raise InvalidRequest(f"{name!r} is no context's name: 1 to 63 letters, digits, '-' and '_'")
    folder = contexts_path().parent / name
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    places = {}
    for key, ending in _FILES.items():
        if bundle[key] in {"", "system"}:
            places[key] = bundle[key]
            continue
        places[key] = str((folder / ending).absolute())
        fresh = folder / f"{ending}.{os.getpid()}"
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(bundle[key])
        fresh.replace(folder / ending)
    return ClientContext(
        server=bundle["server"], credentials=ChannelCredentials(server_name=bundle["server_name"], **places)
    )


def _read(path: Path, name: str, table: object) -> ClientContext:
    known = {"server", *(one.name for one in fields(ChannelCredentials)), *_LOGIN}
    if not isinstance(table, dict) or not table.keys() <= known or not all(isinstance(v, str) for v in table.values()):
        raise InvalidRequest(f"{path}: contexts.{name} may have the texts {', '.join(sorted(known))}, and nothing else")
    values = dict(table)
    server = values.pop("server", "")
    if not server:
        raise InvalidRequest(f"{path}: contexts.{name} needs a server, as in 127.0.0.1:50051")
    said = {attribute: values.pop(key) for key, attribute in _LOGIN.items() if key in values}
    login = None
    if said:
        if not said.keys() >= {"issuer", "client_id"}:
            raise InvalidRequest(f"{path}: contexts.{name} needs both issuer and client_id, or neither")
        login = LoginSettings(**said, file=str(path.parent / name / "login.json"))
    return ClientContext(server=server, credentials=ChannelCredentials(**values), login=login)
