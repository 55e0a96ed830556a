"""Bodies of specs are sealed by keys of a file, and open as what they were or not at all."""

from __future__ import annotations

import base64

import pytest

from argosy_core.errors import BackendUnavailable, InvalidRequest
from argosy_store.sealing import SealKeys, SpecSeal, new_seal_key, open_body, read_seal_keys

BODY, HASH = b'[{"kind": "Secret", "data": {"password": "cGFzc3dvcmQ="}}]', bytes(range(16))
FIRST, SECOND = (read_seal_keys(new_seal_key(name).encode()) for name in ("first", "second"))


def both() -> SealKeys:
    """Return the keys after a rotation: the second one seals."""
    return SealKeys(newest="second", keys={**SECOND.keys, **FIRST.keys})


def test_sealed_body_shows_nothing_and_opens_as_it_was() -> None:
    """Each seal has a key and a nonce of its own, so equal bodies are not equal where they are stored."""
    seal = SpecSeal(lambda: FIRST)
    stored = [seal.seal(HASH, BODY) for _ in range(2)]
    assert stored[0] != stored[1]
    assert not any(part in one for one in stored for part in (b"Secret", b"cGFzc3dvcmQ"))
    assert {seal.open(HASH, one) for one in stored} == {BODY}
    assert seal.open(HASH, BODY) == BODY, "what was stored before there were keys"


def test_old_keys_open_after_a_rotation_and_the_new_one_seals() -> None:
    """A file with the new key above the old one reads everything; without it, the error names what is missing."""
    before, after = SpecSeal(lambda: FIRST), SpecSeal(both)
    old, new = before.seal(HASH, BODY), after.seal(HASH, BODY)
    assert after.open(HASH, old) == after.open(HASH, new) == BODY
    with pytest.raises(BackendUnavailable, match="sealed by the key 'second', which is not in"):
        before.open(HASH, new)


@pytest.mark.parametrize("at", [2, 10, 50, 60, 100, -1])
def test_changed_body_does_not_open(at: int) -> None:
    """Whoever can write to the database puts no other body in its place."""
    seal = SpecSeal(lambda: FIRST)
    stored = bytearray(seal.seal(HASH, BODY))
    stored[at] ^= 1
    with pytest.raises(BackendUnavailable) as caught:
        seal.open(HASH, bytes(stored))
    assert "password" not in str(caught.value)


def test_body_opens_for_its_own_spec_only() -> None:
    """Two rows that are exchanged are two that do not open; so is one that was cut short."""
    seal = SpecSeal(lambda: FIRST)
    stored = seal.seal(HASH, BODY)
    for spec_hash, text in ((bytes(16), stored), *((HASH, stored[:length]) for length in (1, 2, 7, 40, 60, 80))):
        with pytest.raises(BackendUnavailable):
            seal.open(spec_hash, text)


def test_key_of_the_same_name_that_is_another_opens_nothing() -> None:
    """A key that was drawn anew under an old id is told apart."""
    other = read_seal_keys(new_seal_key("first").encode())
    with pytest.raises(BackendUnavailable, match="the key is another one"):
        SpecSeal(lambda: other).open(HASH, SpecSeal(lambda: FIRST).seal(HASH, BODY))


def test_server_without_keys_reads_what_is_not_sealed() -> None:
    """It says what is missing, and takes no sealed body for JSON."""
    assert open_body(None, HASH, BODY) == BODY
    with pytest.raises(BackendUnavailable, match="set encryption_keys_file"):
        open_body(None, HASH, SpecSeal(lambda: FIRST).seal(HASH, BODY))


KEY = base64.b64encode(bytes(32)).decode()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "1 to 64 keys, and holds 0"),
        ("# nothing\n\n", "1 to 64 keys, and holds 0"),
        (f"first {KEY}\nfirst {KEY}\n", "line 2 .* stands above it"),
        (f"first {KEY[:-8]}\n", "line 1 .* 32 bytes"),
        (f"fir/st {KEY}\n", "line 1"),
        (f"{KEY}\n", "line 1"),
        (f"first {KEY} more\n", "line 1"),
        ("".join(f"k{number} {KEY}\n" for number in range(65)), "holds 65"),
    ],
)
def test_file_of_keys_is_refused_with_the_line_that_is_wrong(text: str, wrong: str) -> None:
    """The message holds nothing of a key."""
    with pytest.raises(InvalidRequest, match=wrong) as caught:
        read_seal_keys(text.encode())
    assert KEY[:20] not in str(caught.value)


def test_keys_are_not_shown() -> None:
    """A key stands in no text of the value that holds it."""
    assert str(next(iter(FIRST.keys.values()))) not in repr(FIRST)
