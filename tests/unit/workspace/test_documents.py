"""Documents lead to what exists, say one idea in a paragraph, and name alerts and commands that there are."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCUMENTS = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "design").glob("*")]
)
PAGES = sorted(
    {*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "libs").glob("*/src/**/*.md")} | set(DOCUMENTS)
)
"""All that people read; those that tell of the past may name what is gone."""
ALERTS = ROOT / "deploy" / "observability" / "prometheus" / "argosy-alerts.yml"
MAX_PARAGRAPH_WORDS = 80
CODE_BLOCK = re.compile(r"^ *(`{3,}).*?^ *\1 *$", re.DOTALL | re.MULTILINE)
BREAK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)|(?<=\|)\n(?!\|)")
TOP = "libs|services|tests|tools|docs|deploy|proto|examples"
PATH = re.compile(rf"`((?:(?:{TOP})/[\w./-]*|(?:[\w.-]+/)*[\w-]+\.py))(?:::\w+)?`|\]\((?!https?:|#)([^)#\s]+)")
BASES = ("", "docs", "proto", "libs/*/src", "services/*/src", "libs/*/src/argosy_*", "services/*/src/argosy_*")
"""Folders from which documents name paths, as `argosy_kube/port.py`, `leader/cycle.py`."""


def names(document: Path) -> list[str]:
    """Return the documents as test ids."""
    return str(document.relative_to(ROOT))


def paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs and items of lists, without code, tables and headings."""
    for part in BREAK.split(CODE_BLOCK.sub("\n\n", text)):
        if part.strip() and not part.lstrip().startswith(("|", "#")):
            yield " ".join(part.split())


@pytest.mark.parametrize("document", PAGES, ids=names)
def test_paragraph_is_short_enough_for_one_idea(document: Path) -> None:
    """At most 80 words; tables and code apart."""
    long = [
        f"{len(paragraph.split())} words: {paragraph[:60]}"
        for paragraph in paragraphs(document.read_text(encoding="utf-8"))
        if len(paragraph.split()) > MAX_PARAGRAPH_WORDS
    ]
    assert long == []


def test_paragraph_ends_at_an_empty_line_an_item_or_a_table() -> None:
    """What is measured is what a reader sees in one piece; code and tables are not."""
    text = "# Head\n\none\ntwo\n\n- three\n- four\n  five\n1. six\n```sh\nseven\n```\n\n| eight |\n|---|\nnine\n"
    assert list(paragraphs(text)) == ["one two", "- three", "- four five", "1. six", "nine"]


@cache
def exists(path: str, folder: Path) -> bool:
    """Return whether a path that a document in a folder names is there."""
    patterns = [f"{base}/{path}".strip("/") for base in BASES]
    if "/" not in path:  # a module whose package the text has named before
        patterns = [f"{folder}/*/src/**/{path}" for folder in ("libs", "services")] + [f"**/{path}"]
    return (folder / path).exists() or any(True for pattern in patterns for _ in ROOT.glob(pattern))


@pytest.mark.parametrize("document", DOCUMENTS, ids=names)
def test_path_that_a_document_names_exists(document: Path) -> None:
    """A file that moves takes its name in the documents with it."""
    found = [one or other for one, other in PATH.findall(document.read_text(encoding="utf-8"))]
    assert [path for path in found if not exists(path, document.parent)] == []


@pytest.mark.parametrize("document", PAGES, ids=names)
def test_alert_that_a_document_names_exists(document: Path) -> None:
    """As the file of alerts calls it."""
    alerts = set(re.findall(r"alert: (\w+)", ALERTS.read_text(encoding="utf-8")))
    assert set(re.findall(r"`(Argosy[A-Z]\w+)`", document.read_text(encoding="utf-8"))) <= alerts


@pytest.mark.parametrize("document", PAGES, ids=names)
def test_heading_that_a_document_links_to_exists(document: Path) -> None:
    """A heading that is reworded takes its links with it."""
    missing = []
    for target, anchor in re.findall(r"\]\(([\w./-]*)#([\w-]+)\)", document.read_text(encoding="utf-8")):
        page = (document.parent / target).resolve() if target else document
        headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
        missing += [f"{target}#{anchor}"] if anchor not in anchors else []
    assert missing == []


def test_glossary_has_each_word_once_and_in_order() -> None:
    """A word is found where the alphabet puts it, and has a meaning."""
    lines = (ROOT / "docs" / "GLOSSARY.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| **")]
    words = [re.sub(r"\*", "", row[0]).lower() for row in rows]
    assert words == sorted(set(words))
    assert [row[0] for row in rows if len(row) != 4 or not row[1]] == []


def test_each_decision_has_a_number_of_its_own_and_says_it() -> None:
    """The code names decisions by number alone."""
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    numbers = [page.name[:4] for page in pages]
    assert numbers == [f"{number:04}" for number in range(1, len(pages) + 1)]
    for page, number in zip(pages, numbers, strict=True):
        assert page.read_text(encoding="utf-8").startswith(f"# {number} ")


REPLACED = re.compile(
    r"\b(?:desks?|reigns?|clerks?|wish(?:es)?|strangers?|pac(?:e|ing)|patience|moulds?|hidden kinds?)\b"
    r"|\bmirror(?:s|ed)?\b(?! pods)",
    re.IGNORECASE,
)
"""Words that the glossary replaced by the field's own."""
OF_THE_PAST = ("docs/GLOSSARY.md", "CHANGELOG.md", "/migrations/versions/")


def test_words_that_were_replaced_stand_nowhere() -> None:
    """Code, settings, protocol and pages use the glossary's words; what tells of the past may name the old ones."""
    folders = ("libs", "services", "proto", "deploy", "docs", "examples")
    paths = [
        path for top in folders for end in ("py", "proto", "md", "y*ml") for path in (ROOT / top).rglob(f"*.{end}")
    ]
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in [*paths, *ROOT.glob("*.md")]
        if not any(past in str(path) for past in OF_THE_PAST)
        for match in REPLACED.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []
