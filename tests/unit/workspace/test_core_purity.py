"""The core takes time, chance and names from its callers; import contracts cannot see all of that."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[3] / "libs" / "core" / "src" / "argosy_core"
ALLOWED_PACKAGES = sys.stdlib_module_names | {"argosy_core", "numpy"}
IMPURE_NAMES = {"default_rng", "now", "print", "open", "input", "today", "utcnow", "uuid1", "uuid4"}


def impurities(source: str) -> Iterator[str]:
    """Yield what in a module's text reaches outside of it."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name.split(".")[0] not in ALLOWED_PACKAGES)
            case ast.ImportFrom(module=str(module), level=0) if module.split(".")[0] not in ALLOWED_PACKAGES:
                yield module
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=seeds) if name in IMPURE_NAMES:
                if name == "default_rng" and seeds:
                    continue  # a generator from a given seed is a function of that seed
                yield f"{name}() in line {node.lineno}"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import numpy as np\nfrom argosy_core import errors\nfrom dataclasses import dataclass\n", []),
        ("import msgspec\n", ["msgspec"]),
        ("from grpc import aio\n", ["grpc"]),
        ("import numpy as np\nrng = np.random.default_rng(seed)\n", []),
        ("import numpy as np\nrng = np.random.default_rng()\n", ["default_rng() in line 2"]),
        ("from datetime import datetime\nx = datetime.now()\n", ["now() in line 2"]),
        ("import uuid\nx = uuid.uuid4()\n", ["uuid4() in line 2"]),
    ],
    ids=["pure", "third-party", "third-party-from", "given-seed", "own-generator", "clock", "chance"],
)
def test_impurities_names_what_reaches_outside(source: str, expected: list[str]) -> None:
    """The check sees each kind of impurity that it is for."""
    assert list(impurities(source)) == expected


def test_core_uses_only_the_standard_library_and_numpy() -> None:
    """No module of the core reads a clock, draws on its own or imports a third party."""
    paths = sorted(CORE.rglob("*.py"))
    assert paths
    found = {path.name: list(impurities(path.read_text(encoding="utf-8"))) for path in paths}
    assert {name: reasons for name, reasons in found.items() if reasons} == {}
