"""What the pages of the project say one can type."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from argosy_cli.root import cli

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").glob("*.md"),
        *ROOT.glob("docs/clients/*.md"),
        *ROOT.glob("docs/first-hour/*.md"),
    ]
)
BLOCK = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(argosy [^`\n]+)`")


def commands_of(text: str) -> Iterator[str]:
    """Yield the command lines of a page: those of its blocks, and those that stand between backticks."""
    for block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip().startswith("argosy "):
                yield line.strip()
    yield from INLINE.findall(BLOCK.sub("", text))


def fault_of(line: str) -> str:
    """Return what is wrong with a command line; empty if the command and its options exist."""
    words = shlex.split(line.replace("'", "").replace('"', ""), comments=True)[1:]
    command: click.Command = cli
    context = click.Context(cli)
    while words and isinstance(command, click.Group) and re.fullmatch(r"[a-z-]+", words[0]):
        if words[0].startswith("-"):
            break
        inner = command.get_command(context, words[0])
        if inner is None:
            return f"{line}: there is no command {words[0]}"
        command = inner
        words = words[1:]
    known = {option for parameter in (*command.params, *cli.params) for option in parameter.opts}
    own = words[: words.index("--")] if "--" in words else words
    for word in own:
        name = word.partition("=")[0]
        if name.startswith("-") and name not in known | {"--help", "-h", "-"}:
            return f"{line}: there is no option {name}"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_exists_with_its_options(page: Path) -> None:
    """Nobody is told to type what there is not."""
    faults = [fault_of(line) for line in commands_of(page.read_text(encoding="utf-8"))]
    assert [fault for fault in faults if fault] == []


@pytest.mark.parametrize("line", ["argosy qeue list", "argosy jobs --nope", "argosy admin nope", "argosy node cordn"])
def test_command_that_is_not_there_is_noticed(line: str) -> None:
    """The check sees commands, those of groups, and options."""
    assert fault_of(line)
