"""`argosy admin encryption-key`: a key is drawn into a file of its owner's alone, above those that are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from argosy_store.sealing import SpecSeal, read_seal_keys


def test_new_key_stands_above_the_old_ones_which_go_on_to_open(argosy: Any, tmp_path: Path) -> None:
    """The file is mode 0600, what is printed holds no key, and what the first one sealed opens with both."""
    path = tmp_path / "keys"
    shown = [argosy("admin", "encryption-key", "first", "--keys-file", str(path))]
    assert path.stat().st_mode & 0o777 == 0o600
    before = read_seal_keys(path.read_bytes())
    sealed = SpecSeal(lambda: before).seal(bytes(16), b"[]")
    shown.append(argosy("admin", "encryption-key", "second", "--keys-file", str(path)))
    after = read_seal_keys(path.read_bytes())
    assert ([one.code for one in shown], after.newest, [*after.keys]) == ([0, 0], "second", ["second", "first"])
    assert SpecSeal(lambda: after).open(bytes(16), sealed) == b"[]"
    keys = [line.split()[1] for line in path.read_text().splitlines()]
    assert not any(key in one.out + one.err for key in keys for one in shown)


def test_id_that_is_there_or_is_none_changes_nothing(argosy: Any, tmp_path: Path) -> None:
    """A key is never replaced by one of its name; a file that holds something else stays as it is."""
    path, other = tmp_path / "keys", tmp_path / "other"
    argosy("admin", "encryption-key", "first", "--keys-file", str(path))
    other.write_text("tokens: []\n")
    before = path.read_bytes()
    assert argosy("admin", "encryption-key", "first", "--keys-file", str(path)).code == 2
    assert argosy("admin", "encryption-key", "a b", "--keys-file", str(path)).code == 2
    refused = argosy("admin", "encryption-key", "first", "--keys-file", str(other))
    assert (refused.code, "must be `ID KEY`" in refused.err) == (2, True)
    assert (path.read_bytes(), other.read_text()) == (before, "tokens: []\n")
