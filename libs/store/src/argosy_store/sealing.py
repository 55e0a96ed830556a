"""Bodies of specs sealed at rest: they hold the secrets of jobs' bags, and whoever reads the database reads them.

A body is encrypted with a key of its own (AES-256-GCM), which stands before it, wrapped by a key of the installation
(RFC 3394) whose id stands before that. The installation's keys come from a file: the first one seals, all of them open,
so that a key is replaced by writing a new one above it. What was stored before keys were given stays readable.

Source: `docs/decisions/0021-bodies-are-sealed-by-the-store.md`.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from argosy_core.errors import BackendUnavailable, InvalidRequest

__all__ = ["SealKeys", "SpecSeal", "new_seal_key", "open_body", "read_seal_keys"]

_SEALED: Final = 0x01  # bodies that are not sealed are JSON, which begins with `[` or `{`
_KEY_BYTES: Final = 32
_WRAPPED_BYTES: Final = _KEY_BYTES + 8
_NONCE_BYTES: Final = 12
_MAX_KEYS: Final = 64
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SealKeys:
    """The installation's keys."""

    newest: str
    """Id of the one that seals."""
    keys: Mapping[str, bytes] = field(repr=False)
    """All of them by id, 32 bytes each."""


def new_seal_key(key_id: str) -> str:
    """Return a line of a file of keys, with a key that was just drawn.

    Raises:
        InvalidRequest: The id is none.
    """
    if _ID.fullmatch(key_id) is None:
        raise InvalidRequest(f"{key_id!r} is no id of a key: letters, digits and ._- , at most 32")
    return f"{key_id} {base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()}\n"


def read_seal_keys(content: bytes) -> SealKeys:
    """Return the keys of a file: `ID KEY` a line, the key 32 bytes in base64; the first one seals.

    Raises:
        InvalidRequest: There is none, or a line is wrong; the message names the line and holds nothing of a key.
    """
    keys: dict[str, bytes] = {}
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            key = base64.b64decode(words[-1], validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if len(words) != 2 or _ID.fullmatch(words[0]) is None or len(key) != _KEY_BYTES:
            raise InvalidRequest(f"line {number} of the file of keys must be `ID KEY`, the key 32 bytes in base64")
        if words[0] in keys:
            raise InvalidRequest(f"line {number} of the file of keys has an id that stands above it, too")
        keys[words[0]] = key
    if not 0 < len(keys) <= _MAX_KEYS:
        raise InvalidRequest(f"the file of keys must hold 1 to {_MAX_KEYS} keys, and holds {len(keys)}")
    return SealKeys(newest=next(iter(keys)), keys=keys)


class SpecSeal:
    """Seals bodies of specs and opens them. Thread-safe.

    Args:
        keys: The keys as they are now.

    Raises:
        InvalidRequest: The extra `encryption` is not installed.
    """

    def __init__(self, keys: Callable[[], SealKeys]) -> None:
        """Load what encrypts."""
        try:
            from cryptography.hazmat.primitives import keywrap
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as cause:
            raise InvalidRequest(
                "keys for the bodies of specs need the extra `encryption` of argosy-server, which is not installed"
            ) from cause
        self._wrap, self._unwrap = keywrap.aes_key_wrap, keywrap.aes_key_unwrap
        self._unwrap_fault: type[Exception] = keywrap.InvalidUnwrap
        self._cipher = AESGCM
        self._keys = keys

    def seal(self, spec_hash: bytes, body: bytes) -> bytes:
        """Return a body as it is stored; it opens as the body of this spec only."""
        keys = self._keys()
        key_id, own, nonce = keys.newest.encode(), secrets.token_bytes(_KEY_BYTES), secrets.token_bytes(_NONCE_BYTES)
        head = bytes((_SEALED, len(key_id))) + key_id
        wrapped = self._wrap(keys.keys[keys.newest], own)
        return head + wrapped + nonce + self._cipher(own).encrypt(nonce, body, head + spec_hash)

    def open(self, spec_hash: bytes, stored: bytes) -> bytes:
        """Return the body of what is stored, sealed or not.

        Raises:
            BackendUnavailable: It was sealed by a key that is not here, or was changed; nothing of it is told.
        """
        from cryptography.exceptions import InvalidTag

        if not is_sealed(stored):
            return stored
        end = 2 + int.from_bytes(stored[1:2], "big")
        head, rest = stored[:end], stored[end:]
        key_id = head[2:].decode("ascii", "replace")
        key = self._keys().keys.get(key_id)
        if key is None:
            raise BackendUnavailable(
                f"a spec was sealed by the key {key_id!r}, which is not in the server's encryption_keys_file; put it"
                " back there, below the first one"
            )
        wrapped, nonce, text = rest[:_WRAPPED_BYTES], rest[_WRAPPED_BYTES:][:_NONCE_BYTES], rest[_WRAPPED_BYTES:]
        try:
            own = self._unwrap(key, wrapped)
            return self._cipher(own).decrypt(nonce, text[_NONCE_BYTES:], head + spec_hash)
        except (self._unwrap_fault, InvalidTag, ValueError) as cause:
            raise BackendUnavailable(
                f"a spec that the key {key_id!r} sealed does not open: the key is another one, or it was changed"
            ) from cause


def is_sealed(stored: bytes) -> bool:
    """Return whether what is stored of a body is sealed."""
    return stored[:1] == bytes((_SEALED,))


def open_body(seal: SpecSeal | None, spec_hash: bytes, stored: bytes) -> bytes:
    """Return the body of what is stored; without keys, only what is not sealed.

    Raises:
        BackendUnavailable: It is sealed, and by no key that is here.
    """
    if seal is not None:
        return seal.open(spec_hash, stored)
    if is_sealed(stored):
        raise BackendUnavailable(
            "a spec is sealed, and this server has no keys; set encryption_keys_file as at the servers that stored it"
        )
    return stored
