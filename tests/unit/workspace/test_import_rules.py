"""Imports are declared and go round in no circles; each package says what it owns."""

import ast
from pathlib import Path

import pytest

import import_rules

ROOT = Path(__file__).resolve().parents[3]
HEADS = ["Owns", "May import", "Start"]
TOML = """
[project]
name = "{name}"
dependencies = [{dependencies}]
[project.optional-dependencies]
more = ["NumPy>=2"]
"""


def make(root: Path, name: str, dependencies: str, modules: dict[str, str]) -> None:
    """Write a distribution into the folder of a small workspace."""
    package = root / "libs" / name / "src" / name.replace("-", "_")
    package.mkdir(parents=True)
    (root / "libs" / name / "pyproject.toml").write_text(TOML.format(name=name, dependencies=dependencies))
    (package / "__init__.py").touch()
    for module, text in modules.items():
        (package / f"{module}.py").write_text(text)


@pytest.mark.parametrize(
    ("dependencies", "text", "found"),
    [
        ('"other-one", "grpcio"', "import grpc\nimport json\nimport numpy\nfrom other_one import a", []),
        ('"other-one"', "import numpy\nfrom other_one.a import b\nimport yaml", ["imports yaml"]),
        ('"other-one"', "import numpy\ndef f():\n    import other_one, grpc", ["imports grpc"]),
        ('"googleapis-common-protos"', "import numpy\nfrom google.rpc import code_pb2", []),
        ('"protobuf"', "import numpy\nfrom google.rpc import code_pb2", ["imports google.rpc", "dependency protobuf"]),
        ("", "import numpy\nfrom other_one import a", ["imports other_one"]),
        ('"msgspec"', "import numpy", ["nothing imports its dependency msgspec"]),
    ],
    ids=["declared", "third-party", "late", "shared-namespace", "wrong-part-of-it", "our-own", "superfluous"],
)
def test_undeclared_names_each_import_without_a_dependency(
    tmp_path: Path, dependencies: str, text: str, *, found: list[str]
) -> None:
    """Late imports count, extras are dependencies, and a shared namespace is told apart by its files."""
    make(tmp_path, "other-one", '"numpy"', {"a": "import numpy"})
    make(tmp_path, "one", dependencies, {"module": text})

    lines = list(import_rules.undeclared(tmp_path))

    assert len(lines) == len(found), lines
    assert all(part in line for part, line in zip(found, lines, strict=True))


def test_circles_are_found_with_those_that_only_types_make(tmp_path: Path) -> None:
    """A circle is one whoever imports first; one module above another is none."""
    late = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from one.a import A\n"
    modules = {"a": "from one.b import B", "b": "def f():\n    import one.c", "c": late, "d": "from one import a"}
    make(tmp_path, "one", "", modules)

    assert list(import_rules.circular(tmp_path)) == ["one: modules import each other: one.a, one.b, one.c"]


def test_package_that_takes_from_its_own_modules_and_gives_to_them_is_a_circle(tmp_path: Path) -> None:
    """What `__init__` gathers is imported from where it stands."""
    make(tmp_path, "one", "", {"a": "from one import B", "b": "B = 1"})
    (tmp_path / "libs" / "one" / "src" / "one" / "__init__.py").write_text("from one.a import A\nfrom one.b import B")

    assert list(import_rules.circular(tmp_path)) == ["one: modules import each other: one, one.a"]


def test_every_package_says_what_it_owns_what_it_may_import_and_where_to_start() -> None:
    """A newcomer opens `__init__` first."""
    files = [path for _, folder in import_rules.distributions(ROOT) for path in folder.glob("src/argosy*/__init__.py")]
    assert len(files) >= 15
    for path in files:
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        heads = [line.partition(":")[0] for line in text.splitlines() if ":" in line]
        assert [head for head in heads if head in HEADS] == HEADS, path
