"""Distributions that offer plugins, installed into a folder as an installer would."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

__all__ = ["install_plugins", "install_project"]


def install_plugins(folder: Path, plugins: Mapping[str, str], *, distribution: str = "plugins-of-a-test") -> None:
    """Write what an installer leaves of a distribution; the folder must then be on the path of modules.

    Args:
        folder: Where to.
        plugins: `module:name` by name of the plugin.
        distribution: Name of the distribution.
    """
    metadata = folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    lines = [f"{name} = {target}" for name, target in plugins.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[argosy.plugins]", *lines, ""]))


def install_project(folder: Path, project: Path) -> None:
    """Install the plugins that a project's `pyproject.toml` declares; the project's folder must be on the path, too."""
    declared = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    install_plugins(folder, declared["entry-points"]["argosy.plugins"], distribution=declared["name"])
