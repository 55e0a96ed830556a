"""Tokens of an OpenID Connect issuer: who they name, by the keys that the issuer publishes.

A token is verified once, in a thread, and then known by its hash until it ends, or until the issuer publishes other
keys. Keys are fetched again every few minutes and when a token names an unknown one, but never more often than every
two seconds; while the issuer cannot be reached, those that were fetched last go on to count.

Needs the extra `oidc`, so it is imported where an issuer is configured.

Source: `docs/security.md`; RFC 7519; RFC 8725 (which algorithms, which claims); OpenID Connect Discovery 1.0.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import jwt

from argosy.channel_credentials import hash_token
from argosy.issuer import IssuerError, ask_issuer, discover_issuer
from argosy_core.access import Principal, is_subject
from argosy_core.errors import BackendUnavailable, NotAuthenticated
from argosy_runtime.access.cache import BoundedCache
from argosy_runtime.access.guard import OidcSettings
from argosy_runtime.logs import get_logger

__all__ = ["MAX_GROUP_COUNT", "OidcTokens"]

MAX_GROUP_COUNT: Final = 100
"""Groups of one user that are taken; servers pass no more on to each other."""
_REFETCH_S: Final = 2.0  # whoever sends tokens with invented keys costs the issuer two requests in this time
_RETRY_S: Final = 10.0
_MAX_KEY_COUNT: Final = 100
_MAX_KNOWN: Final = 10_000  # tokens; 400 bytes each
_MAX_WAITING: Final = 64
_REFUSED_KEEP_S: Final = 2.0
_KEY_TYPES: Final = frozenset({"RSA", "EC", "OKP"})  # no secrets: who could verify with one could sign with it
_UNREADABLE: Final = "the token is no signed token of the issuer"
_MISREAD: Final = (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError)

_Keys: TypeAlias = Mapping[str, jwt.PyJWK]


class _UnknownKeyError(Exception):
    """A token of the issuer was signed with a key that was not among those at hand."""


class _IssuerKeys:
    """The keys that an issuer publishes, by their ids; used on the event loop alone."""

    def __init__(self, settings: OidcSettings, clock_s: Callable[[], float]) -> None:
        self._settings = settings
        self._clock_s = clock_s
        self._published: object = None
        self._keys: _Keys = {}
        self._asked_s = self._due_s = float("-inf")
        self._asking: asyncio.Future[list[Any]] | None = None
        self._failed = False

    def at_hand(self) -> _Keys:
        """Return the keys that were fetched last, and see to it that they are fetched anew in time."""
        if self._clock_s() >= self._due_s:
            self._ask()
        return self._keys

    async def fresher(self, seen: _Keys) -> _Keys:
        """Return the keys that are published now, if they have not been fetched since some were seen.

        Raises:
            BackendUnavailable: The issuer cannot be asked, or was just now.
        """
        if self._keys is not seen:
            return self._keys
        if self._asking is None and self._clock_s() < self._asked_s + _REFETCH_S:
            raise BackendUnavailable("the issuer of tokens was asked for its keys just now; try again in seconds")
        await asyncio.wait({self._ask()})
        if self._failed:
            raise BackendUnavailable("the issuer of tokens cannot be asked for its keys now; try again")
        return self._keys

    def _ask(self) -> asyncio.Future[list[Any]]:
        if self._asking is None:
            self._asked_s = self._clock_s()
            self._asking = asyncio.get_running_loop().run_in_executor(None, self._fetch)
            self._asking.add_done_callback(self._take)
        return self._asking

    def _fetch(self) -> list[Any]:
        settings = self._settings
        document = discover_issuer(settings.issuer, authority_file=settings.authority_file)
        _, answer = ask_issuer(str(document.get("jwks_uri")), authority_file=settings.authority_file)
        published = answer.get("keys")
        if not isinstance(published, list):
            raise IssuerError("what the issuer publishes as its keys has no list of them")
        return published[:_MAX_KEY_COUNT]

    def _take(self, asked: asyncio.Future[list[Any]]) -> None:
        self._asking = None
        error = None if asked.cancelled() else asked.exception()
        self._failed = asked.cancelled() or error is not None
        self._due_s = self._clock_s() + (_RETRY_S if self._failed else self._settings.keys_keep_s)
        if error is not None:
            get_logger().error("the issuer's keys cannot be fetched; those from before count", reason=str(error))
        if not self._failed and asked.result() != self._published:
            self._published = asked.result()
            self._keys = _read_keys(asked.result())


class OidcTokens:
    """Says whose token one of the issuer is.

    Args:
        settings: The issuer, and what is expected of its tokens.
        clock_s: Seconds since the Unix epoch.
        monotonic_s: Monotonic clock.
    """

    def __init__(
        self,
        settings: OidcSettings,
        *,
        clock_s: Callable[[], float] = time.time,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Ask nobody yet."""
        self._settings = settings
        self._clock_s = clock_s
        self._decoder = jwt.PyJWT(options={"enforce_minimum_key_length": True})
        self._keys = _IssuerKeys(settings, monotonic_s)
        self._known_by: _Keys = {}
        self._known: BoundedCache[Principal] = BoundedCache(_MAX_KNOWN)
        self._refused: BoundedCache[str] = BoundedCache(_MAX_KNOWN)
        self._waiting = 0

    async def find(self, token: str) -> Principal | None:
        """Return whose token it is; None if it is no token of this issuer.

        Raises:
            NotAuthenticated: It says it is, and does not count.
            BackendUnavailable: The issuer's keys are not known and cannot be fetched, or too many tokens wait.
        """
        if token.count(".") != 2:
            return None
        name, now_s = hash_token(token), self._clock_s()
        keys = self._current_keys()
        found = self._known.get(name, now_s)
        if found is not None:
            return found
        refused = self._refused.get(name, now_s)
        if refused is not None:
            raise NotAuthenticated(refused)
        try:
            verified, keys = await self._verify_in_thread(token, keys)
        except NotAuthenticated as error:
            self._refused.put(name, error.message, now_s + _REFUSED_KEEP_S)
            raise
        if verified is None:
            return None
        principal, end_s = verified
        if keys is self._current_keys():
            self._known.put(name, principal, end_s)
        return principal

    def _current_keys(self) -> _Keys:
        keys = self._keys.at_hand()
        if keys is not self._known_by:  # what a key signed that is published no more counts no more
            self._known_by = keys
            self._known.clear()
        return keys

    async def _verify_in_thread(self, token: str, keys: _Keys) -> tuple[tuple[Principal, float] | None, _Keys]:
        """Return what `_verify` does, and the keys that it took."""
        if self._waiting >= _MAX_WAITING:
            raise BackendUnavailable("too many new tokens wait to be verified; try again")
        self._waiting += 1
        try:
            try:
                return await asyncio.to_thread(self._verify, token, keys), keys
            except _UnknownKeyError:
                keys = await self._keys.fresher(keys)
                return await asyncio.to_thread(self._verify, token, keys), keys
        except _UnknownKeyError as cause:
            raise NotAuthenticated("the token was signed with a key that its issuer does not publish") from cause
        finally:
            self._waiting -= 1

    def _verify(self, token: str, keys: _Keys) -> tuple[Principal, float] | None:
        """Return whom a token names, and when it ends; None for one of another issuer.

        Raises:
            NotAuthenticated: It does not count.
            _UnknownKeyError: It names a key that is not among those given.
        """
        settings = self._settings
        try:
            said = self._decoder.decode_complete(token, options={"verify_signature": False})
        except _MISREAD:
            return None
        header, claims = said["header"], said["payload"]
        if claims.get("iss") != settings.issuer:
            return None
        if header.get("alg") not in settings.algorithms:
            raise NotAuthenticated("the token is signed in a way that is not allowed here")
        key_id = header.get("kid")
        key = keys.get(key_id) if key_id is not None else next(iter(keys.values())) if len(keys) == 1 else None
        if key is None:
            raise _UnknownKeyError
        try:
            claims = self._decoder.decode(
                token,
                key,
                algorithms=list(settings.algorithms),
                audience=list(settings.audiences),
                issuer=settings.issuer,
                leeway=settings.leeway_s,
                options={"require": ["exp", "iss", "aud"]},
            )
            end_s = float(claims["exp"]) + settings.leeway_s
        except jwt.ExpiredSignatureError as cause:
            raise NotAuthenticated("the token has expired; `argosy login` fetches another") from cause
        except jwt.InvalidAudienceError as cause:
            raise NotAuthenticated("the token is for others than this installation (audience)") from cause
        except _MISREAD as cause:
            raise NotAuthenticated(_UNREADABLE) from cause
        return self._principal(claims), end_s

    def _principal(self, claims: Mapping[str, Any]) -> Principal:
        settings = self._settings
        name, groups = claims.get(settings.username_claim), claims.get(settings.groups_claim, [])
        if settings.username_claim == "email" and claims.get("email_verified", True) is not True:
            raise NotAuthenticated("the issuer has not verified the e-mail address that the token names its holder by")
        if not isinstance(name, str) or not is_subject(f"user:{settings.prefix}{name}"):
            raise NotAuthenticated(f"the token's claim {settings.username_claim} is no name of a user")
        listed = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        # Names with spaces, as directories have them, are left out: nothing can be granted to them.
        usable = [settings.prefix + one for one in listed if isinstance(one, str)]
        usable = [one for one in usable if is_subject(f"group:{one}")]
        if len(usable) > MAX_GROUP_COUNT:
            raise NotAuthenticated(f"the token names more than {MAX_GROUP_COUNT} groups; let the issuer send fewer")
        return Principal(name=settings.prefix + name, groups=tuple(usable))


def _read_keys(published: list[Any]) -> _Keys:
    """Return the keys that can verify, by their ids; others are passed over."""
    keys: dict[str, jwt.PyJWK] = {}
    for entry in published:
        if not isinstance(entry, dict) or entry.get("kty") not in _KEY_TYPES or entry.get("use", "sig") != "sig":
            continue
        key_id = entry.get("kid", "")
        if isinstance(key_id, str):
            try:
                keys.setdefault(key_id, jwt.PyJWK(entry))
            except _MISREAD:
                continue
    return keys
