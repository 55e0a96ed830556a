"""Check that no file, function or class of ours outgrows what a reader can hold, and that docstrings say something.

A file has fewer than 500 lines and a function at most 80, its docstring and decorators included. The first line of a
docstring says more than the name does in other words (`get_queue`: "Return a queue."); tests, whose names are their
rules, may differ. Generated code is exempt.

Usage: python tools/size_limits.py
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("libs", "services", "tests", "tools")
GENERATED = ROOT / "libs" / "proto" / "src"
MAX_FILE_LINES = 499
MAX_FUNCTION_LINES = 80
WITHOUT_MEANING = re.compile(
    r"an?|all|and|as|by|each|for|from|gives?|given|in|is|its?|of|on|one|or|returns?|that|the|their|this|to|whether|with|yields?"
)
"""Words that tell nothing by themselves."""
ENDING = re.compile(r"(?:ies|es|ed|ing|[ydse])$")


def python_files(root: Path) -> Iterator[Path]:
    """Yield every hand-written Python file of the project below `root`, sorted."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            if not path.is_relative_to(GENERATED):
                yield path


def plain_words(text: str) -> set[str]:
    """Return the words of a text or a name without endings, in small letters, but for those without meaning."""
    split = re.sub(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z0-9]+", " ", text).lower().split()
    return {ENDING.sub("", word) for word in split if not WITHOUT_MEANING.fullmatch(word)}


def repeats_name(node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Return whether this is a function or class whose docstring begins with no word that its name does not have."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("__"):
        return False
    text = ast.get_docstring(node)
    return bool(text) and plain_words(str(text).partition("\n")[0]) <= plain_words(node.name)


def violations(name: str, source: str) -> Iterator[str]:
    """Yield one line for each limit that the text `source` of the file `name` breaks.

    Raises:
        SyntaxError: if `source` is not Python.
    """
    line_count = source.count("\n")
    if line_count > MAX_FILE_LINES:
        yield f"{name}: {line_count} lines, at most {MAX_FILE_LINES}: split it by subject"
    for node in ast.walk(ast.parse(source, filename=name)):
        if repeats_name(node) and not name.startswith("tests/"):
            yield f"{name}:{node.lineno}: the docstring of {node.name} only repeats the name: say more, or nothing"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first_line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            length = (node.end_lineno or node.lineno) - first_line + 1
            if length > MAX_FUNCTION_LINES:
                yield f"{name}:{node.lineno}: {node.name} has {length} lines, at most {MAX_FUNCTION_LINES}"


def all_violations(paths: Iterable[Path], root: Path) -> list[str]:
    """Return the violations of all files, each named relative to `root`."""
    return [
        line
        for path in paths
        for line in violations(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
    ]


def main() -> int:
    """Print every violation; return 1 if there is any, else 0."""
    found = all_violations(python_files(ROOT), ROOT)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
