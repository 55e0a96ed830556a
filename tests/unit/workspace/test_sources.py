"""Every `Source:` line of the code leads somewhere."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DESIGN = ROOT / "docs" / "design"
CODE = sorted(path for folder in ("libs", "services") for path in (ROOT / folder).glob("*/src/argosy_*/**/*.py"))
PARAGRAPH = re.compile(r'(?<!["\w])Source:\s+(.*?)(?:\n\s*\n|"""|\Z)', re.DOTALL)
STANDARDS = ("RFC 9113", "RFC 7541", "gRPC", "Pod Security Standards", "the protobuf encoding", "Jain, Chiu and Hawe")
REFERENCE = re.compile(
    r"""
      (?:design\ )? sections?\ (?P<section>\d+)
    | (?<=[\d")])(?:,|\ and)\ (?P<further>\d)\b
    | (?:seed\ )?(?P<seed>00\d)\b(?!\d)
    | (?P<file>(?:docs|proto|examples|deploy|libs|services)/[\w./-]*\w|[A-Z]{4,}\.md|reference/[\w./]*\w)
    | invariants?\ (?P<invariant>\d+(?:(?:,|\ and)\ \d+)*)
    | decision\ (?P<decision>\d{4})
    | (?P<module>argosy_\w+(?:\.\w+)*)
    | (?P<package>argosy\.\w+\.v1)
    | "(?P<quote>[^"]+)"
    """,
    re.VERBOSE,
)


def plain(text: str) -> str:
    """Return a text in small letters without marks and breaks, as quotes and headings are compared."""
    return " ".join(re.sub(r"[`*#]", "", text).lower().split())


@cache
def design_section(number: str) -> str | None:
    """Return the text of a section of the design."""
    pages = list(DESIGN.glob(f"{number}-*.md"))
    return plain(pages[0].read_text(encoding="utf-8")) if len(pages) == 1 else None


@cache
def seed_sections(number: str) -> tuple[str, ...]:
    """Return the sections of a document of others that are cited."""
    page = (DESIGN / "sources.md").read_text(encoding="utf-8")
    found = re.search(rf"^- {number}: (.*?)(?=^- |^#)", page, re.DOTALL | re.MULTILINE)
    return tuple(plain(title) for title in re.findall(r'"([^"]+)"', found[1])) if found else ()


@cache
def module_text(name: str) -> str | None:
    """Return the text of a module or package of ours, or of the one that has the named attribute."""
    distribution, *rest = name.split(".")
    for folder in (*(ROOT / "libs").glob("*/src"), *(ROOT / "services").glob("*/src")):
        base = folder / distribution
        if base.is_dir():
            for path in ((base.joinpath(*rest)).with_suffix(".py"), base.joinpath(*rest, "__init__.py")):
                if path.is_file():
                    return plain(path.read_text(encoding="utf-8"))
    return None


@cache
def file_text(name: str) -> str | None:
    """Return the text of a file of this repository, nothing for a folder."""
    path = ROOT / name
    return plain(path.read_text(encoding="utf-8")) if path.is_file() else "" if path.is_dir() else None


@cache
def package_text(name: str) -> str | None:
    """Return the text of the .proto files of a package."""
    paths = (ROOT / "proto" / name.replace(".", "/")).glob("*.proto")
    return plain("\n".join(path.read_text(encoding="utf-8") for path in paths)) or None


def target(kind: str, value: str, text: str) -> str | None:
    """Return the text that a reference leads to, None if nowhere; a quote stays in the text before it."""
    if kind in {"section", "further"}:
        return design_section(value)
    if kind == "invariant":
        return text if all(1 <= int(one) <= 16 for one in re.findall(r"\d+", value)) else None
    if kind == "decision":
        return text if list((ROOT / "docs" / "decisions").glob(f"{value}-*.md")) else None
    if kind == "quote":
        return text if all(plain(part).strip(" .,") in text for part in value.split("...")) else None
    if kind == "seed":
        return "\n".join(seed_sections(value)) or None
    return {"file": file_text, "module": module_text, "package": package_text}[kind](value)


def faults(paragraph: str) -> Iterator[str]:
    """Tell each reference of a `Source:` line that leads nowhere, and a line that has none."""
    text, found = "", any(standard in paragraph for standard in STANDARDS)
    for match in REFERENCE.finditer(paragraph):
        assert match.lastgroup is not None
        led_to = target(match.lastgroup, match[match.lastgroup], text)
        if led_to is None:
            yield f"{match[0]!r} leads nowhere"
        text, found = led_to or "", True
    if not found:
        yield "it names nothing that is known here"


def test_every_source_line_resolves() -> None:
    """A section of the design, of a document that sources.md lists, or a file or module of this repository."""
    wrong = [
        f"{path.relative_to(ROOT)}: Source: {' '.join(found[1].split())}: {fault}"
        for path in CODE
        for found in PARAGRAPH.finditer(path.read_text(encoding="utf-8"))
        for fault in faults(" ".join(found[1].split()))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "paragraph",
    [
        "design section 10.",
        'design section 5, "No such heading".',
        'design sections 5 "Sync" and 6 "Sync is no algorithm".',
        'seed 003 "No such section".',
        "005 has no such document.",
        "`reference/style.md`.",
        "`docs/none.md`.",
        "`argosy_core.none`.",
        "the proto of argosy.none.v1.",
        "invariant 17.",
        "hearsay.",
    ],
)
def test_source_line_that_leads_nowhere_is_found(paragraph: str) -> None:
    """The check sees what it is for."""
    assert list(faults(paragraph)) != []


@pytest.mark.parametrize("number", ["000", "001", "002", "003", "004"])
def test_documents_of_others_are_named_with_title_and_project(number: str) -> None:
    """Each has a row and its sections."""
    page = (DESIGN / "sources.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| {number} \| \S.* \| \S.* \| \S.* \|$", page, re.MULTILINE)
    assert seed_sections(number)


@pytest.mark.parametrize("standard", STANDARDS)
def test_standard_that_a_source_line_may_name_is_listed(standard: str) -> None:
    """A standard or paper stands in sources.md, or it is hearsay."""
    assert standard in (DESIGN / "sources.md").read_text(encoding="utf-8")
