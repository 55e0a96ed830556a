"""What a user logged in for: the token of an issuer, kept in a file that is the user's alone, and fetched anew in time.

`argosy login` writes the file; commands and programs read it, refresh the token before it ends, and write it again.
Servers are sent the issuer's ID token, whose audience is the client that the user logged in with.

Source: `docs/security.md`; RFC 6749, section 6 (refresh); OpenID Connect Core 1.0, section 3.1.3.7.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from argosy_client.deferred import DeferredModule
from argosy_core.errors import BackendUnavailable, InvalidRequest, NotAuthenticated

if TYPE_CHECKING:
    from argosy import issuer
else:
    issuer = DeferredModule("argosy.issuer")

__all__ = ["Login", "LoginSettings"]

_EARLY_S: Final = 60.0  # clocks differ, and a call takes its time
_EARLY_RATIO: Final = 1 / 3
_OK: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSettings:
    """Where a user logs in."""

    issuer: str
    """URL of the issuer, as its tokens say it."""
    client_id: str
    """The client at the issuer that the user logs in with; a public one, which has no secret."""
    authority_file: str = "system"
    """PEM file of the authorities that sign the issuer's certificate; `system` for those that the machine trusts."""
    scope: str = "openid offline_access"
    """What is asked for, by spaces; `offline_access` lets the token be refreshed."""
    file: str = ""
    """Where the tokens are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """What the file holds."""

    issuer: str
    client_id: str
    token: str
    refresh_token: str
    end_s: float
    renew_s: float


class Login:
    """A user's login.

    Args:
        settings: Where the user logs in, and where the tokens are kept.
        clock_s: Seconds since the Unix epoch.
    """

    def __init__(self, settings: LoginSettings, *, clock_s: Callable[[], float] = time.time) -> None:
        """Read nothing yet."""
        self.settings = settings
        """Where the user logs in."""
        self._file = Path(settings.file)
        self._clock_s = clock_s
        self._kept: _Kept | None = None

    @property
    def is_due(self) -> bool:
        """Whether the token was not read yet, or ends soon."""
        return self._kept is None or self._clock_s() >= self._kept.renew_s

    def token(self) -> str:
        """Return a token that is good, refreshed if it ends soon; blocks.

        Several processes take turns, so that a refresh token, which is good once, is sent once.

        Raises:
            NotAuthenticated: Nobody is logged in, or the login has ended.
            BackendUnavailable: The token has ended, and the issuer cannot be asked for another.
            InvalidRequest: The file cannot be read or written.
        """
        import fcntl  # where the system has none, everything but logins works

        self._kept = self._read()
        if not self.is_due:
            return self._kept.token
        try:
            with self._file.with_suffix(".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._kept = self._read()
                if self.is_due:
                    self._refresh(self._kept)
        except OSError as cause:
            raise InvalidRequest(f"{self._file} cannot be written: {cause.strerror}") from cause
        return self._kept.token

    def save(self, answer: Mapping[str, Any]) -> None:
        """Keep what the issuer's token endpoint answered to a login.

        Raises:
            NotAuthenticated: There is no ID token in it.
            InvalidRequest: The file cannot be written.
        """
        now_s = self._clock_s()
        token = answer.get("id_token")
        end_s = issuer.unverified_claims(token).get("exp") if isinstance(token, str) else None
        if not isinstance(token, str) or not isinstance(end_s, (int, float)):
            raise NotAuthenticated("the issuer answered no ID token; the scope of the login must have openid")
        early_s = min(_EARLY_S, _EARLY_RATIO * max(end_s - now_s, 0.0))
        known = self._kept.refresh_token if self._kept is not None else ""
        self._kept = _Kept(
            issuer=self.settings.issuer,
            client_id=self.settings.client_id,
            token=token,
            refresh_token=str(answer.get("refresh_token") or known),
            end_s=float(end_s),
            renew_s=end_s - early_s,
        )
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh = self._file.with_name(f"{self._file.name}.{os.getpid()}")
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                json.dump(asdict(self._kept), file)
            fresh.replace(self._file)
        except OSError as cause:
            raise InvalidRequest(f"{self._file} cannot be written: {cause.strerror}") from cause

    def forget(self) -> bool:
        """Remove the tokens and tell the issuer that they are not needed any more; return whether it was told.

        Blocks. Tokens that somebody else copied are good until they end where an issuer takes nothing back.
        """
        try:
            refresh_token = self._read().refresh_token
        except (NotAuthenticated, InvalidRequest):
            refresh_token = ""
        self._kept = None
        self._file.unlink(missing_ok=True)
        self._file.with_suffix(".lock").unlink(missing_ok=True)
        try:
            place = self.discover().get("revocation_endpoint") if refresh_token else None
            if not isinstance(place, str):
                return False
            form = {"token": refresh_token, "client_id": self.settings.client_id}
            return issuer.ask_issuer(place, form=form, authority_file=self.settings.authority_file)[0] == _OK
        except issuer.IssuerError:
            return False

    def discover(self) -> Mapping[str, Any]:
        """Return what the issuer publishes of itself; blocks.

        Raises:
            IssuerError: It cannot be asked.
        """
        return issuer.discover_issuer(self.settings.issuer, authority_file=self.settings.authority_file)

    def _refresh(self, kept: _Kept) -> None:
        has_ended = self._clock_s() >= kept.end_s
        if not kept.refresh_token:
            if has_ended:
                raise NotAuthenticated("the login has ended; log in again with `argosy login`")
            return
        form = {
            "grant_type": "refresh_token",
            "refresh_token": kept.refresh_token,
            "client_id": self.settings.client_id,
        }
        try:
            place = str(self.discover().get("token_endpoint"))
            status, answer = issuer.ask_issuer(place, form=form, authority_file=self.settings.authority_file)
        except issuer.IssuerError as cause:
            if has_ended:
                raise BackendUnavailable(f"the token has ended, and cannot be refreshed: {cause}") from cause
            return
        if status != _OK:
            if has_ended:
                raise NotAuthenticated("the issuer ended the login; log in again with `argosy login`")
            return
        self.save(answer)

    def _read(self) -> _Kept:
        try:
            kept = _Kept(**json.loads(self._file.read_text(encoding="utf-8")))
        except FileNotFoundError as cause:
            raise NotAuthenticated("nobody is logged in; log in with `argosy login`") from cause
        except (OSError, ValueError, TypeError) as cause:
            raise InvalidRequest(f"{self._file} cannot be read; log in again with `argosy login`") from cause
        if (kept.issuer, kept.client_id) != (self.settings.issuer, self.settings.client_id):
            raise NotAuthenticated("the login is of another issuer; log in with `argosy login`")
        return kept
