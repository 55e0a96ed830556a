"""Helm, for tests of the chart."""

import subprocess
import sys
from collections.abc import Callable

import pytest
from images.helm import find_helm


def say(line: str) -> None:
    """Tell what takes long."""
    sys.stderr.write(f"testbed: {line}\n")
    sys.stderr.flush()


@pytest.fixture(scope="module")
def helm(note_part: Callable[[str, str], None]) -> str:
    """Helm."""
    path = find_helm(say)
    done = subprocess.run([path, "version", "--short"], capture_output=True, text=True, check=True)
    note_part("Helm", done.stdout.strip())
    return path
