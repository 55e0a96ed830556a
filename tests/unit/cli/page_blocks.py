"""The blocks of a page of the docs: what each is, and what becomes of it in a test.

A comment before a block, which readers do not see, says what a test needs to know::

    <!-- not run: REASON -->     nobody types it in a test of this machine; the reason names the test that stands for it
    <!-- before: COMMANDS -->    what whoever reads so far has done beside the page's own commands
    <!-- as FILE: COMMANDS -->   a block that is a file: it is saved as FILE, and COMMANDS, if there are any, are typed
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

__all__ = ["LANGUAGES", "Block", "blocks_of", "script_of", "user_pages"]

_ROOT: Final = Path(__file__).parents[3]

_BLOCK: Final = re.compile(
    r"(?:^(?P<mark> *<!-- (?P<word>not run|before|as) ?:?(?P<said>(?:(?!-->).)*?) -->)\n)?"
    r"^(?P<indent> *)```(?P<language>[^\n]*)\n(?P<text>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)
_FIRST_ID: Final = "import json, sys; print(json.load(sys.stdin)[0]['id'])"
_NEWEST: Final = f'"$(argosy jobs -o json --limit 1 | python -c "{_FIRST_ID}")"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block between fences."""

    line: int
    """Number of the line of its first fence, from 1."""
    language: str
    """What its fence says it is in."""
    text: str
    """What stands in it, as far to the left as its fences."""
    word: str = ""
    """What the comment before it is: `not run`, `before` or `as`; empty without one."""
    said: str = ""
    """What that says."""

    @property
    def is_run(self) -> bool:
        """Whether it is commands that a test types."""
        return self.language == "sh" and self.word != "not run"


def user_pages() -> list[Path]:
    """Return the pages that tell users what to type; those of `docs/first-hour` are typed by a module of their own."""
    return [
        _ROOT / "README.md",
        *sorted((_ROOT / "docs").glob("*.md")),
        *sorted((_ROOT / "docs" / "clients").glob("*.md")),
    ]


def blocks_of(page: str) -> Iterator[Block]:
    """Yield the blocks of a page."""
    for found in _BLOCK.finditer(page):
        indent = len(found["indent"])
        lines = found["text"].splitlines(keepends=True)
        text = "".join(line[min(indent, len(line) - len(line.lstrip(" "))) :] for line in lines)
        yield Block(
            line=page.count("\n", 0, found.start("indent")) + 1,
            language=found["language"].strip(),
            text=text,
            word=found["word"] or "",
            said=" ".join((found["said"] or "").split()),
        )


def script_of(blocks: list[Block]) -> tuple[dict[str, str], str]:
    """Return the files and the commands of a page, in their order; the commands are empty if nothing is to be typed.

    Meshes take any port, since this machine may have one already; `JOB_ID` is the job submitted last.
    """
    files: dict[str, str] = {}
    lines: list[str] = []
    for block in blocks:
        if block.word == "as":
            name, _, commands = block.said.partition(":")
            files[name.strip()] = block.text
            lines.append(commands.strip())
        if block.word == "before":
            lines.append(block.said)
        if block.is_run:
            # What changes the folder or the environment does so for its own block.
            is_apart = re.search(r"^(cd|export) ", block.text, re.MULTILINE)
            lines.append(f"({block.text.rstrip()}\n)" if is_apart else block.text)
    script = "\n".join(line for line in lines if line)
    script = re.sub(r"\bJOB_ID\b", lambda _: _NEWEST, script)
    return files, re.sub(r"\bargosy up\b", "argosy up --port 0", script)


def _check_python(text: str) -> None:
    compile(text, "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)


LANGUAGES: Final[dict[str, Callable[[str], object]]] = {
    "sh": lambda _: None,
    "yaml": lambda text: list(yaml.safe_load_all(text)),
    "toml": tomllib.loads,
    "json": json.loads,
    "python": _check_python,
    "mermaid": lambda _: None,
    "text": lambda _: None,
}
"""What blocks may be in, and what reads one and raises if it is not that."""
