"""The commands of README and the docs, typed as they stand: in an empty home, against `argosy up`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli.page_blocks import blocks_of, script_of, user_pages

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[3]
FIRST_JOB_WITHIN_S = 30.0
"""From `argosy up` to what the first job wrote, on two cores that do something else beside it."""

BEGIN = (
    "export ARGOSY_SERVER=$(argosy up --port 0 -o json"
    " | python -c 'import json, sys; print(json.load(sys.stdin)[\"server\"])')"
)
"""A mesh at a free port, where programs look for it that are not the command: another may have the usual one."""


class Shell:
    """Types command lines with nothing but a home of its own in the environment."""

    def __init__(self, home: Path) -> None:
        """Use a home."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith("ARGOSY_")}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        configuration = {"ARGOSY_HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")}
        self._environment = {**kept, **configuration, "PATH": path}

    def type(self, line: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
        """Carry out lines in a folder."""
        return subprocess.run(
            ["bash", "-c", line], cwd=folder, env=self._environment, capture_output=True, text=True, check=False
        )


@pytest.fixture(name="shell")
def shell_that_leaves_nothing(tmp_path: Path) -> Iterator[Shell]:
    """A shell whose mesh, if one was started, is gone afterwards."""
    shell = Shell(tmp_path / "home")
    yield shell
    shell.type("argosy down --purge --yes")


def ten_lines() -> list[str]:
    """Return the lines of README's block of use."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"## Ten lines of use\n+```sh\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return [line for line in found[1].splitlines() if line.startswith("argosy")]


def test_lines_of_the_readme_work_as_they_stand(shell: Shell) -> None:
    """Every line ends well, and the first job's log is there within seconds of two commands."""
    begun_s = time.monotonic()
    first_log_s = None
    lines = ten_lines()
    assert lines[0].startswith("argosy up")
    for line in lines:
        typed = line.replace("argosy up", "argosy up --port 0")  # this machine may have a mesh already
        if "JOB_ID" in typed:
            jobs = json.loads(shell.type("argosy jobs -o json").stdout)
            typed = typed.replace("JOB_ID", jobs[0]["id"][-10:])
        done = shell.type(typed)
        assert done.returncode == 0, f"{typed}\n{done.stdout}{done.stderr}"
        if line.startswith("argosy run"):
            assert done.stdout
            first_log_s = time.monotonic() - begun_s
    assert first_log_s is not None
    assert first_log_s < FIRST_JOB_WITHIN_S


def typed_pages() -> list[Path]:
    """Return those with something to type."""
    return [page for page in user_pages() if script_of(list(blocks_of(page.read_text("utf-8"))))[1]]


@pytest.mark.parametrize("page", typed_pages(), ids=lambda page: page.stem)
def test_commands_of_a_page_end_well_one_after_the_other(page: Path, tmp_path: Path, shell: Shell) -> None:
    """In a folder that looks like a clone, on a mesh that the page starts, or one that is there."""
    files, script = script_of(list(blocks_of(page.read_text(encoding="utf-8"))))
    folder = tmp_path / "work"
    folder.mkdir()
    for path in ROOT.iterdir():
        if path.name not in {".git", ".venv"}:
            (folder / path.name).symlink_to(path)
    (folder / ".venv").symlink_to(sys.prefix)
    for name, text in files.items():
        (folder / name).write_text(text)
    begin = "" if "argosy up" in script else f"{BEGIN}\n"
    done = shell.type(f"set -ex\n{begin}{script}", folder)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert shell.type("argosy down --purge --yes").returncode == 0
