"""The page of invariants names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "INVARIANTS.md"
DESIGN = ROOT / "docs" / "design" / "7-invariants.md"
NAMED = re.compile(r"`((?:tests|libs)/[\w/]+\.py)::(\w+)`")


def test_every_test_that_the_page_of_invariants_names_exists() -> None:
    """A test that is renamed or removed takes its line with it."""
    named = set(NAMED.findall(PAGE.read_text(encoding="utf-8")))
    assert len(named) >= 14
    missing = [
        f"{path}::{name}"
        for path, name in sorted(named)
        if not (ROOT / path).is_file() or not re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8"))
    ]
    assert missing == []


def test_the_page_has_every_invariant_of_the_design() -> None:
    """An invariant without a test says `not yet` and why."""
    rows = re.findall(r"^\| (\d+) \|.*\|$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert rows == re.findall(r"^(\d+)\. ", DESIGN.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(rows) >= 16
