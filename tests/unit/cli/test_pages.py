"""What the pages of the project say one can type."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.unit.cli.page_blocks import LANGUAGES, blocks_of, script_of, user_pages

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


@pytest.mark.parametrize("page", user_pages(), ids=lambda page: page.stem)
def test_every_block_of_a_page_is_what_it_says_it_is(page: Path) -> None:
    """Commands are `sh` and typed by a test, or it is said why not and which test stands for it; the rest is read."""
    for block in blocks_of(page.read_text(encoding="utf-8")):
        where = f"{page.name}:{block.line}"
        assert block.language in LANGUAGES, f"{where}: {block.language!r} is none of {[*LANGUAGES]}"
        LANGUAGES[block.language](block.text)
        if block.language in {"text", "mermaid"}:
            assert not re.search(r"^ *(argosy|make|docker|kubectl|helm) ", block.text, re.MULTILINE), where
        if block.word == "not run":
            named = re.findall(r"(?:tests|\.ci)/[\w./]+", block.said)
            assert block.language == "sh", where
            assert named, f"{where}: name the test that does it instead"
            assert all((ROOT / name).exists() for name in named), where


def test_script_of_a_page_has_what_its_comments_say() -> None:
    """Files, what was done before, and commands in their order; what is not run is left out, with its reason."""
    page = """
<!-- not run: takes a cluster; tests/real does it -->
```sh
kubectl get pods
```
1. First

   <!-- as a.yaml: argosy apply -f a.yaml -->
   ```yaml
   queues:
     - name: a
   ```
<!-- before: argosy up --secure &&
     touch key -->
```sh
cd there
argosy explain JOB_ID
```
```text
argosy.round
```
"""
    blocks = list(blocks_of(page))
    assert [(block.line, block.language, block.is_run) for block in blocks] == [
        (3, "sh", False), (9, "yaml", False), (15, "sh", True), (19, "text", False),
    ]  # fmt: skip
    assert blocks[0].said == "takes a cluster; tests/real does it"
    files, script = script_of(blocks)
    assert files == {"a.yaml": "queues:\n  - name: a\n"}
    first, second, *rest = script.splitlines()
    assert (first, second) == ("argosy apply -f a.yaml", "argosy up --port 0 --secure && touch key")
    assert (rest[0], rest[-1]) == ("(cd there", ")")
    assert rest[1].startswith('argosy explain "$(argosy jobs -o json --limit 1')
