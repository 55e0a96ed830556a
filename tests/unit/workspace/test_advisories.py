"""A stored list of advisories is held against what is pinned, without a network."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PINNED = "one==2.5.0 \\\n    --hash=sha256:" + "0" * 64 + "\n"


def events(**at: str) -> dict[str, Any]:
    """Return a range."""
    return {"ranges": [{"type": "ECOSYSTEM", "events": [{kind: value} for kind, value in at.items()]}]}


def check(folder: Path, *affected: dict[str, Any], **record: Any) -> subprocess.CompletedProcess[str]:
    """Run the program on one record about one package."""
    package = {"ecosystem": "PyPI", "name": "One"}
    entries = [{"package": package, **one} for one in affected]
    (folder / "list").mkdir(exist_ok=True)
    text = json.dumps({"id": "OSV-1", "summary": "is bad", "affected": entries, **record})
    (folder / "list" / "a.json").write_text(text)
    return run(folder / "list", folder)


def run(records: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the program on a folder of records."""
    (folder / "pinned.txt").write_text(PINNED)
    command = [sys.executable, str(ROOT / "tools" / "advisories.py"), str(records), str(folder / "pinned.txt")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("affected", "is_found"),
    [
        (events(introduced="0"), True),
        (events(introduced="2.5.0"), True),
        (events(introduced="2.5.1"), False),
        (events(introduced="0", fixed="2.5.0"), False),
        (events(introduced="0", fixed="2.10.0"), True),
        (events(introduced="0", last_affected="2.5.0"), True),
        (events(introduced="0", last_affected="2.4.9"), False),
        (events(introduced="0", fixed="what"), True),
        ({"versions": ["2.4.0", "2.5.0"]}, True),
        ({"versions": ["2.5"]}, False),
        ({"package": {"ecosystem": "npm", "name": "one"}, **events(introduced="0")}, False),
        ({"package": {"ecosystem": "PyPI", "name": "two"}, **events(introduced="0")}, False),
    ],
)
def test_pinned_version_is_named_if_it_is_meant(tmp_path: Path, affected: dict[str, Any], is_found: bool) -> None:  # noqa: FBT001 - a parameter of the table
    """By ranges and lists, of this registry's package alone; what cannot be compared is looked at."""
    done = check(tmp_path, affected)
    assert (done.returncode, "one 2.5.0: OSV-1 is bad" in done.stdout) == (int(is_found), is_found)


def test_record_that_was_withdrawn_names_nobody(tmp_path: Path) -> None:
    """It stays in lists, and means nothing any more."""
    assert check(tmp_path, events(introduced="0"), withdrawn="2026-01-01T00:00:00Z").returncode == 0


YAML = """
id: PYSEC-2021-1
summary: is bad
modified: 2021-09-09T14:17:06Z
affected:
- package: {name: one, ecosystem: PyPI}
  ranges:
  - type: ECOSYSTEM
    events: [{introduced: "0"}, {fixed: 2.10}]
"""


def test_records_in_yaml_count_as_those_in_json(tmp_path: Path) -> None:
    """Versions stay texts there, whatever they look like; what is no YAML is an error."""
    (tmp_path / "list").mkdir()
    record = tmp_path / "list" / "a.yaml"
    record.write_text(YAML)
    assert "one 2.5.0: PYSEC-2021-1 is bad" in run(tmp_path / "list", tmp_path).stdout
    record.write_text(YAML.replace("2.10", "2.5"))
    assert run(tmp_path / "list", tmp_path).returncode == 0
    record.write_text("id: [")
    assert "no YAML" in run(tmp_path / "list", tmp_path).stderr


def test_no_list_is_not_a_clean_one(tmp_path: Path) -> None:
    """An empty folder and what is no record are errors."""
    (tmp_path / "empty").mkdir()
    for folder, why in ((tmp_path / "empty", "no record"), (tmp_path, "is no record of OSV")):
        (tmp_path / "odd.json").write_text("[]")
        done = run(folder, tmp_path)
        assert (done.returncode, why in done.stderr) == (1, True)
