"""Say what an image or a wheel holds: a software bill of materials, CycloneDX 1.5, JSON.

It is read from the pinned requirements, in which every package stands with its version and hashes, and from the
distributions of this workspace; nothing is asked of the network, and the same sources give the same bytes.

Usage: python tools/sbom.py [DISTRIBUTION]    (all of them, as the images have; else one with what it needs)
"""

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_ENTRY = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*")


def normal(name: str) -> str:
    """Return a distribution's name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_pinned(text: str) -> dict[str, tuple[str, list[str]]]:
    """Return version and SHA-256 hashes of each package of a file of requirements, by its name."""
    found: dict[str, tuple[str, list[str]]] = {}
    hashes: list[str] = []
    for line in text.splitlines():
        entry = _ENTRY.match(line)
        if entry is not None:
            hashes = []
            found[normal(entry[1])] = entry[2], hashes
        hashes += _HASH.findall(line)
    return found


def read_ours() -> dict[str, dict[str, Any]]:
    """Return the `project` table of each distribution of the workspace, by its name."""
    paths = sorted([*ROOT.glob("libs/*/pyproject.toml"), *ROOT.glob("services/*/pyproject.toml")])
    tables = [tomllib.loads(path.read_text(encoding="utf-8"))["project"] for path in paths]
    return {normal(table["name"]): table for table in tables}


def needs_of(table: dict[str, Any]) -> list[str]:
    """Return the names of what a distribution asks for, extras apart."""
    return sorted({normal(name[0]) for text in table.get("dependencies", ()) if (name := _NAME.match(text))})


def make_bill(chosen: str = "") -> dict[str, Any]:
    """Return the bill of all distributions, or of one and what it asks for.

    Raises:
        KeyError: There is no such distribution.
    """
    ours, ends = read_ours(), ("", "-dev")
    pins = [read_pinned((ROOT / f"requirements{end}.txt").read_text(encoding="utf-8")) for end in ends]
    pinned = pins[1] | pins[0]
    # What packages of others need, only the pins tell; an image has all of the first file.
    wanted, left = set(), [normal(chosen)] if chosen else []
    while left:
        name = left.pop()
        if name not in wanted:
            wanted.add(name)
            left += needs_of(ours[name]) if name in ours else []
            if name not in ours and name not in pinned:
                raise KeyError(name)
    shown = sorted(wanted if chosen else ours.keys() | pins[0].keys())
    components = []
    for name in shown:
        version, hashes = (ours[name]["version"], []) if name in ours else pinned[name]
        component = {"type": "library", "bom-ref": name, "name": name, "version": version}
        if name not in ours:
            component["purl"] = f"pkg:pypi/{name}@{version}"
            component["properties"] = [{"name": "argosy:sha256", "value": value} for value in sorted(hashes)]
        components.append(component)
    dependencies = [{"ref": name, "dependsOn": needs_of(ours[name])} for name in shown if name in ours]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "argosy", "name": chosen or "argosy"}},
        "components": components,
        "dependencies": dependencies,
    }


def main() -> None:
    """Print it."""
    try:
        bill = make_bill(*sys.argv[1:2])
    except KeyError as error:
        sys.exit(f"there is no distribution, and no pinned package, called {error.args[0]}")
    json.dump(bill, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
