"""The pages of `docs/first-hour`, typed as they stand by three newcomers: in an empty folder, against `argosy up`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(240)

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs" / "first-hour").glob("*.md"))
SAID = {
    "slurm": ("hello from|: started", r"\(BadConstraints\)", "it asks for 64 cpu, and the largest node", "c1"),
    "kubernetes": ("20 succeeded", r"\+ queue tides", "weight: 1 -> 2", "asked to cancel 1 job", "is cordoned"),
    "stubs": ("JOB_EVENT_KIND_SUCCEEDED", "JOB_STATE_SUCCEEDED", "1 succeeded"),
}
"""What somebody sees who types a page, by its name."""


def typed(page: Path) -> str:
    """Return the blocks of a page as one script; this machine may have a mesh already, so the port is another."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return re.sub(r"^argosy up$", "argosy up --port 0", "".join(blocks), flags=re.MULTILINE)


def test_three_newcomers_have_a_page_each() -> None:
    """A page that nobody checks what it shows of is none."""
    assert {page.stem for page in PAGES} == SAID.keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_works_as_it_stands_from_nothing_to_done(page: Path, tmp_path: Path) -> None:
    """Every line ends well, what the page promises is on the screen, and nothing is left running."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("ARGOSY_")}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**kept, "ARGOSY_HOME": str(tmp_path / "home"), "PATH": path}
    folder = tmp_path / "work"
    folder.mkdir()
    script = typed(page)
    assert script.startswith("argosy up")
    assert script.endswith("argosy down --purge --yes\n")
    try:
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-x", "-c", script],
            cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=200,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        missing = [said for said in SAID[page.stem] if not re.search(said, done.stdout)]
        assert not missing, done.stdout
        assert not (tmp_path / "home" / "mesh").exists()
    finally:
        subprocess.run(["argosy", "down", "--purge", "--yes"], env=environment, capture_output=True, check=False)
