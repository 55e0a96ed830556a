"""The bill of materials names everything that is pinned, and everything that is asked for."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
_SPEC = importlib.util.spec_from_file_location("sbom", ROOT / "tools" / "sbom.py")
assert _SPEC is not None
assert _SPEC.loader is not None
sbom = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sbom)


def test_bill_of_the_images_has_every_pinned_package_with_its_hashes() -> None:
    """Nothing is installed that it does not name, and every package of others has a hash."""
    bill = sbom.make_bill()
    names = {one["name"] for one in bill["components"]}
    pinned = sbom.read_pinned((ROOT / "requirements.txt").read_text(encoding="utf-8"))
    lines = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if "==" in line]
    assert len(pinned) == len(lines) > 30
    assert names == pinned.keys() | sbom.read_ours().keys()
    assert all(one["properties"] for one in bill["components"] if "purl" in one)


def test_bill_of_a_wheel_has_what_it_asks_for() -> None:
    """Those that it names, and those that our own among them name; the program prints the same every time."""
    said = [
        subprocess.run(
            [sys.executable, str(ROOT / "tools" / "sbom.py"), "argosy-sampler"], capture_output=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert said[0] == said[1]
    bill = json.loads(said[0])
    names = {one["name"] for one in bill["components"]}
    assert {"argosy-sampler", "argosy-core", "argosy-proto", "grpcio", "numpy"} <= names
    assert "alembic" not in names
    (own,) = [one for one in bill["dependencies"] if one["ref"] == "argosy-sampler"]
    assert "argosy-runtime" in own["dependsOn"]


def test_unknown_distribution_is_refused_by_name() -> None:
    """A misspelt name gives no empty bill."""
    with pytest.raises(KeyError, match="argosy-samplr"):
        sbom.make_bill("argosy-samplr")
